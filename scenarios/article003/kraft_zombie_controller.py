"""Article 003: the active controller is cut from the other controllers and from one broker, not from all."""

from __future__ import annotations

from checkers.claims.former import condition, mark
from harness.cluster.setup import Setup
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.connection import NoAnswerError
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from harness.waiting import wait_until
from scenarios.steps import require_controller

TOPIC = "led-by-e"
MADE = "made-through-d"
ASKED = "asked-through-e"
BEFORE = "asked-before-the-cut"
ZOMBIE, D, E = "controller2", "broker1", "broker2"
CUTS = (f"{ZOMBIE} <-> controller1", f"{ZOMBIE} <-> controller3", f"{ZOMBIE} <-> {D}")
CUT_S = 16.0
PATIENCE_S = 5.0


def body(stage: Stage) -> None:
    """Cut, create one topic on each side of the quorum, write to the partition led by E, heal, and look."""
    require_controller(stage, ZOMBIE)
    stage.observer.watch([MADE, ASKED])
    seed = stage.writer("az2", "az2-seed", E, acks=-1, request_timeout_s=10)
    for message in ("a", "b"):
        seed.must_send(TOPIC, message)
    stage.wait_replicated(TOPIC)
    acks_1 = stage.writer("az2", "az2-acks1", E, acks=1)
    acks_all = stage.writer("az2", "az2-acks-all", E, acks=-1)

    # So that E asks this controller, and not one that led while the cluster started and may lead again.
    _create(stage, E, BEFORE, 10.0, "before")

    with stage.nemesis.cut(*CUTS):
        cut = stage.mark("cut", f"{ZOMBIE}, the active controller, reaches neither the others nor {D}")
        at_e = [acks_1.keep_writing(TOPIC, every_s=0.25), acks_all.keep_writing(TOPIC, every_s=0.25)]
        elected = _other_controller(stage)
        stage.mark("elected", f"{elected} leads the quorum of the majority")
        _create(stage, D, MADE, 10.0, "made")
        _create(stage, E, ASKED, PATIENCE_S, "asked")
        if _leads(stage, D, CUT_S - stage.since(cut)):
            stage.mark("data-split", f"{D} leads {TOPIC} for the majority; {E} still takes writes")
            stage.wait_until_serving(TOPIC, D, az="az1")
            at_d = stage.writer("az1", "az1-acks-all", D, acks=-1)
            for number in range(5):
                at_d.send(TOPIC, f"d{number}")
        _stand(stage, cut, CUT_S)
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
        within_s=15,
        awaiting=f"a leader of the quorum other than {ZOMBIE}",
        abort=stage.cluster.check_alive,
    )
    return stage.active_controller()


def _create(stage: Stage, broker: str, topic: str, patience_s: float, name: str) -> None:
    """Ask one broker to create a topic, as an operator would who reaches no other; mark what came of it."""
    address = stage.lab.topology.host(broker).broker_address
    wanted = [Topic(topic, (1, 2, 3))]
    try:
        answer = create_topics(address, wanted, wait_ms=int(patience_s * 1000), timeout_s=patience_s)[topic]
    except NoAnswerError:
        stage.mark(f"{name}-unanswered", f"{broker} gave no answer to 'create {topic}' in {patience_s:g} s")
        return
    outcome = "done" if answer.error == 0 else "refused"
    stage.mark(f"{name}-{outcome}", f"{broker} answered 'create {topic}' with error {answer.error}")


def _leads(stage: Stage, broker: str, within_s: float) -> bool:
    number = stage.lab.topology.host(broker).node_id
    try:
        wait_until(
            lambda: stage.observer.view(broker).leader(TOPIC) == number,
            within_s=within_s,
            awaiting=f"{broker} to lead {TOPIC}",
            abort=stage.cluster.check_alive,
        )
    except WaitTimeoutError:
        return False
    return True


def _stand(stage: Stage, since: int, for_s: float) -> None:
    """Let the situation stand, so that "for the whole cut" means something."""
    wait_until(
        lambda: stage.since(since) >= for_s,
        within_s=for_s + 5,
        awaiting="the cut to have lasted long enough",
        abort=stage.cluster.check_alive,
    )


