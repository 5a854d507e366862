"""Voters of a KRaft quorum are added and removed when its leader says so; the impossible is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

import nemesis.operator
from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.kafka.model import REQUEST_TIMED_OUT, Endpoint
from harness.kafka.wire.admin import RequestResult
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.quorum import QuorumInfo
from harness.lab.layout import three_azs
from nemesis.fault import Injection
from nemesis.operator import Operator
from tests.unit.nemesis.nemesis_fakes import Rows

TOPOLOGY = three_azs("kraft")
IDS = {number: UUID(int=number) for number in (11, 12, 13)}
THREE = QuorumInfo(leader=12, voters=((11, 5), (12, 5), (13, 5)), voter_directories=IDS)
TWO = QuorumInfo(
    leader=12, voters=((11, 5), (12, 5)), voter_directories={number: IDS[number] for number in (11, 12)}
)
FOLLOWED = QuorumInfo(
    leader=12,
    voters=TWO.voters,
    voter_directories=TWO.voter_directories,
    observer_directories={1: UUID(int=1), 13: IDS[13]},
)
STATIC = QuorumInfo(leader=12, voters=THREE.voters)
NO_LEADER = QuorumInfo(error=6)
Made = Callable[..., Operator]


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """An operator to whom brokers describe these quorums in turn, and the last one again and again."""

    def made(*quorums: QuorumInfo, mode: str = "kraft") -> Operator:
        answers: Iterator[QuorumInfo] = chain(quorums[:-1], repeat(quorums[-1]))
        monkeypatch.setattr(nemesis.operator, "describe_voters", lambda *_, **__: next(answers))
        registry: Any = SimpleNamespace(
            topology=TOPOLOGY, add=lambda fault: Injection(1, fault, Rows(tmp_path).journal)
        )
        cluster: Any = SimpleNamespace(mode=mode, operator_host=lambda: "broker2")
        return Operator(registry, cluster, dialect("4.4.0"))

    return made


Asked = list[tuple[object, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The requests that were sent. The first one to add a voter times out; the others succeed."""
    requests: Asked = []

    def add(
        to: Endpoint, node: int, directory: UUID, listeners: list[Endpoint], **_: object
    ) -> RequestResult:
        requests.append(("add", to.node, node, directory, *((one.listener, str(one)) for one in listeners)))
        return RequestResult(REQUEST_TIMED_OUT if len(requests) == 1 else 0)

    def remove(to: Endpoint, node: int, directory: UUID, **_: object) -> RequestResult:
        requests.append(("remove", to.node, node, directory))
        return RequestResult(0)

    monkeypatch.setattr(nemesis.operator, "add_raft_voter", add)
    monkeypatch.setattr(nemesis.operator, "remove_raft_voter", remove)
    return requests


def test_a_voter_is_removed_when_the_leader_does_not_describe_it_any_more(
    operator: Made, asked: Asked
) -> None:
    done = operator(THREE, NO_LEADER, THREE, TWO).remove_voter("controller3")
    assert done.evidence == {"seen": [11, 12]}
    assert asked == [("remove", "broker2", 13, IDS[13])]


def test_a_voter_is_added_once_it_follows_and_has_caught_up(operator: Made, asked: Asked) -> None:
    """The first request is answered before it has caught up."""
    quorums = (TWO, TWO, FOLLOWED, FOLLOWED, FOLLOWED, THREE)
    assert operator(*quorums).add_voter("controller3").evidence == {"seen": [11, 12, 13]}
    assert asked == [("add", "broker2", 13, IDS[13], ("CONTROLLER", "198.18.0.43:9093"))] * 2


def test_a_request_that_timed_out_may_have_added_the_voter(operator: Made, asked: Asked) -> None:
    assert operator(TWO, FOLLOWED, THREE).add_voter("controller3").evidence == {"seen": [11, 12, 13]}
    assert len(asked) == 1


def test_one_that_does_not_follow_the_quorum_is_not_added(operator: Made, asked: Asked) -> None:
    with pytest.raises(
        InvalidRunError, match="controller3 could not be added: .*to catch up with the quorum"
    ):
        operator(TWO).add_voter("controller3", within_s=0.2)
    assert asked == []


def test_a_change_without_effect_makes_the_run_invalid(operator: Made, asked: Asked) -> None:
    with pytest.raises(InvalidRunError, match="'remove controller3 from the voters' had no effect"):
        operator(THREE).remove_voter("controller3", within_s=0.2)


def test_a_refusal_makes_the_run_invalid(operator: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = RequestResult(35, "Cluster doesn't support removing voter.")
    monkeypatch.setattr(nemesis.operator, "remove_raft_voter", lambda *_, **__: refused)
    with pytest.raises(
        InvalidRunError, match="removal of controller3 from the voters was refused with Kafka's error 35"
    ):
        operator(THREE).remove_voter("controller3")


def test_voters_are_not_added_twice_and_others_are_not_removed(operator: Made, asked: Asked) -> None:
    with pytest.raises(InvalidRunError, match="controller3 is a voter of the KRaft quorum already"):
        operator(THREE).add_voter("controller3")
    with pytest.raises(InvalidRunError, match="controller3 is no voter .*its voters are 11, 12"):
        operator(TWO).remove_voter("controller3")
    assert asked == []


@pytest.mark.parametrize("act", [Operator.add_voter, Operator.remove_voter])
def test_what_is_impossible_is_said_before_anything_is_asked(
    act: Callable[[Operator, str], Injection], operator: Made, asked: Asked
) -> None:
    with pytest.raises(UsageError, match="fixed .kraft.version 0.; set dynamic_quorum=True"):
        act(operator(STATIC), "controller3")
    with pytest.raises(UsageError, match="broker1 is no controller"):
        act(operator(FOLLOWED), "broker1")
    with pytest.raises(UnfitError, match="cluster in mode zookeeper has no KRaft quorum"):
        act(operator(THREE, mode="zookeeper"), "controller3")
    assert asked == []
