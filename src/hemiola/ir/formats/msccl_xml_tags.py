"""The tags of an MSCCL XML file, taken one by one from expat and checked where they stand.

Document types and entities are refused, only ``algo > gpu > tb > step`` and ``gpu > copy`` may appear, and every
attribute has a type and a range. Memory grows with the file, not with what it claims.

``<copy i_off= o_off=/>`` is how TACCL and TE-CCL say that a rank copies a chunk of its input to its output. The copies
of a rank become ``cpy`` steps of one more threadblock, behind its others.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from xml.parsers import expat

from hemiola.collectives import MAX_CHUNKS, MAX_RANKS
from hemiola.errors import FormatError
from hemiola.ir.form import MAX_CHANNELS
from hemiola.ir.opcodes import OPCODE_BY_NAME, TRAITS, Opcode

Value = TypeVar("Value")

_BLOCK_BYTES = 1 << 16
_LONGEST_TAG = 1 << 18
_LONGEST_NAME = 4096
_MOST = (1 << 31) - 1
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
"""No leading zero: runtimes would read such a number as octal."""
_NESTING = ("algo", "gpu", "tb", "step")
_COPY = "copy"
_BUFFERS = {"i": 0, "o": 1, "s": 2}
_STEP_COLUMNS = (
    "opcode", "src_buffer", "src_index", "dst_buffer", "dst_index", "count", "depid", "deps", "hasdep", "line",
)  # fmt: skip


@dataclass(slots=True)
class Element:
    """A start tag; its attributes are asked for with the type that they must have."""

    name: str
    attributes: dict[str, str]
    where: str

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self.where}: {what}")

    def text(self, key: str) -> str:
        value = self.attributes.get(key)
        if value is None:
            raise self.error(f"<{self.name}> has no attribute {key}")
        return value

    def choice(self, key: str, choices: dict[str, Value]) -> Value:
        value = self.text(key)
        if value not in choices:
            raise self.error(f'{key}="{_short(value)}" was found, one of {", ".join(choices)} was expected')
        return choices[value]

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        if default is not None and key not in self.attributes:
            return default
        value = self.text(key)
        if not _NUMBER.fullmatch(value):
            raise self.error(f'{key}="{_short(value)}" was found, a whole number was expected')
        number = int(value)
        if not low <= number <= high:
            raise self.error(f'{key}="{value}" was found, a number from {low} to {high} was expected')
        return number


def _short(value: str) -> str:
    return value if len(value) <= 40 else value[:40] + "..."


@dataclass(slots=True)
class ThreadblockTag:
    number: int
    send_peer: int
    recv_peer: int
    channel: int
    first_step: int
    """In the order of the file."""
    line: int
    num_steps: int = 0
    pending: bool = False
    """A nop's dependency waits for the real step that must take it."""


@dataclass(slots=True)
class GpuTag:
    number: int
    sizes: tuple[int, int, int]
    line: int
    threadblocks: dict[int, ThreadblockTag] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    """Index in the input, index in the output, and line."""


