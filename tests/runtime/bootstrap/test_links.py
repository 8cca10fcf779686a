"""Links: members find each other, and nobody else gets in, in the way, or into memory."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemiola.errors import ConnectError
from hemiola.runtime.bootstrap import listener as listener_module
from hemiola.runtime.bootstrap.handshake import HandshakeReply, admit
from hemiola.runtime.bootstrap.links import LinkHello, LinkListener, _has_ended, connect_link
from hemiola.runtime.bootstrap.listener import MAX_PENDING
from hemiola.runtime.bootstrap.store import TcpStore
from untrusted_peers import (
    ATTACKS,
    GENEROUS_SECONDS,
    OPENING,
    Where,
    call,
    held_by_process,
    is_dropped,
    join_by_hand,
    read,
    soon,
)

SECRET = b"a secret of the tests"
FOREVER_SECONDS = 10_000.0
pytestmark = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]
"""A socket that is left to the garbage collector fails its test."""
HELLO = LinkHello("world", rank=1, target=0)


@pytest.fixture
def listener() -> Iterator[LinkListener]:
    with LinkListener("127.0.0.1", SECRET) as listener:
        yield listener


def where_is(listener: LinkListener) -> Where:
    return listener.address, listener.port


def join(listener: LinkListener, hello: LinkHello = HELLO) -> socket.socket:
    return connect_link(*where_is(listener), SECRET, hello, soon())


def meet(listener: LinkListener, hello: LinkHello = HELLO) -> None:
    """A member connects, is taken, and both ends hear each other."""
    with join(listener, hello) as near, listener.take(hello, soon()) as far:
        near.sendall(b"ping")
        assert read(far, 4) == b"ping"
        far.sendall(b"pong")
        assert read(near, 4) == b"pong"


def free_port() -> Where:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return "127.0.0.1", free.getsockname()[1]


def nobody_waits(listener: LinkListener) -> bool:
    return not listener._waiting


def test_a_member_is_taken(listener: LinkListener) -> None:
    meet(listener)


def test_both_ends_block_and_send_at_once(listener: LinkListener) -> None:
    with join(listener) as near, listener.take(HELLO, soon()) as far:
        for sock in (near, far):
            assert sock.gettimeout() is None
            assert os.get_blocking(sock.fileno())
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_bytes_sent_at_once_are_not_lost(listener: LinkListener) -> None:
    with join(listener) as near:
        near.sendall(b"early")
        with listener.take(HELLO, soon()) as far:
            assert read(far, 5) == b"early"


def test_links_of_many_groups_ranks_and_channels(listener: LinkListener) -> None:
    """Every link arrives where it is meant, whatever the order in which both sides ask."""
    hellos = [
        LinkHello(group, rank, target, channel)
        for group in ("world", "tensor parallel", "λ")
        for rank in range(2)
        for target in range(2, 4)
        for channel in range(2)
    ]
    got: dict[LinkHello, bytes] = {}

    def take(hello: LinkHello) -> None:
        with listener.take(hello, soon()) as far:
            got[hello] = read(far, 1)

    threads = [threading.Thread(target=take, args=(hello,)) for hello in hellos]
    for thread in threads[::2]:
        thread.start()
    links = [join(listener, hello) for hello in reversed(hellos)]
    for thread in threads[1::2]:
        thread.start()
    for number, link in enumerate(reversed(links)):
        link.sendall(bytes([number]))
    for thread in threads:
        thread.join()
    assert got == {hello: bytes([number]) for number, hello in enumerate(hellos)}
    for link in links:
        link.close()


def test_a_listener_is_at_its_address_only(listener: LinkListener) -> None:
    assert listener.address == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        call(("127.0.0.2", listener.port))


def test_connect_waits_for_a_listener_that_comes_late() -> None:
    where = free_port()
    got: list[socket.socket] = []
    thread = threading.Thread(target=lambda: got.append(connect_link(*where, SECRET, HELLO, soon())))
    thread.start()
    time.sleep(0.05)
    with socket.create_server(where) as late:
        late.accept()[0].close()  # in a crowd a member may be dropped; it comes again
        sock, _ = late.accept()
        with sock:
            answer_by_hand(sock)
            thread.join()
    got[0].close()


def answer_by_hand(sock: socket.socket) -> None:
    assert LinkHello.unpack(admit(sock, SECRET, soon())) == HELLO


def test_connect_gives_up_at_its_deadline() -> None:
    where = free_port()
    expected = (
        rf"rank 1 of group 'world' cannot connect to rank 0: no connection to 127\.0\.0\.1:{where[1]} within"
    )
    with pytest.raises(ConnectError, match=expected):
        connect_link(*where, SECRET, HELLO, time.monotonic() + 0.1)


def test_a_connection_with_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP that calls a port from the same port meets itself; there is nobody."""

    def meet_itself(where: Where, *_: object, **__: object) -> socket.socket:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())
        return sock

    monkeypatch.setattr(socket, "create_connection", meet_itself)
    with pytest.raises(ConnectError, match="nobody listens there"):
        connect_link("127.0.0.1", 1, SECRET, HELLO, time.monotonic() + 0.1)


