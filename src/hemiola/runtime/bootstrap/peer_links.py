"""PeerLinks: the sockets of one group to ranks on other hosts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable

from hemiola import _core
from hemiola.errors import ConnectError, RefusedError
from hemiola.runtime.bootstrap.interfaces import is_loopback
from hemiola.runtime.bootstrap.links import LinkHello, LinkListener, connect_link

PROBE_SECONDS = 1.0
"""The limit of the test whether anybody listens at an address."""


class PeerLinks:
    """Sockets to ranks on other hosts, made when a plan first needs them: the lower rank of a pair connects.

    The higher rank accepts the link when it arrives, whether or not a plan needs it yet.
    """

    def __init__(self, endpoint: _core.Endpoint, group: str, rank: int, address: str, secret: bytes) -> None:
        self._endpoint = endpoint
        self._group = group
        self._rank = rank
        self._secret = secret
        self._arrival = threading.Event()
        self._num_tries = 0
        self._addresses: list[tuple[str, int]] = []
        self._listener = LinkListener(address, secret, arrive=self._arrive)
        self.address, self.port = self._listener.address, self._listener.port

    def learn(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Remember the address and the port at which every rank listens."""
        self._addresses = list(addresses)

    def make(self, peer: int, index: int, deadline: float) -> bool:
        """Make the index-th link to a peer, or wait for it; returns whether it exists at the deadline."""
        if self._rank > peer:
            return self._await(peer, index, deadline)
        address, port = self._addresses[peer]
        hello = LinkHello(self._group, self._rank, peer, index)
        # Attempts alternate between the rank's own interface and the one that routing chooses: some networks drop
        # packets whose source address belongs to another interface.
        source = None if is_loopback(address) or self._num_tries % 2 else self.address
        self._num_tries += 1
        try:
            made = connect_link(address, port, self._secret, hello, deadline, source=source)
        except RefusedError:
            raise
        except ConnectError:
            return False
        self._num_tries -= 1
        self._endpoint.offer_socket(peer, index, made.detach())
        return True

    def _await(self, peer: int, index: int, deadline: float) -> bool:
        while not self._endpoint.has_link(peer, index):
            self._arrival.clear()
            if self._endpoint.has_link(peer, index):
                break
            if not self._arrival.wait(max(deadline - time.monotonic(), 0)) and time.monotonic() >= deadline:
                return self._endpoint.has_link(peer, index)
        return True

    def _arrive(self, hello: LinkHello, sock: socket.socket) -> None:
        if (hello.group, hello.target) != (self._group, self._rank) or hello.rank >= self._rank:
            sock.close()
            return
        self._endpoint.offer_socket(hello.rank, hello.channel, sock.detach())
        self._arrival.set()

    def is_gone(self, peer: int) -> bool:
        """Whether the peer's host refuses connections to the port at which the peer listened: the peer has ended."""
        try:
            socket.create_connection(self._addresses[peer], timeout=PROBE_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Accept no more links."""
        self._listener.close()
