"""Beyond the articles: a heal soon after an election leaves the ISR incomplete for ever (2.7.1).

With an unclean election it depends on chance. A follower that returns while the controller is isolated brings
it about each time, with min.insync.replicas=2 and without an unclean election; `acked search` found that.
"""

from __future__ import annotations

from checkers.claims.builders import both, isrs_are_full, messages, noted, opposite, partition
from harness.cluster.setup import Setup
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Claim, Either, Scenario
from run.stage import Stage
from scenarios.article001.isr_shrunk_leader_isolated import EXPECTED_LOSS, SETUP, UNCLEAN, shrink_then_isolate
from scenarios.steps import (
    seed,
    settle,
    stand,
    wait_for_controller,
    wait_isr_committed,
    wait_log,
    wait_log_end_offset,
)

SAFE = "t"
_REQUEST_MS = "6000"
"""The leader's request to the isolated controller must last until another one is elected: a session ends after
4.4 s at most. With 3 s, one of 13 runs saw it time out before, and the leader sent it to the next controller."""
_WRITTEN = 3
"""Messages in the log when broker2 is isolated: two of the seed, and one that broker3 lacks."""


def body(stage: Stage) -> None:
    """Heal right after the election; where an ISR stays incomplete, reorder the replicas."""
    shrink_then_isolate(stage, early_heal=True)
    wait_log(
        stage, "broker1", f"partition={UNCLEAN}-0", "Truncating to offset", within_s=stage.timings.converge_s
    )
    stage.wait_replicated(UNCLEAN)
    stuck = _stuck(stage)
    if stuck:
        _note(stage, stuck)
        _cure(stage, stuck)
    settle(stage)
    if not stuck:
        stage.mark("not-stuck", "every request reached the new controller, and each ISR is full")


def two_cuts(stage: Stage) -> None:
    """Let a follower return while the controller is isolated, and heal soon after another one is elected."""
    seed(stage, SAFE)
    # A refused follower tries again within a second; after lost packets, TCP may wait until the heal.
    apart = stage.nemesis.cut("broker3 -> broker1:kafka", action="reject").inject()
    stage.mark("cut", "the leader refuses broker3's connections")
    # Only a follower that lacks a message lags.
    stage.producer("az1", "az1-cut", "broker1", acks=1).send(SAFE, "w")
    stage.wait_for_isr(SAFE, 1, 2, within_s=stage.timings.shrink_s)
    wait_isr_committed(stage, "broker1", SAFE, (1, 2))
    isolated = stage.nemesis.isolate("broker2").inject()
    stage.mark("isolated", "broker2, which is the controller, is isolated")
    apart.heal()
    wait_log_end_offset(stage, SAFE, _WRITTEN, "broker3")
    stage.mark("caught-up", "broker3 has the leader's log, and is not in the ISR")
    wait_for_controller(stage, not_on="broker2")
    wait_log(stage, "broker3", f"Follower {SAFE}-0 starts at leader epoch 1")
    follows = stage.mark("follows", "broker3 fetches at the leader's new epoch")
    # By then the leader wants a larger ISR again, while its first request still waits for broker2.
    stand(stage, follows, stage.timings.fetch_wait_s)
    isolated.heal()
    stage.mark("healed", "the links are back")
    wait_log_end_offset(stage, SAFE, _WRITTEN, "broker1", "broker2", "broker3")
    stuck = _stuck(stage)
    writer = stage.producer("az1", "az1-healed", "broker1", acks=-1)
    if stuck:
        _note(stage, stuck)
        for label in ("x", "y"):
            writer.send(SAFE, label)
        _cure(stage, stuck)
    settle(stage)
    if not stuck:
        stage.mark("not-stuck", "each ISR is full")
    writer.send(SAFE, "z")


def _note(stage: Stage, stuck: list[TopicPartition]) -> None:
    places = ", ".join(f"{topic}/{partition}" for topic, partition in stuck)
    stage.mark("stuck", f"the leader of {places} no longer asks for a larger ISR")


def _cure(stage: Stage, stuck: list[TopicPartition]) -> None:
    operator = stage.operator
    for topic, number in stuck:
        operator.reassign(topic, _reordered(stage, topic, number), number)
    stage.mark("cured", "the replicas were put in another order, which gives the leader a new start")


def _stuck(stage: Stage) -> list[TopicPartition]:
    """Partitions whose ISR stays incomplete although all brokers run and all links are back.

    An ISR that is still incomplete this long after the logs agree stays incomplete, because no request is
    repeated.
    """
    try:
        return wait_until(
            stage.incomplete_isrs,
            accept=lambda stuck: not stuck,
            within_s=4 * stage.timings.request_s,
            awaiting="every ISR to be full",
            abort=stage.cluster.check_alive,
        )
    except WaitTimeoutError:
        return stage.incomplete_isrs()


