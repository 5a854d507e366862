"""Which controller leads a KRaft quorum, and which broker to believe, if they contradict each other."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from harness.cluster import kraft_quorum
from harness.cluster.kraft_quorum import QuorumProbe
from harness.cluster.kraft_start import StartedKRaftCluster
from harness.kafka.model import NO_LEADER, Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.metadata import BrokerMetadata
from harness.kafka.wire.quorum import LeaderAndEpoch, QuorumInfo
from harness.lab.layout import three_azs

KEY = TopicPartition("t", 0)

HOSTS = three_azs("kraft")
CONTROLLERS, BROKERS = HOSTS.role("controller"), HOSTS.role("broker")
NOT_LEADER = QuorumInfo(error=6)


def probe(
    monkeypatch: pytest.MonkeyPatch,
    quorum: dict[str, QuorumInfo],
    views: dict[str, BrokerMetadata] | None = None,
) -> QuorumProbe:
    """A probe whose nodes give these answers; nodes without one are down."""
    by_address = {(host.address, port): host.name for host in HOSTS.hosts for port in host.ports}

    def answer(table: dict[str, object], target: Endpoint) -> object:
        name = by_address[target.address]
        if name not in table:
            raise ConnectionRefusedError(name)
        return table[name]

    monkeypatch.setattr(
        kraft_quorum, "describe_quorum", lambda target, _timeout: answer(dict(quorum), target)
    )
    monkeypatch.setattr(
        kraft_quorum, "metadata", lambda target, _topics, timeout_s: answer(dict(views or {}), target)
    )
    return QuorumProbe(CONTROLLERS, BROKERS)


def view(leader: int, epoch: int) -> BrokerMetadata:
    state = PartitionState(leader=leader, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2, 3))
    return BrokerMetadata(1, (1, 2, 3), {KEY: state})


def test_of_two_that_claim_to_lead_the_later_epoch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.7 a controller that was cut off keeps leading, in its old epoch."""
    asked = probe(
        monkeypatch,
        {
            "controller1": QuorumInfo(leader=11, epoch=4),
            "controller2": QuorumInfo(leader=12, epoch=2),
            "controller3": NOT_LEADER,
        },
    )
    state = asked.describe()
    assert state is not None
    assert state.leader == 11


def test_no_leader_is_said_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are down and the third does not lead: there is no leader to report."""
    asked = probe(monkeypatch, {"controller3": NOT_LEADER}, {"broker1": view(1, 0)})
    assert asked.describe() is None
    assert asked.most_current_brokers() == ()
    assert asked.partitions([KEY]).get(KEY) is None


def test_the_broker_that_follows_the_leader_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """broker2 and broker3 still follow the zombie; the new leader knows that they lack most of its log."""
    new = QuorumInfo(leader=11, epoch=4, observers=((1, 60), (2, 31), (3, -1)))
    old = QuorumInfo(leader=12, epoch=2, observers=((1, 20), (2, 90), (3, 90)))
    views = {"broker1": view(1, 1), "broker2": view(2, 0), "broker3": view(2, 0)}
    asked = probe(monkeypatch, {"controller1": new, "controller2": old}, views)
    assert [host.name for host in asked.most_current_brokers()] == ["broker1", "broker2"]
    state = asked.partitions([KEY]).get(KEY)
    assert state is not None
    assert (state.leader, state.leader_epoch) == (1, 1)


def test_a_broker_that_does_not_answer_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best informed broker was just killed, so the next one is asked."""
    quorum = QuorumInfo(leader=11, epoch=1, observers=((1, 60), (2, 58)))
    asked = probe(monkeypatch, {"controller1": quorum}, {"broker2": view(2, 3)})
    state = asked.partitions([KEY]).get(KEY)
    assert state is not None
    assert state.leader == 2


def test_whom_a_controller_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """None for one that is down, -1 for one that knows no leader."""

    def answer(target: Endpoint) -> LeaderAndEpoch:
        if target.host == CONTROLLERS[0].address:
            raise ConnectionRefusedError
        return LeaderAndEpoch(NO_LEADER, 3, 74)

    monkeypatch.setattr(kraft_quorum, "controller_fetch_probe", answer)
    asked = QuorumProbe(CONTROLLERS, BROKERS)
    assert asked.follows(CONTROLLERS[0]) is None
    assert asked.follows(CONTROLLERS[1]) == -1


@pytest.mark.parametrize(
    ("leader", "ends", "settled"),
    [
        pytest.param(11, ((11, 90), (12, 90), (13, 50)), True, id="the paused one lacks records"),
        pytest.param(11, ((11, 51), (12, 51), (13, 50)), False, id="it lacks one, which may be on its way"),
        pytest.param(12, ((11, 51), (12, 51), (13, 50)), True, id="another one has been elected"),
    ],
)
def test_the_wait_for_a_difference_ends_when_the_winner_leads_no_more(
    monkeypatch: pytest.MonkeyPatch, leader: int, ends: tuple[tuple[int, int], ...], settled: bool
) -> None:
    """A cluster that was started on a busy machine waited for its old leader until the time was up."""
    one, two, three = CONTROLLERS
    asked = probe(monkeypatch, {two.name: QuorumInfo(leader=leader, epoch=2, voters=ends)})
    cluster = Mock(spec=StartedKRaftCluster, _wanted=two)
    assert StartedKRaftCluster._ahead(cluster, asked, one, three) is settled