class Document:
    """Collects what the tags say, in the order of the file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.algo: Element | None = None
        self.num_ranks = self.num_channels = 0
        self.gpus: dict[int, GpuTag] = {}
        self.steps = {column: array("q") for column in _STEP_COLUMNS}
        self.line = 1
        self._depth = 0
        self._gpu: GpuTag | None = None
        self._threadblock: ThreadblockTag | None = None
        self._open: tuple[Callable[[Element], None], ...] = (
            self._open_algo, self._open_gpu, self._open_threadblock, self._open_step,
        )  # fmt: skip

    def where(self, line: int) -> str:
        """A place in the file, for errors."""
        return f"{self.name}:{line}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Take a start tag."""
        element = Element(name, attributes, self.where(self.line))
        expected = _NESTING[self._depth] if self._depth < len(_NESTING) else None
        if name == _COPY and expected == "tb":
            self._open_copy(element)
        elif name != expected or (name == "step" and self._threadblock is None):
            inside_copy = expected == "step" and self._threadblock is None
            ends = "the end of <copy>" if inside_copy else "the end of <step>"
            wanted = ends if inside_copy or expected is None else f"<{expected}>"
            raise element.error(f"<{_short(name)}> was found, {wanted} was expected")
        else:
            self._open[self._depth](element)
        self._depth += 1

    def end(self) -> None:
        """Take an end tag: the numbers of what was inside must be dense."""
        self._depth -= 1
        if self._depth == 0:
            self._check_dense("gpu", self.gpus, self.num_ranks)
        elif self._depth == 1:
            assert self._gpu is not None
            blocks = self._gpu.threadblocks
            self._check_dense(f"tb of gpu {self._gpu.number}", blocks, len(blocks))
            self._add_copies(self._gpu)

    def text(self, data: str) -> None:
        """Take text between tags, of which there must be none."""
        if data.strip():
            raise FormatError(
                f'{self.where(self.line)}: text "{_short(data.strip())}" was found, a tag was expected'
            )

    def _check_dense(
        self, what: str, found: dict[int, GpuTag] | dict[int, ThreadblockTag], count: int
    ) -> None:
        missing = next((number for number in range(count) if number not in found), None)
        if missing is not None:
            raise FormatError(
                f"{self.where(self.line)}: {what} with id {missing} is missing, ids from 0 to {count - 1} were expected"
            )

    def _open_algo(self, algo: Element) -> None:
        self.algo = algo
        self.num_ranks = algo.integer("ngpus", 1, MAX_RANKS)
        self.num_channels = algo.integer("nchannels", 1, MAX_CHANNELS)
        if len(algo.text("name")) > _LONGEST_NAME:
            raise algo.error(
                f"a name of {len(algo.text('name'))} characters was found, {_LONGEST_NAME} are possible"
            )

    def _open_gpu(self, element: Element) -> None:
        number = element.integer("id", 0, self.num_ranks - 1)
        if number in self.gpus:
            raise element.error(f"gpu {number} was found twice")
        sizes = [element.integer(f"{buffer}_chunks", 0, MAX_CHUNKS) for buffer in ("i", "o", "s")]
        self._gpu = self.gpus[number] = GpuTag(number, (sizes[0], sizes[1], sizes[2]), self.line)

    def _open_copy(self, element: Element) -> None:
        assert self._gpu is not None
        source, target = (element.integer(key, 0, MAX_CHUNKS) for key in ("i_off", "o_off"))
        self._gpu.copies.append((source, target, self.line))
        self._threadblock = None

    def _add_copies(self, gpu: GpuTag) -> None:
        """The copies of a rank as the steps of a threadblock without peers."""
        if not gpu.copies:
            return
        number, line = len(gpu.threadblocks), gpu.copies[0][2]
        first = len(self.steps["line"])
        gpu.threadblocks[number] = ThreadblockTag(number, -1, -1, 0, first, line, len(gpu.copies))
        for source, target, at in gpu.copies:
            values = {
                "opcode": int(Opcode.CPY),
                "src_index": source,
                "dst_buffer": _BUFFERS["o"],
                "dst_index": target,
            }
            values |= {
                "src_buffer": _BUFFERS["i"],
                "count": 1,
                "depid": -1,
                "deps": -1,
                "hasdep": 0,
                "line": at,
            }
            for column, value in values.items():
                self.steps[column].append(value)

    def _open_threadblock(self, element: Element) -> None:
        assert self._gpu is not None
        number = element.integer("id", 0, _MOST)
        if number in self._gpu.threadblocks:
            raise element.error(f"tb {number} of gpu {self._gpu.number} was found twice")
        self._threadblock = self._gpu.threadblocks[number] = ThreadblockTag(
            number=number,
            send_peer=element.integer("send", -1, self.num_ranks - 1),
            recv_peer=element.integer("recv", -1, self.num_ranks - 1),
            channel=element.integer("chan", 0, self.num_channels - 1),
            first_step=len(self.steps["line"]),
            line=self.line,
        )

    def _open_step(self, element: Element) -> None:
        block = self._threadblock
        assert block is not None
        number = element.integer("s", 0, _MOST)
        if number != block.num_steps:
            raise element.error(f's="{number}" was found, s="{block.num_steps}" was expected')
        opcode = element.choice("type", OPCODE_BY_NAME)
        traits = TRAITS[opcode]
        values = {
            "opcode": int(opcode),
            **_side(element, "src", traits.reads_source),
            **_side(element, "dst", traits.writes_destination),
            "count": element.integer("cnt", 0 if opcode == Opcode.NOP else 1, MAX_CHUNKS),
            "depid": element.integer("depid", -1, _MOST),
            "hasdep": element.integer("hasdep", 0, 1),
            "line": self.line,
        }
        values["deps"] = element.integer("deps", 0 if values["depid"] >= 0 else -1, _MOST)
        _check_nops(element, block, opcode, values["depid"] >= 0)
        if opcode == Opcode.NOP:
            values["count"] = 0
        for column, value in values.items():
            self.steps[column].append(value)
        block.num_steps += 1


def _side(element: Element, side: str, used: bool) -> dict[str, int]:
    buffer = element.choice(f"{side}buf", _BUFFERS)
    index = element.integer(f"{side}off", 0 if used else -1, MAX_CHUNKS)
    return {f"{side}_buffer": buffer if used else 0, f"{side}_index": index if used else 0}


def _check_nops(element: Element, block: ThreadblockTag, opcode: Opcode, depends: bool) -> None:
    """Runtimes drop a file in which a step after nops with dependencies has none itself."""
    if opcode == Opcode.NOP:
        block.pending |= depends
        return
    if block.pending and not depends:
        raise element.error(
            "a step without a dependency was found after nops, one with a dependency was expected"
        )
    block.pending = False


def feed(document: Document, data: bytes) -> None:
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    last_event = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        document.line = parser.CurrentLineNumber
        document.start(name, attributes)

    def end(name: str) -> None:
        document.line = parser.CurrentLineNumber
        document.end()

    def text(data: str) -> None:
        document.line = parser.CurrentLineNumber
        document.text(data)

    def refuse(*_: object) -> None:
        where = document.where(parser.CurrentLineNumber)
        raise FormatError(f"{where}: a document type was found, which plans do not need and strangers misuse")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        for position in range(0, len(data), _BLOCK_BYTES):
            parser.Parse(data[position : position + _BLOCK_BYTES], False)
            last_event = max(last_event, parser.CurrentByteIndex)
            if position - last_event > _LONGEST_TAG:
                where = document.where(parser.CurrentLineNumber)
                raise FormatError(f"{where}: a tag of more than {_LONGEST_TAG} bytes was found")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise FormatError(
            f"{document.where(error.lineno)}: this is no well-formed XML, or it ends too early: {reason}"
        ) from None