def _agreed(stage: Stage) -> None:
    controllers = [host.name for host in stage.lab.topology.role("controller")]
    brokers = [host.name for host in stage.lab.topology.role("broker")]

    def missing() -> str:
        leaders = {stage.observer.view(name).controller() for name in controllers}
        if len(leaders) != 1 or not leaders - {-1, None}:
            return f"controllers name the leaders {sorted(map(str, leaders))}"
        for broker in brokers:
            unknown = [t for t in (MADE, ASKED) if stage.observer.view(broker).leader(t) is None]
            if unknown:
                return f"{broker} does not know {unknown}"
        return ""

    wait_until(
        missing,
        accept=lambda what: what == "",
        within_s=40,
        awaiting="controllers and brokers to agree",
        abort=stage.cluster.check_alive,
    )


_RESIGNS = "since 3.7.0 (KAFKA-15489) a leader that hears no majority for 1.5 fetch time-outs resigns"


def _naming_itself(until: str) -> str:
    """How many controllers name themselves as leader at a time; one that has resigned names nobody."""
    return (
        "(SELECT count_if(leads) FROM (SELECT source, max_by(controller % 10, ns) = "
        "cast(right(source, 1) AS int) AS leads FROM views WHERE subject = 'controller' "
        f"AND source LIKE 'controller%' AND ns <= {until} GROUP BY source))"
    )


def _knew(broker: str, topic: str, until: str) -> str:
    """Whether a broker had heard of a topic by some time."""
    return (
        f"(SELECT count(*) > 0 FROM views WHERE source = '{broker}' AND subject = 'partition' "
        f"AND topic = '{topic}' AND ns <= {until})"
    )


def _marked(name: str) -> str:
    return f"(SELECT count(*) > 0 FROM marks WHERE name = '{name}')"


def _quorum_epoch(until: str) -> str:
    """Highest epoch in which a controller was seen to lead until a time."""
    return f"(SELECT max(epoch) FROM controllers WHERE ns <= {until})"


def _at(source: str, column: str, until: str) -> str:
    return (
        f"(SELECT max_by({column}, ns) FROM views WHERE source = '{source}' AND subject = 'partition' "
        f"AND topic = '{TOPIC}' AND ns <= {until})"
    )


_EPOCHS = (
    f"concat('quorum epoch ', {_quorum_epoch(mark('standing'))}, ' before the heal, ', "
    f"{_quorum_epoch(mark('converged'))}, ' after it')"
)
_LEADERS = (
    f"concat('broker1 names leader ', {_at('broker1', 'leader', mark('standing'))}, ', broker2 names ', "
    f"{_at('broker2', 'leader', mark('standing'))}, ', broker3 names ', "
    f"{_at('broker3', 'leader', mark('standing'))})"
)
_ACKS1 = "writer_name = 'az2-acks1' AND outcome = 'ok'"
_LOST = "fate IN ('lost', 'lost_after_read', 'overwritten')"
_LOST_COUNTS = (
    f"SELECT {{}} AS holds, concat(count_if({_LOST}), ' of ', count(*), "
    f"' messages that broker2 acknowledged are lost') AS observed FROM life WHERE {_ACKS1}"
)

