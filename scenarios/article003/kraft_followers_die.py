"""Article 003: a quorum leader whose followers are all down, and a leader that hands over when it stops."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    messages,
    noted,
    opposite,
    partition,
    quorum_controller,
    quorum_elects,
    quorum_leaders_are,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.article003.quorum import RESIGNS, ask_for_topic, bumps_epoch
from scenarios.steps import require_controller, stand

TOPIC = "t"
EARLIER, ASKED = "asked-before", "asked-without-followers"
LEADER, FOLLOWERS = "controller2", ("controller1", "controller3")
CONFIG = {"controller.quorum.fetch.timeout.ms": "3000"}
TIMINGS = Timings.of(CONFIG, "kraft")


def body(stage: Stage) -> None:
    """Kill both followers of the quorum's leader, wait, bring them back; then stop the leader."""
    require_controller(stage, LEADER)
    stage.observer.watch([EARLIER, ASKED])
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    writer.must_send(TOPIC, "before")
    stage.wait_replicated(TOPIC)
    ask_for_topic(stage, "broker1", EARLIER, 10.0, "earlier")

    stage.kill(*FOLLOWERS)
    alone = stage.mark("alone", f"{LEADER} leads the quorum, and both its followers are dead")
    for number in range(5):
        writer.send(TOPIC, f"during{number}")
    ask_for_topic(stage, "broker1", ASKED, 3.0, "asked")
    # Nearly three times 1.5 fetch time-outs, after which a leader resigns since 3.7.0.
    stand(stage, alone, 4 * stage.timings.quorum_fetch_s)
    stage.mark("standing", "the last moment without followers")

    for host in FOLLOWERS:
        stage.restart(host)
    _one_leader(stage)
    wait_until(
        lambda: stage.cluster.partition(ASKED) is not None,
        within_s=10 * stage.timings.quorum_fetch_s,
        awaiting=f"{ASKED} to exist",
        abort=stage.cluster.check_alive,
    )
    stage.mark("agreed", "all controllers follow one leader")

    last = stage.active_controller()
    stage.mark("stopping", f"{last}, which leads, is about to be stopped")
    stage.nemesis.stop(last)
    wait_until(
        lambda: stage.cluster.controller() is not None,
        within_s=14 + 2 * stage.timings.quorum_fetch_s,
        awaiting="a leader of the others",
        abort=stage.cluster.check_alive,
    )
    stage.mark("handed-over", f"{stage.active_controller()} leads the quorum")
    stage.restart(last)
    _one_leader(stage)
    stage.mark("complete", "all three controllers are up")


def _one_leader(stage: Stage) -> None:
    names = (LEADER, *FOLLOWERS)

    def leaders() -> set[int | None]:
        return {stage.observer.view(name).controller() for name in names}

    wait_until(
        leaders,
        accept=lambda stated: len(stated) == 1 and not stated & {-1, None},
        within_s=28 + 4 * stage.timings.quorum_fetch_s,
        awaiting="the controllers to agree",
        abort=stage.cluster.check_alive,
    )


T = partition(TOPIC)
OLD_LEADER = quorum_controller(2)


def _leads_for_ever(timings: Timings) -> Claim:
    resigns_s = 1.5 * timings.quorum_fetch_s
    # The followers' last fetches were answered up to half a second before their death.
    within_s, not_within_s = resigns_s + 1, resigns_s - 0.75
    return Claim(
        name="leads-for-ever",
        section="003, root cause",
        quote="the leader will always be the leader even though all other nodes are down",
        says="The leader will always be the leader even though all other nodes are down.",
        holds=both(
            OLD_LEADER.leads(at="standing"),
            quorum_leaders_are(1, at="standing"),
            OLD_LEADER.never_resigned(after="alone", before="standing"),
        ),
        erratum=Erratum(
            says=f"It resigns after 1.5 fetch time-outs, within {within_s:g} s, and nobody leads.",
            because=RESIGNS,
            since="3.7.0",
            holds=both(
                OLD_LEADER.resigns(after="alone", within_s=within_s, not_within_s=not_within_s),
                quorum_leaders_are(0, at="standing"),
            ),
        ),
    )


def _hands_over(timings: Timings) -> Claim:
    fetch_s = timings.quorum_fetch_s
    # Earlier than a follower's fetch time-out can end: its last fetch was answered at most half a second ago.
    at_once_s = fetch_s - 1
    return Claim(
        name="hands-over",
        section="003, condition 2",
        quote="A voter will begin a new election under three conditions: … 2. If it receives a EndQuorumEpoch "
        "request from the current leader",
        says=f"A leader that is stopped in an orderly way tells the voters, which elect another at once, within {at_once_s:g} s; a fetch time-out takes {fetch_s:g} s.",
        holds=quorum_elects(after="stopping", within_s=at_once_s),
    )


CLAIMS = (
    _leads_for_ever(TIMINGS),
    *bumps_epoch(
        OLD_LEADER,
        "A leader that reaches no voter keeps starting elections and bumps the epoch.",
        since="alone",
        until="standing",
    ),
    Claim(
        name="commits-nothing",
        section="beyond 003",
        says="In either case metadata stands still: a topic that is requested meanwhile is not created.",
        given=noted("earlier-done"),
        holds=both(
            *(broker(number).knows(EARLIER, at="standing") for number in (1, 2, 3)),
            *(opposite(broker(number).knows(ASKED, at="standing")) for number in (1, 2, 3)),
        ),
    ),
    Claim(
        name="data-goes-on",
        section="beyond 003",
        says="Meanwhile producing with acks=all works.",
        holds=messages(label="during%").kept(at_least=5),
    ),
    Claim(
        name="created-later",
        section="beyond 003",
        says="Once the followers are back, the requested topic is created.",
        holds=partition(ASKED).exists(at="agreed"),
    ),
    _hands_over(TIMINGS),
)

SCENARIO = Scenario(
    name="kraft-followers-die",
    title="Both followers of the quorum's leader die and return; then the leader is stopped",
    article="003",
    section="root cause",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        broker_config=CONFIG,
        exactly=("controller",),
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    timed=(_leads_for_ever, _hands_over),
    faults=(f"kill {', '.join(FOLLOWERS)}", "stop the leader of the quorum"),
    kafka="3.6.2",
    mode="kraft",
    outcome="3.6.2: the leader goes on leading alone; from 3.7.0 on it resigns; producing works, nothing is lost",
    versions=("3.6.2", "3.7.0", "3.9.1", "4.3.1"),
)
