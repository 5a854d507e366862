"""Faults of the KRaft quorum alone: a follower that returns, and a majority that is gone."""

from __future__ import annotations

from checkers.claims.former import condition, fates, mark
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.connection import NoAnswerError
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Scenario
from harness.waiting import wait_until
from scenarios.steps import require_controller

TOPIC = "t"
LATE = "asked-without-quorum"
CUT_S = 12.0
UNANSWERED_S = 3.0


def _follower_returns(stage: Stage) -> None:
    """Cut a controller that follows from everything, long enough for several elections, and heal."""
    require_controller(stage, "controller2")
    with stage.nemesis.isolate("controller1"):
        cut = stage.mark("cut", "controller1, which follows, reaches nobody")
        wait_until(
            lambda: stage.since(cut) >= CUT_S,
            within_s=CUT_S + 5,
            awaiting="the cut to have lasted long enough",
            abort=stage.cluster.check_alive,
        )
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    _one_leader(stage, "controller1", "controller2", "controller3")
    stage.mark("agreed", "all controllers follow one leader")


def _one_leader(stage: Stage, *names: str) -> None:
    """Wait until these controllers name one leader, and have done so for longer than an election takes."""
    told: list[tuple[int | None, int]] = []

    def steady() -> bool:
        leaders = {stage.observer.view(name).controller() for name in names}
        if len(leaders) != 1 or leaders & {-1, None}:
            told.clear()
            return False
        told.append((leaders.pop(), 0))
        return len(told) >= 40 and len({leader for leader, _ in told[-40:]}) == 1

    wait_until(
        steady, within_s=40, awaiting="the controllers to agree", poll_s=0.1, abort=stage.cluster.check_alive
    )


def _quorum_lost(stage: Stage) -> None:
    """Kill two of three controllers: data goes on, metadata stands still; bring them back."""
    require_controller(stage, "controller2")
    stage.observer.watch([LATE])
    writer = stage.writer("az1", "az1-acks-all", "broker1", acks=-1)
    writer.must_send(TOPIC, "before")
    stage.wait_replicated(TOPIC)
    stage.nemesis.kill("controller2", "controller3")
    stage.mark("quorum-lost", "two of three controllers are dead, the active one among them")
    wait_until(
        lambda: stage.cluster.controller() is None,
        within_s=10,
        awaiting="nobody to lead the quorum",
        abort=stage.cluster.check_alive,
    )
    for number in range(10):
        writer.send(TOPIC, f"during{number}")
    address = stage.lab.topology.host("broker1").broker_address
    try:
        answer = create_topics(address, [Topic(LATE, (1, 2, 3))], wait_ms=2000, timeout_s=UNANSWERED_S)
        stage.mark("answered", f"broker1 answered 'create {LATE}' with error {answer[LATE].error}")
    except NoAnswerError:
        stage.mark("unanswered", f"broker1 gave no answer to 'create {LATE}' in {UNANSWERED_S:g} s")
    stage.nemesis.kill("broker3")
    wait_until(
        lambda: stage.observer.view("broker3").reachable(),
        accept=lambda up: not up,
        within_s=5,
        awaiting="broker3 to be seen dead",
    )
    waiting = [writer.send_later(TOPIC, f"short{number}") for number in range(3)]
    lone = [sent.result(timeout=30) for sent in waiting]
    stage.mark("standing", f"broker3 died; acks=all then gave errors {sorted({r.error for r in lone})}")
    stage.restart("controller3")
    wait_until(
        lambda: stage.cluster.controller() is not None,
        within_s=20,
        awaiting="a majority to elect a leader",
        abort=stage.cluster.check_alive,
    )
    stage.mark("quorum-back", "two of three controllers lead again")
    stage.wait_for_isr(TOPIC, 1, 2, within_s=30)
    writer.must_send(TOPIC, "after")
    stage.restart("controller2")
    stage.restart("broker3")
    stage.wait_converged(TOPIC, within_s=40)
    stage.mark("converged", "all replicas hold the same log and are in sync")


def _quorum(column: str, until: str) -> str:
    return f"(SELECT max_by({column}, epoch) FROM controllers WHERE ns <= {until})"


