"""The fate of bytes on a held connection, as the kernels of both ends report it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from harness.waiting import wait_until
from nemesis.network import hold
from nemesis.network.hold import End, Way, held_by
from nemesis.network.links import Connection
from nemesis.proof.sockets import Key, SocketRow, SocketWatch, connected, sockets


def sender(acked: int, send_q: int, state: str = "ESTAB") -> End:
    return End({"acked": acked, "send_q": send_q, "state": state, "timer": "on", "expires_ms": 900}, True)


def receiver(received: int, recv_q: int = 0, state: str = "ESTAB") -> End:
    return End({"received": received, "recv_q": recv_q, "state": state}, True)


def destroyed(received: int) -> End:
    return End({"received": received, "state": "CLOSED"}, False)


GONE = End(None, False)


@pytest.mark.parametrize(
    ("client", "server", "bytes_held"),
    [
        (sender(101, 47), receiver(100), 47),
        (sender(101, 48, "FIN-WAIT-1"), receiver(100), 47),
        (sender(101, 0), receiver(100), 0),
        (sender(81, 67), receiver(100), 47),  # 20 bytes had arrived, and their acknowledgement had not
        (sender(101, 47), GONE, 47),
        (End({"acked": 101, "written": 147, "state": "CLOSED"}, False), receiver(100), 47),
        (GONE, receiver(100), 0),
    ],
)
def test_held_is_what_was_written_and_has_not_arrived(client: End, server: End, bytes_held: int) -> None:
    way = held_by(client, server, opened=True)
    assert way.held == bytes_held
    assert way.fate == ("pending" if bytes_held else "none")


def test_the_server_has_sent_no_syn_that_counts() -> None:
    assert held_by(sender(100, 47), receiver(100), opened=False).held == 47


def test_a_sender_backs_off_and_then_delivers() -> None:
    way = held_by(sender(101, 47), receiver(100), opened=True)
    way.judge(sender(101, 47), receiver(100), 0.1)
    assert way.fate == "pending"
    way.judge(sender(148, 0), receiver(147, recv_q=47), 0.9)
    assert way.evidence() == {"bytes": 47, "fate": "delivered", "after_s": 0.9, "unread_bytes": 47}
    way.judge(sender(148, 0), receiver(147), 1.0)
    assert way.evidence() == {"bytes": 47, "fate": "delivered", "after_s": 0.9, "unread_bytes": 0}


def test_the_fin_of_a_closed_connection_is_no_byte() -> None:
    way = held_by(sender(101, 48, "FIN-WAIT-1"), receiver(100), opened=True)
    way.judge(GONE, receiver(148, recv_q=48, state="CLOSE-WAIT"), 0.2)
    assert way.evidence() == {"bytes": 47, "fate": "delivered", "after_s": 0.2, "unread_bytes": 47}


def test_delivered_although_both_sockets_are_gone() -> None:
    """The broker answers a client that has closed: a reset destroys both within a millisecond."""
    way = held_by(sender(101, 48, "FIN-WAIT-1"), receiver(100), opened=True)
    way.judge(GONE, destroyed(148), 0.2)
    assert way.evidence() == {"bytes": 47, "fate": "delivered", "after_s": 0.2}


def test_a_request_of_a_closed_tls_connection_is_delivered_without_the_alert_after_it() -> None:
    """As seen with Java's client: 86 bytes of a request, and 40 that end TLS."""
    closed = sender(101, 127, "FIN-WAIT-1")
    way = held_by(closed, receiver(100), opened=True, tls=True)
    way.judge(GONE, destroyed(186), 0.2)
    assert way.evidence() == {"bytes": 126, "fate": "delivered", "after_s": 0.2}
    for tls, received in ((False, 186), (True, 185)):
        way = held_by(closed, receiver(100), opened=True, tls=tls)
        way.judge(GONE, destroyed(received), 0.2)
        assert way.fate == "dropped", "a byte of the request is missing, or all of them are the request's"
    assert held_by(sender(101, 41, "FIN-WAIT-1"), receiver(100), opened=True, tls=True).fate == "none"
    assert held_by(sender(101, 40), receiver(100), opened=True, tls=True).fate == "pending"


def test_dropped_by_a_receiver_that_is_gone() -> None:
    way = held_by(sender(101, 47), receiver(100), opened=True)
    way.judge(sender(101, 47), destroyed(110), 0.2)
    assert way.evidence() == {"bytes": 47, "fate": "dropped", "arrived_bytes": 10}


