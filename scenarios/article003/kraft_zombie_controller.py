"""Article 003: the active controller is cut from the other controllers and from one of the brokers."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    controller_epoch_rises,
    controller_stays,
    messages,
    noted,
    opposite,
    partition,
    quorum_controller,
    quorum_elects,
    quorum_leaders_are,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE, Timings
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.article003.quorum import RESIGNS, ask_for_topic, bumps_epoch
from scenarios.steps import require_controller, stand

TOPIC = "led-by-e"
MADE = "made-through-d"
ASKED = "asked-through-e"
BEFORE = "asked-before-the-cut"
ZOMBIE, D, E = "controller2", "broker1", "broker2"
CUTS = (f"{ZOMBIE} <-> controller1", f"{ZOMBIE} <-> controller3", f"{ZOMBIE} <-> {D}")
PATIENCE_S = 5.0


def body(stage: Stage) -> None:
    """Cut, create one topic on each side of the quorum, write to the partition led by E, heal, and look."""
    require_controller(stage, ZOMBIE)
    stage.observer.watch([MADE, ASKED])
    seed = stage.producer("az2", "az2-seed", E, acks=-1, request_timeout_s=10)
    for message in ("a", "b"):
        seed.must_send(TOPIC, message)
    stage.wait_replicated(TOPIC)
    acks_1 = stage.producer("az2", "az2-acks1", E, acks=1)
    acks_all = stage.producer("az2", "az2-acks-all", E, acks=-1)

    # So that E asks this controller, and not another that led while the cluster started and may lead again.
    ask_for_topic(stage, E, BEFORE, 10.0, "before")

    with stage.nemesis.cut(*CUTS):
        # Long enough for the majority to fence the brokers that follow the old leader, and to elect another.
        cut_s = stage.timings.quorum_cut_s + 4.0
        cut = stage.mark("cut", f"{ZOMBIE}, the active controller, reaches neither the others nor {D}")
        at_e = [acks_1.keep_writing(TOPIC, every_s=0.25), acks_all.keep_writing(TOPIC, every_s=0.25)]
        elected = _other_controller(stage)
        stage.mark("elected", f"{elected} leads the quorum of the majority")
        ask_for_topic(stage, D, MADE, 10.0, "made")
        ask_for_topic(stage, E, ASKED, PATIENCE_S, "asked")
        if _leads(stage, D, cut_s - stage.since(cut)):
            stage.mark("data-split", f"{D} leads {TOPIC} for the majority; {E} still takes writes")
            stage.wait_until_serving(TOPIC, D, az="az1")
            at_d = stage.producer("az1", "az1-acks-all", D, acks=-1)
            for number in range(5):
                at_d.send(TOPIC, f"d{number}")
        stand(stage, cut, cut_s)
        stage.mark("standing", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    _agreed(stage)
    stage.mark("agreed", "all controllers follow one leader, and all brokers know both topics")
    for writing in at_e:
        writing.stop()
    stage.wait_converged(TOPIC)
    stage.mark("converged", "all replicas hold the same log and are in sync")


def _other_controller(stage: Stage) -> str:
    zombie = stage.lab.topology.host(ZOMBIE).node_id
    wait_until(
        lambda: stage.cluster.controller() not in (None, zombie),
        within_s=3 + stage.timings.quorum_cut_s,
        awaiting=f"a leader of the quorum other than {ZOMBIE}",
        abort=stage.cluster.check_alive,
    )
    return stage.active_controller()


def _leads(stage: Stage, host: str, within_s: float) -> bool:
    number = stage.lab.topology.host(host).node_id
    try:
        wait_until(
            lambda: stage.observer.view(host).leader(TOPIC) == number,
            within_s=within_s,
            awaiting=f"{host} to lead {TOPIC}",
            abort=stage.cluster.check_alive,
        )
    except WaitTimeoutError:
        return False
    return True


def _agreed(stage: Stage) -> None:
    controllers = [host.name for host in stage.lab.topology.role("controller")]
    brokers = [host.name for host in stage.lab.topology.role("broker")]

    def missing() -> str:
        leaders = {stage.observer.view(name).controller() for name in controllers}
        if len(leaders) != 1 or not leaders - {-1, None}:
            return f"controllers name the leaders {sorted(map(str, leaders))}"
        for name in brokers:
            unknown = [t for t in (MADE, ASKED) if stage.observer.view(name).leader(t) is None]
            if unknown:
                return f"{name} does not know {unknown}"
        return ""

    wait_until(
        missing,
        accept=lambda what: what == "",
        within_s=28 + stage.timings.quorum_cut_s,
        awaiting="controllers and brokers to agree",
        abort=stage.cluster.check_alive,
    )


T = partition(TOPIC)
OF_D, OF_E = broker(1), broker(2)
"""The beliefs of the two brokers."""
OLD_LEADER = quorum_controller(2)


def _after_the_fetch_timeout(timings: Timings) -> Claim:
    fetch_s = timings.quorum_fetch_s
    # The leader may have held back the last fetch for half a second, and verifying the cut takes time.
    no_sooner_s = fetch_s - 1
    return Claim(
        name="fetch-timeout",
        section="003, flow 3 and condition 1",
        quote="B and C starts new election since fetch timeout expired before receiving fetch response from "
        "leader A",
        says=f"B and C elect because they get no fetch response, not before their fetch time-out of {fetch_s:g} s can end.",
        holds=quorum_elects(after="cut", within_s=6 * fetch_s, not_within_s=no_sooner_s),
    )


CLAIMS = (
    Claim(
        name="split-brain",
        section="003, flow 4",
        quote="B (or C) is elected as a leader in new epoch, while A is still the leader in old epoch",
        says="B (or C) is elected in a new epoch, while A is still the leader in the old one: two leaders.",
        holds=both(
            controller_epoch_rises(since="cut", until="standing"), quorum_leaders_are(2, at="standing")
        ),
        erratum=Erratum(
            says="One controller leads; the one that was cut off has resigned.",
            because=RESIGNS,
            since="3.7.0",
            holds=both(
                controller_epoch_rises(since="cut", until="standing"), quorum_leaders_are(1, at="standing")
            ),
        ),
    ),
    _after_the_fetch_timeout(BASE),
    *bumps_epoch(
        OLD_LEADER,
        "The old leader reaches no voter; it keeps starting elections and bumps its epoch.",
        since="cut",
        until="standing",
    ),
    Claim(
        name="stale-metadata",
        section="003, flow 5 and 6",
        quote='broker E describe topic "new", but got nothing because it is connecting to the old leader A',
        says='Broker D creates a topic "new" through leader B; broker E describes it and gets nothing, '
        "because it is connected to the old leader A.",
        given=OF_D.knows(MADE, at="standing"),
        holds=opposite(OF_E.knows(MADE, at="standing")),
        erratum=Erratum(
            says="Broker E follows the new leader and knows the topic while the cut lasts.",
            because=RESIGNS,
            since="3.7.0",
            holds=OF_E.knows(MADE, at="standing"),
        ),
    ),
    Claim(
        name="operation-unknown",
        section="beyond 003",
        says="A request through E for a topic gets no answer while the cut lasts, and the topic is created afterwards: the outcome is unknown, not failed.",
        holds=both(
            noted("asked-unanswered"),
            opposite(OF_D.knows(ASKED, at="standing")),
            OF_D.knows(ASKED, at="agreed"),
        ),
        erratum=Erratum(
            says="It is created at once: E forwards it to the new leader.",
            because=RESIGNS,
            since="3.7.0",
            holds=both(noted("asked-done"), OF_D.knows(ASKED, at="standing")),
        ),
    ),
    Claim(
        name="heal-without-election",
        section="beyond 003",
        says="When the links are back, the old leader steps down for the new one without another election.",
        holds=controller_stays(since="standing", until="converged"),
        erratum=Erratum(
            says="It deposes the healthy leader: cut off, it raised its epoch with each failed election.",
            because="from 3.7.0 it resigns and stands for election, and before 4.0 it does not ask first "
            "whether it could win (pre-vote, KIP-996)",
            since="3.7.0",
            before="4.0.0",
            holds=controller_epoch_rises(since="standing", until="converged", at_least=2),
        ),
    ),
    Claim(
        name="data-split",
        section="beyond 003",
        says="The metadata split becomes a data split: D leads the partition for the majority, E for itself, "
        "though every link between brokers is whole.",
        holds=both(
            OF_D.believes(T, leader=1, at="standing"),
            OF_E.believes(T, leader=2, isr=(1, 2, 3), at="standing"),
        ),
        erratum=Erratum(
            says="E leads for everybody, all the time.",
            because=RESIGNS,
            since="3.7.0",
            holds=both(
                T.stays(since="cut", until="standing", what="leader"),
                *(broker(number).believes(T, leader=2, at="standing") for number in (1, 2, 3)),
            ),
        ),
    ),
    Claim(
        name="acks1-lost",
        section="beyond 003",
        says="What E acknowledges with acks=1 from then on is lost.",
        before="3.7.0",
        holds=messages("az2-acks1", after="data-split", before="standing").became(
            "lost", "lost_after_read", "overwritten", at_least=5
        ),
    ),
    Claim(
        name="acks1-kept",
        section="beyond 003",
        says="Nothing that E acknowledges with acks=1 is lost.",
        since="3.7.0",
        holds=messages("az2-acks1").none_lost(at_risk_after="elected", at_least=10),
    ),
    Claim(
        name="acks-all-safe",
        section="beyond 003",
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=messages(topic=TOPIC, acks=-1).none_lost(at_risk_after="cut", at_least=5),
    ),
)

SCENARIO = Scenario(
    name="kraft-zombie-controller",
    title="The active controller is cut from the other controllers and one broker; another reaches all",
    article="003",
    section="flow",
    body=body,
    aliases={"A": ZOMBIE, "B": "controller1", "C": "controller3", "D": D, "E": E},
    setup=Setup(topics=(Topic(TOPIC, (2, 3, 1)),), controller="broker2", exactly=("controller",)),
    claims=CLAIMS,
    timed=(_after_the_fetch_timeout,),
    expected=(
        Expected(
            "lost",
            "writer_name IN ('az2-acks1', 'az2-probe') AND acks = 1",
            "acknowledged by a leader that only the zombie controller still knows",
            before="3.7.0",
        ),
    ),
    faults=tuple(f"cut {text}" for text in CUTS),
    kafka="3.6.2",
    mode="kraft",
    outcome="3.6.2: two quorum leaders, stale metadata, lost acks=1 writes; none of it from 3.7.0 on",
    versions=("3.6.2", "3.7.0", "3.9.1", "4.3.1"),
)
