"""Link sharing: how many of a unit's groups leave or enter it through the same link, where each does so at one device.

In a chain or a ring through a group's members in order, the last member in a unit sends out of it and the first one receives; which
link that takes follows from where these members are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hemiola.cost.estimates.link_costs import Amounts, LinkCosts, Numbers

MOST_DEVICES = 4096
"""In a unit; in larger ones, groups are taken as spread evenly over the links."""


def groups_on_busiest_link(
    links: LinkCosts, matrices: Numbers, over: Sequence[int], members: Amounts
) -> Amounts:
    """For every matrix and level; ``members`` are those of a group inside a unit."""
    even = np.minimum(np.ceil(links.inside / members / links.num_links - 1e-9), links.behind)
    found = np.where(members == 1, links.behind, even)
    for level in range(len(links.counts)):
        if links.num_links[level] > 1 and 1 < links.inside[level] <= MOST_DEVICES:
            found[:, level] = _exactly(links, matrices, over, level)
    return found


def _exactly(links: LinkCosts, matrices: Numbers, over: Sequence[int], level: int) -> Amounts:
    inside = matrices[:, :, level + 1 :]
    columns, which = np.unique(inside, axis=0, return_inverse=True)
    of_device = _links_of_devices(links, level)
    is_rails = links.system.levels[level].fabric.kind == "rails"
    counts = [_count(of_device, column, over, is_rails) for column in columns]
    return np.array(counts, np.float64)[which.reshape(-1)]


def _count(of_device: Numbers, column: Numbers, over: Sequence[int], is_rails: bool) -> int:
    num_axes, num_levels = column.shape
    digits = [int(column[axis, level]) for level in range(num_levels) for axis in range(num_axes)]
    devices = np.arange(math.prod(digits)).reshape(digits)
    chosen = [number % num_axes in over for number in range(len(digits))]
    first = devices[tuple(0 if taken else slice(None) for taken in chosen)]
    last = devices[tuple(-1 if taken else slice(None) for taken in chosen)]
    # Between rails both ends use the rail of the one that receives.
    ends = (first,) if is_rails else (first, last)
    return max(int(np.bincount(of_device[np.ravel(end)]).max()) for end in ends)


def _links_of_devices(links: LinkCosts, level: int) -> Numbers:
    """The link that each device inside a unit uses."""
    link, inside = links.system.levels[level].link, links.system.levels[level + 1 :]
    assert link is not None
    if link.behind:
        return np.array(link.behind, np.int64)
    each = math.prod(one.count for one in inside[1:])
    return np.arange(inside[0].count * each) // each % link.num
