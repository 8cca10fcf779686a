"""Damage to texts, the same for the same seed."""

from __future__ import annotations

import resource
from random import Random

PIECES = (
    "", " ", "\n", "\t", "\x00", "\x1b[4m", "é", "\U0001f600", "\ufeff", "0", "-1", "9" * 30, "1e999", ".inf", ".nan", "1:2:3",
    "2001-99-99", "~", "null", "true", "[", "]", "{", "}", ":", ",", "-", "#", "&a ", "*a", "!!int ", "!!timestamp x", "<<: ",
    "%", "|", ">", '"', "'", "\\", "=", "<", ">", "/>", "<!DOCTYPE x [<!ENTITY a 'b'>]>", "&lt;", "&a;", "<?xml encoding='utf-16'?>",
    "<gpu/>", "<pci class='0x030200'/>", "[0-999999999]", "[001-9]", "gpu[1-3]", "Nodes=", "Switches=", "SwitchName=", "GPU0", "NV18",
    "NIC0", "SYS", "X", "count", "num: 1024", "missing: true", "1048576",
)  # fmt: skip
"""What is put into texts: marks of every format, and numbers and words that are near to what is read."""


def mutated(text: str, random: Random) -> str:
    """A text with one to six changes: something cut out, doubled, moved, replaced or put in."""
    for _ in range(random.randint(1, 6)):
        begin = random.randint(0, len(text))
        end = min(len(text), begin + int(random.expovariate(1 / 12)))
        kind = random.randrange(6)
        if kind == 0:
            text = text[:begin] + text[end:]
        elif kind == 1:
            text = text[:end] + text[begin:end] * random.choice((1, 2, 50)) + text[end:]
        elif kind == 2:
            place = random.randint(0, len(text))
            text = text[:place] + text[begin:end] + text[place:]
        elif kind == 3:
            text = text[:begin] + random.choice(PIECES) + text[end:]
        elif kind == 4:
            text = text[:begin] + random.choice(PIECES) + text[begin:]
        else:
            text = (
                text[:begin]
                + chr(random.choice((random.randrange(128), random.randrange(0xD800))))
                + text[begin + 1 :]
            )
    return text


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
