"""MSCCL XML: real files, round trips that keep the meaning, hostile files with their messages."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given

from hemiola.collectives import AllToNext, Collective, CollectiveKind, SendRecv
from hemiola.errors import FormatError, LimitError, PlanError
from hemiola.ir.form import Owners, in_memory
from hemiola.ir.formats import read_plan, write_plan
from hemiola.ir.formats.msccl_xml_read import parse_msccl_xml
from hemiola.ir.formats.msccl_xml_write import to_xml
from hemiola.ir.one_dependency import with_one_dependency
from hemiola.ir.opcodes import TRAITS, Opcode
from hemiola.ir.plan import DEPENDENCY, RANK, STEP, THREADBLOCK, Plan, Protocol
from hemiola.ir.targets import AZURE_XML, MSCCL_XML, RCCL_XML, TARGETS, broken_limits
from strategies import plans

DATA = Path(__file__).parents[3] / "shared" / "data" / "msccl-xml"
REAL = {
    "azure-ncv4-ag_hier_4_LL.xml": ("allgather", 4, 4, False, 96),
    "azure-ncv4-ar_tree_12_LL.xml": ("allreduce", 4, 24, True, 192),
    "azure-ndv4-ag-1k-512k.xml": ("allgather", 8, 2, True, 224),
    "azure-ndv4-r48ll.xml": ("allreduce", 8, 64, True, 960),
    "rccl-allreduce-allpairs-8n-ll-32tb.xml": ("allreduce", 8, 256, True, 5344),
    "rccl-alltoall-8n-0-9kb.xml": ("alltoall", 8, 1, False, 120),
    "rccl-alltoall-8n-7mb-43mb.xml": ("alltoall", 8, 8, False, 960),
    "rccl-alltoall-8n-9kb-190kb.xml": ("alltoall", 8, 2, False, 240),
}

SMALL = """<!-- two ranks swap and add -->
<algo name="swap" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="0" deps="0" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="0" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="0" deps="0" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def parse(text: str, collective: Collective | None = None, root: int | None = None) -> Plan:
    return parse_msccl_xml(text.encode(), "f.xml", collective=collective, root=root)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public files of ../shared/data are not on this machine")
@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read(name: str) -> None:
    kind, num_ranks, chunks, in_place, num_steps = REAL[name]
    start = time.perf_counter()
    plan = read_plan(DATA / name)
    assert time.perf_counter() - start < 2
    assert plan.collective == Collective(CollectiveKind(kind), num_ranks, chunks, in_place)
    assert plan.num_steps == num_steps
    for target in TARGETS.values():
        if target is not RCCL_XML or name.startswith("rccl"):
            assert broken_limits(plan, target) == []
    again = parse(to_xml(plan, AZURE_XML))
    for table in ("ranks", "threadblocks", "steps"):
        assert getattr(again, table).tobytes() == getattr(plan, table).tobytes()
    assert order_of(again) == order_of(plan)


def test_a_small_file_becomes_its_tables() -> None:
    plan = parse(SMALL)
    assert (plan.name, plan.protocol, plan.both_places) == ("swap", Protocol.LL, False)
    assert plan.collective == Collective(CollectiveKind.ALLREDUCE, 2, 2, in_place=True)
    assert (plan.min_bytes, plan.max_bytes) == (0, 1 << 27)
    assert plan.ranks.tolist() == [(2, 0, 2, 0), (2, 0, 2, 2)]
    assert plan.threadblocks.tolist() == [
        (0, 1, -1, 0, 0),
        (0, -1, 1, 0, 1),
        (1, 0, -1, 0, 3),
        (1, -1, 0, 0, 4),
    ]
    assert plan.steps["opcode"].tolist() == [Opcode.S, Opcode.R, Opcode.RE] * 2
    assert plan.steps["dst_buffer"].tolist() == [0, 2, 0] * 2
    assert plan.steps["src_buffer"].tolist() == [0, 0, 2] * 2
    assert plan.dependencies.tolist() == [(0, 0), (0, 0)]


