"""Importing this registers the backend: then ``torch.distributed.init_process_group("hemiola")`` works.

```
import hemiola.torch
import torch.distributed as dist

dist.init_process_group("hemiola")
```

A fusion plan of ``hemiola fuse`` is carried out by `compile_step`, which gives a training step, or by `bucket` and `shard`, which send the gradients of an
existing DDP or FSDP2 model in the plan's buckets.
"""

try:
    from hemiola.integrations.torch.bucket_ddp import bucket as bucket
    from hemiola.integrations.torch.capture import capture as capture
    from hemiola.integrations.torch.compile_step import compile_step as compile_step
    from hemiola.integrations.torch.measure_collectives import measure_collectives as measure_collectives
    from hemiola.integrations.torch.reduction_executor import ReductionExecutor as ReductionExecutor
    from hemiola.integrations.torch.register import BACKEND as BACKEND
    from hemiola.integrations.torch.register import register
    from hemiola.integrations.torch.shard_by_plan import shard as shard
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "hemiola.torch needs PyTorch, which is not installed; pip install torch (a build for CPUs is enough)",
        name="torch",
    ) from error

register()
