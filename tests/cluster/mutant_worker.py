"""Scenarios with one mechanism removed, run by `python -m tests.cluster.mutant_worker NAME RUNS`.

Prints the run folder. The claims do not change, so the judgement must.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from harness import artifacts
from harness.console import Progress
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import run_inside
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario
from scenarios.article000 import isr_change_stuck, unclean_election
from scenarios.article001 import long_isolation, power_cut, truncation_hw_vs_epoch
from scenarios.article002 import hw_truncation


def _broker_config(scenario: Scenario, **config: str) -> Scenario:
    given = {
        **scenario.setup.broker_config,
        **{key.replace("_", "."): value for key, value in config.items()},
    }
    return replace(scenario, setup=replace(scenario.setup, broker_config=given))


def _topic_config(scenario: Scenario, topic: str, without: str = "", **config: str) -> Scenario:
    topics = tuple(
        replace(
            one,
            config={
                **{key: value for key, value in one.config.items() if key != without},
                **{key.replace("_", "."): value for key, value in config.items()},
            },
        )
        if one.name == topic
        else one
        for one in scenario.setup.topics
    )
    return replace(scenario, setup=replace(scenario.setup, topics=topics))


MUTANTS = {
    "unclean-election-off": _topic_config(
        unclean_election.SCENARIO, unclean_election.UNCLEAN, unclean_leader_election_enable="false"
    ),
    "alter-isr-off": _broker_config(isr_change_stuck.STUCK, inter_broker_protocol_version="2.6"),
    "flushed": _broker_config(power_cut.UNFLUSHED, log_flush_interval_messages="1"),
    "leader-epochs-on": _topic_config(
        hw_truncation.DIVERGE, hw_truncation.OLD, without="message.format.version"
    ),
    "leader-epochs-off": _topic_config(
        truncation_hw_vs_epoch.SCENARIO, truncation_hw_vs_epoch.NEW, message_format_version="0.10.2"
    ),
    "alter-isr-on": _broker_config(long_isolation.SCENARIO, inter_broker_protocol_version="2.7"),
}


def run(scenario: Scenario, runs: str) -> int:
    """Run a scenario that is not in the catalogue, and print its run folder."""
    version = kafka_version(scenario.kafka)
    artifacts.resolve(version.version)
    folder = RunFolder.create(Path(runs), scenario.name)

    def work() -> int:
        result = run_scenario(scenario, RunOptions(version=version, mode=scenario.mode), folder, Progress())
        return 0 if result.status == "complete" else 1

    status = run_inside(work)
    sys.stdout.write(f"{folder.path}\n")
    return status


if __name__ == "__main__":
    sys.exit(run(MUTANTS[sys.argv[1]], sys.argv[2]))