def test_a_link_leaves_from_the_address_it_was_told(listener: LinkListener) -> None:
    with connect_link(*where_is(listener), SECRET, HELLO, soon(), source="127.0.0.3") as near:
        assert near.getsockname()[0] == "127.0.0.3"
        listener.take(HELLO, soon()).close()


def test_who_does_not_come_is_named(listener: LinkListener) -> None:
    expected = (
        r"rank 1 of group 'world' did not connect to rank 0 \(channel 0\) within the time; .*HEMIOLA_IFNAME"
    )
    with pytest.raises(ConnectError, match=expected):
        listener.take(HELLO, time.monotonic() + 0.05)


@pytest.mark.parametrize(
    "other",
    [
        LinkHello("World", 1, 0),
        LinkHello("world", 2, 0),
        LinkHello("world", 1, 2),
        LinkHello("world", 1, 0, 1),
    ],
)
def test_a_link_that_went_astray_is_not_taken(other: LinkHello, listener: LinkListener) -> None:
    with join(listener, other), pytest.raises(ConnectError, match="did not connect"):
        listener.take(HELLO, time.monotonic() + 0.05)


def test_a_duplicate_is_refused_and_the_first_stays(listener: LinkListener) -> None:
    with join(listener) as first:
        with pytest.raises(
            ConnectError, match="already has this connection; two processes claim to be the same rank"
        ):
            join(listener)
        with listener.take(HELLO, soon()) as far:
            first.sendall(b"first")
            assert read(far, 5) == b"first"
    meet(listener)


def test_a_link_that_was_closed_before_it_was_taken_gives_way(listener: LinkListener) -> None:
    join(listener).close()
    meet(listener)


def test_a_link_that_was_closed_before_is_not_taken(listener: LinkListener) -> None:
    """A member that gave up just as it was welcomed comes again; its first try must not be taken for a link."""
    join(listener).close()
    deadline = soon()
    while not any(map(_has_ended, list(listener._waiting.values()))):
        assert time.monotonic() < deadline, "the end of the connection did not arrive"
    again = threading.Timer(0.05, meet_from_afar, args=(listener,))
    again.start()
    with listener.take(HELLO, soon()) as far:
        assert read(far, 5) == b"again"
    again.join()


def meet_from_afar(listener: LinkListener) -> None:
    with join(listener) as near:
        near.sendall(b"again")


def test_discarded_links_are_closed(listener: LinkListener) -> None:
    other = LinkHello("other", 1, 0)
    with join(listener) as near, join(listener, other):
        listener.discard("world")
        near.settimeout(GENEROUS_SECONDS)
        assert is_dropped(near)
        listener.take(other, soon()).close()
    assert nobody_waits(listener)


def test_another_secret_is_told_at_once(listener: LinkListener) -> None:
    with pytest.raises(ConnectError, match=r"cannot connect to rank 0: .* job secrets differ"):
        connect_link(*where_is(listener), b"another secret", HELLO, soon())
    assert nobody_waits(listener)