def test_ranks_and_threadblocks_may_stand_in_any_order() -> None:
    head, zero, one = SMALL.partition('  <gpu id="0"')[0], *re.findall(r"  <gpu.*?</gpu>\n", SMALL, re.DOTALL)
    shuffled = parse(head + one + zero + "</algo>")
    assert shuffled.steps.tobytes() == parse(SMALL).steps.tobytes()
    blocks = re.findall(r"    <tb.*?</tb>\n", zero, re.DOTALL)
    swapped = SMALL.replace("".join(blocks), "".join(reversed(blocks)), 1)
    for table in ("threadblocks", "steps", "dependencies"):
        assert getattr(parse(swapped), table).tobytes() == getattr(parse(SMALL), table).tobytes()


def test_places() -> None:
    both = SMALL.replace('inplace="1"', 'inplace="1" outofplace="1" minBytes="1" maxBytes="0"')
    with pytest.raises(
        FormatError, match=r"f\.xml:3: rank 0: the output has 0 chunks, but allreduce needs 2"
    ):
        parse(both)
    plan = parse(both.replace('o_chunks="0"', 'o_chunks="2"'))
    assert plan.both_places
    assert not plan.collective.in_place
    assert (plan.min_bytes, plan.max_bytes) == (1, 0)


ALGO = 'proto="LL" nchannels="1" minBytes="0" maxBytes="0" inplace="0" outofplace="1"'


def empty_file(coll: str, loop: int, sizes: list[tuple[int, int]], extra: str = "") -> str:
    gpus = "".join(
        f'<gpu id="{k}" i_chunks="{i}" o_chunks="{o}" s_chunks="0"/>' for k, (i, o) in enumerate(sizes)
    )
    head = f'<algo name="x" {ALGO} nchunksperloop="{loop}" ngpus="{len(sizes)}" coll="{coll}" {extra}>'
    return f"{head}\n{gpus}</algo>"


@pytest.mark.parametrize(
    ("coll", "loop", "sizes", "kind", "chunks"),
    [
        ("allreduce", 4, [(4, 4)] * 2, "allreduce", 4),
        ("allgather", 6, [(3, 6)] * 2, "allgather", 3),
        ("reduce_scatter", 6, [(6, 3)] * 2, "reducescatter", 3),
        ("reducescatter", 6, [(6, 3)] * 2, "reducescatter", 3),
        ("alltoall", 6, [(6, 6)] * 2, "alltoall", 3),
        ("alltoallv", 6, [(6, 6)] * 2, "alltoall", 3),
        ("broadcast", 5, [(5, 5)] * 2, "broadcast", 5),
        ("reduce", 5, [(5, 5)] * 2, "reduce", 5),
        ("gather", 3, [(3, 6), (3, 0)], "gather", 3),
        ("gather", 6, [(3, 6), (3, 0)], "gather", 3),
        ("scatter", 3, [(6, 3), (0, 3)], "scatter", 3),
        ("custom", 3, [(1, 2), (3, 0)], "custom", 1),
        ("send", 3, [(3, 0), (0, 3)], "custom", 1),
    ],
)
def test_collectives_of_both_dialects(
    coll: str, loop: int, sizes: list[tuple[int, int]], kind: str, chunks: int
) -> None:
    collective = parse(empty_file(coll, loop, sizes)).collective
    assert (collective.kind, collective.chunks) == (kind, chunks)
    if collective.custom is not None:
        assert (
            list(zip(collective.custom.input_chunks, collective.custom.output_chunks, strict=True)) == sizes
        )
        assert collective.custom.promises == ()


