"""Transactions that commit offsets: `python -m tests.cluster.offsets_worker RUNS VERSION CLIENT...`.

Prints the run folder. Each client has a group of its own, in which it commits 2, aborts 4 and commits 3.
"""

from __future__ import annotations

import sys
from typing import Any

from harness.cluster.setup import Setup
from harness.errors import InvalidRunError
from harness.kafka.model import Topic
from harness.kafka.versions import kafka_version
from run.scenario import Scenario
from run.stage import Stage
from scenarios.steps import seed
from tests.cluster.mutant_worker import run

TOPIC = "t"
CLIENTS: dict[str, dict[str, Any]] = {
    "raw-v1": {"via": "raw", "protocol": "v1"},
    "raw-v2": {"via": "raw", "protocol": "v2"},
    "java": {"via": "java"},
}


def body(stage: Stage, clients: tuple[str, ...]) -> None:
    """Each client, one after the other."""
    seed(stage, TOPIC)
    for name in clients:
        settings = CLIENTS[name]
        producer = stage.transactional("az1", name, **settings).prepare()
        group = stage.group_offsets("az1", f"of-{name}")
        coordinator = stage.group_coordinator(group.group)
        for offset, commit in ((2, True), (4, False), (3, True)):
            producer.begin()
            error = producer.send_offsets(group, TOPIC, offset)
            if error:
                raise InvalidRunError(f"{name} could not send offset {offset}: error {error}.")
            group.wait_answered(TOPIC, at=coordinator)
            producer.must_end(commit=commit)
            group.wait_answered(TOPIC, at=coordinator, stable=True)


def scenario(version: str, *clients: str) -> Scenario:
    """The scenario on a version of Kafka."""
    return Scenario(
        name="offsets",
        title="Transactions commit offsets, by clients of each kind",
        body=lambda stage: body(stage, clients),
        setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), stream_rate=0.0),
        kafka=version,
        mode=kafka_version(version).default_mode,
    )


if __name__ == "__main__":
    sys.exit(run(scenario(*sys.argv[2:]), sys.argv[1]))
