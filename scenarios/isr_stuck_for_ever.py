"""Beyond the articles: a heal soon after an election leaves the ISR incomplete for ever (2.7.1)."""

from __future__ import annotations

from harness.claims import condition, mark, state
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from harness.waiting import wait_until
from scenarios.isr_shrunk_leader_isolated import EXPECTED_LOSS, SETUP, UNCLEAN, shrink_then_isolate
from scenarios.steps import CONVERGE_S, log_lines, settle, wait_log

_FAILED = "Failed to enqueue `AlterIsr` request"


def body(stage: Stage) -> None:
    """Heal right after the election; where the ISR stays incomplete, reorder the replicas."""
    shrink_then_isolate(stage, early_heal=True)
    wait_log(stage, "broker1", f"partition={UNCLEAN}-0", "Truncating to offset", within_s=CONVERGE_S)
    stage.wait_replicated(UNCLEAN)
    wait_until(
        lambda: _gave_up(stage) or _full(stage),
        within_s=CONVERGE_S,
        awaiting="the new leader's request for a larger ISR to fail or to succeed",
        abort=stage.cluster.check_alive,
    )
    if _gave_up(stage):
        stage.mark("stuck", "the new leader has given up asking for a larger ISR")
        stage.nemesis.operator(stage.cluster, stage.dialect).reassign(UNCLEAN, (1, 3, 2))
        stage.mark("cured", "the replicas were put in another order, which gives the leader a new start")
    settle(stage)
    if not _gave_up(stage):
        stage.mark("not-stuck", "this time the request met the new controller, and the ISR is full")


def _gave_up(stage: Stage) -> bool:
    return bool(log_lines(stage, "broker2", _FAILED))


def _full(stage: Stage) -> bool:
    state = stage.cluster.partition(UNCLEAN)
    return state is not None and len(state.isr) == len(SETUP.brokers)


_STUCK = f"(SELECT count(*) FROM log_events WHERE host = 'broker2' AND text LIKE '%{_FAILED}%')"
_FULL_BEFORE_CURE = (
    f"(SELECT count(*) FROM truth WHERE topic = '{UNCLEAN}' AND partition = 0 AND size(isr) = 3 "
    f"AND ns > {mark('healed')} AND ns < {mark('stuck')})"
)
CLAIMS = (
    Claim(
        name="stuck-until-reordered",
        section="beyond the articles",
        says="If the new leader's first AlterIsr meets the old controller just as the links come back, it is "
        "never sent again: the ISR stays incomplete, though the logs are equal (the family of KAFKA-12686 and "
        "KAFKA-13091). A heal that the request survives leaves a full ISR. Either may happen.",
        holds=condition(
            f"CASE WHEN {_STUCK} > 0 THEN {_FULL_BEFORE_CURE} = 0 ELSE true END",
            f"CASE WHEN {_STUCK} > 0 THEN 'it was stuck' ELSE 'it was not stuck this time' END",
        ),
    ),
    Claim(
        name="cured",
        section="beyond the articles",
        says="Putting the replicas in another order cures it: the ISR is full in the end.",
        holds=state(UNCLEAN, leader=2, isr=(1, 2, 3), until=mark("converged")),
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