def test_what_the_file_does_not_say_is_given() -> None:
    text = empty_file("broadcast", 5, [(5, 5)] * 3)
    assert parse(text).collective.root == 0
    assert parse(text, root=2).collective.root == 2
    assert parse(empty_file("broadcast", 5, [(5, 5)] * 3, 'root="1"')).collective.root == 1
    with pytest.raises(FormatError, match=r"f\.xml:1: root 3 of broadcast is not one of 3 ranks"):
        parse(text, root=3)
    custom = empty_file("custom", 2, [(2, 2)] * 3)
    assert parse(custom, AllToNext(3, 2)).collective == AllToNext(3, 2)
    with pytest.raises(FormatError, match=r'f\.xml:1: ngpus="3" was found, 4 was expected'):
        parse(custom, AllToNext(4, 2))
    with pytest.raises(FormatError, match=r"f\.xml:2: rank 0: the input has 2 chunks, but alltonext needs 5"):
        parse(custom, AllToNext(3, 5))
    one_buffer = empty_file("custom", 2, [(2, 0)] * 3).replace(
        'inplace="0" outofplace="1"', 'inplace="1" outofplace="0"'
    )
    with pytest.raises(FormatError, match=r"f\.xml:1: alltonext has no in-place form"):
        parse(one_buffer, AllToNext(3, 2))
    two_buffers = custom.replace('inplace="0" outofplace="1"', 'inplace="1" outofplace="0"')
    assert parse(two_buffers, AllToNext(3, 2)).collective == AllToNext(3, 2)


def swapped(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new, 1)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n' + SMALL.replace(
    "swap", "&b;"
)
EXTERNAL = '<!DOCTYPE algo SYSTEM "file:///etc/passwd">\n' + SMALL

