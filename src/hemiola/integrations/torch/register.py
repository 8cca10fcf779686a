"""``register``: registers the backend with torch.distributed, and makes its process groups."""

from __future__ import annotations

from typing import Any

from torch._C._distributed_c10d import PrefixStore, _DistributedBackendOptions
from torch.distributed import Backend

from hemiola.errors import CollectiveError
from hemiola.integrations.torch.process_group import HemiolaProcessGroup
from hemiola.runtime.communicator.communicator import Communicator

BACKEND = "hemiola"


def register() -> None:
    """Make ``init_process_group("hemiola")``, ``new_group(backend="hemiola")`` and "cpu:hemiola" work."""
    Backend.register_backend(BACKEND, create_group, extended_api=True, devices=["cpu"])


def create_group(options: _DistributedBackendOptions, group_options: object) -> HemiolaProcessGroup:
    """Make a process group with a communicator of its own; every member calls this.

    A world that ended and is made again with fewer ranks uses the same store. Ranks count in the store how often they
    joined a group, so the size is part of the prefix of its keys: otherwise the counts would differ.
    """
    if group_options is not None:
        raise CollectiveError(
            f"backend {BACKEND} takes no pg_options, and was given {type(group_options).__name__}; leave them out"
        )
    store: Any = PrefixStore(f"of {options.group_size}", options.store)
    communicator = Communicator(
        options.group_rank,
        options.group_size,
        store=store,
        timeout=options.timeout.total_seconds(),
        name=str(options.group_id),
        same_expression=True,
    )
    return HemiolaProcessGroup(communicator, options.store)
