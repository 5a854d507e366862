"""Beyond the articles: a heal soon after an election leaves the ISR incomplete for ever (2.7.1)."""

from __future__ import annotations

from checkers.claims.former import mark
from harness.errors import WaitTimeoutError
from harness.kafka.model import TopicPartition
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from harness.waiting import wait_until
from scenarios.article001.isr_shrunk_leader_isolated import EXPECTED_LOSS, SETUP, UNCLEAN, shrink_then_isolate
from scenarios.steps import CONVERGE_S, settle, wait_log

_GIVE_UP_S = 12.0
"""An ISR that is incomplete for so long after the logs agree stays so: nothing asks again."""


def body(stage: Stage) -> None:
    """Heal right after the election; where an ISR stays incomplete, reorder the replicas."""
    shrink_then_isolate(stage, early_heal=True)
    wait_log(stage, "broker1", f"partition={UNCLEAN}-0", "Truncating to offset", within_s=CONVERGE_S)
    stage.wait_replicated(UNCLEAN)
    stuck = _stuck(stage)
    if stuck:
        places = ", ".join(f"{topic}/{partition}" for topic, partition in stuck)
        stage.mark("stuck", f"the leader of {places} does not ask for a larger ISR any more")
        operator = stage.nemesis.operator(stage.cluster, stage.dialect)
        for topic, partition in stuck:
            operator.reassign(topic, _reordered(stage, topic, partition), partition)
        stage.mark("cured", "the replicas were put in another order, which gives the leader a new start")
    settle(stage)
    if not stuck:
        stage.mark("not-stuck", "this time every request met the new controller, and each ISR is full")


def _stuck(stage: Stage) -> list[TopicPartition]:
    """Partitions whose ISR stays incomplete although all brokers run and all links are back."""
    try:
        return wait_until(
            stage.incomplete_isrs,
            accept=lambda found: not found,
            within_s=_GIVE_UP_S,
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


_LAST = "max_by(isr, ns)"
_WHEN_STUCK = f"max_by(isr, CASE WHEN ns <= {mark('stuck')} THEN ns END)"
CLAIMS = (
    Claim(
        name="stuck-until-reordered",
        section="beyond the articles",
        says="If a change of the ISR was asked of the isolated controller, it is never asked again: the ISR stays "
        "incomplete, though the logs are equal (the family of KAFKA-12686, KAFKA-12751 and KAFKA-13091), and "
        "putting the replicas in another order cures it. Requests that reach the new controller leave a full "
        "ISR. Either may happen.",
        holds=(
            "SELECT coalesce(bool_and(full), true) AS holds, CASE WHEN count(*) = 0 THEN 'none was stuck this "
            "time' ELSE concat('stuck until reordered: ', array_join(sort_array(collect_set(place)), ', ')) END "
            f"AS observed FROM (SELECT concat(topic, '/', partition) AS place, size({_LAST}) = 3 AS full, "
            f"size({_WHEN_STUCK}) < 3 AS stuck FROM truth GROUP BY topic, partition) WHERE stuck"
        ),
    ),
    Claim(
        name="cured",
        section="beyond the articles",
        says="In the end every ISR is full.",
        holds=(
            "SELECT bool_and(full) AS holds, concat(count_if(full), ' of ', count(*), ' partitions') AS observed "
            f"FROM (SELECT size({_LAST}) = 3 AS full FROM truth GROUP BY topic, partition)"
        ),
    ),
    Claim(
        name="data-agree",
        section="beyond the articles",
        says="The logs of all replicas agree, whatever the ISR says.",
        holds=(
            f"SELECT count(DISTINCT content) = 1 AS holds, concat(count(*), ' replicas, ', "
            f"count(DISTINCT content), ' different logs') AS observed FROM (SELECT broker, "
            f"concat_ws(' ', sort_array(collect_list(concat(offset, ':', writer, '/', seq)))) AS content "
            f"FROM copies WHERE topic = '{UNCLEAN}' GROUP BY broker)"
        ),
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
    outcome="the unclean topic loses what the old leader took; its ISR may stay incomplete until it is reordered",
)
