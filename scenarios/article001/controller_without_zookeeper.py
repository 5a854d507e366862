"""Article 001, scenario 8: the controller is cut from ZooKeeper only."""

from __future__ import annotations

from checkers.claims.former import (
    CONTROLLER_VIEW,
    after,
    by,
    condition,
    controller,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    noted,
    state,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from scenarios.steps import seed, settle, try_create_topic, wait_for_controller

FOLLOWS, LEADS = "t", "q"
"""Of the first the controller is a follower, of the second the leader."""


def body(stage: Stage) -> None:
    """Cut broker3 from ZooKeeper; see it replaced as controller, as leader and as follower; heal."""
    seed(stage, FOLLOWS)
    seed(stage, LEADS, leader="broker3")
    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("cut", "the controller has lost ZooKeeper; it still reaches all brokers")
        wait_for_controller(stage, not_on="broker3")
        stage.wait_for_leader(LEADS, not_on="broker3")
        stage.wait_for_isr(FOLLOWS, 1, 2)
        stage.wait_until_serving(LEADS, "broker1", az="az1")
        stage.mark("succession", "there is another controller, and another leader for what broker3 led")
        stage.writer("az3", "az3-acks1", "broker3", acks=1).must_send(LEADS, "z")
        stage.writer("az3", "az3-acks-all", "broker3", acks=-1).send(LEADS, "y")
        stage.writer("az1", "az1-new-side", "broker1", acks=-1).must_send(LEADS, "n")
        try_create_topic(stage, "broker3", "made-by-old", (1, 2), "create-by-old")
        stage.mark("before-heal")

    stage.mark("healed", "broker3 reaches ZooKeeper again")
    settle(stage)


def _view(broker: int) -> str:
    return CONTROLLER_VIEW.format(broker=f"broker{broker}", until=mark("before-heal"))


CLAIMS = (
    Claim(
        name="new-controller",
        section="001 scenario 8",
        says="ZooKeeper marks the controller as failed; another one is elected.",
        holds=condition(
            f"{controller(until=mark('succession'))} IN (1, 2)",
            f"concat('controller broker', {controller(until=mark('succession'))}, ', ', "
            f"round(({mark('succession')} - {mark('cut')}) / 1e9, 1), ' s after the cut')",
        ),
    ),
    Claim(
        name="old-controller-thinks-so",
        section="001 scenario 8",
        says="The old controller goes on taking itself for the controller.",
        holds=condition(f"{_view(3)} = 3", f"concat('broker3 names broker', {_view(3)})"),
    ),
    Claim(
        name="old-controller-idle",
        section="001 scenario 8",
        says="It hears nothing from ZooKeeper and does nothing: a topic that is asked of it never comes to be.",
        holds=noted("create-by-old", "%no such topic"),
    ),
    Claim(
        name="nothing-more",
        section="001 scenario 8",
        says="Nothing else happens (the article names no other effect).",
        holds=state(LEADS, leader=3, until=mark("before-heal")),
        erratum=Erratum(
            says="What it led gets another leader, and it leaves every ISR.",
            because="the same session is the broker's own registration; epoch +2, for the new controller "
            "starts with a dead leader",
            holds=state(LEADS, leader=1, isr=(1, 2), epoch=2, until=mark("before-heal")),
        ),
    ),
    Claim(
        name="zombie-leader",
        section="beyond 001 scenario 8",
        says="As the old leader it takes acks=1 writes, which are lost; acks=all fails with error 7.",
        holds=fates(f"{by('az3-acks1')} AND outcome = 'ok'", "lost", "lost_after_read"),
        given=errors(by("az3-acks-all"), 7),
    ),
    Claim(
        name="becomes-ordinary",
        section="001 scenario 8",
        says="Once the partition is over it is no controller any more, but an ordinary broker.",
        holds=logged("broker3", "resigned", where=f"ns > {mark('before-heal')}"),
    ),
    Claim(
        name="successor-stays",
        section="001 scenario 8",
        says="Its successor stays controller.",
        holds=condition(
            f"{controller(until=mark('converged'))} = {controller(until=mark('succession'))}",
            f"concat('controller broker', {controller(until=mark('converged'))})",
        ),
    ),
    Claim(
        name="acks-all-safe",
        section="001 scenario 8",
        says="Nothing acknowledged with acks=all is lost.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=5),
    ),
)

SCENARIO = Scenario(
    name="controller-without-zookeeper",
    title="The controller is cut from ZooKeeper only",
    article="001",
    section="8",
    body=body,
    setup=Setup(
        topics=(Topic(FOLLOWS, (1, 2, 3)), Topic(LEADS, (3, 1, 2))),
        controller="broker3",
        zookeeper_leader="zookeeper1",
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            f"{by('az3-acks1')} AND {after('cut')}",
            "acknowledged by a leader that had been replaced without hearing of it",
        ),
    ),
    faults=("broker3 without zookeeper",),
    outcome="the acks=1 write to the replaced leader is lost, nothing else",
)
