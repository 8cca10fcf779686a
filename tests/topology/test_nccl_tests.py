"""Measured times: logs of nccl-tests and rccl-tests with all their noise, tables, and the bench's JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hemiola.errors import FormatError
from hemiola.topology.parse.measured_times import read_bench, read_csv, read_measurements
from hemiola.topology.parse.nccl_tests import Measurement, kind_in_name, read_nccl_tests

LOG = """\
mpirun noticed nothing; $ ./build/all_gather_perf -b 1M -e 4M -f 2 -g 2
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid  4242 on    node-1 device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid  4242 on    node-1 device  1 [0x0f] NVIDIA A100
node-1:4242:4242 [0] NCCL INFO Bootstrap : Using eth0
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        131072     float    none      -1    45.90   22.84   11.42      0    44.10   23.78   11.89      0
     2097152        262144     float    none      -1   1e+02    20.97   10.49    N/A    90.10   23.28   11.64    N/A
[1,0]<stdout>:     4194304        524288     float    none      -1    120.5   34.81   17.40      0    119.9   34.98   17.49      0
     8388608       1048576     float    none      -1     0.00     inf     inf      0    200.0   41.94   20.97      0
    16777216       2097152     float    none      -1      nan     nan     nan      0     0.00     inf     inf      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 14.2
