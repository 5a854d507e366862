"""ZooKeeper's four-letter words, asked of a socket that answers like ZooKeeper 3.5."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.kafka.model import Endpoint
from harness.zookeeper.four_letter import clients, received

CONS = """\
 /198.18.0.21:41234[1](queued=0,recved=120,sent=130,sid=0x10000d35bee0000,lop=PING,est=1,to=4000)
 /198.18.0.23:50122[1](queued=0,recved=80,sent=81,sid=0x10000d35bee0002,lop=PING,est=2,to=4000)
 /127.0.0.1:53000[0](queued=0,recved=1,sent=0)

"""


@contextmanager
def node(answer: str) -> Iterator[Endpoint]:
    """A node that gives one answer to one request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4)
                connection.sendall(answer.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(*server.getsockname())
        thread.join()


def test_clients_by_address() -> None:
    with node(CONS) as address:
        assert clients(address) == {"198.18.0.21", "198.18.0.23", "127.0.0.1"}


def test_packets_by_address() -> None:
    with node(CONS + CONS.splitlines()[0].replace("41234", "41235")) as address:
        assert received(address) == {"198.18.0.21": 240, "198.18.0.23": 80, "127.0.0.1": 1}


def test_a_node_that_serves_nobody_has_no_clients() -> None:
    with node("This ZooKeeper instance is not currently serving requests\n") as address:
        assert clients(address) == frozenset()


def test_a_node_that_is_down_has_no_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Endpoint(*server.getsockname())
    assert clients(address) == frozenset()