def test_a_member_at_the_wrong_port_is_told(listener: LinkListener) -> None:
    with pytest.raises(
        ConnectError, match="does not serve connections of this kind; check the address and the port"
    ):
        TcpStore(*where_is(listener), SECRET, GENEROUS_SECONDS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_strangers_get_nowhere(attack: Callable[[Where], None], listener: LinkListener) -> None:
    for _ in range(5):
        attack(where_is(listener))
        assert nobody_waits(listener)
    meet(listener)


def test_a_member_joins_amid_attacks(listener: LinkListener) -> None:
    threads = [
        threading.Thread(target=attack, args=(where_is(listener),)) for attack in ATTACKS for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for channel in range(10):
        meet(listener, LinkHello("world", 1, 0, channel))
    for thread in threads:
        thread.join()
    assert nobody_waits(listener)


def test_a_recorded_handshake_is_worth_nothing(listener: LinkListener) -> None:
    with call(where_is(listener)) as sock:
        recorded, answer = join_by_hand(sock, SECRET, HELLO.pack())
        assert answer[:1] == b"\x00"
        listener.take(HELLO, soon()).close()
    with call(where_is(listener)) as sock:
        sock.sendall(recorded)
        assert read(sock, 40 + 33)[40:41] == b"\x01"
        assert is_dropped(sock)
    assert nobody_waits(listener)


def test_200_idle_strangers_hold_up_nobody(listener: LinkListener) -> None:
    crowd = [call(where_is(listener)) for _ in range(200)]
    meet(listener)
    for sock in crowd:
        sock.close()


def test_in_a_crowd_the_oldest_stranger_gives_way() -> None:
    with LinkListener("127.0.0.1", SECRET, patience=FOREVER_SECONDS) as listener:
        crowd = [call(where_is(listener)) for _ in range(MAX_PENDING + 20)]
        assert all(is_dropped(sock) for sock in crowd[:20])
        meet(listener)
        for sock in crowd:
            sock.close()


def test_a_stranger_that_speaks_as_it_is_dropped_harms_nobody(
    listener: LinkListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the listener is held up, one more comes and then the oldest speaks: its word is found after its end."""
    judging, go_on = threading.Event(), threading.Event()

    def decide_late(hello: bytes) -> HandshakeReply:
        judging.set()
        assert go_on.wait(GENEROUS_SECONDS)
        return listener._decide(hello)

    monkeypatch.setattr(listener._listener, "_decide", decide_late)
    with call(where_is(listener)) as oldest:
        thread = threading.Thread(target=meet, args=(listener,))
        thread.start()
        assert judging.wait(GENEROUS_SECONDS)
        with call(where_is(listener)):
            oldest.sendall(OPENING)
            monkeypatch.setattr(listener_module, "MAX_PENDING", 1)
            go_on.set()
            thread.join()
            assert is_dropped(oldest)
    monkeypatch.undo()
    meet(listener)


@pytest.mark.parametrize(
    ("start", "slowly"),
    [
        (b"", OPENING),
        (OPENING, bytes(31)),
        (OPENING + bytes(32), bytes(33)),
        (OPENING + bytes(32), b"\x10" + bytes(50)),
    ],
    ids=["opening", "nonce", "proof", "hello"],
)
def test_who_sends_a_byte_now_and_then_is_dropped(start: bytes, slowly: bytes) -> None:
    with LinkListener("127.0.0.1", SECRET, patience=0.2) as listener, call(where_is(listener)) as slow:
        slow.sendall(start)
        with suppress(ConnectionError):
            for byte in slowly:
                slow.sendall(bytes([byte]))
                time.sleep(0.005)
        assert is_dropped(slow)
        assert nobody_waits(listener)


def test_a_hello_that_is_no_link_is_not_taken(listener: LinkListener) -> None:
    for hello in (b"", b"link", b"link" + bytes(11), b"LINK" + bytes(12), b"link" + bytes(12) + b"\xff"):
        with call(where_is(listener)) as sock:
            _, answer = join_by_hand(sock, SECRET, hello)
            assert answer[:1] == b"\x03"
    assert nobody_waits(listener)


@settings(max_examples=40, deadline=None)
@given(
    start=st.sampled_from([b"", OPENING, OPENING + bytes(32)]),
    pieces=st.lists(st.binary(max_size=300), max_size=4),
)
def test_no_bytes_of_a_stranger_harm_a_listener(start: bytes, pieces: list[bytes]) -> None:
    with LinkListener("127.0.0.1", SECRET) as listener:
        with call(where_is(listener)) as sock, suppress(ConnectionError):
            for piece in (start, *pieces):
                sock.sendall(piece)
        meet(listener)
        assert nobody_waits(listener)


NUMBERS = st.integers(0, (1 << 32) - 1)


@settings(deadline=None)
@given(st.text(max_size=200), NUMBERS, NUMBERS, NUMBERS)
def test_a_hello_is_read_as_it_was_written(group: str, rank: int, target: int, channel: int) -> None:
    hello = LinkHello(group, rank, target, channel)
    assert LinkHello.unpack(hello.pack()) == hello


@settings(deadline=None)
@given(st.binary(max_size=50) | st.binary(max_size=50).map(lambda tail: b"link" + tail))
def test_any_bytes_are_a_hello_or_none(data: bytes) -> None:
    hello = LinkHello.unpack(data)
    assert hello is None or hello.pack() == data


def test_the_name_of_a_group_is_bounded() -> None:
    with pytest.raises(ConnectError, match="the name of a group has at most 1024 bytes: 'x"):
        LinkHello("x" * 1025, 0, 1)


def test_closing_leaves_no_thread_and_no_file_descriptor() -> None:
    before = held_by_process()
    listener = LinkListener("127.0.0.1", SECRET)
    near, idle = join(listener), call(where_is(listener))
    taken_near = join(listener, LinkHello("world", 2, 0))
    taken = listener.take(LinkHello("world", 2, 0), soon())
    listener.close()
    listener.close()
    near.settimeout(GENEROUS_SECONDS)
    assert is_dropped(near)
    assert is_dropped(idle)
    taken.sendall(b"stays")
    assert read(taken_near, 5) == b"stays"
    for sock in (near, idle, taken_near, taken):
        sock.close()
    assert not held_by_process() - before


@pytest.mark.timeout(60)
def test_closing_wakes_who_waits(listener: LinkListener) -> None:
    closing = threading.Timer(0.05, listener.close)
    closing.start()
    with pytest.raises(ConnectError, match="the listener was closed while it waited for rank 1"):
        listener.take(HELLO, time.monotonic() + FOREVER_SECONDS)
    closing.join()


FEW_FILES = """
import os, resource, sys, time
from hemiola.runtime.bootstrap.handshake import HandshakeReply, admit
from hemiola.runtime.bootstrap.links import LinkListener, LinkHello
listener = LinkListener("127.0.0.1", b"a secret of the tests", patience=10_000.0)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8,) * 2)
print(listener.port, flush=True)
for channel in range(3):
    listener.take(LinkHello("world", 1, 0, channel), time.monotonic() + 30).sendall(b"ping")
"""


def test_strangers_cannot_use_up_the_files_of_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", FEW_FILES], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        crowd = [call(("127.0.0.1", port)) for _ in range(60)]
        for channel in range(3):
            with connect_link("127.0.0.1", port, SECRET, LinkHello("world", 1, 0, channel), soon()) as near:
                near.settimeout(GENEROUS_SECONDS)
                assert read(near, 4) == b"ping"
        for sock in crowd:
            sock.close()
    assert process.returncode == 0


def test_a_process_without_a_file_left_goes_on_when_it_has_one(listener: LinkListener) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    calling = socket.socket()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
    fill = take_every_file()
    try:
        calling.connect(where_is(listener))
        await_pause(listener)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for file in fill:
        os.close(file)
    with calling:
        calling.settimeout(GENEROUS_SECONDS)
        _, answer = join_by_hand(calling, SECRET, HELLO.pack())
        assert answer[:1] == b"\x00"
        listener.take(HELLO, soon()).close()


def await_pause(listener: LinkListener) -> None:
    deadline = soon()
    while listener._listener._paused_until is None:
        assert time.monotonic() < deadline, "the listener did not notice that no file is left"
        time.sleep(0.001)


def take_every_file() -> list[int]:
    files = []
    while True:
        try:
            files.append(os.dup(0))
        except OSError:
            return files


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_port_open(listener: LinkListener) -> None:
    """Workers that load data are forked and outlive a rank; peers must still see that it is gone."""
    to_parent, to_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(to_child[1])
        os.write(to_parent[1], b"!")
        os.read(to_child[0], 1)
        os._exit(0)
    try:
        assert os.read(to_parent[0], 1) == b"!"
        meet(listener)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            call(where_is(listener))
    finally:
        for file in (*to_parent, *to_child):
            os.close(file)
        assert os.waitpid(child, 0)[1] == 0