CLAIMS = (
    Claim(
        name="split-brain",
        section="003, flow 4",
        says="B (or C) is elected in a new epoch, while A is still the leader in the old one: two leaders.",
        holds=condition(
            f"{_naming_itself(mark('standing'))} = 2",
            f"concat({_naming_itself(mark('standing'))}, ' controllers lead at the end of the cut')",
        ),
        erratum=Erratum(
            says="One controller leads; the one that was cut off has resigned.",
            because=_RESIGNS,
            since="3.7.0",
            holds=condition(
                f"{_naming_itself(mark('standing'))} = 1",
                f"concat({_naming_itself(mark('standing'))}, ' controller leads at the end of the cut')",
            ),
        ),
    ),
    Claim(
        name="stale-metadata",
        section="003, flow 5 and 6",
        says='Broker D creates a topic "new" through leader B; broker E describes it and gets nothing, '
        "because it is connected to the old leader A.",
        given=condition(_marked("made-done"), f"'the topic was created through {D}'"),
        holds=condition(
            f"NOT {_knew(E, MADE, mark('standing'))}",
            f"concat('{E} ', if({_knew(E, MADE, mark('standing'))}, 'knew', 'did not know'), ' the topic "
            "at the end of the cut')",
        ),
        erratum=Erratum(
            says="Broker E follows the new leader within a few seconds and knows the topic.",
            because=_RESIGNS,
            since="3.7.0",
            holds=condition(
                _knew(E, MADE, mark("standing")),
                f"concat('{E} knew the topic ', round(((SELECT min(ns) FROM views WHERE source = '{E}' AND "
                f"topic = '{MADE}') - {mark('made-done')}) / 1e9, 1), ' s after it was created')",
            ),
        ),
    ),
    Claim(
        name="operation-unknown",
        section="003, consequence",
        says="A topic asked for through E is not answered at all while the cut lasts, and comes into being "
        "after it: the outcome is unknown, not failed.",
        holds=condition(
            f"{_marked('asked-unanswered')} AND NOT {_knew('broker1', ASKED, mark('standing'))} AND "
            f"{_knew('broker1', ASKED, mark('agreed'))}",
            "(SELECT max(text) FROM marks WHERE name LIKE 'asked-%')",
        ),
        erratum=Erratum(
            says="It is created at once: E forwards it to the new leader.",
            because=_RESIGNS,
            since="3.7.0",
            holds=condition(
                f"{_marked('asked-done')} AND {_knew('broker1', ASKED, mark('standing'))}",
                "(SELECT max(text) FROM marks WHERE name LIKE 'asked-%')",
            ),
        ),
    ),
    Claim(
        name="heal-without-election",
        section="003, heal",
        says="When the links are back, the old leader steps down for the new one without another election.",
        holds=condition(f"{_quorum_epoch(mark('standing'))} = {_quorum_epoch(mark('converged'))}", _EPOCHS),
        erratum=Erratum(
            says="It deposes the healthy leader: cut off, it raised its epoch with each failed election.",
            because="from 3.7.0 it resigns and stands for election, and before 4.0 it does not ask first "
            "whether it could win (pre-vote, KIP-996)",
            since="3.7.0",
            before="4.0.0",
            holds=condition(
                f"{_quorum_epoch(mark('converged'))} > {_quorum_epoch(mark('standing'))} + 1", _EPOCHS
            ),
        ),
    ),
    Claim(
        name="data-split",
        section="003, data",
        says="The metadata split becomes a data split: D leads the partition for the majority, E for itself, "
        "though every link between brokers is whole.",
        holds=condition(
            f"{_at('broker1', 'leader', mark('standing'))} = 1 AND "
            f"{_at('broker2', 'leader', mark('standing'))} = 2",
            _LEADERS,
        ),
        erratum=Erratum(
            says="E leads for everybody, all the time.",
            because=_RESIGNS,
            since="3.7.0",
            holds=condition(
                " AND ".join(
                    f"{_at(broker, 'leader', mark('standing'))} = 2"
                    for broker in ("broker1", "broker2", "broker3")
                ),
                _LEADERS,
            ),
        ),
    ),
    Claim(
        name="acks1-lost",
        section="003, data",
        says="What E acknowledged with acks=1 after that is lost.",
        holds=_LOST_COUNTS.format(f"CASE WHEN count(*) < 10 THEN NULL ELSE count_if({_LOST}) >= 5 END"),
        erratum=Erratum(
            says="Nothing is lost.",
            because=_RESIGNS,
            since="3.7.0",
            holds=_LOST_COUNTS.format(f"CASE WHEN count(*) < 10 THEN NULL ELSE count_if({_LOST}) = 0 END"),
        ),
    ),
    Claim(
        name="acks-all-safe",
        section="003, data",
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=(
            f"SELECT CASE WHEN count(*) < 5 THEN NULL ELSE count_if({_LOST}) = 0 END AS holds, "
            f"concat(count_if({_LOST}), ' of ', count(*), ' messages lost') AS observed "
            f"FROM life WHERE acks = -1 AND outcome = 'ok' AND topic = '{TOPIC}'"
        ),
    ),
)

SCENARIO = Scenario(
    name="kraft-zombie-controller",
    title="The active controller is cut from the other controllers and one broker; another reaches all",
    article="003",
    section="flow",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (2, 3, 1)),), controller="broker2"),
    claims=CLAIMS,
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
    versions=("3.6.2", "3.9.1", "4.3.1"),
)