HOSTILE = [
    (BOMB, "1: a document type was found"),
    (EXTERNAL, "1: a document type was found"),
    (swapped('"swap"', '"&lol;"'), "2: this is no well-formed XML.*undefined entity"),
    ("", "1: this is no well-formed XML, or it ends too early: no element found"),
    (SMALL[:500], "8: this is no well-formed XML, or it ends too early: unclosed token"),
    (SMALL[: SMALL.index("</gpu>")], "11: this is no well-formed XML, or it ends too early: no element found"),
    (SMALL + "<algo/>", "22: this is no well-formed XML.*junk after document element"),
    (swapped("</tb>", "</gpu>"), "6: this is no well-formed XML.*mismatched tag"),
    (swapped('id="0" i_', 'id="0" id="0" i_'), "3: this is no well-formed XML.*duplicate attribute"),
    (swapped("<gpu id", "<node id"), "3: <node> was found, <gpu> was expected"),
    (swapped("<algo name", "<system name"), "2: <system> was found, <algo> was expected"),
    (swapped('hasdep="1"/>', 'hasdep="1"><x/></step>'), "5: <x> was found, the end of <step> was expected"),
    (swapped("  <gpu", "loose words<gpu"), '2?3?: text "loose words" was found, a tag was expected'),
    (swapped('name="swap" ', ""), "2: <algo> has no attribute name"),
    (swapped('"swap"', '"' + "s" * 5000 + '"'), "2: a name of 5000 characters was found, 4096 are possible"),
    (swapped('proto="LL"', 'proto="LL64"'), '2: proto="LL64" was found, one of Simple, LL, LL128 was expected'),
    (swapped("allreduce", "alreduce"), '2: coll="alreduce" was found, one of allreduce, '),
    (swapped('ngpus="2"', 'ngpus="1000000000"'), '2: ngpus="1000000000" was found, a number from 1 to 1048576'),
    (swapped('ngpus="2"', 'ngpus="1000000"'), "21: gpu with id 2 is missing, ids from 0 to 999999 were expected"),
    (swapped('ngpus="2"', 'ngpus="1"'), '4: send="1" was found, a number from -1 to 0 was expected'),
    (swapped('ngpus="2"', 'ngpus="0"'), '2: ngpus="0" was found, a number from 1 to'),
    (swapped('ngpus="2"', 'ngpus="two"'), '2: ngpus="two" was found, a whole number was expected'),
    (swapped('ngpus="2"', 'ngpus="2.0"'), '2: ngpus="2.0" was found, a whole number'),
    (swapped('ngpus="2"', 'ngpus="02"'), '2: ngpus="02" was found, a whole number'),
    (swapped('ngpus="2"', f'ngpus="{"9" * 5000}"'), r'2: ngpus="9{40}\.\.\." was found, a whole number'),
    (swapped('ngpus="2"', 'ngpus="٢"'), "2: ngpus=.* was found, a whole number was expected"),
    (swapped('nchunksperloop="2"', 'nchunksperloop="0"'), '2: nchunksperloop="0" was found, a number from 1'),
    (swapped('nchunksperloop="2"', 'nchunksperloop="268435456"'), "3: rank 0: the input has 2 chunks"),
    (swapped('inplace="1"', 'inplace="2"'), '2: inplace="2" was found, a number from 0 to 1 was expected'),
    (swapped('inplace="1"', 'inplace="0" outofplace="0"'), '2: inplace="0" and outofplace="0" were found'),
    (swapped('inplace="1"', 'inplace="0" outofplace="1"'), "2: <algo> has no attribute maxBytes"),
    (swapped('inplace="1"', 'inplace="1" minBytes="-5"'), '2: minBytes="-5" was found, a number from 0'),
    (swapped('<gpu id="1"', '<gpu id="0"'), "12: gpu 0 was found twice"),
    (swapped('<gpu id="1"', '<gpu id="2"'), '12: id="2" was found, a number from 0 to 1 was expected'),
    (swapped('i_chunks="2"', 'i_chunks="-2"'), '3: i_chunks="-2" was found, a number from 0'),
    (swapped('s_chunks="2"', 's_chunks="268435456"'), "2: the ranks' buffers have 268435462 chunks"),
    (swapped(' s_chunks="2"', ""), "3: <gpu> has no attribute s_chunks"),
    (swapped('<tb id="1"', '<tb id="0"'), "7: tb 0 of gpu 0 was found twice"),
    (swapped('<tb id="1"', '<tb id="7"'), "11: tb of gpu 0 with id 1 is missing, ids from 0 to 1 were expected"),
    (swapped('send="1"', 'send="0"'), "4: rank 0, threadblock 0: sends to rank 0, but only another rank"),
    (swapped('send="1"', 'send="-1"'), "5: rank 0, threadblock 0, step 0: sends, but its threadblock has no"),
    (swapped('chan="0"', 'chan="1"'), '4: chan="1" was found, a number from 0 to 0 was expected'),
    (swapped('<step s="1"', '<step s="2"'), '9: s="2" was found, s="1" was expected'),
    (swapped('type="re"', 'type="rx"'), '9: type="rx" was found, one of nop, s, r, rcs, rrs, rrc, rrcs, cpy, re'),
    (swapped('srcbuf="i"', 'srcbuf="x"'), '5: srcbuf="x" was found, one of i, o, s was expected'),
    (swapped('srcoff="0"', 'srcoff="-1"'), '5: srcoff="-1" was found, a number from 0'),
    (swapped('srcoff="0"', 'srcoff="1"'), r"5: rank 0, threadblock 0, step 0: reads input\[1:3\]"),
    (swapped('cnt="2"', 'cnt="0"'), '5: cnt="0" was found, a number from 1'),
    (swapped('cnt="2"', 'cnt="99999999999"'), '5: cnt="99999999999" was found, a number from 1 to 268435456'),
    (swapped('depid="0" deps="0"', 'depid="0" deps="-1"'), '9: deps="-1" was found, a number from 0'),
    (swapped('depid="0" deps="0"', 'depid="2" deps="0"'), "9: .*waits for threadblock 2, but the rank has 2"),
    (swapped('depid="0" deps="0"', 'depid="0" deps="1"'), "9: .*waits for step 1 of threadblock 0, which has 1"),
    (swapped('hasdep="1"', 'hasdep="yes"'), '5: hasdep="yes" was found, a whole number was expected'),
    (swapped('hasdep="1"', 'hasdep="0"'), "9: this step waits for step 0 of tb 0, .* never says that it is done"),
    (
        swapped('type="r" ', 'type="nop" ').replace('cnt="2" depid="-1" deps="-1" hasdep="0"', 'cnt="0" depid="0" deps="0" hasdep="0"', 1).replace('depid="0" deps="0" hasdep="0"/>\n    </tb>', 'depid="-1" deps="-1" hasdep="0"/>\n    </tb>', 1),
        "9: a step without a dependency was found after nops",
    ),
    ("<" * 1_000_000, "1: this is no well-formed XML"),
    ('<algo name="' + "a" * 1_000_000, "1: a tag of more than 262144 bytes was found"),
    ("<algo>" * 3, "1: <algo> has no attribute ngpus"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=f"^f.xml:{message}"):
        parse(text)


def test_mutated_files_give_a_good_plan_or_one_error() -> None:
    rng = random.Random(3)
    data = SMALL.encode()
    numbers = [match.span() for match in re.finditer(rb'"-?\d+"', data)]
    accepted = 0
    for _ in range(4000):
        broken = bytearray(data)
        if rng.random() < 0.5:
            first, last = rng.choice(numbers)
            broken[first + 1 : last - 1] = str(rng.choice([-2, -1, 0, 1, 2, 3, 7, 2**31, 2**40])).encode()
        else:
            first = rng.randrange(len(data))
            broken[first : first + rng.randint(0, 30)] = rng.randbytes(rng.randint(0, 2)) + rng.choice(
                [b"", b"<", b">", b'"', b"&", b"]]>", b"<!--", b"<?x?>", b"</tb>", data[first : first + 40]]
            )
        try:
            plan = parse_msccl_xml(bytes(broken))
        except FormatError as error:
            where = str(error)
        else:
            accepted += 1
            where = f"plan.xml:1: {plan.num_steps}"
        assert re.match(r"plan\.xml:\d+: .", where)
    assert 0 < accepted < 4000


def without_names(plan: Plan) -> Plan:
    """In memory: every chunk by one name, as the writer names it."""
    steps, owners, rows = plan.steps.copy(), Owners(plan), np.arange(len(plan.steps))
    for side, uses in (("src", "reads_source"), ("dst", "writes_destination")):
        used = np.array([getattr(TRAITS[code], uses) for code in steps["opcode"].tolist()], bool)
        buffer, index = in_memory(plan, owners.rank, rows, side)
        steps[f"{side}_buffer"] = np.where(used, buffer, 0)
        steps[f"{side}_index"] = np.where(used, index, 0)
    steps["line"] = 0
    return replace(plan, steps=steps)


def order_of(plan: Plan) -> list[tuple[tuple[int, ...], frozenset[int]]]:
    """Every real step, and which real steps of its rank must have ended before it."""
    owners = Owners(plan)
    before: list[set[int]] = []
    waits = np.repeat(np.arange(len(plan.steps)), owners.num_dependencies)
    first_block = plan.ranks["first_threadblock"].astype(int)
    edges: list[list[int]] = [[] for _ in plan.steps]
    for step, wait in zip(waits.tolist(), plan.dependencies.tolist(), strict=True):
        block = int(first_block[owners.rank[step]]) + wait[0]
        edges[step].append(int(plan.threadblocks["first_step"][block]) + wait[1])
    for row in range(len(plan.steps)):
        if row and owners.threadblock[row] == owners.threadblock[row - 1]:
            edges[row].append(row - 1)
    for row in range(len(plan.steps)):
        met, stack = set(), list(edges[row])
        while stack:
            top = stack.pop()
            if top not in met:
                met.add(top)
                stack.extend(edges[top])
        before.append(met)
    real = np.flatnonzero(plan.steps["opcode"] != Opcode.NOP).tolist()
    number = {row: k for k, row in enumerate(real)}
    return [
        (
            (int(owners.threadblock[row]), *plan.steps[row].tolist()[:7]),
            frozenset(number[met] for met in before[row] if met in number),
        )
        for row in real
    ]


@given(plans())
def test_one_dependency_each_keeps_the_order(plan: Plan) -> None:
    written = with_one_dependency(plan)
    owners = Owners(written)
    assert owners.num_dependencies.max(initial=0) <= 1
    assert order_of(written) == order_of(plan)


@given(plans())
def test_a_written_plan_is_read_back_with_its_meaning(plan: Plan) -> None:
    for target in (MSCCL_XML, RCCL_XML):
        if broken_limits(plan, target):
            continue
        text = to_xml(plan, target)
        again = parse_msccl_xml(text.encode(), collective=plan.collective)
        assert order_of(without_names(again)) == order_of(without_names(plan))
        assert again.threadblocks.tolist() == with_one_dependency(plan).threadblocks.tolist()
        assert again.ranks.tolist() == plan.ranks.tolist()
        assert (again.name, again.collective, again.protocol) == (plan.name, plan.collective, plan.protocol)
        assert again.min_bytes == plan.min_bytes
        assert again.max_bytes == (plan.max_bytes or (2**63 - 1 if target is MSCCL_XML else 0))
        if plan.collective.kind not in ("custom", "alltonext", "sendrecv"):
            assume(plan.collective.peer == 0 and (plan.collective.root == 0 or 'root="' in text))
            if 'coll="custom"' not in text:
                assert parse_msccl_xml(text.encode()).collective == plan.collective
        assert to_xml(again, target) == text


def waiting(steps: list[tuple[Opcode, int, int]], waits: list[list[tuple[int, int]]]) -> Plan:
    """One rank of an all-reduce in place: threadblock 0 copies four times, threadblock 1 does the steps given."""
    table = np.zeros(4 + len(steps), STEP)
    table["opcode"] = [Opcode.CPY] * 4 + [opcode for opcode, _, _ in steps]
    table["dst_buffer"] = 2
    table["src_index"] = [0] * 4 + [index for _, index, _ in steps]
    table["count"] = [1] * 4 + [count for _, _, count in steps]
    counts = np.array([0] * 4 + [len(one) for one in waits])
    table["first_dependency"] = np.cumsum(counts) - counts
    dependencies = [pair for one in waits for pair in one]
    ranks = np.array([(40, 40, 40, 0)], RANK)
    blocks = np.array([(0, -1, -1, 0, 0), (0, -1, -1, 0, 4)], THREADBLOCK)
    collective = Collective(CollectiveKind.ALLREDUCE, 1, 40)
    return Plan("w", collective, Protocol.LL, ranks, blocks, table, np.array(dependencies, DEPENDENCY))


def flags(plan: Plan) -> list[tuple[str, ...]]:
    steps = re.findall(r'type="(\w+)".*depid="(-?\d+)" deps="(-?\d+)" hasdep="(\d)"', to_xml(plan, RCCL_XML))
    return [tuple(step) for step in steps]


def test_only_what_is_waited_for_signals_and_only_the_last_of_a_threadblock_counts() -> None:
    plan = waiting([(Opcode.CPY, 0, 1)] * 2, [[(0, 1), (0, 3), (0, 2)], [(1, 0)]])
    assert flags(plan)[:4] == [("cpy", "-1", "-1", flag) for flag in "0001"]
    assert flags(plan)[4:] == [("cpy", "0", "3", "0"), ("cpy", "-1", "-1", "0")]


def test_a_nop_dissolves_into_the_next_step_and_those_who_wait_for_it() -> None:
    plan = waiting([(Opcode.NOP, 0, 0), (Opcode.CPY, 0, 1)], [[(0, 2)], []])
    assert flags(plan)[4:] == [("cpy", "0", "2", "0")]
    steps = plan.steps.copy()
    steps["opcode"][3], steps["count"][3] = Opcode.NOP, 0
    plan = replace(plan, steps=steps)
    plan.dependencies["step"] = 3
    assert flags(plan) == [*[("cpy", "-1", "-1", flag) for flag in "001"], ("cpy", "0", "2", "0")]


def test_nops_that_wait_for_each_other_are_refused() -> None:
    plan = waiting([(Opcode.NOP, 0, 0), (Opcode.CPY, 0, 1)], [[(0, 3)], []])
    steps = plan.steps.copy()
    steps["opcode"][3], steps["count"][3] = Opcode.NOP, 0
    steps["first_dependency"] = [0, 0, 0, 0, 1, 2]
    plan = replace(plan, steps=steps, dependencies=np.array([(1, 0), (0, 3)], DEPENDENCY))
    with pytest.raises(PlanError, match="this nop waits for itself"):
        with_one_dependency(replace(plan, steps=steps))


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ([(Opcode.RE, k, 1) for k in range(5)], []),
        ([(Opcode.RE, k, 1) for k in range(34)], [15, 31]),
        ([(Opcode.RE, 0, 1), (Opcode.RE, 1, 2), (Opcode.RE, 2, 2)], [0]),
        ([(Opcode.RE, 0, 1), (Opcode.CPY, 1, 2), (Opcode.RE, 2, 2)], []),
    ],
)
def test_chains_of_reductions_end_before_the_runtime_goes_wrong(
    steps: list[tuple[Opcode, int, int]], ends: list[int]
) -> None:
    found = flags(waiting(steps, [[] for _ in steps]))[4:]
    assert [k for k, step in enumerate(found) if step[3] == "1"] == ends


