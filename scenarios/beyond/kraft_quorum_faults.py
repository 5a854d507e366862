"""Faults of the KRaft quorum alone: a follower that returns, and a majority that is gone."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    controller_changes,
    controller_epoch_rises,
    controller_stays,
    messages,
    opposite,
    partition,
    quorum_controller,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE
from harness.kafka.model import Topic
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.connection import NoAnswerError
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import require_controller, stand

TOPIC = "t"
LATE = "asked-without-quorum"
UNANSWERED_S = 3.0


def _follower_returns(stage: Stage) -> None:
    """Cut a follower of the quorum from everything, long enough for several elections, and heal."""
    require_controller(stage, "controller2")
    with stage.nemesis.isolate("controller1"):
        cut = stage.mark("cut", "controller1, which follows, reaches nobody")
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    _one_leader(stage, "controller1", "controller2", "controller3")
    stage.mark("agreed", "all controllers follow one leader")


def _one_leader(stage: Stage, *names: str) -> None:
    """Wait until these controllers name one leader, and have done so for longer than an election takes."""
    seen: list[int | None] = []

    def steady() -> bool:
        leaders = {stage.observer.view(name).controller() for name in names}
        if len(leaders) != 1 or leaders & {-1, None}:
            seen.clear()
            return False
        seen.append(leaders.pop())
        return len(seen) >= 40 and len(set(seen[-40:])) == 1

    wait_until(
        steady,
        within_s=28 + stage.timings.quorum_cut_s,
        awaiting="the controllers to agree",
        poll_s=0.1,
        abort=stage.cluster.check_alive,
    )


def _quorum_lost(stage: Stage) -> None:
    """Kill two of three controllers: producing works, metadata stands still; bring them back."""
    require_controller(stage, "controller2")
    stage.observer.watch([LATE])
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    writer.must_send(TOPIC, "before")
    stage.wait_replicated(TOPIC)
    stage.nemesis.kill("controller2", "controller3")
    stage.mark("quorum-lost", "two of three controllers are dead, the active one among them")
    wait_until(
        lambda: stage.cluster.controller() is None,
        within_s=10 + stage.timings.quorum_cut_s - BASE.quorum_cut_s,
        awaiting="nobody to lead the quorum",
        abort=stage.cluster.check_alive,
    )
    for number in range(10):
        writer.send(TOPIC, f"during{number}")
    endpoint = stage.lab.topology.host("broker1").broker_endpoint
    try:
        # A controller drops the request if it has not carried it out within `wait_ms` of receiving it.
        answer = create_topics(endpoint, [Topic(LATE, (1, 2, 3))], wait_ms=30_000, timeout_s=UNANSWERED_S)
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
    dead = stage.mark("broker-dead", "a follower is dead as well")
    stand(stage, dead, stage.timings.quorum_cut_s)
    waiting = [writer.send_later(TOPIC, f"short{number}") for number in range(3)]
    for sent in waiting:
        sent.result(timeout=30)
    stage.mark("standing", "the last moment without a quorum")
    stage.restart("controller3")
    wait_until(
        lambda: stage.cluster.controller() is not None,
        within_s=8 + stage.timings.quorum_cut_s,
        awaiting="a majority to elect a leader",
        abort=stage.cluster.check_alive,
    )
    stage.mark("quorum-back", "two of three controllers lead again")
    stage.wait_for_isr(TOPIC, 1, 2, within_s=18 + stage.timings.quorum_cut_s)
    stage.mark("isr-shrunk", "the dead broker has left the ISR")
    writer.must_send(TOPIC, "after")
    stage.restart("controller2")
    stage.restart("broker3")
    stage.wait_converged(TOPIC, within_s=stage.timings.converge_s)
    stage.mark("converged", "all replicas hold the same log and are in sync")


_RETURNS = (
    Claim(
        name="leader-stays",
        section="beyond 003",
        says="While a follower is cut off, the quorum's leader and its epoch stay.",
        holds=controller_stays(since="cut", until="standing"),
    ),
    Claim(
        name="quiet-return",
        section="beyond 003",
        says="The follower that returns disturbs nobody.",
        holds=controller_stays(since="standing", until="agreed"),
        erratum=Erratum(
            says="It deposes the healthy leader: cut off, it raised its epoch with each failed election.",
            because="before 4.0 there is no pre-vote (KIP-996)",
            before="4.0.0",
            holds=controller_epoch_rises(since="standing", until="agreed"),
        ),
    ),
    Claim(
        name="data-undisturbed",
        section="beyond 003",
        says="Clients notice nothing: every message of the background stream is kept.",
        holds=messages(role="stream", after="cut", before="agreed").kept(at_least=100),
    ),
)
T, ASKED = partition(TOPIC), partition(LATE)
_LOST = (
    Claim(
        name="data-goes-on",
        section="beyond 003",
        says="Without a majority of controllers, producing with acks=all still works.",
        holds=messages(label="during%").kept(at_least=10),
    ),
    Claim(
        name="keeps-electing",
        section="003, condition 3",
        quote="3. If it fails to receive a majority of votes before expiration of quorum.election.timeout.ms after declaring itself a candidate",
        says="The controller that is left begins one election after the other: its epoch rises.",
        holds=quorum_controller(1).epoch_rises(at_least=3, since="quorum-lost", until="standing"),
        erratum=Erratum(
            says="It asks in vain for pre-votes, and its epoch stays.",
            because="since 4.0.0 a voter becomes a candidate only if it could win (KIP-996)",
            since="4.0.0",
            holds=quorum_controller(1).epoch_stays(since="quorum-lost", until="standing"),
        ),
    ),
    Claim(
        name="metadata-stands",
        section="beyond 003",
        says="No topic can be created.",
        holds=both(*(opposite(broker(number).knows(LATE, at="standing")) for number in (1, 2))),
    ),
    Claim(
        name="created-later",
        section="beyond 003",
        says="Once a majority is back, the requested topic is created, although the request got no answer.",
        holds=both(controller_changes(since="standing", until="converged"), ASKED.exists(at="converged")),
    ),
    Claim(
        name="isr-stands",
        section="beyond 003",
        says="The ISR cannot shrink: even long after a follower died, acks=all is not acknowledged (error 7).",
        holds=both(
            T.is_led_by(1, isr=(1, 2, 3), at="standing"), messages(label="short%").refused_with(7, at_least=3)
        ),
    ),
    Claim(
        name="recovers",
        section="beyond 003",
        says="With a majority back the dead follower leaves the ISR, and acks=all is acknowledged again.",
        holds=both(T.has_isr(1, 2, at="isr-shrunk"), messages(label="after").kept()),
    ),
)

SCENARIOS = (
    Scenario(
        name="kraft-follower-controller-returns",
        title="A follower of the quorum is cut off for 12 s and returns",
        article="003",
        section="beyond",
        body=_follower_returns,
        setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2"),
        claims=_RETURNS,
        faults=("isolate controller1",),
        kafka="4.3.1",
        mode="kraft",
        outcome="before 4.0 it deposes the healthy leader; since 4.0 pre-vote prevents this; no data is lost",
        versions=("3.6.2", "3.9.1", "4.1.0", "4.3.1"),
    ),
    Scenario(
        name="kraft-quorum-lost",
        title="Two of three controllers die, then a broker too",
        article="003",
        section="beyond",
        body=_quorum_lost,
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3)),),
            controller="broker2",
            exactly=("controller",),
            stream_rate=0.0,
        ),
        claims=_LOST,
        faults=("kill controller2, controller3", "kill broker3"),
        kafka="4.3.1",
        mode="kraft",
        outcome="producing works, metadata stands still until a majority is back; nothing is lost",
        versions=("3.6.2", "3.9.1", "4.3.1"),
    ),
)
