"""``join_subgroup``: makes a further group whose ranks are members of a group that exists."""

from __future__ import annotations

import time

from hemiola.errors import ConnectError, PeerLostError
from hemiola.runtime.bootstrap.environment import Environment
from hemiola.runtime.bootstrap.join import join
from hemiola.runtime.bootstrap.membership import Membership
from hemiola.runtime.bootstrap.store import Store
from hemiola.runtime.communicator.engine import Engine


def join_subgroup(
    whole: Engine, peers: tuple[int, ...], environment: Environment, store: Store, name: str, missing: str
) -> Membership:
    """Make the group; raises when one of its other members has failed or does not come in time.

    ``peers`` are these members as ranks of ``whole``; ``missing`` says what a rank has not done that does not come.
    """
    deadline = time.monotonic() + whole.settings.timeout

    def check_peers() -> None:
        for peer in peers:
            whole.check_peer(peer)
        if time.monotonic() > deadline:
            who = f"rank {peers[0]}" if len(peers) == 1 else f"one of the ranks {', '.join(map(str, peers))}"
            raise PeerLostError(peers[0], f"{who} did not {missing} within {whole.settings.timeout:g} s")

    try:
        return join(environment, store, name, whole.settings, check_peers=check_peers)
    except ConnectError:
        # The memory of an ending process vanishes shortly before its death can be seen.
        for _ in range(10):
            check_peers()
            time.sleep(0.02)
        raise
