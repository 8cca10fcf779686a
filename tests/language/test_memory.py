"""What the trace says of large buffers, against a plain model of one entry per chunk."""

from __future__ import annotations

from random import Random

import pytest

from hemiola.collectives import Custom
from hemiola.errors import UninitializedChunkError
from hemiola.language.program import Program

SIZE = 3000


@pytest.mark.parametrize("seed", range(4))
def test_many_ranges_written_in_any_order(seed: int) -> None:
    """Thousands of segments: written over, cut, joined, across the blocks that they are stored in."""
    random = Random(seed)
    p = Program("large", Custom(input_chunks=[SIZE], output_chunks=[SIZE], promises={}))
    model: list[int | None] = [None] * SIZE
    longest = (1, 3, 40, 900)[seed]
    for _ in range(4000):
        count = random.randint(1, longest)
        source, target = random.randrange(SIZE - count + 1), random.randrange(SIZE - count + 1)
        p.chunk(0, "input", source, count).copy(0, "output", target)
        model[target : target + count] = range(source, source + count)
        if random.random() < 0.2:
            index = random.randrange(SIZE)
            held = model[index]
            assert p.contributions(0, "output", index) == (None if held is None else [(0, held)])
    for index, held in enumerate(model):
        assert p.contributions(0, "output", index) == (None if held is None else [(0, held)])
    if None in model:
        with pytest.raises(UninitializedChunkError, match=rf"output\[{model.index(None)}\]"):
            p.chunk(0, "output", 0, SIZE)
