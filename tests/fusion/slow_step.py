"""A slow, obviously right simulation of training steps: items with the names of what they wait for, and a clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hemiola.fusion.collective_times import CollectiveTimes
from hemiola.fusion.graph import OpGraph
from hemiola.fusion.plan import Bucket, BucketForm, FusionPlan

NUM_STEPS = 40
Name = tuple[object, ...]


@dataclass
class Item:
    """Something that a stream does."""

    name: Name
    seconds: float
    after: set[Name]
    share: float = 0.0
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.seconds


def slow_period(
    graph: OpGraph, plan: FusionPlan, group_seconds: list[float], times: CollectiveTimes
) -> tuple[float, float]:
    """Seconds of the first step, and of a late one on average."""
    compute: list[Item] = []
    communication: list[Item] = []
    for step in range(NUM_STEPS):
        compute += compute_items(step, graph, plan, group_seconds, times)
        communication += message_items(step, graph, plan, times)
    ends = run(compute, communication)
    last = [ends[max_name(compute, step)] for step in range(NUM_STEPS)]
    return last[0], (last[-1] - last[NUM_STEPS // 2 - 1]) / (NUM_STEPS - NUM_STEPS // 2)


def max_name(compute: list[Item], step: int) -> Name:
    return [item.name for item in compute if item.name[0] == step][-1]


def compute_items(
    step: int, graph: OpGraph, plan: FusionPlan, group_seconds: list[float], times: CollectiveTimes
) -> list[Item]:
    items = []
    for number in range(len(plan.groups)):
        seconds = group_seconds[number]
        after: set[Name] = set()
        for place, bucket in enumerate(plan.buckets):
            made = [one for one in bucket.gradients if ready_group(graph, plan, one) == number]
            seconds += times.copy_seconds_per_byte * sum(graph.gradients[one].num_bytes for one in made)
            if max(ready_group(graph, plan, one) for one in bucket.gradients) == number:
                seconds += times.call_seconds * bucket.num_parts
            if bucket.form is BucketForm.SPLIT and step > 0:
                for one in bucket.gradients:
                    if read_group(graph, plan, one) == number:
                        after |= {(step - 1, "gather", place, part) for part in parts_of(graph, bucket, one)}
        items.append(Item((step, "group", number), seconds, after))
    for place, bucket in enumerate(plan.buckets):
        part_bytes = bucket_bytes(graph, bucket) / bucket.num_parts
        split = bucket.form is BucketForm.SPLIT
        seconds = times.optimizer_call_seconds + (times.call_seconds if split else 0.0)
        seconds += times.optimizer_seconds_per_byte * part_bytes / (times.num_workers if split else 1)
        items += [
            Item((step, "optimizer", place, part), seconds, {(step, "send", place, part)})
            for part in range(bucket.num_parts)
        ]
    return items


def message_items(step: int, graph: OpGraph, plan: FusionPlan, times: CollectiveTimes) -> list[Item]:
    sends, gathers = [], []
    for place, bucket in enumerate(plan.buckets):
        part_bytes = bucket_bytes(graph, bucket) / bucket.num_parts
        split = bucket.form is BucketForm.SPLIT
        core = times.contention_seconds_per_byte * part_bytes * (0.5 if split else 1.0)
        ready = max(ready_group(graph, plan, one) for one in bucket.gradients)
        for part in range(bucket.num_parts):
            seconds = (times.reduce_scatter if split else times.allreduce)(part_bytes)
            sends.append(
                Item((step, "send", place, part), seconds, {(step, "group", ready)}, min(1.0, core / seconds))
            )
            if split:
                seconds = times.all_gather(part_bytes)
                item = Item(
                    (step, "gather", place, part),
                    seconds,
                    {(step, "optimizer", place, part)},
                    min(1.0, core / seconds),
                )
                reads = [
                    read_group(graph, plan, one)
                    for one in bucket.gradients
                    if part in parts_of(graph, bucket, one)
                ]
                gathers.append((min(reads), item))
    gathers.sort(key=lambda pair: pair[0])
    return sends + [item for _, item in gathers]


def run(compute: list[Item], communication: list[Item]) -> dict[Name, float]:
    """When every item ends; each stream takes its items one after another."""
    now, ends = 0.0, dict[Name, float]()
    compute, communication = compute[::-1], communication[::-1]
    while compute or communication:
        task = compute[-1] if compute and compute[-1].after <= ends.keys() else None
        message = communication[-1] if communication and communication[-1].after <= ends.keys() else None
        assert task or message, "nothing can begin"
        speed = {"task": 1.0, "message": 1.0}
        if task and message and message.share > 0:
            given = min(message.share, 0.5)
            speed = {"task": 1.0 - given, "message": given / message.share}
        waits = [task.left / speed["task"]] if task else []
        waits += [message.left / speed["message"]] if message else []
        seconds = min(waits)
        now += seconds
        for item, stream, rate in (
            (task, compute, speed["task"]),
            (message, communication, speed["message"]),
        ):
            if item is not None:
                item.left -= seconds * rate
                if item.left <= 1e-12 * max(item.seconds, 1e-12):
                    ends[item.name] = now
                    stream.pop()
    return ends


def bucket_bytes(graph: OpGraph, bucket: Bucket) -> int:
    return sum(graph.gradients[one].num_bytes for one in bucket.gradients)


def parts_of(graph: OpGraph, bucket: Bucket, gradient: int) -> set[int]:
    """The parts of a bucket that hold some of a gradient: those that overlap with it."""
    place = bucket.gradients.index(gradient)
    begin = sum(graph.gradients[one].num_bytes for one in bucket.gradients[:place])
    end = begin + graph.gradients[gradient].num_bytes
    length = Fraction(bucket_bytes(graph, bucket), bucket.num_parts)
    return {part for part in range(bucket.num_parts) if part * length < end and (part + 1) * length > begin}


def ready_group(graph: OpGraph, plan: FusionPlan, gradient: int) -> int:
    maker = graph.producers[graph.gradients[gradient].tensor]
    return next(number for number, group in enumerate(plan.groups) if maker in group)


def read_group(graph: OpGraph, plan: FusionPlan, gradient: int) -> int:
    """The first group that reads the parameter; the first of all where nobody is known to."""
    held = set(graph.gradients[gradient].parameter_tensors)
    for number, group in enumerate(plan.groups):
        if any(held.intersection(graph.operators[one].inputs) for one in group):
            return number
    return 0
