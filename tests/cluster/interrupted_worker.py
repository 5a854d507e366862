"""Runs whose harness loses its ZooKeeper node, or whose body ends early.

`python -m tests.cluster.interrupted_worker CASE RUNS` prints the run folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.cluster.setup import Setup
from harness.errors import InvalidRunError
from harness.kafka.model import Topic
from harness.waiting import wait_until
from nemesis.fault import Injection
from run.scenario import Scenario
from run.stage import Stage
from scenarios.steps import pins, seed
from tests.cluster.mutant_worker import run

TOPIC = "t"
NODE = "zookeeper2"
"""The node leads ZooKeeper, and the harness is connected to it, but no broker is."""
LONGEST_SESSION_S = 10.0


def without_node(fault: Callable[[Stage], Injection]) -> Callable[[Stage], None]:
    """Stop the harness's ZooKeeper node for longer than a session lasts, and continue the run."""

    def body(stage: Stage) -> None:
        seed(stage, TOPIC)
        began_ns = stage.mark("begin")
        with fault(stage):
            stage.nemesis.kill("broker3")
            stage.wait_for_isr(TOPIC, 1, 2, within_s=30)
            wait_until(
                lambda: stage.since(began_ns) > LONGEST_SESSION_S,
                within_s=30,
                awaiting="the session of the harness to expire",
                poll_s=0.2,
            )
            stage.restart("broker3")
        stage.wait_converged(TOPIC)
        stage.mark("converged")

    return body


def broken_off(stage: Stage) -> None:
    """End half-way, while one broker is dead and another is paused."""
    seed(stage, TOPIC)
    stage.nemesis.kill("broker3")
    stage.nemesis.pause("broker2").inject()
    stage.producer("az1", "az1-acks1", "broker1", acks=1).must_send(TOPIC, "c")
    raise InvalidRunError("the body ends half-way")


def scenario(name: str, body: Callable[[Stage], None]) -> Scenario:
    """A case with one topic whose brokers use the other two ZooKeeper nodes."""
    return Scenario(
        name=name,
        title="The harness is disturbed, not the cluster",
        article="-",
        section="",
        body=body,
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3)),),
            controller="broker2",
            zookeeper_leader=NODE,
            zookeeper_pins=pins(1, 2, 3, to=(1, 3)),
            stream_rate=0.0,
        ),
    )


CASES = {
    "paused": without_node(lambda stage: stage.nemesis.pause(NODE)),
    "isolated": without_node(lambda stage: stage.nemesis.isolate(NODE)),
    "broken-off": broken_off,
}

if __name__ == "__main__":
    run(scenario(sys.argv[1], CASES[sys.argv[1]]), sys.argv[2])
    sys.exit(0)
