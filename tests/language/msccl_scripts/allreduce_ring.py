# ruff: noqa: F403, F405
# mypy: ignore-errors
"""A ring all-reduce in place, its parameters from the command line, its chunks over several channels."""

import argparse

from msccl.language import *
from msccl.language.collectives import AllReduce
from msccl.topologies import *


def allreduce_ring(size, instances, channels, protocol):
    topology = ring(size)
    collective = AllReduce(size, size, True)
    with MSCCLProgram(f"ring_{channels}", topology, collective, instances, protocol=protocol):
        for start in range(size):
            ch = start % channels
            c = chunk(start, Buffer.input, start)
            for hop in range(1, size):
                c = chunk((start + hop) % size, Buffer.input, start).reduce(c, ch=ch)
            for hop in range(size - 1):
                c = c.copy((start + hop) % size, Buffer.input, start, ch=ch)
        XML()
        Check()


parser = argparse.ArgumentParser()
parser.add_argument("num_gpus", type=int)
parser.add_argument("instances", type=int)
parser.add_argument("--channels", type=int, default=1)
parser.add_argument("--protocol", default="LL128", choices=["Simple", "LL", "LL128"])
args = parser.parse_args()
print("this line is the script's own")
allreduce_ring(args.num_gpus, args.instances, args.channels, args.protocol)
