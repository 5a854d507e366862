"""Replicas move to another log directory of their broker while an AZ is cut off (KIP-113, KIP-858).

In a KRaft cluster, a broker copies the replica by itself. It gives up the old directory only when the controller has
stored the new one, which a broker that is cut off cannot have. In ZooKeeper mode it does not even begin: the request
reads the topic's configuration from ZooKeeper, and gets no answer as long as the broker cannot reach it (seen once, with
2.7.1).
"""

from __future__ import annotations

from checkers.claims.builders import both, messages, noted, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.lab.model import DATA, SECOND_DATA
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import durable_producer, seed, settle, stand

SECTION = "beyond the articles"
T = "moved"
DEPOSED, LEADER = "broker1", "broker2"
MOVED = {SECOND_DATA: False}
BEGUN = {DATA: False, SECOND_DATA: True}
STAND_S = 20.0
"""Longer than the broker waits between two requests to the controller (10 s at most)."""


def _in_words(folders: dict[str, bool]) -> str:
    return ", ".join(f"copied to {name}" if copied else name for name, copied in sorted(folders.items()))


def _mark(stage: Stage, name: str, text: str) -> int:
    """A mark with the directories in which each broker has its replica."""
    folders = {broker: _in_words(stage.operator.replica_folders(T, broker)) for broker in (DEPOSED, LEADER)}
    where = "; ".join(f"{broker}: {folder}" for broker, folder in folders.items())
    return stage.mark(name, f"{text} ({where})", **folders)


def body(stage: Stage) -> None:
    """Cut the leader's AZ off; move its replica and that of the next leader; heal; let it lead again."""
    operator = stage.operator
    seed(stage, T)
    for broker in (DEPOSED, LEADER):
        operator.move_replica(T, broker, DATA)
    stage.wait_replicated(T)
    _mark(stage, "placed", "both replicas are in the first directory")
    ahead = stage.producer("az1", "az1-ahead", DEPOSED, acks=1)
    writer = durable_producer(stage, "az2", "az2-acks-all")
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", f"{DEPOSED} is cut off")
        for label in ("c", "d"):
            ahead.must_send(T, label)
        stage.wait_for_leader(T, on=LEADER)
        for broker in (DEPOSED, LEADER):
            operator.move_replica(T, broker, SECOND_DATA, finished=broker == LEADER)
        moving = _mark(stage, "moving", "an operator moves both replicas")
        for number in range(10):
            writer.must_send(T, f"e{number}")
        stand(stage, moving, STAND_S)
        _mark(stage, "standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    wait_until(
        lambda: operator.replica_folders(T, DEPOSED),
        accept=lambda folders: folders == MOVED,
        within_s=stage.timings.converge_s,
        awaiting=f"the replica of {DEPOSED} to be in its other directory",
        abort=stage.cluster.check_alive,
    )
    stage.wait_for_isr(T, 1, 2, 3, within_s=stage.timings.converge_s)
    _mark(stage, "moved", "both replicas have moved")
    operator.elect(T, leader=DEPOSED)
    for number in range(10):
        writer.must_send(T, f"f{number}")
    settle(stage)


PT = partition(T)
CLAIMS = (
    Claim(
        name="another-leads",
        section=SECTION,
        says="A broker that is not cut off leads, and its replica moves meanwhile.",
        holds=both(
            PT.is_led_by((2, 3), isr=(2, 3), at="standing"),
            noted("moving", **{LEADER: _in_words(MOVED)}),
        ),
    ),
    Claim(
        name="move-waits",
        section=SECTION,
        says="The broker that is cut off copies its replica, and keeps it in the old directory until the controller has "
        "stored the new one, after the cut.",
        holds=both(
            PT.has_isr(2, 3, at="standing"),
            noted("standing", **{DEPOSED: _in_words(BEGUN)}),
            noted("moved", **{DEPOSED: _in_words(MOVED)}),
        ),
    ),
    Claim(
        name="ahead-lost",
        section=SECTION,
        says="What it acknowledged with acks=1 in the cut is lost, also from the copy.",
        holds=messages("az1-ahead", label=("c", "d")).acknowledged_then_lost(at_least=2),
    ),
    Claim(
        name="acks-all-safe",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost, nor when it leads again from the new directory.",
        holds=both(
            PT.is_led_by(1, at="converged"),
            messages(acks=-1).none_lost(at_risk_after="cut", at_least=20),
        ),
    ),
)

SCENARIO = Scenario(
    name="replicas-move-in-cut",
    title="Replicas move to another log directory while their broker is cut off",
    article="beyond",
    section="disks",
    body=body,
    setup=Setup(
        topics=(Topic(T, (1, 2, 3), config={"min.insync.replicas": "2"}),),
        second_log_dirs=(DEPOSED, LEADER),
        controller="broker2",
        exactly=("broker", "controller"),
        stream_rate=0,
    ),
    kafka="4.4.0",
    mode="kraft",
    versions=("4.3.1", "4.4.0"),
    claims=CLAIMS,
    expected=(
        Expected("lost", "writer_name = 'az1-ahead'", "only the leader that was cut off had it"),
        Expected(
            "server_error",
            "detail LIKE '%ASSIGN_REPLICAS_TO_DIRS%'",
            "a broker first asks a controller that is not the active one",
        ),
        Expected(
            "server_error",
            "detail LIKE '%AssignmentsManager%unexpected callback exception%'",
            "the controller may answer after the replica has moved (docs/findings/assignment-answered-after-the-move.md)",
        ),
    ),
    faults=("isolate az1", f"move replicas of {DEPOSED} and {LEADER}"),
    outcome="the replica of the broker that is cut off moves only after the cut; acks=all loses nothing",
)
