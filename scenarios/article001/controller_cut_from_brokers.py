"""Article 001, scenario 7: the controller is cut from all other brokers, and all of them see ZooKeeper.

Then the worst case: a leader loses ZooKeeper, and the controller makes itself leader without being able to
tell anybody; and the more usual one: a leader dies, and a broker cannot become its successor.
"""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    condition,
    controller,
    equals,
    errors,
    fates,
    mark,
    none_lost,
    outcomes,
    seen_by,
    state,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import SESSION_S, seed, settle, wait_unregistered, wait_view

PAIR, THIRD, SPLIT = "p", "t", "w"
"""Replicas (1,2), (1,2,3) and (2,3)."""


def body(stage: Stage) -> None:
    """Cut the controller broker3 off, then broker2 from ZooKeeper, then kill broker1; heal."""
    seed(stage, PAIR, THIRD)
    seed(stage, SPLIT, leader="broker2")
    apart = stage.nemesis.cut("broker3 <-> broker1", "broker3 <-> broker2").inject()
    stage.mark("cut", "the controller sees ZooKeeper, but no other broker")
    for topic in (PAIR, THIRD):
        stage.writer("az1", f"az1-early-{topic}", "broker1", acks=-1).send(topic, "e")
    stage.mark("harmless", "leaders whose replicas see each other go on")
    with stage.nemesis.without_zookeeper("broker2"):
        stage.mark("blind", "broker2 has lost ZooKeeper as well; it leads a partition with the controller")
        wait_unregistered(stage, "broker2", within_s=SESSION_S)
        stage.wait_for_leader(SPLIT, on="broker3")
        stage.wait_until_serving(SPLIT, "broker3", az="az3")
        stage.mark("split", "broker3 made itself leader; broker2 has not heard of it")
        stage.writer("az2", "az2-old-side", "broker2", acks=1).must_send(SPLIT, "old")
        stage.writer("az3", "az3-new-side", "broker3", acks=-1).must_send(SPLIT, "new")
        wait_view(stage, "broker2", SPLIT, leader=2)
        stage.kill("broker1")
        stage.wait_for_no_leader(PAIR)
        stage.mark("orphaned", "broker1 is dead; nobody may follow it as leader of the pair")
        stage.writer("az2", "az2-to-pair", "broker2", acks=1).send(PAIR, "n")
    apart.heal()
    stage.mark("healed", "all links are back")
    stage.restart("broker1")
    settle(stage)


CLAIMS = (
    Claim(
        name="harmless-at-first",
        section="001 scenario 7",
        says="Usually the controller's isolation only means that changes of leaders are not passed on.",
        holds=outcomes(by("az1-early-p"), "ok"),
    ),
    Claim(
        name="isr-frozen",
        section="beyond 001 scenario 7",
        says="From 2.7 on no ISR can shrink either: acks=all fails (error 7) where the controller is a replica.",
        holds=errors(by("az1-early-t"), 7),
    ),
    Claim(
        name="controller-stays",
        section="001 scenario 7",
        says="The controller stays controller.",
        holds=equals(controller(until=mark("healed")), "3", "controller is broker"),
    ),
    Claim(
        name="no-early-change",
        section="001 scenario 7",
        says="No leader changes as long as all see ZooKeeper.",
        holds=unchanged(THIRD, since=mark("seeded"), until=mark("blind"), columns="leader, epoch, isr"),
    ),
    Claim(
        name="split-brain",
        section="001 scenario 7",
        says="In the worst case there is a short split brain as in scenario 6.",
        holds=condition(
            f"(SELECT max_by(leader, struct(epoch, ns)) FROM truth WHERE topic = '{SPLIT}' "
            f"AND ns <= {mark('split')}) = 3 AND "
            f"(SELECT max_by(leader, ns) FROM views WHERE source = 'broker2' AND subject = 'partition' "
            f"AND topic = '{SPLIT}' AND ns <= {mark('orphaned')}) = 2",
            "'ZooKeeper names broker3, broker2 names itself'",
        ),
        given=state(SPLIT, leader=3, isr=(3,), epoch=1, until=mark("split")),
    ),
    Claim(
        name="old-side-unaware",
        section="001 scenario 7",
        says="The old leader still takes itself for the leader.",
        holds=seen_by(2, SPLIT, until=mark("orphaned"), leader=2),
    ),
    Claim(
        name="old-side-lost",
        section="001 scenario 7",
        says="What the old leader acknowledges with acks=1 is lost.",
        holds=fates(f"{by('az2-old-side')} AND outcome = 'ok'", "lost", "lost_after_read"),
    ),
    Claim(
        name="new-side-kept",
        section="001 scenario 7",
        says="What the new leader acknowledges is kept.",
        holds=fates(f"{by('az3-new-side')} AND outcome = 'ok'", "kept"),
    ),
    Claim(
        name="no-successor",
        section="001 scenario 7",
        says="More often a broker cannot become leader: the pair has none, though broker-1 has every record.",
        holds=state(PAIR, leader=-1, isr=(1,), until=mark("orphaned")),
    ),
    Claim(
        name="acks-all-safe",
        section="001 scenario 7",
        says="Nothing acknowledged with acks=all is lost.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=6),
    ),
)

SCENARIO = Scenario(
    name="controller-cut-from-brokers",
    title="The controller is cut from all other brokers; then a leader loses ZooKeeper, and one dies",
    article="001",
    section="7",
    body=body,
    setup=Setup(
        topics=(Topic(PAIR, (1, 2)), Topic(THIRD, (1, 2, 3)), Topic(SPLIT, (2, 3))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            f"{by('az2-old-side')} AND {after('split')}",
            "acknowledged by a leader that had been replaced without hearing of it",
        ),
    ),
    faults=("cut broker3 <-> broker1, broker3 <-> broker2", "broker2 without zookeeper", "kill broker1"),
    outcome="the acks=1 write of the side that lost is lost; no acks=all write is",
)
