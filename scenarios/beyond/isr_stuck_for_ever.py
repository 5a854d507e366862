"""Beyond the articles: a heal soon after an election leaves the ISR incomplete for ever (2.7.1)."""

from __future__ import annotations

from checkers.claims.builders import both, isrs_are_full, noted, opposite, partition
from harness.errors import WaitTimeoutError
from harness.kafka.model import TopicPartition
from harness.run.stage import Stage
from harness.scenario import Claim, Either, Scenario
from harness.waiting import wait_until
from scenarios.article001.isr_shrunk_leader_isolated import EXPECTED_LOSS, SETUP, UNCLEAN, shrink_then_isolate
from scenarios.steps import settle, wait_log


def body(stage: Stage) -> None:
    """Heal right after the election; where an ISR stays incomplete, reorder the replicas."""
    shrink_then_isolate(stage, early_heal=True)
    wait_log(
        stage, "broker1", f"partition={UNCLEAN}-0", "Truncating to offset", within_s=stage.timings.converge_s
    )
    stage.wait_replicated(UNCLEAN)
    stuck = _stuck(stage)
    if stuck:
        places = ", ".join(f"{topic}/{partition}" for topic, partition in stuck)
        stage.mark("stuck", f"the leader of {places} no longer asks for a larger ISR")
        operator = stage.nemesis.operator(stage.cluster, stage.dialect)
        for topic, partition in stuck:
            operator.reassign(topic, _reordered(stage, topic, partition), partition)
        stage.mark("cured", "the replicas were put in another order, which gives the leader a new start")
    settle(stage)
    if not stuck:
        stage.mark("not-stuck", "every request reached the new controller, and each ISR is full")


def _stuck(stage: Stage) -> list[TopicPartition]:
    """Partitions whose ISR stays incomplete although all brokers run and all links are back.

    An ISR that is still incomplete this long after the logs agree stays incomplete, because no request is
    repeated.
    """
    try:
        return wait_until(
            stage.incomplete_isrs,
            accept=lambda found: not found,
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

SCENARIO = Scenario(
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
