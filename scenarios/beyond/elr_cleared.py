"""Beyond the articles: min.insync.replicas is changed while a partition has no leader, in KRaft.

With eligible leader replicas (KIP-966), the controller elects a member of the ISR, else an eligible leader
replica, else the last known leader (Kafka documentation, Operations, Eligible Leader Replicas). A change of
`min.insync.replicas` makes it forget the last two. `acked search` found this; see
`docs/findings/min-insync-changed-without-leader.md`.
"""

from __future__ import annotations

from checkers.claims.builders import both, messages, noted, partition
from harness.cluster.possible import MIN_INSYNC
from harness.cluster.setup import Setup
from harness.kafka.model import NO_LEADER, Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import note_eligible, seed, stand, wait_registered

CHANGED, RESCUED, UNCHANGED = "changed", "rescued", "unchanged"
TOPICS = (CHANGED, RESCUED, UNCHANGED)
FIRST, LAST, OTHER = "broker2", "broker1", "broker3"
"""The preferred leader, which fails first; the last known leader; a broker that holds neither topic."""
ELR = "eligible.leader.replicas.version"


def body(stage: Stage) -> None:
    """Both replicas of three topics fail; two topics' min.insync.replicas is lowered; both replicas come back.

    Then an operator elects unclean leaders, of one topic while only the last leader's broker is up.
    """
    seed(stage, *TOPICS, leader=FIRST)
    operator = stage.operator
    stage.kill(FIRST)
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1)
    stage.mark("one-left", f"{LAST} leads all topics and is alone in the ISR")
    alone = stage.producer("az1", "az1-alone", LAST, acks=1)
    for topic in TOPICS:
        alone.must_send(topic, "z")
    stage.kill(LAST)
    for topic in TOPICS:
        stage.wait_for_no_leader(topic)
    note_eligible(stage, OTHER, CHANGED, "no-leader")
    operator.configure(CHANGED, MIN_INSYNC, "1")
    operator.configure(RESCUED, MIN_INSYNC, "1")
    note_eligible(stage, OTHER, CHANGED, "lowered")
    note_eligible(stage, OTHER, UNCHANGED, "not-lowered")
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
        stage.nemesis.stop(FIRST)
        operator.elect(RESCUED, kind="unclean", leader=LAST)
        stage.restart(FIRST)
        operator.elect(CHANGED, kind="unclean", leader=FIRST)
    for topic in TOPICS:
        stage.wait_converged(topic, within_s=stage.timings.converge_s)
    stage.mark("converged", "all replicas hold the same log and are in sync")


C, R, U = (partition(topic) for topic in TOPICS)
_SECTION = "beyond the articles"
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
    topics = tuple(Topic(topic, (2, 1), config={MIN_INSYNC: "2"}) for topic in TOPICS)
    return Scenario(
        name=name,
        title=title,
        article="-",
        section="",
        body=body,
        setup=Setup(topics=topics, controller="controller3", format_features=features or {}, stream_rate=0.0),
        claims=(_LED_AGAIN, *claims),
        expected=expected,
        faults=(f"kill {FIRST}", f"kill {LAST}", f"configure {MIN_INSYNC}", "elect unclean", f"stop {FIRST}"),
        kafka="4.3.1",
        mode="kraft",
        outcome=outcome,
        versions=("4.1.0", "4.3.1"),
    )


SCENARIOS = (
    _scenario(
        "kraft-elr-cleared",
        "KRaft: min.insync.replicas is lowered while a partition has no leader, and no leader is elected afterwards",
        claims=(
            Claim(
                name="candidates-forgotten",
                section=_SECTION,
                says="The change clears not only the eligible leader replicas, but also the last known leader.",
                holds=both(
                    C.has_no_leader(isr=(), at="no-leader"),
                    noted("no-leader", last_known=[1]),
                    noted("lowered", eligible=[], last_known=[]),
                    noted("not-lowered", eligible=[1, 2], last_known=[1]),
                ),
            ),
            Claim(
                name="changed-stays-offline",
                section=_SECTION,
                says="After the change no leader is elected, although both replicas are back with all their messages.",
                holds=both(
                    *(topic.has_no_leader(isr=(), at=at) for topic in (C, R) for at in ("all-back", "waited"))
                ),
            ),
            Claim(
                name="unclean-loses",
                section=_SECTION,
                says="An unclean election takes the first live replica, and loses what only the last leader had.",
                holds=both(
                    C.is_led_by(2, at="converged"),
                    messages("az1-alone", topic=CHANGED).acknowledged_then_lost(),
                    messages("az2-seed", topic=CHANGED).kept(at_least=2),
                ),
            ),
            Claim(
                name="last-leader-alone-keeps",
                section=_SECTION,
                says="While only the last leader's broker is up, an unclean election keeps all messages.",
                holds=both(
                    R.is_led_by(1, at="converged"),
                    messages("az1-alone", topic=RESCUED).none_lost(at_risk_after="one-left"),
                ),
            ),
        ),
        expected=(
            Expected("lost", "writer_name = 'az1-alone' AND topic = 'changed'", "on the last leader alone"),
        ),
        outcome="the partition stays offline until an unclean election; one without the change recovers",
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
                    *(topic.is_led_by(1, isr=(1, 2), at="waited") for topic in (C, R)),
                    messages("az1-alone", topic=CHANGED).none_lost(at_risk_after="one-left"),
                ),
            ),
        ),
        outcome="all partitions recover, and nothing is lost",
    ),
)
