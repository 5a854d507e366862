"""What the answers of brokers say about rights: without a cluster, one error after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.cluster.attached import AttachedCluster, topology_of
from harness.kafka.model import Endpoint, TopicPartition
from harness.kafka.wire.connection import NoAnswerError, NotSentError
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.logs import FetchResult
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from harness.kafka.wire.offsets import Offset
from harness.kafka.wire.transactions import IdentityAnswer
from run.recording import preflight
from run.recording.preflight import idempotence, shows_its_log

KEY = TopicPartition("acked-x", 0)


@pytest.fixture
def cluster() -> AttachedCluster:
    brokers = tuple(AdvertisedBroker(node_id=number, host="h", port=1) for number in (0, 1))
    described = AdvertisedCluster(cluster_id="c", controller=0, brokers=brokers)
    topology = topology_of(described, Endpoint("h", 1))
    return AttachedCluster(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")


@pytest.mark.parametrize(
    ("errors", "presence"),
    [
        ([0], "yes"),
        ([14], "yes"),  # the coordinator is loading: it has looked for the right before
        ([31], "no"),
        ([7, 0], "yes"),
        ([7, 31], "no"),
        ([7, 7], "not tried"),
        ([NotSentError("away"), NotSentError("away")], "not tried"),
        ([NotSentError("away"), 31], "no"),
    ],
)
def test_only_a_refusal_is_a_missing_right(
    cluster: AttachedCluster, monkeypatch: pytest.MonkeyPatch, errors: list[Any], presence: str
) -> None:
    answers = iter(errors)

    def ask(*_: object) -> IdentityAnswer:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return IdentityAnswer(answer)

    monkeypatch.setattr(preflight, "init_producer_id", ask)
    assert idempotence(cluster).presence == presence


def closed() -> NoAnswerError:
    return NoAnswerError("h:1 did not answer: the connection was closed")


def late() -> NoAnswerError:
    error = NoAnswerError("h:1 did not answer: timed out")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize(
    ("fetched", "listed", "presence"),
    [
        (0, 0, "yes"),
        (1, 0, "yes"),  # an empty log
        (6, 0, "no"),
        (35, 0, "no"),
        (42, 0, "no"),
        (0, 35, "no"),
        (closed(), 0, "no"),
        (0, closed(), "no"),
        (late(), 0, "not tried"),
        (NotSentError("away"), 0, "not tried"),
        (3, 0, "not tried"),
        (29, 0, "not tried"),
    ],
)
def test_a_broker_that_refuses_the_debugging_consumer_is_told_from_one_that_is_away(
    cluster: AttachedCluster, monkeypatch: pytest.MonkeyPatch, fetched: Any, listed: Any, presence: str
) -> None:
    def answers(one: Any) -> Iterator[Any]:
        while True:
            if isinstance(one, Exception):
                raise one
            yield one

    monkeypatch.setattr(
        preflight, "fetch_own_log", lambda *_, **__: FetchResult(error=next(answers(fetched)))
    )
    monkeypatch.setattr(
        preflight, "end_offsets", lambda *_, **__: {KEY: Offset(offset=0, error=next(answers(listed)))}
    )
    assert shows_its_log(cluster, Endpoint("h", 1), KEY)[0] == presence