def test_the_text_of_a_file() -> None:
    plan = replace(parse(SMALL), name='a "b" <c> & d', max_bytes=0)
    lines = to_xml(plan, MSCCL_XML).splitlines()
    assert lines[0] == (
        '<algo name="a &quot;b&quot; &lt;c&gt; &amp; d" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" '
        'coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="9223372036854775807">'
    )
    assert lines[1:3] == [
        '  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="2">',
        '    <tb id="0" send="1" recv="-1" chan="0">',
    ]
    assert 'maxBytes="0"' in to_xml(plan, RCCL_XML)
    assert parse("\n".join(lines)).name == plan.name


def test_collectives_that_a_dialect_lacks(tmp_path: Path) -> None:
    ranks = np.array([(2, 2, 0, 0)] * 2, RANK)
    empty = (np.empty(0, THREADBLOCK), np.empty(0, STEP), np.empty(0, DEPENDENCY))
    for collective in (AllToNext(2, 2), SendRecv(2, 2)):
        plan = Plan("next", collective, Protocol.LL, ranks, *empty)
        assert 'nchunksperloop="2" ngpus="2" coll="custom"' in to_xml(plan, MSCCL_XML)
        with pytest.raises(LimitError, match=f"the collective is {collective.kind}, but no such collective"):
            write_plan(plan, tmp_path / "a.xml", RCCL_XML)
    assert list(tmp_path.iterdir()) == []


def test_files_are_found_out_by_what_is_in_them(tmp_path: Path) -> None:
    plan = parse(SMALL)
    for target in TARGETS.values():
        write_plan(plan, tmp_path / "file", target)
        assert read_plan(tmp_path / "file").steps.tobytes() == plan.steps.tobytes()
    (tmp_path / "file").write_text("\ufeff\n" + SMALL, encoding="utf-8")
    assert read_plan(tmp_path / "file").num_steps == plan.num_steps
