"""Beyond the articles: what an operator does to a running cluster; each action must have its effect."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    controller_changes,
    controller_is,
    messages,
    partition,
    topic_is_set,
)
from harness.cluster.setup import Setup
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import require, seed, stand, wait_registered

MOVED, FORCED = "t", "u"
WAITS_S = 3.0
"""Longer than the controller needs to elect a leader once a broker is registered."""


def body(stage: Stage) -> None:
    """Reassign, elect the preferred leader, move the controller; then force an unclean election."""
    seed(stage, MOVED, FORCED)
    operator = stage.operator
    operator.reassign(MOVED, (2, 1, 3))
    stage.wait_for_leader(MOVED, on="broker1")
    stage.mark("reassigned", "broker2 is the preferred leader now; broker1 still leads")
    operator.elect(MOVED, leader="broker2")
    stage.wait_for_leader(MOVED, on="broker2")
    stage.mark("preferred", "broker2 leads")
    cluster = stage.cluster
    require(isinstance(cluster, ZooKeeperCluster), "the metadata is in ZooKeeper")
    assert isinstance(cluster, ZooKeeperCluster)
    operator.delete_controller(cluster.registry, becomes="broker3")
    stage.mark("controller", "broker3 is controller")

    stage.kill("broker2")
    stage.wait_for_isr(FORCED, 1)
    stage.mark("alone", "broker1 is alone in the ISR")
    stage.producer("az1", "az1-alone", "broker1", acks=-1).must_send(FORCED, "c")
    stage.kill("broker1")
    stage.wait_for_no_leader(FORCED)
    stage.restart("broker2")
    wait_registered(stage, "broker2")
    waiting = stage.mark("waiting", "broker2 is alive, and was not in sync")
    stand(stage, waiting, WAITS_S)
    stage.mark("leaderless", "nobody was elected")
    operator.elect(FORCED, kind="unclean", leader="broker2")
    stage.wait_for_leader(FORCED, on="broker2")
    stage.mark("forced", "broker2 leads although it was not in sync")
    stage.restart("broker1")
    stage.wait_converged(FORCED)
    stage.mark("converged", "both replicas hold the same log")


T, U = partition(MOVED), partition(FORCED)

SCENARIO = Scenario(
    name="operator-actions",
    title="Reassignment, elections and a moved controller, as an operator asks for them",
    article="-",
    section="",
    body=body,
    setup=Setup(
        topics=(Topic(MOVED, (1, 2, 3)), Topic(FORCED, (1, 2))),
        controller="broker2",
        stream_rate=0,
        quorum="one node",
    ),
    claims=(
        Claim(
            name="reassigned-keeps-leader",
            section="acked",
            says="A new order of the same replicas does not move the leader, and raises the leader epoch by 1.",
            holds=T.is_led_by(1, isr=(1, 2, 3), epoch=1, at="reassigned"),
        ),
        Claim(
            name="preferred-leads",
            section="acked",
            says="A preferred election gives the first replica the leadership.",
            holds=T.is_led_by(2, at="preferred"),
        ),
        Claim(
            name="controller-moves",
            section="acked",
            says="The controller moves to the broker that the operator names.",
            holds=both(controller_changes(since="preferred", until="alone"), controller_is(3, at="alone")),
        ),
        Claim(
            name="waits-for-the-operator",
            section="acked",
            says="By itself the controller does not elect a broker that was not in sync.",
            holds=U.has_no_leader(isr=(1,), at="leaderless"),
        ),
        Claim(
            name="forced-leads",
            section="acked",
            says="An unclean election that an operator asks for ignores unclean.leader.election.enable=false.",
            holds=U.is_led_by(2, isr=(2,), at="forced"),
            given=topic_is_set(FORCED, "unclean.leader.election.enable", "false"),
        ),
        Claim(
            name="forced-loses",
            section="acked",
            says="It loses what only the old leader had acknowledged, even with acks=all.",
            holds=messages("az1-alone", topic=FORCED).acknowledged_then_lost(),
        ),
    ),
    expected=(
        Expected("lost", "writer_name = 'az1-alone'", "on the old leader alone, truncated when it rejoins"),
    ),
    faults=("reassign", "elect preferred", "delete /controller", "elect unclean"),
    outcome="every action has its effect; the unclean election loses the acks=all write of the old leader",
)
