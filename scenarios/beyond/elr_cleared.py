"""Beyond the articles: min.insync.replicas is changed while a partition has no leader, in KRaft.

With eligible leader replicas (KIP-966), the controller elects a member of the ISR, else an eligible leader
replica, else the last known leader (Kafka documentation, Operations, Eligible Leader Replicas). A change of
`min.insync.replicas` makes it forget the last two. `acked search` found this; see
`docs/findings/min-insync-changed-without-leader.md`.
"""

from __future__ import annotations

from checkers.claims.builders import both, messages, noted, partition
from harness.cluster.setup import Setup
from harness.kafka.model import NO_LEADER, Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import note_eligible, seed, stand, wait_registered

CHANGED, UNCHANGED = "changed", "unchanged"
FIRST, LAST, OTHER = "broker2", "broker1", "broker3"
"""The preferred leader, which fails first; the last known leader; a broker that holds neither topic."""
MIN_INSYNC = "min.insync.replicas"
ELR = "eligible.leader.replicas.version"


def body(stage: Stage) -> None:
    """Both replicas of two topics fail; one topic's min.insync.replicas is lowered; both replicas come back."""
    seed(stage, CHANGED, UNCHANGED, leader=FIRST)
    operator = stage.nemesis.operator(stage.cluster, stage.dialect)
    stage.kill(FIRST)
    for topic in (CHANGED, UNCHANGED):
        stage.wait_for_isr(topic, 1)
    stage.mark("one-left", f"{LAST} leads both topics and is alone in the ISR")
    alone = stage.producer("az1", "az1-alone", LAST, acks=1)
    for topic in (CHANGED, UNCHANGED):
        alone.must_send(topic, "z")
    stage.kill(LAST)
    for topic in (CHANGED, UNCHANGED):
        stage.wait_for_no_leader(topic)
    note_eligible(stage, OTHER, CHANGED, "no-leader")
    operator.configure(CHANGED, MIN_INSYNC, "1")
    note_eligible(stage, OTHER, CHANGED, "lowered")
    for broker in (LAST, FIRST):
        stage.restart(broker)
        wait_registered(stage, broker)
    stage.wait_for_leader(UNCHANGED, on=LAST, within_s=stage.timings.converge_s)
    stage.wait_converged(UNCHANGED, within_s=stage.timings.converge_s)
    back = stage.mark("all-back", f"both replicas are back, and {UNCHANGED} is led and in sync")
    stand(stage, back, stage.timings.cut_s)
    stage.mark("waited", "longer than a session, a fetch and an election take")
    state = stage.state(CHANGED)
    if state is not None and state.leader == NO_LEADER:
        operator.elect(CHANGED, kind="unclean", leader=FIRST)
    stage.wait_converged(CHANGED, within_s=stage.timings.converge_s)
    stage.mark("converged", "all replicas hold the same log and are in sync")


C, U = partition(CHANGED), partition(UNCHANGED)
_SECTION = "operations, eligible leader replicas"
_LED_AGAIN = Claim(
    name="unchanged-recovers",
    section=_SECTION,
    says="Without the change, the last known leader leads again when it is back, and nothing is lost.",
    holds=both(
        U.is_led_by(1, isr=(1, 2), at="waited"),
        messages("az1-alone", topic=UNCHANGED).none_lost(at_risk_after="one-left"),
    ),
)


def _scenario(
    name: str,
    title: str,
    *,
    features: dict[str, str] | None = None,
    claims: tuple[Claim, ...],
    expected: tuple[Expected, ...] = (),
    outcome: str,
) -> Scenario:
    topics = tuple(Topic(topic, (2, 1), config={MIN_INSYNC: "2"}) for topic in (CHANGED, UNCHANGED))
    return Scenario(
        name=name,
        title=title,
        article="-",
        section="",
        body=body,
        setup=Setup(topics=topics, controller="controller3", format_features=features or {}, stream_rate=0.0),
        claims=(_LED_AGAIN, *claims),
        expected=expected,
        faults=(f"kill {FIRST}", f"kill {LAST}", f"configure {MIN_INSYNC}", "elect unclean"),
        kafka="4.3.1",
        mode="kraft",
        outcome=outcome,
        versions=("4.1.0", "4.3.1"),
    )


SCENARIOS = (
    _scenario(
        "kraft-elr-cleared",
        "KRaft: min.insync.replicas is lowered while a partition has no leader, and nobody is elected any more",
        claims=(
            Claim(
                name="candidates-forgotten",
                section=_SECTION,
                says="The change clears not only the eligible leader replicas, but also the last known leader.",
                holds=both(
                    C.has_no_leader(isr=(), at="no-leader"),
                    noted("no-leader", "%last known [1]%"),
                    noted("lowered", "%eligible [], last known []%"),
                ),
            ),
            Claim(
                name="changed-stays-offline",
                section=_SECTION,
                says="With it, nobody is elected, although both replicas are back with all their messages.",
                holds=both(C.has_no_leader(isr=(), at="all-back"), C.has_no_leader(isr=(), at="waited")),
            ),
            Claim(
                name="only-unclean",
                section=_SECTION,
                says="An unclean election brings it back, and loses what only the last leader had.",
                holds=both(
                    C.is_led_by(2, at="converged"),
                    messages("az1-alone", topic=CHANGED).acknowledged_then_lost(),
                    messages("az2-seed", topic=CHANGED).kept(at_least=2),
                ),
            ),
        ),
        expected=(
            Expected("lost", "writer_name = 'az1-alone' AND topic = 'changed'", "on the last leader alone"),
        ),
        outcome="the partition stays offline until an unclean election; the same one without the change recovers",
    ),
    _scenario(
        "kraft-elr-cleared-no-elr",
        "KRaft: the same with eligible leader replicas switched off",
        features={ELR: "0"},
        claims=(
            Claim(
                name="changed-recovers",
                section=_SECTION,
                says="Without eligible leader replicas the change does no harm: the last leader leads again.",
                holds=both(
                    C.is_led_by(1, isr=(1, 2), at="waited"),
                    messages("az1-alone", topic=CHANGED).none_lost(at_risk_after="one-left"),
                ),
            ),
        ),
        outcome="both partitions recover, and nothing is lost",
    ),
)