def _reordered(stage: Stage, topic: str, partition: int) -> tuple[int, ...]:
    """The same replicas with the last two exchanged: the leader stays, at a new leader epoch."""
    state = stage.cluster.partition(topic, partition)
    assert state is not None
    first = [state.leader] if state.leader in SETUP.brokers else []
    others = [broker for broker in SETUP.brokers if broker not in first]
    return (*first, *reversed(others))


CLAIMS = (
    Claim(
        name="stuck-until-reordered",
        section="beyond the articles",
        says="A change of the ISR that was requested from the isolated controller is never requested again: the "
        "ISR stays incomplete, though the logs are equal, until the replicas are put in another order.",
        holds=both(
            noted("stuck"), opposite(isrs_are_full(at="stuck", if_set=True)), isrs_are_full(at="converged")
        ),
        either=Either(
            says="Each ISR becomes full by itself.",
            because="every request reached the new controller; a request that meets the old one is lost (the "
            "family of KAFKA-12686, KAFKA-12751 and KAFKA-13091)",
            holds=isrs_are_full(at="not-stuck", if_set=True),
        ),
    ),
    Claim(
        name="cured",
        section="beyond the articles",
        says="At the end every ISR is full.",
        holds=isrs_are_full(at="converged"),
    ),
    Claim(
        name="data-agree",
        section="beyond the articles",
        says="The logs of all replicas agree, whatever the ISR says.",
        holds=partition(UNCLEAN).logs_agree(replicas=3, at_least=3),
    ),
)

T = partition(SAFE)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="beyond the articles",
    says="No acknowledged message is lost.",
    holds=messages(("az1-cut", "az1-healed")).none_lost(at_risk_after="cut", at_least=2),
)
TWO_CUTS = (
    Claim(
        name="outside-though-level",
        section="beyond the articles",
        says="Each follower has every message of the leader, and the ISR is still the leader alone after 12 s.",
        holds=both(
            T.is_led_by(1, isr=(1,), at="stuck"),
            messages(("az1-seed", "az1-cut"), topic=SAFE).seen_on(1, 2, 3, until="stuck", at_least=_WRITTEN),
        ),
    ),
    Claim(
        name="stuck-until-reordered",
        section="beyond the articles",
        says="The ISR becomes full only when the replicas are put in another order.",
        holds=both(opposite(isrs_are_full(at="stuck", if_set=True)), isrs_are_full(at="converged")),
    ),
    Claim(
        name="refuses",
        section="beyond the articles",
        says="With min.insync.replicas=2, the partition refuses acks=all (error 19), although all brokers run.",
        holds=messages("az1-healed", topic=SAFE, after="stuck", before="cured").refused_with(19, at_least=2),
    ),
    Claim(
        name="accepts-again",
        section="beyond the articles",
        says="After the reordering it accepts acks=all again.",
        holds=messages("az1-healed", topic=SAFE, after="converged").kept(at_least=1),
    ),
    _NOTHING_LOST,
)
OLD_PROTOCOL = (
    Claim(
        name="full-by-itself",
        section="beyond the articles",
        says="A leader that writes the ISR to ZooKeeper itself, as before 2.7, completes it.",
        holds=both(isrs_are_full(at="not-stuck"), opposite(noted("stuck"))),
    ),
    Claim(
        name="accepts",
        section="beyond the articles",
        says="It accepts acks=all.",
        holds=messages("az1-healed", topic=SAFE, after="not-stuck").kept(at_least=1),
    ),
    _NOTHING_LOST,
)


def _two_cuts(name: str, title: str, claims: tuple[Claim, ...], outcome: str, **config: str) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="beyond",
        section="stuck ISR",
        body=two_cuts,
        setup=Setup(
            topics=(Topic(SAFE, (1, 2, 3), config={"min.insync.replicas": "2"}),),
            controller="broker2",
            stream_rate=0,
            broker_config={"request.timeout.ms": _REQUEST_MS, **config},
        ),
        claims=claims,
        faults=("cut broker3 -> broker1:kafka", "isolate broker2", "reassign"),
        outcome=outcome,
    )


_UNCLEAN = Scenario(
    name="isr-stuck-for-ever",
    title="A heal soon after an election: the ISR may stay incomplete for ever",
    article="beyond",
    section="stuck ISR",
    body=body,
    setup=SETUP,
    claims=CLAIMS,
    expected=EXPECTED_LOSS,
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "isolate az1", "reassign"),
    outcome="the unclean topic loses what the old leader acknowledged; its ISR may stay incomplete until it is reordered",
)
SCENARIOS = (
    _UNCLEAN,
    _two_cuts(
        "isr-stuck-two-cuts",
        "A follower returns while the controller is isolated: the partition refuses acks=all for ever",
        TWO_CUTS,
        "the ISR stays at the leader alone, and min.insync.replicas=2 refuses writes, until it is reordered",
    ),
    _two_cuts(
        "isr-stuck-two-cuts-ibp26",
        "The same with inter.broker.protocol.version=2.6",
        OLD_PROTOCOL,
        "the leader completes the ISR by itself",
        **{"inter.broker.protocol.version": "2.6"},
    ),
)
