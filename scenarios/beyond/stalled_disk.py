"""A disk stalls while its process runs and its network works: a failure that heartbeats do not show.

In one of four runs a leader, as soon as its disk answered, took both followers out of the ISR, since it had not
handled their requests, and was alone in it for 0.1 s. Which thread gets the log's lock first decides that, so
no claim speaks of it.
"""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    both,
    condition,
    controller_changes,
    controller_stays,
    does_not_answer,
    mark,
    messages,
    messages_where,
    opposite,
    partition,
    quorum_controller,
)
from harness.cluster.setup import Quorum, Setup
from harness.kafka.model import Topic
from nemesis.fault import Injection
from run.producer import Producer
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import require_controller, seed, settle, stand

T = "t"
PT = partition(T)
HELD = messages(label="held%")
_SECTION = "beyond the articles"
_IN_TIME = condition(
    f"(SELECT max(done_ns) <= {mark('standing')} FROM life WHERE {HELD.where} AND outcome = 'ok')",
    f"(SELECT concat('the last answer came ', round((max(done_ns) - {mark('standing')}) / 1e9, 1), "
    f"' s after the last moment of the stall') FROM life WHERE {HELD.where} AND outcome = 'ok')",
)
_LATE = messages_where(f"{HELD.where} AND done_ns > {mark('standing')}", of=HELD, since="standing")


def _for_s(stage: Stage) -> float:
    """Longer than a session, and than a follower may lag."""
    return stage.timings.quorum_cut_s + stage.timings.lag_s


def _producers(stage: Stage, *acks: int) -> list[Producer]:
    """Producers that wait for longer than the stall; each has written one message."""
    producers = [
        stage.producer(
            "az1",
            f"az1-acks{'-all' if one == -1 else one}",
            "broker1",
            acks=one,
            request_timeout_s=2 * _for_s(stage),
        )
        for one in acks
    ]
    for producer in producers:
        producer.must_send(T, "before")
    return producers


def _writes_wait(stage: Stage, disk: Injection, since: int, producers: list[Producer]) -> None:
    """Write while a disk stalls; then end the stall."""
    writes = [producer.send_later(T, f"held{number}") for number, producer in enumerate(producers)]
    stand(stage, since, _for_s(stage))
    stage.mark("standing", "the last moment of the stall")
    disk.heal()
    healed = stage.mark("healed", "the disk answers again")
    for write in writes:
        write.result(timeout=2 * _for_s(stage))
    stand(stage, healed, stage.timings.lag_s)  # the leader may take followers out of the ISR, and in again
    settle(stage)


def _leader(stage: Stage) -> None:
    seed(stage, T)
    producers = _producers(stage, 1, -1)
    disk = stage.nemesis.storage.stall_disk("broker1").inject()
    since = stage.mark("stalled", "the disk of broker1 stalls")
    _writes_wait(stage, disk, since, producers)


def _follower(stage: Stage) -> None:
    seed(stage, T)
    producers = _producers(stage, -1)
    disk = stage.nemesis.storage.stall_disk("broker3").inject()
    since = stage.mark("stalled", "the disk of broker3 stalls")
    _writes_wait(stage, disk, since, producers)


def _broker_dies(stage: Stage, disk: Injection, since: int, for_s: float) -> None:
    """Kill a broker while the disk of a host that keeps metadata stalls; then end both."""
    stage.nemesis.kill("broker3")
    stage.wait_for_isr(T, 1, 2, within_s=stage.timings.quorum_cut_s + stage.timings.change_s)
    stage.producer("az1", "az1-acks-all", "broker1", acks=-1).must_send(T, "during")
    stand(stage, since, for_s)
    stage.mark("standing", "the last moment of the stall")
    disk.heal()
    stage.mark("healed", "the disk answers again")
    stage.restart("broker3")
    stage.wait_converged(T, within_s=stage.timings.converge_s)
    settle(stage)


def _controller(stage: Stage) -> None:
    """The metadata log of the active controller cannot grow, and a broker dies, which it would have to note."""
    seed(stage, T)
    require_controller(stage, "controller2")
    disk = stage.nemesis.storage.stall_disk("controller2").inject()
    since = stage.mark("stalled", "the disk of the active controller stalls")
    _broker_dies(stage, disk, since, stage.timings.quorum_cut_s)


def _zookeeper(stage: Stage) -> None:
    """The transaction log of ZooKeeper's leader cannot grow, and a broker dies, which ZooKeeper has to note."""
    seed(stage, T)
    disk = stage.nemesis.storage.stall_disk("zookeeper2").inject()
    since = stage.mark("stalled", "the disk of ZooKeeper's leader stalls")
    _broker_dies(stage, disk, since, stage.timings.cut_s)


