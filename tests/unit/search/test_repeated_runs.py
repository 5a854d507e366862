"""What a run of a schedule keeps, so that it can be repeated, and what is left of a clean one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.settings import Setting, Settings, TopicShape
from harness.cluster.timings import BASE
from harness.errors import BadDataError
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS
from run.runner import RunOptions
from studies.search.grammar import fresh
from studies.search.process import choose
from studies.search.repeat import RepeatedSchedule, origin_of
from studies.search.runs import SCHEDULES, job_of, thin
from studies.search.schedule import FILE
from studies.search.space import space_of
from studies.series.fleet import Fleet
from studies.series.job import Place
from studies.series.planned import Plan
from studies.series.serving import RunOrder

TOPOLOGY = THREE_AZS.topology("kraft")
SCHEDULE = fresh(space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE), 1, 0)


def folder_of(place: Place, runs: Path, client: str = "") -> Path:
    """The run folder of a job, as it is before the run begins."""
    plan = Plan(version="3.6.2", mode="kraft", settings={}, client=client)
    return Fleet(SCHEDULES, place, runs, 1)._new_folder(job_of(plan, SCHEDULE), None).path


@pytest.mark.parametrize(("client", "library"), [("", "librdkafka"), ("java@3.9.1", "java")])
def test_a_client_library_goes_with_its_runs(tmp_path: Path, client: str, library: str) -> None:
    """To those who repeat them, and to the process that carries them out."""
    folder = folder_of(Place(), tmp_path / "runs", client)
    source = RepeatedSchedule(schedule=SCHEDULE, finding=None, folder=folder)
    assert origin_of(source).client == client
    options = RunOptions(version=kafka_version("3.6.2"), mode="kraft")
    _, chosen = choose(options, RunOrder(folder=str(folder), scenario="schedule", client=client), 1)
    assert chosen.client.name == library


def test_a_thinned_run_keeps_its_summary(tmp_path: Path) -> None:
    for name in (FILE, "run.json", "judgement.json", "life.parquet", "run.log"):
        (tmp_path / name).write_text("x")
    (tmp_path / "nodes" / "broker1").mkdir(parents=True)
    (tmp_path / "journal").mkdir()
    thin(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judgement.json", "run.json", FILE]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"place": 7}', "is malformed .*place"),
        ('{"place": {"cluster_file": 7}}', "is malformed .*cluster_file"),
        ('{"place": {"settings": {"broker": 7}}}', "is malformed .*broker"),
        ('{"mode": ["kraft"]}', "is malformed .*mode"),
        ("[" * 9**5, "is JSON that is nested too deeply"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_run_with_a_damaged_manifest_is_not_repeated(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(content)
    source = RepeatedSchedule(schedule=SCHEDULE, finding=None, folder=tmp_path)
    with pytest.raises(BadDataError, match=rf"run\.json {problem}.*; the run folder is damaged\.$"):
        origin_of(source)


def test_a_run_is_repeated_with_its_settings(tmp_path: Path) -> None:
    settings = Settings(
        broker={"num.io.threads": Setting(key="num.io.threads", value="2", place="--set")},
        shapes={"t": TopicShape(assignment=((1, 2), (2, 3)))},
        compress_time=2.0,
    )
    place = replace(Place(), settings=settings.as_json(), cluster_file=tmp_path / "cluster.toml")
    folder = folder_of(place, tmp_path / "runs")
    origin = origin_of(RepeatedSchedule(schedule=SCHEDULE, finding=None, folder=folder))
    assert (origin.settings, origin.cluster_file) == (settings, tmp_path / "cluster.toml")
