"""Data-parallel training on CPUs, with Hemiola in place of Gloo: torchrun --nproc-per-node 2 demo/train.py"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hemiola.torch  # noqa: F401 (registers the backend)

dist.init_process_group("hemiola")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(256, 64)
targets = inputs.sum(dim=1, keepdim=True)
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
print(f"worker {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.4f}")
dist.destroy_process_group()
