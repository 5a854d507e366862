"""Beyond the articles: which settings keep a write when the leader is isolated? Every combination at once.

There are two situations: the ISR is full when the leader's AZ is isolated, or it has shrunk to the leader
before. Each has topics with min.insync.replicas 1 and 2, and unclean election off and on. Each topic has
producers with acks=0, acks=1, acks=all, and acks=all with idempotence. All write to the old leader once it is
isolated.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders import both, messages, messages_where, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.producer import Producer
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, seed, settle, wait_isr_committed

SITUATIONS = ("full", "shrunk")
PRODUCERS = ("acks0", "acks1", "all", "idempotent")


@dataclass(frozen=True)
class MatrixTopic:
    """One topic of the matrix."""

    situation: str
    min_insync: int
    unclean: bool

    @property
    def topic(self) -> str:
        """Its name."""
        return f"{self.situation}-min{self.min_insync}-{'unclean' if self.unclean else 'clean'}"


KINDS = tuple(
    MatrixTopic(situation, min_insync, unclean)
    for situation in SITUATIONS
    for min_insync in (1, 2)
    for unclean in (False, True)
)


def fate_of(kind: MatrixTopic, producer: str) -> str:
    """The fate of a write: `kept`, `lost` though acknowledged, or `refused`."""
    waits_for_all = producer in ("all", "idempotent")
    if kind.situation == "full":
        return "refused" if waits_for_all else "lost"
    if waits_for_all and kind.min_insync == 2:
        return "refused"
    return "lost" if kind.unclean else "kept"


def body(stage: Stage) -> None:
    """Shrink the ISR of one half of the topics, isolate the leader, write everything, heal."""
    shrunk = [kind.topic for kind in KINDS if kind.situation == "shrunk"]
    full = [kind.topic for kind in KINDS if kind.situation == "full"]
    seed(stage, *full, *shrunk, labels=("a",))
    writers = {kind: _writers(stage, kind) for kind in KINDS}
    trigger = stage.producer("az1", "az1-trigger", "broker1", acks=1)
    alone = stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3").inject()
    stage.mark("cut", "the leader, which is the controller, sees no follower")
    # A follower that has every message stays in the ISR, so one half of the topics does not change.
    for topic in shrunk:
        trigger.must_send(topic, "w")
    for topic in shrunk:
        stage.wait_for_isr(topic, 1, within_s=stage.timings.shrink_s)
        wait_isr_committed(stage, "broker1", topic, (1,))
    isolated = stage.nemesis.isolate("az1").inject()
    stage.mark("isolated", "az1 is isolated from everything")
    waiting = [
        writer.send_later(kind.topic, name) for kind in KINDS for name, writer in writers[kind].items()
    ]
    for kind in KINDS:
        if kind.situation == "full":
            stage.wait_for_leader(kind.topic, not_on="broker1")
        elif kind.unclean:
            # If the links were healed before that, the new leader's first request might be lost with the old
            # controller.
            stage.wait_for_isr(kind.topic, 2, 3, within_s=stage.timings.shrink_s)
        else:
            stage.wait_for_no_leader(kind.topic)
    for sent in waiting:
        sent.result(timeout=30)
    stage.mark("elected", "whoever may lead leads")
    isolated.heal()
    alone.heal()
    stage.mark("healed", "the links are back")
    settle(stage)


def _writers(stage: Stage, kind: MatrixTopic) -> dict[str, Producer]:
    name = f"{kind.topic}"
    idempotent = stage.producer(
        "az1",
        f"{name} idempotent",
        "broker1",
        via="librdkafka",
        idempotent=True,
        retries=1000,
        request_timeout_s=1,
        delivery_timeout_s=4,
    ).prepare(kind.topic)
    return {
        "acks0": stage.producer("az1", f"{name} acks0", "broker1", acks=0),
        "acks1": stage.producer("az1", f"{name} acks1", "broker1", acks=1),
        "all": stage.producer("az1", f"{name} all", "broker1", acks=-1, request_timeout_s=1),
        "idempotent": idempotent,
    }


_SAYS = {
    "kept": "is kept",
    "lost": "is lost, though it was acknowledged",
    "refused": "is never acknowledged, and gone",
}
_PRODUCER_SAYS = {
    "acks0": "acks=0",
    "acks1": "acks=1",
    "all": "acks=all",
    "idempotent": "acks=all with idempotence",
}

_NOT_LOST = ("kept", "failed", "unknown_kept", "unknown_dropped")
"""Fates of writes that were acknowledged and kept, or not acknowledged."""


def _claim(kind: MatrixTopic, producer: str) -> Claim:
    fate = fate_of(kind, producer)
    writes = messages(f"{kind.topic} {producer}", after="isolated")
    outcome = "is lost without an error" if (producer, fate) == ("acks0", "lost") else _SAYS[fate]
    return Claim(
        name=f"{kind.topic}-{producer}",
        section="configuration matrix",
        says=f"ISR {kind.situation}, min.insync.replicas={kind.min_insync}, unclean election "
        f"{'on' if kind.unclean else 'off'}: a write with {_PRODUCER_SAYS[producer]} {outcome}.",
        holds={
            "kept": writes.kept(),
            "lost": writes.became("lost", "lost_after_read"),
            "refused": both(writes.not_acknowledged(), writes.became("failed", "unknown_dropped")),
        }[fate],
    )


def _acknowledged_lost() -> tuple[Expected, ...]:
    places = [
        f"writer_name = '{kind.topic} {producer}'"
        for kind in KINDS
        for producer in PRODUCERS
        if fate_of(kind, producer) == "lost"
    ]
    triggers = [
        f"(writer_name = 'az1-trigger' AND topic = '{kind.topic}')"
        for kind in KINDS
        if kind.situation == "shrunk" and kind.unclean
    ]
    where = f"({' OR '.join(places + triggers)})"
    return (Expected("lost", where, "the matrix says so: see the claim of its settings"),)


SCENARIO = Scenario(
    name="configuration-matrix",
    title="acks × idempotence × min.insync.replicas × unclean election, isolated leader",
    article="beyond",
    section="matrix",
    body=body,
    setup=Setup(
        topics=tuple(
            Topic(
                kind.topic,
                (1, 2, 3),
                config={
                    "min.insync.replicas": str(kind.min_insync),
                    "unclean.leader.election.enable": str(kind.unclean).lower(),
                },
            )
            for kind in KINDS
        ),
        controller="broker1",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        stream_rate=0.0,
    ),
    claims=(
        *(_claim(kind, producer) for kind in KINDS for producer in PRODUCERS),
        Claim(
            name="only-two-settings-together",
            section="configuration matrix",
            says="After the isolation, acks=all with min.insync.replicas=2 or without unclean election loses "
            "nothing that it acknowledged; with neither it loses all of it. (Two cases are not in this matrix: an unclean "
            "election after all in-sync replicas have failed, which min.insync.replicas=2 does not prevent, and a "
            "leader that loses its disk.)",
            holds=both(
                messages_where("acks = -1 AND topic != 'shrunk-min1-unclean'").none_lost(
                    at_risk_after="isolated", at_least=2
                ),
                *(
                    messages(topic=topics, acks=-1, after="isolated").became(*_NOT_LOST, at_least=8)
                    for topics in ("%-min2-%", "%-clean")
                ),
                messages(topic="shrunk-min1-unclean", acks=-1, after="isolated").acknowledged_then_lost(
                    at_least=2
                ),
            ),
        ),
        Claim(
            name="clean-waits",
            section="configuration matrix",
            says="Without unclean election the topic has no leader while its only in-sync replica is away; with "
            "it another replica leads.",
            holds=both(
                partition("shrunk-min1-clean").has_no_leader(isr=(1,), at="elected"),
                partition("shrunk-min1-unclean").is_led_by((2, 3), at="elected"),
            ),
        ),
    ),
    expected=_acknowledged_lost(),
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "isolate az1"),
    outcome="only acks=all with min.insync.replicas=2, or without unclean election, keeps what it acknowledged",
)
