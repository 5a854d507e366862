"""Requests about the voters of a quorum, as Kafka's schemas of 4.4.0 say, and what answers tell."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from harness.errors import UnfitError
from harness.kafka.model import Endpoint
from harness.kafka.wire import quorum
from harness.kafka.wire.admin import RequestResult
from harness.kafka.wire.dialect import dialect

DIALECT = dialect("4.4.0")
DIRECTORY = UUID(bytes=bytes(range(16)))
NOWHERE = Endpoint("127.0.0.1", 9)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The encoded requests; each is answered with a refusal."""
    frames: list[bytes] = []

    def exchange(_to: object, request: Any, response: Any, version: int, _timeout_s: float) -> Any:
        frames.append(bytes(request.encode(version=version)))
        refusal = bytes(4) + (35).to_bytes(2, "big") + bytes([4]) + b"why" + bytes(1)
        return response.decode(refusal, version=version)

    monkeypatch.setattr(quorum, "exchange", exchange)
    return frames


def test_a_request_to_add_a_voter(sent: list[bytes]) -> None:
    listener = Endpoint("10.0.0.3", 59093, listener="CONTROLLER")
    answer = quorum.add_raft_voter(NOWHERE, 13, DIRECTORY, [listener], wait_ms=1000, dialect=DIALECT)
    assert answer == RequestResult(35, "why")
    listeners = bytes([2, 11]) + b"CONTROLLER" + bytes([9]) + b"10.0.0.3" + (59093).to_bytes(2, "big")
    tags = bytes(1)
    numbers = (1000).to_bytes(4, "big") + (13).to_bytes(4, "big")
    assert sent == [bytes(1) + numbers + DIRECTORY.bytes + listeners + tags + tags]


def test_a_request_to_remove_a_voter(sent: list[bytes]) -> None:
    answer = quorum.remove_raft_voter(NOWHERE, 13, DIRECTORY, dialect=DIALECT)
    assert answer == RequestResult(35, "why")
    assert sent == [bytes(1) + (13).to_bytes(4, "big") + DIRECTORY.bytes + bytes(1)]


def test_older_versions_do_not_change_voters() -> None:
    for ask in (
        lambda: quorum.describe_voters(NOWHERE, dialect=dialect("3.8.1")),
        lambda: quorum.add_raft_voter(NOWHERE, 13, DIRECTORY, [], dialect=dialect("3.8.1")),
        lambda: quorum.remove_raft_voter(NOWHERE, 13, DIRECTORY, dialect=dialect("2.7.1")),
    ):
        with pytest.raises(UnfitError, match=r"cannot change the voters .*3\.9 and later can"):
            ask()


def _answer(version: int, voter: UUID) -> Any:
    partition = DescribeQuorumResponse.TopicData.PartitionData
    replica = partition.ReplicaState

    def state(node: int, directory: UUID) -> Any:
        return replica(
            replica_id=node,
            replica_directory_id=directory,
            log_end_offset=5,
            last_fetch_timestamp=-1,
            last_caught_up_timestamp=-1,
        )

    described = partition(
        partition_index=0,
        error_code=0,
        error_message=None,
        leader_id=12,
        leader_epoch=3,
        high_watermark=5,
        current_voters=[state(12, voter)],
        observers=[state(13, DIRECTORY)],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name=quorum.METADATA_TOPIC, partitions=[described])
    whole = DescribeQuorumResponse(error_code=0, error_message=None, topics=[topic], nodes=[])
    return DescribeQuorumResponse.decode(bytes(whole.encode(version=version)), version=version)


@pytest.mark.parametrize(
    ("version", "voter", "voters", "observers"),
    [
        pytest.param(2, UUID(int=7), {12: UUID(int=7)}, {13: DIRECTORY}, id="a dynamic quorum"),
        pytest.param(2, UUID(int=0), {}, {13: DIRECTORY}, id="a static quorum"),
        pytest.param(0, UUID(int=7), {}, {}, id="not asked for"),
    ],
)
def test_directory_ids_are_those_of_a_dynamic_quorum(
    version: int, voter: UUID, voters: dict[int, UUID], observers: dict[int, UUID]
) -> None:
    told = quorum._described(_answer(version, voter))
    assert (told.voter_directories, told.observer_directories) == (voters, observers)
    assert (told.leader, told.voters, told.observers) == (12, ((12, 5),), ((13, 5),))
