"""Finding a cluster that somebody else runs, and what stands in the way: one sentence each."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from harness.cluster.attached import (
    ALLOWED,
    CLEANING,
    PREFIX,
    READING,
    TRANSACTIONAL,
    SilentClusterError,
    attach,
    guarded,
)
from harness.errors import AckedError, UnfitError, UsageError
from harness.kafka.model import Endpoint, Topic
from harness.kafka.wire.admin import alter_topic_config
from harness.kafka.wire.metadata import AdvertisedBroker

VERSIONS = {0: (0, 8), 1: (0, 12), 2: (0, 5), 3: (0, 9), 18: (0, 3), 19: (0, 6), 20: (0, 5), 32: (0, 3)}
Answer = Callable[[int, bytes], bytes]


@contextmanager
def node(answer: Answer) -> Iterator[Endpoint]:
    """A node that answers each request by its API key and its correlation id."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_one(peer: socket.socket) -> None:
            with peer, suppress(ConnectionResetError):
                while head := peer.recv(4):
                    request = peer.recv(struct.unpack(">i", head)[0])
                    peer.sendall(answer(struct.unpack(">h", request[:2])[0], request[4:8]))

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(peer,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Endpoint(*listener.getsockname()[:2])
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def kafka(brokers: list[tuple[int, str, int, str | None]], versions: dict[int, tuple[int, int]]) -> Answer:
    """A broker that states these versions, and these brokers by id, host, port and rack."""

    def answer(key: int, number: bytes) -> bytes:
        if key == 18:
            entry = ApiVersionsResponse.ApiVersion
            keys = [entry(api_key=k, min_version=a, max_version=b) for k, (a, b) in versions.items()]
            body = bytes(ApiVersionsResponse(error_code=0, api_keys=keys).encode(version=0))
        else:
            broker = MetadataResponse.MetadataResponseBroker
            named = [broker(node_id=i, host=h, port=p, rack=r) for i, h, p, r in brokers]
            stated = MetadataResponse(
                throttle_time_ms=0, brokers=named, cluster_id="c", controller_id=0, topics=[]
            )
            body = bytes(stated.encode(version=8))
        return struct.pack(">i", 4 + len(body)) + number + body

    return answer


def test_brokers_are_those_that_the_first_one_names() -> None:
    brokers: list[tuple[int, str, int, str | None]] = []
    with node(kafka(brokers, VERSIONS)) as endpoint:
        brokers += [(1001, "127.0.0.1", endpoint.port, "eu-b"), (7, "127.0.0.1", endpoint.port, None)]
        cluster = attach([endpoint])
    assert [(one.name, one.az, one.ports) for one in cluster.brokers] == [
        ("broker7", "az1", (endpoint.port,)),
        ("broker1001", "az2", (endpoint.port,)),
    ]
    assert cluster.topology.az_names == {"az1": "no rack", "az2": "eu-b", "here": "here"}
    assert cluster.mode == "zookeeper"


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (lambda _key, _number: b"HTTP/1.1 400 Bad Request\r\n\r\n", UsageError, "does not speak Kafka"),
        (lambda _key, _number: b"\x15\x03\x03\x00\x02\x02\x28", UsageError, "TLS"),
        (kafka([(0, "127.0.0.1", 9, None)], VERSIONS), UsageError, "advertised.listeners"),
        (kafka([], VERSIONS), UnfitError, "names no broker"),
        (kafka([], {18: (0, 3), 1: (0, 17)}), UnfitError, "not that of a controller"),
    ],
    ids=["HTTP", "TLS", "a proxy with wrong addresses", "no broker", "a controller"],
)
def test_what_is_no_cluster_is_one_sentence(answer: Answer, error: type[AckedError], says: str) -> None:
    with node(answer) as endpoint, pytest.raises(error, match=says) as refused:
        attach([endpoint])
    assert len(str(refused.value)) <= 300


def test_a_known_broker_that_is_down_keeps_its_place() -> None:
    down = AdvertisedBroker(node_id=7, host="127.0.0.1", port=9, rack="eu-a")
    brokers: list[tuple[int, str, int, str | None]] = []
    with node(kafka(brokers, VERSIONS)) as endpoint:
        brokers.append((3, "127.0.0.1", endpoint.port, "eu-b"))
        cluster = attach([endpoint], [down])
        again = attach([endpoint], cluster.listeners)
    assert cluster.listeners == again.listeners
    places = [(host.node_id, cluster.topology.az_name(host.az)) for host in cluster.brokers]
    assert sorted(places) == [(3, "eu-b"), (7, "eu-a")]


def test_only_silence_is_worth_waiting_for() -> None:
    with pytest.raises(SilentClusterError):
        attach([Endpoint("127.0.0.1", 9)])
    with node(lambda _key, _number: b"HTTP/1.1 400 Bad") as one, pytest.raises(UsageError) as raised:
        attach([one])
    assert not isinstance(raised.value, SilentClusterError)


def test_only_topics_of_acked_are_made_and_deleted() -> None:
    brokers: list[tuple[int, str, int, str | None]] = []
    with node(kafka(brokers, VERSIONS)) as endpoint:
        brokers.append((0, "127.0.0.1", endpoint.port, None))
        cluster = attach([endpoint])
        with pytest.raises(ValueError, match=PREFIX):
            cluster.create_topics((Topic("orders", (0,)),))
        with pytest.raises(ValueError, match=PREFIX):
            cluster.delete("orders", None)


def test_no_other_request_is_sent() -> None:
    """Nothing that writes, moves, or alters anything but topics of acked."""
    assert {one.__name__.removesuffix("Request") for one in ALLOWED} == {
        *("ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata", "Fetch", "ListOffsets"),
        *("DescribeConfigs", "DescribeQuorum", "CreateTopics", "DeleteTopics", "InitProducerId"),
    }
    reading, cleaning, transactional = (
        {one.__name__.removesuffix("Request") for one in requests}
        for requests in (READING, CLEANING, TRANSACTIONAL)
    )
    allowed = {one.__name__.removesuffix("Request") for one in ALLOWED}
    assert allowed - reading == {"CreateTopics", "DeleteTopics", "InitProducerId"}
    assert reading - allowed == {"ListGroups", "OffsetFetch"}
    assert cleaning - allowed == {"FindCoordinator", "DeleteGroups"}
    assert transactional - cleaning == {
        *("AddPartitionsToTxn", "Heartbeat"),
        *("DescribeProducers", "ListTransactions", "DescribeTransactions"),
    }
    with guarded(), pytest.raises(ValueError, match="must not be sent"):
        alter_topic_config(Endpoint("127.0.0.1", 9), "orders", {"retention.ms": "1"})