_KEPT = Claim(
    name="acks-all-safe",
    section=_SECTION,
    says="Nothing acknowledged with acks=all is lost.",
    holds=messages(acks=-1).none_lost(at_risk_after="stalled", at_least=1),
)
_WHOLE = Claim(
    name="whole-again",
    section=_SECTION,
    says="When the disk answers again, all replicas are in sync, and the leader is the same.",
    holds=PT.is_led_by(1, isr=(1, 2, 3), at="converged"),
)
_LEADER_CLAIMS = (
    Claim(
        name="leader-stays",
        section=_SECTION,
        says="The leader stays the leader for as long as its disk stalls: its heartbeats go on.",
        holds=both(
            PT.stays(since="stalled", until="standing", what="leader, epoch"),
            PT.is_led_by(1, epoch=0, at="standing"),
        ),
    ),
    Claim(
        name="silent",
        section=_SECTION,
        says="It answers nobody, not even requests that need no disk: its threads wait for the log.",
        holds=does_not_answer("broker1", at="standing"),
    ),
    Claim(
        name="writes-wait",
        section=_SECTION,
        says="Writes to it, with acks=1 too, end when the disk answers again, and are kept.",
        holds=both(_LATE.acknowledged(at_least=2), _LATE.kept(at_least=2)),
    ),
    Claim(
        name="leaves-other-isrs",
        section=_SECTION,
        says="It leaves the ISR of the partition that another broker leads.",
        holds=both(
            partition("stream", 1).has_isr(2, 3, at="standing"),
            partition("stream", 1).has_isr(1, 2, 3, at="converged"),
        ),
    ),
)
HW_AFTER_SHRINK = "3.1.0"
"""First version whose leader raises the high watermark when a shrunk ISR is in force (KAFKA-13091)."""


def _metadata_goes_on(epoch: int | None = None) -> Claim:
    return Claim(
        name="metadata-goes-on",
        section=_SECTION,
        says="A broker that dies meanwhile leaves the ISR, and acks=all goes on.",
        holds=both(PT.is_led_by(1, isr=(1, 2), epoch=epoch, at="standing"), messages(label="during").kept()),
    )


def _scenario(
    number: int,
    name: str,
    title: str,
    body: Callable[[Stage], None],
    disk: str,
    claims: tuple[Claim, ...],
    outcome: str,
    *,
    faults: tuple[str, ...] = (),
    quorum: Quorum = "one node",
    kraft: bool = False,
    versions: tuple[str, ...] = (),
) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="beyond",
        section=f"gray disk {number}",
        body=body,
        setup=Setup(topics=(Topic(T, (1, 2, 3)),), volatile_disks=(disk,), quorum=quorum),
        claims=(*claims, _WHOLE, _KEPT),
        faults=(f"stall the disk of {disk}", *faults),
        kafka="4.3.1" if kraft else "2.7.1",
        mode="kraft" if kraft else "zookeeper",
        outcome=outcome,
        versions=versions,
    )


_NOBODY_TAKES_OVER = "nobody takes over: the partition stands still until the disk answers; nothing is lost"
SCENARIOS = (
    _scenario(
        1,
        "leader-disk-stalled",
        "The disk of the leader stalls",
        _leader,
        "broker1",
        _LEADER_CLAIMS,
        _NOBODY_TAKES_OVER,
        versions=("2.7.1", "3.9.1"),
    ),
    _scenario(
        2,
        "kraft-leader-disk-stalled",
        "The disk of the leader stalls, on KRaft",
        _leader,
        "broker1",
        _LEADER_CLAIMS,
        _NOBODY_TAKES_OVER,
        kraft=True,
    ),
    _scenario(
        3,
        "follower-disk-stalled",
        "The disk of a follower stalls",
        _follower,
        "broker3",
        (
            Claim(
                name="leaves-the-isr",
                section=_SECTION,
                says="It leaves the ISR, as a follower that is cut off does.",
                holds=PT.is_led_by(1, isr=(1, 2), epoch=0, at="standing"),
            ),
            Claim(
                name="acks-all-goes-on",
                section=_SECTION,
                says="With that, writes with acks=all that waited for it are acknowledged.",
                holds=both(HELD.acknowledged(), _IN_TIME),
                erratum=Erratum(
                    says="A write that nothing follows waits until the disk answers again.",
                    because="when the smaller ISR is in force, nothing raises the high watermark until 3.1.0 "
                    "(KAFKA-13091)",
                    holds=_LATE.acknowledged(),
                    before=HW_AFTER_SHRINK,
                ),
            ),
        ),
        "it leaves the ISR; up to 3.0, writes that waited for it wait until its disk answers",
        versions=("2.7.1", "3.9.1"),
    ),
    _scenario(
        4,
        "kraft-controller-disk-stalled",
        "The disk of the active controller stalls",
        _controller,
        "controller2",
        (
            Claim(
                name="another-controller",
                section=_SECTION,
                says="Another controller is elected: a controller whose log stands still answers no fetch of the quorum.",
                holds=both(
                    controller_changes(since="stalled", until="standing"),
                    opposite(quorum_controller(2).leads(at="standing")),
                ),
            ),
            Claim(
                name="resigns-late",
                section=_SECTION,
                says="The old one resigns when its disk answers again.",
                holds=quorum_controller(2).resigned(after="standing", before="converged"),
            ),
            _metadata_goes_on(epoch=0),
        ),
        "another controller takes over; no leader moves, and nothing is lost",
        faults=("kill broker3",),
        quorum="every AZ",
        kraft=True,
        versions=("3.9.1", "4.3.1"),
    ),
    _scenario(
        5,
        "zookeeper-disk-stalled",
        "The disk of ZooKeeper's leader stalls",
        _zookeeper,
        "zookeeper2",
        (
            _metadata_goes_on(),
            Claim(
                name="controller-stays",
                section=_SECTION,
                says="The controller keeps its session.",
                holds=controller_stays(since="stalled", until="standing"),
            ),
        ),
        "ZooKeeper goes on with its other nodes: metadata changes, and nothing is lost",
        faults=("kill broker3",),
        quorum="every AZ",
    ),
)