_SAID = (
    f"concat('node ', {_quorum('controller', mark('standing'))}, ' led in epoch ', "
    f"{_quorum('epoch', mark('standing'))}, '; after the heal node ', "
    f"{_quorum('controller', mark('agreed'))}, ' in epoch ', {_quorum('epoch', mark('agreed'))})"
)
_RETURNS = (
    Claim(
        name="leader-stays",
        section="KRaft",
        says="While a follower is cut off, the quorum's leader stays, and its epoch too.",
        holds=condition(
            f"{_quorum('epoch', mark('standing'))} = {_quorum('epoch', mark('cut'))}",
            f"concat('epoch ', {_quorum('epoch', mark('cut'))}, ' at the cut and ', "
            f"{_quorum('epoch', mark('standing'))}, ' at its end')",
        ),
    ),
    Claim(
        name="quiet-return",
        section="KRaft",
        says="The follower that returns disturbs nobody.",
        holds=condition(f"{_quorum('epoch', mark('agreed'))} = {_quorum('epoch', mark('standing'))}", _SAID),
        erratum=Erratum(
            says="It deposes the healthy leader: cut off, it raised its epoch with each failed election.",
            because="before 4.0 there is no pre-vote (KIP-996)",
            before="4.0.0",
            holds=condition(
                f"{_quorum('epoch', mark('agreed'))} > {_quorum('epoch', mark('standing'))}", _SAID
            ),
        ),
    ),
    Claim(
        name="data-undisturbed",
        section="KRaft",
        says="Clients notice nothing: every message of the background stream is kept.",
        holds=fates("role = 'stream' AND outcome = 'ok'", "kept", at_least=100),
    ),
)
_KNOWN_WHILE = (
    f"(SELECT count(*) > 0 FROM views WHERE subject = 'partition' AND topic = '{LATE}' "
    f"AND ns <= {mark('quorum-back')})"
)
_LOST = (
    Claim(
        name="data-goes-on",
        section="KRaft",
        says="Without a majority of controllers, produce with acks=all goes on.",
        holds=fates("label LIKE 'during%'", "kept", at_least=10),
    ),
    Claim(
        name="metadata-stands",
        section="KRaft",
        says="No topic can be created.",
        holds=condition(
            f"NOT {_KNOWN_WHILE}", "(SELECT max(text) FROM marks WHERE name IN ('answered', 'unanswered'))"
        ),
    ),
    Claim(
        name="isr-stands",
        section="KRaft",
        says="The ISR cannot shrink: with a follower dead, acks=all is no longer acknowledged.",
        holds=(
            "SELECT count(*) = 3 AND count_if(outcome = 'ok') = 0 AS holds, concat(count_if(outcome = 'ok'), "
            "' of ', count(*), ' acknowledged, errors ', cast(array_sort(collect_set(error)) AS string)) "
            "AS observed FROM life WHERE label LIKE 'short%'"
        ),
    ),
    Claim(
        name="recovers",
        section="KRaft",
        says="With a majority back the dead follower leaves the ISR, and acks=all is acknowledged again.",
        holds=fates("label = 'after'", "kept"),
    ),
)

SCENARIOS = (
    Scenario(
        name="kraft-follower-controller-returns",
        title="A controller that follows is cut off for 12 s and returns",
        article="003",
        section="beyond",
        body=_follower_returns,
        setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2"),
        claims=_RETURNS,
        faults=("isolate controller1",),
        kafka="4.3.1",
        mode="kraft",
        outcome="before 4.0 it deposes the healthy leader; pre-vote cures that; no data is lost",
        versions=("3.6.2", "3.9.1", "4.1.0", "4.3.1"),
    ),
    Scenario(
        name="kraft-quorum-lost",
        title="Two of three controllers die, then a broker too",
        article="003",
        section="beyond",
        body=_quorum_lost,
        setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2", stream_rate=0.0),
        claims=_LOST,
        faults=("kill controller2, controller3", "kill broker3"),
        kafka="4.3.1",
        mode="kraft",
        outcome="data goes on, metadata stands still until a majority is back; nothing is lost",
        versions=("3.6.2", "3.9.1", "4.3.1"),
    ),
)
