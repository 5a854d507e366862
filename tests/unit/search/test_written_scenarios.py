"""A schedule written as a scenario file is the same schedule when it is read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.timings import BASE
from harness.lab.layout import THREE_AZS
from run.scenario_file import find_in_file
from studies.search.findings import RunFinding
from studies.search.grammar import fresh
from studies.search.space import space_of
from studies.search.written import scenario_text

FINDINGS = (
    RunFinding(
        name="lost",
        weight="not promised",
        promise="not promised",
        row="acks-1-leader",
        known_bug="KAFKA-15489 (KAFKA-13621)",
        cause='it\'s "over" \\ here',
        settings="acks=1, 5 in flight",
    ),
    RunFinding(name="server_error", weight="new", cause="broker# ERROR: [ReplicaManager broker=#] 'quoted'"),
    RunFinding(name="no-recovery", weight="new"),
)


@pytest.mark.parametrize(
    ("version", "mode"),
    [("2.7.1", "zookeeper"), ("3.6.2", "kraft"), ("3.6.2", "kraft-combined"), ("4.4.0", "kraft")],
)
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda one: one.name)
def test_the_file_declares_the_schedule(tmp_path: Path, version: str, mode: str, finding: RunFinding) -> None:
    topology = THREE_AZS.topology(mode)
    space = space_of(kafka=version, mode=mode, topology=topology, timings=BASE)
    schedules = [fresh(space, 8, number) for number in range(10)]
    assert any(schedule.groups for schedule in schedules)
    assert any(schedule.shared for schedule in schedules) == (version == "4.4.0")
    for number, schedule in enumerate(schedules):
        text = scenario_text(
            schedule,
            finding,
            name=f"found-{number}",
            version=version,
            mode=mode,
            rate="it came back in 3 of 4 runs",
            story=['Message 1/2 of producer-1a: "lost"', "  1.234 s  sent \\ to broker1"],
        )
        file = tmp_path / f"found_{number}.py"
        file.write_text(text)
        scenario = find_in_file(str(file))
        assert scenario.body is not None
        namespace: dict[str, object] = {}
        exec(compile(text, str(file), "exec"), namespace)
        assert namespace["SCHEDULE"] == schedule
        assert (scenario.name, scenario.mode, scenario.kafka) == (f"found-{number}", mode, version)
        assert bool(scenario.setup.transaction_log) == schedule.transactional
        assert bool(scenario.setup.share_log) == schedule.shared
        assert [topic.name for topic in scenario.setup.topics] == [topic.name for topic in schedule.topics]
