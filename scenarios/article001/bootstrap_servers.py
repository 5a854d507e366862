"""Article 001, clients: what `bootstrap.servers` is needed for, while one of these servers is down."""

from __future__ import annotations

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import durable_producer, seed, settle

TOPIC = "t"
_SECTION = "001 clients"
_ESSENTIAL = "bootstrap.servers对于客户端能够找到正确的节点进行通讯以及在发生故障切换后发现新的节点至关重要"
_ALONE_S = 8.0


def body(stage: Stage) -> None:
    """Kill the leader, and start producers that know it among others, or only it; start it again."""
    seed(stage, TOPIC)
    known = durable_producer(stage, "az2", "az2-known", "broker1")
    known.must_send(TOPIC, "before")
    stage.kill("broker1")
    stage.wait_for_leader(TOPIC, not_on="broker1")
    stage.mark("killed", "broker1 is dead, and another broker leads")
    durable_producer(stage, "az3", "az3-all").must_send(TOPIC, "started")
    known.must_send(TOPIC, "known")
    alone = durable_producer(stage, "az3", "az3-alone", "broker1", delivery_timeout_s=_ALONE_S)
    alone.send(TOPIC, "alone")
    stage.mark("alone", "the producer that knows only broker1 has given up")
    stage.restart("broker1")
    stage.wait_for_isr(TOPIC, 1, 2, 3, within_s=stage.timings.converge_s)
    stage.mark("back", "broker1 is back, and follows")
    durable_producer(stage, "az2", "az2-late", "broker1").must_send(TOPIC, "late")
    settle(stage)


T = partition(TOPIC)
_STARTED, _KNOWN, _ALONE, _LATE = (
    messages(name, label=label)
    for name, label in (
        ("az3-all", "started"),
        ("az2-known", "known"),
        ("az3-alone", "alone"),
        ("az2-late", "late"),
    )
)
SCENARIO = Scenario(
    name="bootstrap-servers",
    title="Clients start while one of their bootstrap servers, or the only one, is down",
    article="001",
    section="clients bootstrap",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2"),
    modes=("zookeeper", "kraft"),
    versions=("2.7.1", "4.4.0"),
    claims=(
        Claim(
            name="starts-through-the-others",
            section=_SECTION,
            quote="理想的情况是当一个broker节点失效的时候,客户端仍然可以通过剩下的broker节点建立新的连接",
            says="A producer that starts while a broker is dead connects through the others that it is told of.",
            holds=both(_STARTED.acknowledged(), T.is_led_by((2, 3), at="killed")),
        ),
        Claim(
            name="nobody-to-ask",
            section=_SECTION,
            quote=_ESSENTIAL,
            says="A producer that is told only of the dead broker finds no other one, and writes nothing.",
            holds=both(_ALONE.not_acknowledged(), _STARTED.acknowledged()),
        ),
        Claim(
            name="known-from-metadata",
            section="beyond 001 clients",
            says="One that was told only of that broker while it lived has learned of the others, and goes on.",
            holds=_KNOWN.acknowledged(),
        ),
        Claim(
            name="finds-the-leader",
            section=_SECTION,
            quote=_ESSENTIAL,
            says="Once the broker is back, though it only follows, a producer that is told of nobody else finds the leader "
            "by it.",
            holds=both(_LATE.acknowledged(), T.is_led_by((2, 3), isr=(1, 2, 3), at="back")),
        ),
        Claim(
            name="nothing-lost",
            section="beyond 001 clients",
            says="Nothing that was acknowledged is lost.",
            holds=messages(acks=-1).none_lost(at_risk_after="killed", at_least=2),
        ),
    ),
    faults=("kill broker1",),
    outcome="a client needs one bootstrap server that lives, and only to start",
)