def test_dropped_by_a_sender_that_is_gone_once_the_receiver_has_had_time() -> None:
    way = held_by(sender(101, 47), receiver(100), opened=True)
    way.judge(GONE, receiver(100), 0.2)
    assert way.fate == "pending", "what the receiver said may be older"
    way.judge(GONE, receiver(100), 0.8)
    assert way.fate == "dropped"


def test_a_destroyed_socket_that_is_not_reported_yet_decides_nothing() -> None:
    way = held_by(sender(101, 47), receiver(100), opened=True)
    way.judge(GONE, GONE, 0.2)
    assert way.fate == "pending"
    way.judge(GONE, destroyed(147), 0.25)
    assert way.fate == "delivered"


def test_the_wait_follows_the_timer_as_it_is_after_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet that the kernel sent just before the rules were removed has doubled its timer."""
    one = Connection(client="client1", client_port=4711, server="broker2", server_port=9092)
    held = object.__new__(hold.Hold)
    held.name, held._number = "hold", 1
    held._context = SimpleNamespace(lock=nullcontext(), check_gone=lambda *_: None)  # type: ignore[assignment]
    held._rules, held._vanished, held._times = hold.Ruleset("chain", "", {}), (), {"removed_ns": 0}
    request = held_by(sender(101, 47), receiver(100), opened=True)
    held._released = [
        hold._ReleasedConnection(
            connection=one,
            state="ESTAB",
            orphan=False,
            packets=5,
            request=request,
            response=Way(held=0, target=0, fate="none"),
        )
    ]
    doubled = End({"acked": 101, "send_q": 47, "state": "ESTAB", "timer": "on", "expires_ms": 6400}, True)
    idle = End({"received": 100, "recv_q": 0, "state": "ESTAB", "timer": "off", "expires_ms": 0}, True)
    monkeypatch.setattr(held, "_seen", lambda: {one: (doubled, idle)})
    monkeypatch.setattr(held, "_ask", lambda *_, **__: {})
    waits: list[float] = []
    monkeypatch.setattr(hold, "wait_until", lambda *_, within_s, **__: waits.append(within_s))
    assert held.verify_healed()["pending"] == 1
    assert waits == [6.4 + hold._MARGIN_S]


def test_nothing_held_stays_so() -> None:
    way = Way(held=0, target=100, fate="none")
    way.judge(GONE, GONE, 5.0)
    assert way.evidence() == {"bytes": 0, "fate": "none"}


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection over loopback; the server's socket is one of IPv6, as Java's are, in the second case."""
    listening = socket.socket(request.param)
    listening.bind(("127.0.0.1" if request.param == socket.AF_INET else "::ffff:127.0.0.1", 0))
    listening.listen()
    client = socket.create_connection(("127.0.0.1", listening.getsockname()[1]))
    server, _ = listening.accept()
    yield client, server
    for one in (client, server, listening):
        one.close()


def keys(client: socket.socket) -> tuple[Key, Key]:
    here, there = client.getsockname()[:2], client.getpeername()[:2]
    return (*here, *there), (*there, *here)


def test_the_kernel_says_what_each_socket_has_sent_and_received(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, _ = pair
    client.send(b"12345")
    ours, theirs = keys(client)

    def arrived() -> dict[Key, SocketRow]:
        return sockets([ours, theirs])

    sockets_by_key = wait_until(
        arrived,
        within_s=5,
        awaiting="5 bytes to be acknowledged",
        accept=lambda rows: rows[ours]["send_q"] == 0,
    )
    assert (sockets_by_key[ours]["acked"], sockets_by_key[ours]["state"], sockets_by_key[ours]["orphan"]) == (
        6,
        "ESTAB",
        False,
    )
    assert (sockets_by_key[theirs]["received"], sockets_by_key[theirs]["recv_q"]) == (5, 5)
    assert [row["local"] for row in connected(*ours[2:])] == [list(ours[:2])]


def test_the_last_state_of_a_destroyed_socket_is_remembered(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, server = pair
    ours, theirs = keys(client)
    watch = SocketWatch([ours, theirs])
    try:
        client.send(b"12345")
        wait_until(
            lambda: sockets([theirs]),
            within_s=5,
            awaiting="5 bytes to arrive",
            accept=lambda rows: rows[theirs]["received"] == 5,
        )
        server.close()  # unread bytes: a reset
        client.close()
        sockets_by_key = wait_until(
            watch.destroyed, within_s=5, awaiting="both sockets to go", accept=lambda rows: len(rows) == 2
        )
    finally:
        watch.close()
    assert sockets_by_key[theirs]["received"] == 5
    assert (sockets_by_key[ours]["acked"], sockets_by_key[ours]["written"]) == (6, 5)
    assert sockets([ours, theirs]) == {}
