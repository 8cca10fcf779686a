"""The modules that a script imports, made of this dialect: ``msccl`` and what is below it."""

from __future__ import annotations

import functools
import heapq
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

from hemiola.language.msccl import collectives, enums, routines, topologies
from hemiola.language.msccl.chunks import Chunk, ReduceChunk
from hemiola.language.msccl.program import XML, Check, MSCCLProgram, chunk, create_scratch
from hemiola.language.msccl.reference import Ref

Names = Mapping[str, object]


def _named(*objects: Any) -> Names:
    return {one.__name__: one for one in objects}


_ENUMS = _named(enums.Buffer, enums.ThreadblockPolicy, enums.ReplicationPolicy)
_CHUNKS = _named(Chunk, ReduceChunk)
_STANDARD_LIBRARY = _named(dataclass, field, Enum, functools, defaultdict, heapq, sys)
"""What a star import of the published package brings along, so that scripts may use it without knowing."""
_LANGUAGE = {
    **_STANDARD_LIBRARY,
    **_ENUMS,
    **_CHUNKS,
    **_named(MSCCLProgram, Ref, chunk, create_scratch, XML, Check),
}
_COLLECTIVES = _named(collectives.Collective, *collectives.STANDARD)
_ROUTINES = _named(routines.allgather_ring_inplace, routines.allreduce_ring_inplace)

_T = topologies
_GENERIC = _named(_T.Topology, _T.fully_connected, _T.hub_and_spoke, _T.ring, _T.line, _T.star)
_NVIDIA = _named(_T.Topology, _T.dgx1, _T.dgx_a100, _T.nvlink_only)
_AMD = _named(_T.Topology, _T.amd4, _T.amd8)
_DISTRIBUTED = _named(_T.Topology, _T.distributed_fully_connected, _T.distributed_hub_and_spoke)
_TRANSFORMERS = _named(_T.Topology, _T.reverse_topology, _T.binarize_topology)

OFFERED: Mapping[str, Names] = {
    "msccl": {},
    "msccl.collectives": {},
    "msccl.language": _LANGUAGE,
    "msccl.language.buffer": _ENUMS,
    "msccl.language.chunk": _CHUNKS,
    "msccl.language.collectives": {**_LANGUAGE, **_COLLECTIVES},
    "msccl.language.ir": _ENUMS,
    "msccl.language.routines": {**_LANGUAGE, **_COLLECTIVES, **_GENERIC, **_ROUTINES},
    "msccl.language.types": _ENUMS,
    "msccl.topologies": {**_GENERIC, **_NVIDIA, **_AMD, **_DISTRIBUTED, **_TRANSFORMERS},
    "msccl.topologies.amd": _AMD,
    "msccl.topologies.distributed": _DISTRIBUTED,
    "msccl.topologies.generic": _GENERIC,
    "msccl.topologies.nvidia": _NVIDIA,
    "msccl.topologies.topology": _named(_T.Topology),
    "msccl.topologies.transformers": _TRANSFORMERS,
}
"""Every module, parents first, with the names in it."""


def is_offered_family(module: str) -> bool:
    """Whether a module's name is ``msccl`` or below it."""
    return module.partition(".")[0] == "msccl"


@contextmanager
def offered_modules() -> Iterator[None]:
    """While this runs, scripts import ``msccl`` from here; what was imported before comes back after."""
    before = {name: module for name, module in sys.modules.items() if is_offered_family(name)}
    _forget()
    sys.modules.update(_make_modules())
    try:
        yield
    finally:
        _forget()
        sys.modules.update(before)


def _forget() -> None:
    for name in [name for name in sys.modules if is_offered_family(name)]:
        del sys.modules[name]


def _make_modules() -> dict[str, ModuleType]:
    made: dict[str, ModuleType] = {}
    for name, names in OFFERED.items():
        module = made[name] = ModuleType(name, "Offered by Hemiola to MSCCLang scripts.")
        module.__dict__.update(names, __path__=[])
        parent, _, child = name.rpartition(".")
        if parent and child not in OFFERED[parent]:
            setattr(made[parent], child, module)
    return made
