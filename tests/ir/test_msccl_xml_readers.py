"""XML as other tools write it: copies of TACCL and TE-CCL, and msccl-tools' custom collectives with uneven ranks."""

from __future__ import annotations

import re

import pytest

from hemiola.collectives import Buffer
from hemiola.errors import FormatError
from hemiola.ir.formats.msccl_xml_read import parse_msccl_xml
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.opcodes import Opcode
from hemiola.ir.plan import Plan
from hemiola.ir.targets import RCCL_XML
from hemiola.ir.verify import verify

STEP = '<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'


def gather(copies: str = '<copy i_off="0" o_off="{rank}"/>', inside: str = "") -> str:
    """An all-gather of two ranks, whose own chunks are copied by a tag of their own."""
    text = (
        '<algo name="g" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" '
        'outofplace="1" minBytes="0" maxBytes="0">'
    )
    for rank in (0, 1):
        blocks = "".join(
            f'<tb id="{number}" send="{peers[0]}" recv="{peers[1]}" chan="0">{STEP.format(0, name, 1 - rank)}{inside}</tb>'
            for number, (name, peers) in enumerate((("s", (1 - rank, -1)), ("r", (-1, 1 - rank))))
        )
        text += f'<gpu id="{rank}" i_chunks="1" o_chunks="2" s_chunks="0">{copies.format(rank=rank)}{blocks}</gpu>'
    return text + "</algo>"


def parse(text: str) -> Plan:
    return parse_msccl_xml(text.encode(), "f.xml")


def test_copies_become_steps() -> None:
    plan = parse(gather())
    assert verify(plan).ok
    assert plan.threadblocks_of(0) == range(3)
    (row,) = plan.steps_of(2)
    step = plan.steps[row]
    assert (step["opcode"], step["src_buffer"], step["dst_buffer"]) == (
        Opcode.CPY,
        Buffer.INPUT,
        Buffer.OUTPUT,
    )
    assert not verify(parse(gather(copies=""))).ok
    again = parse(to_xml(plan, RCCL_XML))
    assert verify(again).ok


def test_copies_may_stand_anywhere_in_a_rank() -> None:
    text = re.sub(r"(<copy [^>]*>)((?:<tb.*?</tb>)*)", r"\2\1", gather())
    assert text != gather()
    assert parse(text).steps.tolist() == parse(gather()).steps.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (gather('<copy i_off="0"/>'), "<copy> has no attribute o_off"),
        (gather('<copy i_off="-1" o_off="0"/>'), 'i_off="-1" was found, a number from 0'),
        (gather('<copy i_off="0" o_off="7"/>'), r"rank 0.*writes output\[7:8\], but output has 2 chunks"),
        (
            gather(f'<copy i_off="0" o_off="0">{STEP.format(0, "s", 0)}</copy>'),
            "<step> was found, the end of <copy>",
        ),
        (gather(inside='<copy i_off="0" o_off="0"/>'), "<copy> was found, <step> was expected"),
    ],
)
def test_a_wrong_copy_is_one_message(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=r"f\.xml:1: ") as caught:
        parse(text)
    assert re.search(message, str(caught.value)), caught.value


def next_neighbours(num_ranks: int) -> str:
    """All-to-next as msccl-tools writes it: in place by its attribute, every rank with the chunks that its steps use."""
    text = f'<algo name="n" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="{num_ranks}" coll="custom" inplace="1">'
    for rank in range(num_ranks):
        sends, receives = rank < num_ranks - 1, rank > 0
        to, source = rank + 1 if sends else -1, rank - 1 if receives else -1
        names = ["s"] * sends + ["r"] * receives
        steps = "".join(STEP.format(k, name, 0).replace('cnt="1"', 'cnt="2"') for k, name in enumerate(names))
        text += (
            f'<gpu id="{rank}" i_chunks="{2 * sends}" o_chunks="{2 * receives}" s_chunks="0">'
            f'<tb id="0" send="{to}" recv="{source}" chan="0">{steps}</tb></gpu>'
        )
    return text + "</algo>"


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_uneven_ranks_of_a_custom_collective(num_ranks: int) -> None:
    """With two ranks neither has both buffers, so the file is in place; a rank between others shows that they are apart."""
    plan = parse(next_neighbours(num_ranks))
    verdict = verify(plan)
    assert verdict.ok
    assert not verdict.postcondition_known
    assert plan.collective.in_place is (num_ranks == 2)


def test_in_place_both_names_stand_for_one_memory() -> None:
    """The last rank receives into what it calls its output, in memory that the call names by its input."""
    plan = parse(next_neighbours(2))
    assert plan.ranks["input_chunks"].tolist() == [2, 2]
    assert plan.ranks["output_chunks"].tolist() == [0, 0]
