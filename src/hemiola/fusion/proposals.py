"""proposals: moves that may make a step faster, guided by its critical path.

The step ends with a run of messages without a gap. The first of them waited for a group; every group up to that one is critical, and so is the
time at which it gives its gradients. Moves are drawn there more often than elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np

from hemiola.fusion import moves
from hemiola.fusion.evaluate import BucketTables
from hemiola.fusion.graph import WorkKind
from hemiola.fusion.group_sequence import Change
from hemiola.fusion.search_state import CostTable, SearchState

CHEAP = (WorkKind.POINTWISE, WorkKind.VIEW, WorkKind.REDUCTION)
"""What may be worth computing twice."""
GAP = 1e-9
"""Seconds between messages that count as none, as a part of the step."""


@dataclass(frozen=True)
class Proposals:
    """Draws moves for one state."""

    table: CostTable
    state: SearchState
    random: Random

    def draw(self, count: int, tried: Set[Change]) -> list[Change]:
        """Different legal moves that have not been tried, up to so many."""
        found: dict[Change, None] = {}
        for _ in range(3 * count):
            kind = self.random.choices(self._kinds, self._weights)[0]
            change = kind()
            if change is not None and change not in tried:
                found[change] = None
            if len(found) == count:
                break
        return list(found)

    @cached_property
    def critical_group(self) -> int:
        """The group for which the last run of messages waited; the last one where computation never waits."""
        state = self.state
        last = len(state.grouping.groups) - 1
        result = self.table.evaluator.step(
            state.seconds, state.grouping.home, BucketTables.of(state.buckets), record=True
        )
        if result.exposed <= GAP * result.seconds or not state.buckets:
            return last
        spans = np.reshape(result.message_spans, (-1, 2))
        sent = int(sum(bucket.num_parts for bucket in state.buckets))
        number = sent - 1
        while number > 0 and spans[number, 0] - spans[number - 1, 1] <= GAP * result.seconds:
            number -= 1
        bucket = state.buckets[result.messages[number].bucket]
        ready = self.table.evaluator.ready_groups(state.grouping.home)
        return int(ready[list(bucket.gradients)].max())

    @cached_property
    def _makers(self) -> list[list[int]]:
        """The operators of each group that make gradients, ascending."""
        found: list[list[int]] = [[] for _ in self.state.grouping.groups]
        for operator in sorted(set(self.table.evaluator.gradient_operators.tolist())):
            found[int(self.state.grouping.home[operator])].append(operator)
        return found

    @property
    def _kinds(self) -> Sequence[Callable[[], Change | None]]:
        return (
            self._fuse_neighbours,
            self._fuse_producer,
            self._split_at_gradient,
            self._extract_gradient,
            self._split_anywhere,
            self._shift_border,
            self._reorder,
            self._duplicate,
            self._drop,
        )

    @cached_property
    def _weights(self) -> tuple[float, ...]:
        return (5.0, 1.5, 4.0, 2.0, 1.0, 4.0, 1.5, 1.0, 0.3)

    def _group(self) -> int:
        """Any group; half of the time one of the critical ones."""
        num = len(self.state.grouping.groups)
        if self.random.random() < 0.5:
            return self.random.randrange(self.critical_group + 1)
        return self.random.randrange(num)

    def _group_with_gradients(self) -> int | None:
        """One that makes several gradients or more than gradients; often the critical one."""
        if self.random.random() < 0.3 and self._makers[self.critical_group]:
            return self.critical_group
        groups = [number for number, makers in enumerate(self._makers) if makers]
        return self.random.choice(groups) if groups else None

    def _fuse_neighbours(self) -> Change | None:
        return moves.fuse_neighbours(self.state.grouping, self._group())

    def _fuse_producer(self) -> Change | None:
        late = self._group()
        reads = sorted(self.state.grouping.reads(late))
        return moves.fuse(self.state.grouping, self.random.choice(reads), late) if reads else None

    def _split_at_gradient(self) -> Change | None:
        group = self._group_with_gradients()
        if group is None:
            return None
        return moves.split_after(self.state.grouping, group, self.random.choice(self._makers[group]))

    def _extract_gradient(self) -> Change | None:
        group = self._group_with_gradients()
        if group is None:
            return None
        return moves.extract_needed(self.state.grouping, group, self.random.choice(self._makers[group]))

    def _split_anywhere(self) -> Change | None:
        group = self._group()
        return moves.split_after(
            self.state.grouping, group, self.random.choice(self.state.grouping.groups[group])
        )

    def _shift_border(self) -> Change | None:
        """Towards a gradient of either side, or by a few operators."""
        group = self._group()
        if group + 1 >= len(self.state.grouping.groups):
            return None
        makers = self._makers[group] + self._makers[group + 1]
        if makers and self.random.random() < 0.6:
            return moves.shift_border(self.state.grouping, group, self.random.choice(makers))
        both = moves.union(*self.state.grouping.groups[group : group + 2])
        place = (
            len(self.state.grouping.groups[group]) - 1 + self.random.choice((-16, -4, -2, -1, 1, 2, 4, 16))
        )
        return moves.shift_border(self.state.grouping, group, both[min(max(place, 0), len(both) - 1)])

    def _reorder(self) -> Change | None:
        """What makes gradients runs earlier, other groups run later."""
        group = self._group()
        grouping = self.state.grouping
        if self._makers[group]:
            lowest = max(grouping.reads(group), default=-1) + 1
            return moves.run_earlier(grouping, group, max(lowest, group - moves.MOST_BETWEEN))
        return moves.run_later(grouping, group, group + self.random.choice((1, 2, 4)))

    def _duplicate(self) -> Change | None:
        """A cheap operator that a group reads from another is computed in it again."""
        grouping = self.state.grouping
        late = self._group()
        members = set(grouping.groups[late])
        graph = grouping.graph
        read = [
            one
            for member in grouping.groups[late]
            for one in graph.predecessors[member]
            if one not in members and graph.operators[one].work in CHEAP
        ]
        return moves.duplicate_operator(grouping, self.random.choice(read), late) if read else None

    def _drop(self) -> Change | None:
        return moves.drop_duplicates(self.state.grouping, self._group())
