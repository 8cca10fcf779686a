"""Tutorial 2: run plans on real data, with processes as ranks, and see which plan runs and why.

Run it with `python docs/tutorial/02_run_a_plan.py`. The tests run it too: the lines that begin with `# >`
are what it prints.
"""

import numpy as np

from hemiola import Communicator, compile_program
from hemiola.algorithms.library import build
from hemiola.errors import PeerLostError
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.launch import run_ranks

RANKS = 4


# A communicator is one rank's membership in a group. Under torchrun, mpirun or srun `Communicator()` finds out by
# itself who it is; here `run_ranks` starts the ranks and gives each a store to meet the others in. The collectives
# take NumPy arrays, tensors and anything with the buffer protocol or DLPack, and never copy them.
def collectives(rank: int, store: Store) -> str:
    with Communicator(rank, RANKS, store=store) as world:
        array = np.full(5, rank + 1, np.float32)
        world.all_reduce(array)  # in place
        gathered = np.empty(RANKS, np.int64)
        world.all_gather(np.array([rank]), gathered)
        handle = world.all_reduce(np.ones(1 << 20, np.float32), wait=False)  # runs while we go on
        assert handle is not None
        handle.wait()
        chosen = world.explain("allreduce", 4096, in_place=True).chosen
        assert chosen is not None
        return f"sum {array[0]:g}, gathered {gathered.tolist()}, 4 KiB run as {chosen.plan.name}"


# Every call goes through a plan; the library has one for each size. A plan of your own runs as well, once it is proven.
def own_plan(rank: int, store: Store) -> float:
    plan = compile_program(
        build("allreduce_halving_doubling", {"ranks": str(RANKS), "in_place": "true"})
    ).plan
    with Communicator(rank, RANKS, store=store) as world:
        array = np.arange(1000, dtype=np.float64)
        world.run(plan, array, op="max")
        return float(array.max())


# A rank that leaves, dies or hangs is named on all others; nobody waits for ever.
def missing_rank(rank: int, store: Store) -> str:
    with Communicator(rank, RANKS, store=store, timeout=30) as world:
        if rank == 2:
            return "left"
        try:
            world.all_reduce(np.ones(10, np.float32))
        except PeerLostError as error:
            return f"lost rank {error.rank}"
        return "finished"


if __name__ == "__main__":
    print(run_ranks(RANKS, collectives, kind="processes")[0])
    print(run_ranks(RANKS, own_plan, kind="processes"))
    print(run_ranks(RANKS, missing_rank, kind="threads"))

# > sum 10, gathered [0, 1, 2, 3], 4 KiB run as allreduce_one_step
# > [999.0, 999.0, 999.0, 999.0]
# > ['lost rank 2', 'lost rank 2', 'left', 'lost rank 2']
