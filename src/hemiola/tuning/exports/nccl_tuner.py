"""A configuration file for the tuner plugin that comes with NCCL (ext-tuner/example), and how to load it.

The plugin reads lines ``collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps,regBuff]``. Lines that begin
with ``#`` are skipped, so the header is one; any other text would be taken for a row of all-reduces. The first row that matches a call
decides. Channels of -1 leave their number to NCCL, which is right unless somebody measured another: a plan's channels say how we cut
it, not how many of NCCL's channels a GPU needs to fill its links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from hemiola.collectives import CollectiveKind
from hemiola.cost.request import CollectiveRequest
from hemiola.errors import FormatError
from hemiola.ir.plan import Protocol
from hemiola.tuning.tune import STOCK, TunedSize, Tuning

CSV_NAME = "nccl_tuner.csv"
README_NAME = "nccl_tuner.README.md"
HEADER = "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
DEFAULT_CHANNELS = -1
"""As many as NCCL takes by itself."""
NCCL_COLLECTIVES = (
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCESCATTER,
    CollectiveKind.BROADCAST,
    CollectiveKind.REDUCE,
)
LEAST_NVLS_RANKS = 4
"""On a host. NVLS moves S (1 + 1/n) bytes over each link and a ring 2 S (n - 1)/n, so that from 4 ranks on it moves clearly less."""

README = """# How to load nccl_tuner.csv

NCCL reads it through the tuner plugin of its own sources (ext-tuner/example, 2.27 and later). Build that with `make`, and set two variables:

    export NCCL_TUNER_PLUGIN=/path/to/libnccl-tuner-example.so
    export NCCL_TUNER_CONFIG_FILE=$PWD/nccl_tuner.csv

`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING` prints every row that is loaded and every row that is applied. A row is used where the communicator has
exactly its number of nodes and ranks.

- channels = -1: NCCL takes as many channels as it finds right. The plugin begins every call with `*nChannels = 1` in some releases; where the
  log shows one channel, set it to 0 in plugin.c, as other plugins do, and build it again.
- nvls and nvls_tree need NVLink SHARP (NCCL_NVLS_ENABLE is not 0); where NCCL does not have them, it ignores the row.
- Without a row for a size, NCCL chooses as before. Delete rows that you measured to be slower.

The rows were chosen by simulation of system {system}. Measure before you trust them: `all_reduce_perf -b 1K -e 1G -f 2`, with and without.
"""


@dataclass(frozen=True, slots=True)
class NcclChoice:
    """What a row asks NCCL for, in its words."""

    algorithm: str
    protocol: str
    channels: int = DEFAULT_CHANNELS


def nccl_csv(tuning: Tuning) -> list[str]:
    """A row for every run of sizes with the same choice: the best of what NCCL has; without the header."""
    request, windows = tuning.request, tuning.windows
    if request.kind not in NCCL_COLLECTIVES:
        return []
    rows = [row for window in windows for row in window.sizes if row.stock is not None]
    ends = {row.num_bytes: window.max_bytes for window in windows for row in window.sizes}
    lines = []
    groups = [(choice, list(group)) for choice, group in groupby(rows, key=lambda row: _choice(request, row))]
    for (choice, group), after in zip(groups, [*groups[1:], None], strict=True):
        last = after[1][0].num_bytes - 1 if after else ends[group[-1].num_bytes]
        wanted = (choice.algorithm, choice.protocol, choice.channels)
        words = (request.kind, group[0].num_bytes, last, *wanted, len(set(request.hosts)), request.num_ranks)
        lines.append(",".join(map(str, words)))
    return lines


def write_nccl_csv(lines: Sequence[str], folder: Path, *, system: str) -> list[Path]:
    """Put rows into the folder's CSV, in place of those that it has for the same collective, and say beside it how to load it."""
    path, about = folder / CSV_NAME, folder / README_NAME
    kind = lines[0].partition(",")[0]
    try:
        old = path.read_text("utf-8").splitlines() if path.exists() else []
        kept = [line for line in old if not line.startswith("#") and line.partition(",")[0] != kind]
        path.write_text("\n".join([HEADER, *kept, *lines]) + "\n", "utf-8")
        about.write_text(README.format(system=system), "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return [path, about]


def _choice(request: CollectiveRequest, row: TunedSize) -> NcclChoice:
    assert row.stock is not None
    assert row.stock.candidate is not None
    plan = row.stock.plan
    # NVLS has one protocol, and its switch saves bytes and not latency: it takes over where Simple is the fastest of the others.
    if plan.protocol is Protocol.SIMPLE and has_nvls(request):
        return NcclChoice("nvls" if len(set(request.hosts)) == 1 else "nvls_tree", "simple")
    return NcclChoice(STOCK[row.stock.candidate.algorithm], plan.protocol.value.lower())


def has_nvls(request: CollectiveRequest) -> bool:
    """Whether NCCL would reduce in the switches of the hosts: for all-reduces of enough ranks on every host."""
    fabric = request.system.levels[-1].fabric
    if request.kind is not CollectiveKind.ALLREDUCE or not (fabric.reduces and fabric.multicasts):
        return False
    hosts = list(request.hosts)
    return min(hosts.count(host) for host in set(hosts)) >= LEAST_NVLS_RANKS
