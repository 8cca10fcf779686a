"""what_if: a job on a changed machine, from a few words.

Known are ``64 nodes``, ``host 3 lost`` and ``800Gb/s``: how many units the outermost level has, one host less, and the bandwidth of each
link of a host. Axes that no longer multiply to the devices are left out, so that degrees are looked for anew.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from hemiola.errors import JobError, UnitError
from hemiola.planner.job import Job
from hemiola.topology.rescale import with_bandwidths
from hemiola.topology.system import System
from hemiola.units import parse_bandwidth

EXAMPLES = '"64 nodes", "host 3 lost" or "800Gb/s"'


def what_if(job: Job, words: str) -> Job:
    """The same job on the changed machine."""
    system = _changed(job.system, " ".join(words.split()))
    fits = job.axes is not None and math.prod(axis.size for axis in job.axes) == system.num_ranks
    if job.trained is None and not fits:
        raise JobError(
            f"what-if {words[:40]!r}: the axes need {job.system.num_ranks} devices; the changed system has {system.num_ranks}"
        )
    return replace(
        job, system=system, axes=job.axes if fits else None, search_degrees=job.search_degrees or not fits
    )


def _changed(system: System, words: str) -> System:
    many = re.fullmatch(r"([0-9]{1,6}) (?:node|host)s?", words)
    lost = re.fullmatch(r"host ([0-9]{1,6}) lost", words)
    if many and system.host_depth != 1:
        raise JobError(f"what-if {words!r}: hosts are not the outermost level of system {system.name!r}")
    if many:
        return _with_count(system, int(many[1]))
    if lost:
        return _without_host(system, int(lost[1]))
    try:
        rate = parse_bandwidth(words)
    except UnitError:
        raise JobError(f"what-if: expected {EXAMPLES}, found {words[:60]!r}") from None
    depth = system.host_depth
    link = system.levels[depth - 1].link if depth else None
    if link is None:
        raise JobError(f"what-if {words!r}: hosts of system {system.name!r} have no links of their own")
    return replace(
        with_bandwidths(system, rate / link.bandwidth_out, [depth - 1]), name=f"{system.name} at {words}"
    )


def _with_count(system: System, count: int) -> System:
    if count < 1 or not system.is_uniform:
        raise JobError("what-if: expected at least one node, of a system whose units are all alike")
    stem = system.name.partition(":")[0]
    return replace(
        system,
        name=f"{stem}:{count}",
        levels=(replace(system.levels[0], count=count), *system.levels[1:]),
        host_names=(),
    )


def _without_host(system: System, host: int) -> System:
    """One host less; where hosts are the outermost level and all alike, the others stay an even system."""
    if host >= system.num_hosts:
        raise JobError(f"what-if: there is no host {host}; they are numbered 0 to {system.num_hosts - 1}")
    if system.num_hosts == 1:
        raise JobError(f"what-if: system {system.name!r} has one host; without it nothing is left")
    if system.is_uniform and system.host_depth == 1:
        return replace(_with_count(system, system.num_hosts - 1), name=f"{system.name} without host {host}")
    return replace(
        system,
        missing=system.missing | {system.hosts[host]},
        host_names=(),
        name=f"{system.name} without host {host}",
    )
