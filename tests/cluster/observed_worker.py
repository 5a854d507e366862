"""A ZooKeeper node is away while the observer watches it: `python -m tests.cluster.observed_worker RUNS`.

Prints the run folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Scenario
from run.stage import Stage
from scenarios.steps import pins, seed
from tests.cluster.mutant_worker import run

TOPIC = "t"
FOLLOWER = "zookeeper1"


def body(stage: Stage) -> None:
    """Stop a ZooKeeper node and start it again; then change a partition twice."""
    seed(stage, TOPIC)
    stage.kill(FOLLOWER)
    _wait(stage, lambda: not stage.observer.view(FOLLOWER).reachable(), f"{FOLLOWER} to be seen down")
    stage.restart(FOLLOWER)
    _wait(stage, lambda: stage.observer.view(FOLLOWER).reachable(), f"{FOLLOWER} to be seen again")
    stage.mark("back", "the node serves again, and the observer has a new session with it")
    stage.nemesis.kill("broker3")
    _wait(stage, lambda: _seen(stage) == (1, 2), f"{FOLLOWER} to show the ISR without broker3")
    stage.restart("broker3")
    _wait(stage, lambda: _seen(stage) == (1, 2, 3), f"{FOLLOWER} to show the whole ISR")
    stage.mark("seen", "the node that was away has shown both changes")


def _seen(stage: Stage) -> tuple[int, ...] | None:
    return stage.observer.view(FOLLOWER).isr(TOPIC)


def _wait(stage: Stage, holds: Callable[[], bool], awaiting: str) -> None:
    wait_until(holds, within_s=30, awaiting=awaiting, abort=stage.cluster.check_alive)


SCENARIO = Scenario(
    name="observed",
    title="A ZooKeeper node is away for a while",
    article="-",
    section="",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper3",
        zookeeper_pins=pins(1, 2, 3, to=(2, 3)),
        stream_rate=0.0,
    ),
    claims=(),
    faults=(f"kill {FOLLOWER}", "kill broker3"),
    outcome="",
)

if __name__ == "__main__":
    sys.exit(run(SCENARIO, sys.argv[1]))
