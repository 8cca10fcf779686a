"""Importing this registers the backend: then ``torch.distributed.init_process_group("hemiola")`` works.

```
import hemiola.torch
import torch.distributed as dist

dist.init_process_group("hemiola")
```
"""

try:
    from hemiola.integrations.torch.reduction_executor import ReductionExecutor as ReductionExecutor
    from hemiola.integrations.torch.register import BACKEND as BACKEND
    from hemiola.integrations.torch.register import register
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "hemiola.torch needs PyTorch, which is not installed; pip install torch (a build for CPUs is enough)",
        name="torch",
    ) from error

register()
