"""A broker comes back with another address, as a container or a virtual machine does, and leads again.

Brokers advertise names. A JVM keeps what a name means for 30 s (`networkaddress.cache.ttl`), so that the other brokers
look for one that was away for a shorter time where it was. It fetches from them, and is in sync at once; but they do not
reach it when it leads. In ZooKeeper mode, it is the controller that does not reach it, and its return takes so much longer
(seen once, with 2.7.1: 6.7 s).
"""

from __future__ import annotations

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.producer import Producer
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import awaited, durable_producer, seed, settle, stand
from workloads.protocol.spec import Via

SECTION = "beyond the articles"
T = "t"
RETURNED = "broker1"
FORGOTTEN_S = 32.0
"""Longer than a JVM keeps what a name means."""
FOUND_S = FORGOTTEN_S + 15.0
"""A connection to an address that nobody has may take so long to fail."""


def _write(writers: tuple[Producer, ...], label: str, count: int) -> None:
    for writer in writers:
        for number in range(count):
            writer.must_send(T, f"{label}{number}")


def body(stage: Stage) -> None:
    """Kill the leader; let it come back elsewhere, be in sync, and lead again."""
    seed(stage, T)
    libraries: tuple[tuple[str, Via], ...] = (("az2", "librdkafka"), ("az3", "java"))
    writers = tuple(
        durable_producer(stage, az, f"{az}-{via}", via=via, delivery_timeout_s=90.0) for az, via in libraries
    )
    _write(writers, "before", 5)
    ready = stage.mark("ready", "the brokers look nothing up until a connection fails")
    stand(stage, ready, FORGOTTEN_S)
    stage.kill(RETURNED)
    stage.mark("killed", f"{RETURNED} is dead")
    stage.wait_for_leader(T, not_on=RETURNED)
    _write(writers, "away", 5)
    stage.mark("away", "another broker leads")
    stage.nemesis.change_address(RETURNED)
    stage.restart(RETURNED)
    stage.wait_for_isr(T, 1, 2, 3, within_s=stage.timings.converge_s)
    stage.mark("back", f"{RETURNED} is in sync, at another address")
    stage.operator.elect(T, leader=RETURNED)
    stage.mark("leads", "it leads again")
    awaited(lambda: stage.wait_for_isr(T, 1, within_s=stage.timings.shrink_s))
    stage.mark("alone", "the followers have not fetched from it for a while")
    stage.wait_for_isr(T, 1, 2, 3, within_s=FOUND_S)
    stage.mark("found", "the followers have found it")
    _write(writers, "after", 5)
    settle(stage)


PT = partition(T)
CLAIMS = (
    Claim(
        name="another-leads",
        section=SECTION,
        says="While it is away, another broker leads.",
        holds=PT.is_led_by((2, 3), at="away"),
    ),
    Claim(
        name="in-sync-at-once",
        section=SECTION,
        says="When it is back at another address, it fetches from the leader, whose address it can look up, and is in "
        "sync again.",
        holds=PT.is_led_by((2, 3), isr=(1, 2, 3), at="back"),
    ),
    Claim(
        name="alone-as-leader",
        section=SECTION,
        says="When it leads again, the followers look for it at its old address: they leave the ISR, and acks=all with "
        "min.insync.replicas=2 has to wait.",
        holds=PT.is_led_by(1, isr=(1,), at="alone"),
    ),
    Claim(
        name="found",
        section=SECTION,
        says="They find it without help, and it goes on as leader.",
        holds=both(
            PT.is_led_by(1, isr=(1, 2, 3), at="found"),
            messages(label=tuple(f"after{number}" for number in range(5))).acknowledged(at_least=10),
        ),
    ),
    Claim(
        name="nothing-lost",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost, by librdkafka or by the Java client.",
        holds=messages(acks=-1).none_lost(at_risk_after="killed", at_least=20),
    ),
)

SCENARIO = Scenario(
    name="broker-returns-elsewhere",
    title="A broker comes back with another address, and leads again",
    article="beyond",
    section="addresses",
    body=body,
    setup=Setup(
        topics=(Topic(T, (1, 2, 3), config={"min.insync.replicas": "2"}),),
        named=(RETURNED,),
        controller="broker2",
        exactly=("broker",),
        stream_rate=0,
    ),
    kafka="4.4.0",
    mode="kraft",
    versions=("3.9.1", "4.4.0"),
    claims=CLAIMS,
    faults=(f"kill {RETURNED}", f"change the address of {RETURNED}", "elect preferred"),
    outcome="nothing is lost; as leader it is alone until the others' JVMs forget its old address, up to 30 s",
)
