"""Beyond the articles: what an operator does to a running cluster, each action seen to have its effect."""

from __future__ import annotations

from checkers.claims.former import by, condition, fates, mark, truth
from harness.cluster.setup import Setup
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import require, seed

MOVED, FORCED = "t", "u"


def body(stage: Stage) -> None:
    """Reassign, elect the preferred leader, move the controller; then force an unclean election."""
    seed(stage, MOVED, FORCED)
    operator = stage.nemesis.operator(stage.cluster, stage.dialect)
    operator.reassign(MOVED, (2, 1, 3))
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
    stage.writer("az1", "az1-alone", "broker1", acks=-1).must_send(FORCED, "c")
    stage.kill("broker1")
    stage.wait_for_no_leader(FORCED)
    stage.restart("broker2")
    operator.elect(FORCED, kind="unclean", leader="broker2")
    stage.wait_for_leader(FORCED, on="broker2")
    stage.mark("forced", "broker2 leads although it was not in sync")
    stage.restart("broker1")
    stage.wait_converged(FORCED)
    stage.mark("converged", "both replicas hold the same log")


def _leads(topic: str, broker: int, moment: str) -> str:
    leader = truth("leader", topic, until=mark(moment))
    return condition(f"{leader} = {broker}", f"concat('leader broker', {leader})")


SCENARIO = Scenario(
    name="operator-actions",
    title="Reassignment, elections and a moved controller, as an operator asks for them",
    article="-",
    section="",
    body=body,
    setup=Setup(topics=(Topic(MOVED, (1, 2, 3)), Topic(FORCED, (1, 2))), controller="broker2", stream_rate=0),
    claims=(
        Claim(
            name="reassigned-keeps-leader",
            section="acked",
            says="A new order of the same replicas moves no leader.",
            holds=_leads(MOVED, 1, "reassigned"),
        ),
        Claim(
            name="preferred-leads",
            section="acked",
            says="A preferred election gives the first replica the leadership.",
            holds=_leads(MOVED, 2, "preferred"),
        ),
        Claim(
            name="forced-leads",
            section="acked",
            says="An unclean election that an operator asks for ignores unclean.leader.election.enable=false.",
            holds=_leads(FORCED, 2, "forced"),
        ),
        Claim(
            name="forced-loses",
            section="acked",
            says="It loses what the old leader alone had acknowledged, with acks=all.",
            holds=fates(by("az1-alone", topic=FORCED), "lost", "lost_after_read"),
        ),
    ),
    expected=(
        Expected("lost", "writer_name = 'az1-alone'", "on the old leader alone, truncated when it rejoins"),
    ),
    faults=("reassign", "elect preferred", "delete /controller", "elect unclean"),
    outcome="every action has its effect; the unclean election loses the acks=all write of the old leader",
)
