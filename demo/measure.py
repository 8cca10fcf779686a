"""Runs a plan on the ranks of a job, and prints how long it takes: hemiola lab exec -- python measure.py reduce.plan"""

import statistics
import sys
import time

import numpy as np

from hemiola import Communicator, read_plan

plan = read_plan(sys.argv[1])
world = Communicator()
data, result = np.full(4 << 20, world.rank, np.float32), np.empty(4 << 20, np.float32)
times = []
for _ in range(4):
    world.barrier()
    begin = time.perf_counter()
    world.run(plan, data, result)
    times.append(time.perf_counter() - begin)
assert (result == sum(range(world.world_size))).all()
if world.rank == 0:
    print(f"measured: {statistics.median(times[1:]) * 1e3:.0f} ms for 16 MiB on {world.world_size} ranks")
world.close()
