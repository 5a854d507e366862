"""Beyond the articles: the clients of one AZ are cut from everything; the cluster itself has no fault."""

from __future__ import annotations

from checkers.claims.builders import both, controller_stays, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, stand

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut the clients of az1; they fail, the others do not notice; heal."""
    seed(stage, TOPIC)
    cut_off = stage.producer("az1", "az1-raw", "broker1", acks=-1, request_timeout_s=1)
    with stage.nemesis.isolate("clients@az1"):
        cut = stage.mark("cut", "the clients of az1 reach nothing")
        for label in ("x", "y"):
            cut_off.send(TOPIC, label)
        other = stage.producer("az2", "az2-raw", "broker1", acks=-1)
        for label in ("p", "q"):
            other.send(TOPIC, label)
        stand(stage, cut, stage.timings.harmless_s)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "they reach everything again")
    for label in ("r", "s"):
        stage.producer("az1", f"az1-again-{label}", "broker1", acks=-1).must_send(TOPIC, label)
    settle(stage)


T = partition(TOPIC)
CLAIMS = (
    Claim(
        name="cut-off-clients-fail",
        section="beyond the articles",
        says="They cannot write, and none of their messages is in the log.",
        holds=messages("az1-raw").became("failed", "unknown_dropped", at_least=2),
    ),
    Claim(
        name="others-unaffected",
        section="beyond the articles",
        says="Clients elsewhere write as before.",
        holds=messages("az2-raw").acknowledged(at_least=2),
    ),
    Claim(
        name="cluster-unaffected",
        section="beyond the articles",
        says="Controller, leader, leader epoch and ISR stay.",
        holds=both(
            T.stays(since="cut", until="converged"), controller_stays(since="cut", until="before-heal")
        ),
    ),
    Claim(
        name="write-again",
        section="beyond the articles",
        says="After the heal they write again.",
        holds=messages("az1-again-%").acknowledged(at_least=2),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="client-az-cut",
    title="The clients of one AZ are cut from everything",
    article="beyond",
    section="clients",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        quorum="one node",
    ),
    claims=CLAIMS,
    faults=("isolate clients@az1",),
    outcome="nothing lost; only the clients that are cut off notice",
)
