"""Tutorial 1: write a collective, compile it, and see what the proof says.

Run it with `python docs/tutorial/01_write_a_collective.py`. The tests run it too: the lines that begin with `# >`
are what it prints.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from hemiola import (
    TARGETS,
    AllGather,
    CompileOptions,
    HemiolaError,
    Plan,
    Program,
    compile_program,
    plan_text,
    read_plan,
    verify,
    write_plan,
)

RANKS = 3


# A collective says which data lies where before and after. In an all-gather of three ranks with a chunk each, the
# input of rank r becomes output[r] of every rank. A program says how the chunks get there: `chunk` refers to data as
# it is now, and `copy` sends it somewhere and returns a reference to the copy. Here every chunk goes round the ring.
def gather() -> Program:
    p = Program("gather", AllGather(RANKS))
    for first in range(RANKS):
        c = p.chunk(first, "input", 0).copy(first, "output", first)
        for hop in range(1, RANKS):
            c = c.copy((first + hop) % RANKS)
    return p


# The compiler makes steps of it, run by threadblocks: `s` sends, `r` receives, and `rcs` receives, keeps a copy and
# sends it on in one step. The comment at the end of a line is the line of the program that it comes from; left out here.
def show(plan: Plan) -> None:
    for line in plan_text(plan, ranks=[1]).splitlines()[4:]:
        print(line.partition("  #")[0])


compiled = compile_program(gather())
show(compiled.plan)
# > rank 1: input 1, output 3, scratch 0
# >   tb 0  channel 0  recv 0  send 2
# >       0 s     input[0] -> send
# >       1 rcs   msg -> output[0], send
# >       2 r     msg -> output[2]
# >   tb 1  channel 0
# >       0 cpy   input[0] -> output[1]

# What leaves the compiler is proven. A connection holds few messages at once, by default two: with those the plan
# ends. With one it would not: every rank would have filled the only slot of its connection with its own chunk and
# would wait, in its `rcs`, for the next rank to take that out.
for slots in (2, 1):
    verdict = verify(compiled.plan, slots=slots)
    print(f"{slots} slots:", "correct" if verdict.ok else verdict.failures[0].kind.value)
# > 2 slots: correct
# > 1 slots: deadlock

# Ask for a plan that needs one slot only, and the compiler takes back the fusions that stand in the way. One is enough:
# rank 1 now takes what comes, and sends later.
careful = compile_program(gather(), CompileOptions(slots=1))
print("undone:", careful.report.undone)
show(careful.plan)
# > undone: {'order_steps': 1}
# > rank 1: input 1, output 3, scratch 0
# >   tb 0  channel 0  recv 0  send 2
# >       0 s     input[0] -> send
# >       1 r     msg -> output[0]
# >       2 r     msg -> output[2]
# >       3 s     output[0] -> send
# >   tb 1  channel 0
# >       0 cpy   input[0] -> output[1]

# A mistake in a program is refused where it is made. Here a reference is used after its chunk was overwritten.
p = Program("wrong", AllGather(RANKS))
old = p.chunk(0, "input", 0).copy(1, "output", 0)
p.chunk(2, "input", 0).copy(1, "output", 0)
try:
    old.copy(2, "output", 0)
except HemiolaError as error:
    print(type(error).__name__)
# > StaleReferenceError

# A plan goes into a file, native or XML for a runtime, and comes back the same.
with TemporaryDirectory() as folder:
    for target in TARGETS.values():
        file = Path(folder) / f"gather{target.extension}"
        write_plan(compiled.plan, file, target)
        print(f"{target.name}:", verify(read_plan(file)).ok)
# > plan: True
# > msccl-xml: True
# > rccl-xml: True
# > azure-xml: True
