"""shard: FSDP2 whose groups of parameters are the buckets of a fusion plan."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from hemiola.errors import FusionError
from hemiola.fusion.plan import FusionPlan


def shard(model: nn.Module, plan: FusionPlan, **options: Any) -> nn.Module:
    """Apply FSDP2's ``fully_shard`` once for each bucket of the plan and once for the model; gives the same model.

    FSDP2 gathers and reduces the parameters of whole modules, so a module with parameters of its own goes to the bucket that has most of their
    bytes. The options are those of ``fully_shard``.
    """
    from torch.distributed.fsdp import fully_shard  # takes a second, which others need not wait for

    bucket_of = {
        plan.gradients[number][0]: place for place, one in enumerate(plan.buckets) for number in one.gradients
    }
    groups: dict[int, list[nn.Module]] = {}
    for path, module in model.named_modules():
        bytes_in: Counter[int] = Counter()
        for name, one in module.named_parameters(path, recurse=False):
            if one.requires_grad and name not in bucket_of:
                raise FusionError(
                    f"the plan has no gradient of parameter {name!r}; it is for another model: run hemiola fuse again"
                )
            if one.requires_grad:
                bytes_in[bucket_of[name]] += one.numel() * one.element_size()
        if bytes_in and module is not model:
            groups.setdefault(bytes_in.most_common(1)[0][0], []).append(module)
    for place in sorted(groups):
        fully_shard(groups[place], **options)  # type: ignore[call-overload, unused-ignore]
    fully_shard(model, **options)
    return model