"""


def in_microseconds(found: list[Measurement]) -> list[tuple[str, int | None, int, float]]:
    return [(one.kind, one.num_ranks, one.num_bytes, round(one.seconds * 1e6, 6)) for one in found]


def test_a_log_with_noise() -> None:
    found = read_nccl_tests(LOG, "run.log")
    assert in_microseconds(found) == [
        ("allgather", 2, 1048576, 45.9),
        ("allgather", 2, 1048576, 44.1),
        ("allgather", 2, 2097152, 100.0),
        ("allgather", 2, 2097152, 90.1),
        ("allgather", 2, 4194304, 120.5),
        ("allgather", 2, 4194304, 119.9),
        ("allgather", 2, 8388608, 200.0),
    ]
    assert [one.in_place for one in found] == [False, True, False, True, False, True, True]


def test_ranks_are_counted_by_the_highest() -> None:
    """Launchers lose lines of the header, or print them twice."""
    header = (
        "#  Rank  0 Group  0 Pid 1 on a device  0 [0x07]\n#  Rank  7 Group  0 Pid 8 on a device  7 [0x0f]\n"
    )
    row = "1048576 262144 float sum -1 45.9 22.8 39.9 0 45.7 22.9 40.1 0"
    assert {one.num_ranks for one in read_nccl_tests(header + header + row, "all_reduce.log")} == {8}


def test_logs_without_an_operator() -> None:
    row = (
        "     1048576        131072     float    45.90   22.84   11.42      0    44.10   23.78   11.89      0"
    )
    found = read_nccl_tests(row, "all_gather.log", num_ranks=8)
    assert [round(one.seconds * 1e6, 6) for one in found] == [45.9, 44.1]


def test_tables_of_rccl_tests_are_read_by_their_time(tmp_path: Path) -> None:
    """The bandwidth is rounded: 0.03 GB/s would be another time."""
    csv = tmp_path / "run.csv"
    csv.write_text(
        "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong\n"
        "1,AllReduce,1,8,8,1,1024,float,sum,0,39.6,0.03,0.05,0\n"
        "1,AllReduce,1,8,8,1,1024,float,sum,1,38.1,0.03,0.05,0\n"
    )
    found = read_measurements(csv)
    assert in_microseconds(found) == [("allreduce", 8, 1024, 39.6), ("allreduce", 8, 1024, 38.1)]
    assert [one.in_place for one in found] == [False, True]


def test_json_of_nccl_tests(tmp_path: Path) -> None:
    times = {"out_of_place": {"time": 45.9, "alg_bw": 22.8}, "in_place": {"time": 44.1, "alg_bw": 23.8}}
    document = {"args": ["./build/all_reduce_perf", "-g", "8"], "results": [{"size": 1048576, **times}]}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    found = read_measurements(path, num_ranks=8)
    assert in_microseconds(found) == [("allreduce", 8, 1048576, 45.9), ("allreduce", 8, 1048576, 44.1)]
    path.write_text('{"nothing": 1}')
    with pytest.raises(FormatError, match="objects with a size and a time"):
        read_measurements(path)


def test_tables_of_plans(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("plan,collective,bytes,seconds\nring,allgather,128,0.0002\n")
    (found,) = read_measurements(path, num_ranks=8)
    assert (found.plan, found.kind, found.num_bytes, found.seconds) == ("ring", "allgather", 128, 0.0002)


def test_rows_of_old_versions_have_no_root() -> None:
    row = "  8388608  2097152  float  sum  151.0  55.5  97.2  2e-07  150.2  55.8  97.7  2e-07\n"
    found, _ = in_microseconds(read_nccl_tests(row, "all_reduce_8.log", num_ranks=8))
    assert found == ("allreduce", 8, 8388608, 151.0)


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("# Collective test starting: reduce_scatter_perf", "x", "reducescatter"),
        ("srun ./alltoall_perf -b 8", "x", "alltoall"),
        ("", "logs/all-reduce_h100.txt", "allreduce"),
        ("", "sendrecv.txt", "alltonext"),
        ("", "reduce.txt", "reduce"),
    ],
)
def test_the_collective_is_found_where_it_is_said(text: str, name: str, kind: str) -> None:
    row = "1048576 262144 float sum -1 45.9 22.8 39.9 0 45.7 22.9 40.1 0"
    assert read_nccl_tests(f"{text}\n{row}", name)[0].kind == kind


def test_a_log_that_does_not_say_its_collective_or_has_no_rows() -> None:
    row = "1048576 262144 float sum -1 45.9 22.8 39.9 0 45.7 22.9 40.1 0"
    with pytest.raises(FormatError, match="say it with --collective"):
        read_nccl_tests(row, "x.log")
    assert read_nccl_tests(row, "x.log", kind="allreduce")[0].kind == "allreduce"
    with pytest.raises(FormatError, match="no rows of nccl-tests were found"):
        read_nccl_tests("# nothing", "all_reduce.log")
    gathered, _ = read_nccl_tests(row, "all_gather.log")
    assert (gathered.num_ranks, gathered.num_bytes) == (None, 1048576)


def test_the_longest_name_is_meant() -> None:
    assert kind_in_name("/a/reduce/h200x8_allreduce.csv") == "allreduce"
    assert kind_in_name("reduce_scatter.log") == "reducescatter"
    assert kind_in_name("times.log") is None


def test_tables() -> None:
    table = "size_bytes,algbw_GBps,busbw_GBps\n1000000,2.0,3\n0,1,1\n5,,\nx,1,1\n2000000,4.0,6\n"
    assert in_microseconds(read_csv(table, "allreduce.csv", num_ranks=8)) == [
        ("allreduce", 8, 1000000, 500.0),
        ("allreduce", 8, 2000000, 500.0),
    ]
    (timed,) = in_microseconds(read_csv("bytes,time_us\n64,2.5\n", "x.csv", kind="broadcast", num_ranks=2))
    assert timed == ("broadcast", 2, 64, 2.5)
    with pytest.raises(FormatError, match="expected a column size_bytes or bytes"):
        read_csv("size_bytes,colour\n1,red\n", "allreduce.csv")


def test_what_the_bench_prints(tmp_path: Path) -> None:
    rows = [
        {"bytes": 4096, "ranks": 4, "hemiola_seconds": 2e-5, "gloo_seconds": None},
        {"bytes": 8192, "ranks": 4, "hemiola_seconds": None},
        "no row",
    ]
    text = json.dumps({"collective": "allreduce", "rows": rows})
    path = tmp_path / "bench.json"
    path.write_text(text)
    assert read_measurements(path) == [Measurement("allreduce", 4, 4096, 2e-5)]
    for wrong in ("{", "{}", '{"collective": "nonsense", "rows": []}', '{"collective": 3, "rows": 4}'):
        with pytest.raises(FormatError):
            read_bench(wrong, "bench.json")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_measurements(Path("nowhere.log"))


STARTS = [LOG, "size_bytes,algbw_GBps\n32768,0.82\n65536,1.67\n",
          json.dumps({"collective": "allreduce", "rows": [{"bytes": 1, "ranks": 2, "hemiola_seconds": 0.1}]})]  # fmt: skip


def mutated(text: str, random: Random) -> str:
    """A text with a few places cut, doubled or overwritten by what readers trip over."""
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(text) + 1), random.randint(0, 12)
        new = random.choice(
            [*HOSTILE, text[at : at + 40], chr(random.randrange(1, 768)) * random.randint(0, 5)]
        )
        text = text[:at] + new + text[at + length :]
    return text


HOSTILE = [
    "",
    "\n",
    "\0",
    ",",
    "{",
    "}",
    "[" * 50,
    "-1",
    "1e999",
    "nan",
    "9" * 30,
    "9" * 5000,
    "0x10",
    "\u0663",
    '"',
    "#",
    "\ud800",
]


@pytest.mark.parametrize("reader", [read_nccl_tests, read_csv, read_bench], ids=lambda one: one.__name__)
def test_ten_thousand_hostile_texts_give_rows_or_one_sentence(
    reader: Callable[..., list[Measurement]],
) -> None:
    random = Random(7)
    known = {} if reader is read_bench else {"kind": "allgather", "num_ranks": 2}
    for number in range(10_000):
        text = mutated(STARTS[number % len(STARTS)], random)
        rows, message = rows_or_message(lambda: reader(text, "x", **known))  # noqa: B023
        assert "\n" not in message
        assert all(one.num_bytes >= 0 and one.seconds > 0 for one in rows)


def rows_or_message(read: Callable[[], list[Measurement]]) -> tuple[list[Measurement], str]:
    try:
        return read(), ""
    except FormatError as error:
        return [], str(error)
