"""Which runs share a cluster, and when a new one is started. The clusters' processes are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from py4j.protocol import Py4JNetworkError

from harness.cluster.settings import Setting, Settings, TopicShape
from harness.cluster.timings import BASE
from harness.errors import BadDataError, LabError
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS
from run.folder import RunFolder
from run.runner import RunOptions
from studies.search import fleet as fleets
from studies.search.cell import ScheduleOrder, choose
from studies.search.findings import Finding
from studies.search.fleet import MOST_RUNS, Fleet, JudgedRun, Place, ScheduleJob, thin
from studies.search.grammar import fresh
from studies.search.repeat import RepeatedSchedule, origin_of
from studies.search.rules import read
from studies.search.schedule import FILE
from studies.search.space import space_of
from studies.series.pool import CellRun
from studies.series.serving import RunAnswer, Site
from studies.series.standing import LostClusterError, passed
from studies.series.summary import RunSummary

TOPOLOGY = THREE_AZS.topology("kraft")
SPACE = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE)
PLACE = Place(version="3.6.2", mode="kraft", topology=TOPOLOGY, settings={})


class Script:
    """What the stand-ins do; ``began`` has the digests of each cluster's runs, in the order of its start."""

    def __init__(self) -> None:
        self.began: list[list[str]] = []
        self.answers: dict[str, list[RunAnswer | LostClusterError]] = {}
        self.findings: dict[str, Finding] = {}
        self.removed: list[int] = []
        self.clients: list[str] = []
        self.judged: list[str] = []
        self.jvm_ends: list[Exception] = []
        self.forgotten = self.dies_at = 0
        self.judged_by_a_dead_jvm = False
        self.fails: list[Exception] = []
        """What the starts of the next clusters fail with."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    made = Script()

    class Cluster:
        def __init__(self, *_: object, **__: object) -> None:
            if made.fails:
                raise made.fails.pop(0)
            self.path, self.log = tmp_path / "cluster", tmp_path / "log"
            self.mine: list[str] = []
            self.number = len(made.began)
            made.began.append(self.mine)

        def carry_out(self, order: bytes) -> bytes:
            asked = msgspec.json.decode(order, type=ScheduleOrder)
            made.clients.append(asked.client)
            digest = read(Path(asked.folder) / FILE).digest
            answers = made.answers.get(digest, [])
            answer = answers.pop(0) if answers else RunAnswer(usable=True)
            if isinstance(answer, LostClusterError):
                raise answer
            if not answer.refused:
                self.mine.append(digest)
            return msgspec.json.encode(answer)

        def remove(self) -> None:
            made.removed.append(self.number)

        def __enter__(self) -> Cluster:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    class Processes:
        def __enter__(self) -> Processes:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def end_all(self) -> None:
            return None

    def judge(session: Any, run: CellRun) -> RunSummary:
        made.judged.append(run.cell.client)
        if made.jvm_ends:
            raise made.jvm_ends.pop(0)
        made.judged_by_a_dead_jvm = len(made.judged) == made.dies_at
        if made.judged_by_a_dead_jvm:
            return RunSummary(scenario="schedule", version="3.6.2", mode="kraft", verdict="crashed")
        manifest = RunFolder.open(run.folder).manifest()
        verdict = "crashed" if manifest["status"] == "crashed" else "as declared"
        promises: list[object] = []
        (run.folder / "judgement.json").write_text(
            json.dumps({"findings_by_class": {}, "promises": promises})
        )
        return RunSummary(scenario="schedule", version="3.6.2", mode="kraft", verdict=verdict)

    def findings(folder: Path, schedule: Any) -> tuple[Finding, ...]:
        found = made.findings.get(schedule.digest)
        return () if found is None else (found,)

    monkeypatch.setattr(fleets, "StandingProcess", Cluster)
    monkeypatch.setattr(fleets, "RunProcesses", Processes)
    monkeypatch.setattr(fleets, "judge_cell", judge)
    monkeypatch.setattr(fleets, "findings_of", findings)

    def forget() -> None:
        made.forgotten += 1

    monkeypatch.setattr("checkers.spark.session.start_session", lambda: "a session")
    monkeypatch.setattr("checkers.spark.session.forget_session", forget)
    monkeypatch.setattr("checkers.spark.session.session_ended", lambda: made.judged_by_a_dead_jvm)
    return made


JOBS = [ScheduleJob(schedule=fresh(SPACE, 1, number), number=number) for number in range(13)]


def run(tmp_path: Path, jobs: list[ScheduleJob], parallel: int = 1) -> list[JudgedRun]:
    ended: list[JudgedRun] = []
    with Fleet(PLACE, tmp_path / "runs", parallel) as fleet:
        for job in jobs:
            fleet.submit(job)
        while fleet.open:
            ended.append(fleet.next())
    return ended


def digests(jobs: list[ScheduleJob]) -> list[str]:
    return [job.schedule.digest for job in jobs]


def test_a_healthy_cluster_is_used_ten_times(script: Script, tmp_path: Path) -> None:
    ended = run(tmp_path, JOBS)
    assert [len(one) for one in script.began] == [MOST_RUNS, len(JOBS) - MOST_RUNS]
    assert sorted(one.job.number for one in ended) == list(range(13))
    assert script.removed[:1] == [0], "the folder of a cluster without findings is removed"


def test_a_run_after_a_finding_is_repeated_on_a_new_cluster(script: Script, tmp_path: Path) -> None:
    script.findings[JOBS[0].schedule.digest] = Finding(name="no-recovery", weight="new")
    ended = run(tmp_path, JOBS[:3])
    assert script.began == [digests(JOBS[:2]), digests(JOBS[1:3])]
    assert [one.job.number for one in ended] == [0, 1, 2]
    assert len(list((tmp_path / "runs" / "schedule").glob("2*"))) == 3, "the run that does not count is gone"
    assert script.removed != [0, 1]


def test_what_is_not_promised_does_not_speak_against_a_cluster(script: Script, tmp_path: Path) -> None:
    script.findings[JOBS[0].schedule.digest] = Finding(name="lost", weight="not promised")
    run(tmp_path, JOBS[:3])
    assert script.began == [digests(JOBS[:3])]


def test_a_run_that_was_not_complete_ends_its_cluster(script: Script, tmp_path: Path) -> None:
    script.answers[JOBS[0].schedule.digest] = [RunAnswer(usable=False)]
    run(tmp_path, JOBS[:3])
    assert script.began == [digests(JOBS[:1]), digests(JOBS[1:3])]


def test_a_cluster_that_is_not_healthy_is_left(script: Script, tmp_path: Path) -> None:
    script.answers[JOBS[1].schedule.digest] = [RunAnswer(refused=True)]
    ended = run(tmp_path, JOBS[:3])
    assert script.began == [digests(JOBS[:1]), digests(JOBS[1:3])]
    assert len(ended) == 3


def test_a_process_that_ends_leaves_a_crashed_run(script: Script, tmp_path: Path) -> None:
    script.answers[JOBS[0].schedule.digest] = [LostClusterError("ended with the process of its cluster")]
    ended = run(tmp_path, JOBS[:2])
    assert [one.verdict for one in ended] == ["crashed", "as declared"]
    manifest = RunFolder.open(ended[0].folder).manifest()
    assert "ended with the process of its cluster" in manifest["problem"]


def test_several_clusters_share_the_work(script: Script, tmp_path: Path) -> None:
    ended = run(tmp_path, JOBS, parallel=3)
    assert sorted(one.job.number for one in ended) == list(range(13))
    assert sorted(digest for cluster in script.began for digest in cluster) == sorted(digests(JOBS))


def test_a_failure_of_the_harness_is_raised(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[None]:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Fleet, "_folder", fail)
    with pytest.raises(RuntimeError, match="a mistake"):
        run(tmp_path, JOBS[:1])


def test_a_run_is_judged_again_if_the_jvm_has_ended(script: Script, tmp_path: Path) -> None:
    script.jvm_ends = [Py4JNetworkError("Answer from Java side is empty")]
    ended = run(tmp_path, JOBS[:3])
    assert [one.verdict for one in ended] == ["as declared"] * 3
    assert (script.forgotten, len(script.judged)) == (1, 4)
    assert script.began == [digests(JOBS[:3])]


def test_a_jvm_that_ended_during_a_judgement_is_replaced(script: Script, tmp_path: Path) -> None:
    script.dies_at = 2
    ended = run(tmp_path, JOBS[:3])
    assert [one.verdict for one in ended] == ["as declared"] * 3
    assert (script.forgotten, len(script.judged)) == (1, 4)


def test_a_run_that_no_jvm_judges_does_not_end_the_search(script: Script, tmp_path: Path) -> None:
    script.jvm_ends = [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "refused"),
    ]
    ended = run(tmp_path, JOBS[:3])
    assert [one.verdict for one in ended] == ["crashed", "as declared", "as declared"]
    assert "could not be judged (ConnectionRefusedError)" in ended[0].reasons[0]
    assert not ended[0].judged


def test_a_cluster_that_does_not_start_is_started_again(script: Script, tmp_path: Path) -> None:
    script.fails = [LabError("no memory"), OSError(28, "No space left on device")]
    ended = run(tmp_path, JOBS[:3])
    assert [one.job.number for one in ended] == [0, 1, 2]
    assert script.began == [digests(JOBS[:3])]


def test_a_search_whose_clusters_never_start_gives_up(script: Script, tmp_path: Path) -> None:
    script.fails = [LabError("no memory") for _ in range(3)]
    with pytest.raises(LabError, match="no memory"):
        run(tmp_path, JOBS[:3])


def test_what_fails_during_a_run_repeats_that_run_only(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = Fleet._folder, iter(range(100))

    def fail(self: Fleet, job: ScheduleJob, cluster: Path) -> RunFolder:
        if next(asked) == 1:
            raise OSError(28, "No space left on device")
        return folder(self, job, cluster)

    monkeypatch.setattr(Fleet, "_folder", fail)
    ended = run(tmp_path, JOBS[:3])
    assert sorted(one.job.number for one in ended) == [0, 1, 2]
    assert script.began == [digests(JOBS[:1]), digests(JOBS[1:3])]


def test_a_client_library_goes_with_its_runs(script: Script, tmp_path: Path) -> None:
    """To the cluster that carries them out, to their judgement, and to those who repeat them."""
    place = replace(PLACE, client="java@3.9.1")
    with Fleet(place, tmp_path / "runs", 1) as fleet:
        fleet.submit(JOBS[0])
        ended = fleet.next()
    assert script.clients == ["java@3.9.1"]
    assert script.judged == ["java@3.9.1"]
    source = RepeatedSchedule(schedule=JOBS[0].schedule, finding=None, folder=ended.folder)
    assert origin_of(source).client == "java@3.9.1"
    options = RunOptions(version=kafka_version("3.6.2"), mode="kraft")
    for client, library in (("", "librdkafka"), ("java@3.9.1", "java")):
        order = ScheduleOrder(folder=str(ended.folder), client=client)
        _, chosen = choose(Site(options=options, path=tmp_path), order, 1)
        assert chosen.client.name == library


def test_a_verdict_that_nobody_gives_is_not_waited_for() -> None:
    given: Future[bool] = Future()
    given.set_result(True)
    assert passed(given, lambda: True), "one that was given counts, whatever has stopped"
    asked = iter((False, True))
    assert not passed(Future(), lambda: next(asked))


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
    source = RepeatedSchedule(schedule=JOBS[0].schedule, finding=None, folder=tmp_path)
    with pytest.raises(BadDataError, match=rf"run\.json {problem}.*; the run folder is damaged\.$"):
        origin_of(source)


def test_a_run_is_repeated_with_its_settings(tmp_path: Path) -> None:
    settings = Settings(
        broker={"num.io.threads": Setting(key="num.io.threads", value="2", place="--set")},
        shapes={"t": TopicShape(assignment=((1, 2), (2, 3)))},
        compress_time=2.0,
    )
    place = replace(PLACE, settings=settings.as_json(), cluster_file=tmp_path / "cluster.toml")
    RunFolder(tmp_path).update(mode="kraft", place=place.as_json())
    origin = origin_of(RepeatedSchedule(schedule=JOBS[0].schedule, finding=None, folder=tmp_path))
    assert (origin.settings, origin.cluster_file) == (settings, tmp_path / "cluster.toml")
