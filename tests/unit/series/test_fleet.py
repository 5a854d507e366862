"""Which jobs share a cluster, when a new one is started, and how runs are judged. Processes are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from harness.errors import LabError
from harness.lab.layout import THREE_AZS
from harness.waiting import wait_until
from run.folder import RunFolder
from studies.assess.battery import battery
from studies.assess.series import kind_of
from studies.search.findings import RunFinding
from studies.series import fleet as module
from studies.series import judging
from studies.series.fleet import MOST_RUNS, SCENARIOS, STRANGE, UNJUDGED, Fleet, JobKind, JudgedRun
from studies.series.job import Job, Place
from studies.series.judging import JobRun
from studies.series.processes import LostClusterError
from studies.series.serving import RunAnswer, RunOrder
from studies.series.summary import RunSummary


class Script:
    """What the stand-ins do; ``began`` has the jobs of each cluster, in the order of its start."""

    def __init__(self) -> None:
        self.began: list[list[str]] = []
        self.places: list[Path | None] = []
        """The folder of each cluster."""
        self.logs: list[Path] = []
        self.answers: dict[str, list[RunAnswer | Exception]] = {}
        self.findings: dict[str, RunFinding] = {}
        self.classes: dict[str, dict[str, int]] = {}
        self.promises: dict[str, str] = {}
        self.clients: list[str] = []
        self.judged: list[str] = []
        self.unreadable: set[str] = set()
        self.jvm_ends: list[Exception] = []
        self.forgotten = self.dies_at = 0
        self.judged_by_a_dead_jvm = False
        self.fails: list[Exception] = []
        """What the starts of the next clusters fail with."""
        self.before_judgement: Callable[[], None] = lambda: None

    def findings_of(self, job: Job, folder: Path) -> tuple[RunFinding, ...]:
        finding = self.findings.get(job.scenario)
        return () if finding is None else (finding,)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()

    class Cluster:
        def __init__(
            self, _: object, program: str, job: Job, place: Place, *, path: Path | None, log: Path
        ) -> None:
            if made.fails:
                raise made.fails.pop(0)
            self.log = log
            self.jobs: list[str] = []
            made.began.append(self.jobs)
            made.places.append(path)
            made.logs.append(log)
            if path is not None:
                (path / "nodes" / "broker1" / "data").mkdir(parents=True)

        def carry_out(self, order: RunOrder) -> RunAnswer:
            made.clients.append(order.client)
            answers = made.answers.get(order.scenario, [])
            answer = answers.pop(0) if answers else RunAnswer(usable=True)
            if isinstance(answer, Exception):
                raise answer
            if not answer.refused:
                self.jobs.append(order.scenario)
            return answer

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

    def judge(session: Any, run: JobRun) -> RunSummary:
        made.before_judgement()
        made.judged.append(run.job.scenario)
        if made.jvm_ends:
            raise made.jvm_ends.pop(0)
        made.judged_by_a_dead_jvm = len(made.judged) == made.dies_at
        crashed = RunFolder.open(run.folder).manifest()["status"] == "crashed"
        judgement = {
            "findings_by_class": made.classes.get(run.job.scenario, {}),
            "promises": [{"promise": made.promises.get(run.job.scenario, "not promised")}],
        }
        (run.folder / "judgement.json").write_text(json.dumps(judgement))
        return RunSummary(
            scenario=run.job.scenario,
            version=run.job.version,
            mode=run.job.mode,
            verdict="crashed" if crashed or made.judged_by_a_dead_jvm else "as declared",
            folder=str(run.folder),
        )

    def forget() -> None:
        made.forgotten += 1

    monkeypatch.setattr(module, "ClusterProcess", Cluster)
    monkeypatch.setattr(module, "ClusterProcesses", Processes)
    monkeypatch.setattr(judging, "judge_job", judge)
    monkeypatch.setattr("checkers.spark.session.start_session", lambda: "a session")
    monkeypatch.setattr("checkers.spark.session.forget_session", forget)
    monkeypatch.setattr("checkers.spark.session.session_ended", lambda: made.judged_by_a_dead_jvm)
    return made


def job(name: str, **fields: Any) -> Job:
    return Job(scenario=name, version="2.7.1", mode="zookeeper", **fields)


JOBS = [f"job-{number:02}" for number in range(13)]


def run(
    script: Script,
    tmp_path: Path,
    names: Sequence[str],
    *,
    parallel: int = 1,
    kind: JobKind | None = None,
    may_start: Callable[[Job], bool] = lambda job: True,
) -> list[JudgedRun]:
    """Run jobs to the end, by default of a kind that shares clusters without conditions."""
    kind = replace(kind or JobKind(program="stand-in"), findings=script.findings_of)
    with Fleet(kind, Place(), tmp_path / "runs", parallel, may_start) as fleet:
        fleet.submit(*map(job, names))
        ended = list(fleet.judged_runs())
        assert fleet.open == 0
    return ended


def names(ended: Sequence[JudgedRun]) -> list[str]:
    return sorted(run.job.scenario for run in ended)


def verdicts(ended: Sequence[JudgedRun]) -> list[str]:
    return [run.summary.verdict for run in ended]


# ---- clusters that serve one job


def test_a_scenario_has_a_cluster_of_its_own_in_its_run_folder(script: Script, tmp_path: Path) -> None:
    ended = run(script, tmp_path, JOBS[:3], kind=SCENARIOS)
    assert script.began == [[name] for name in JOBS[:3]]
    assert script.places == [None] * 3
    assert script.logs == [run.folder / "run.log" for run in ended]
    assert not (tmp_path / "clusters").exists()


def test_runs_wait_for_spark_to_keep_up(script: Script, tmp_path: Path) -> None:
    """With two concurrent runs, two more may wait for judgement; the fifth starts when one is judged."""

    def wait_for_four() -> None:
        begun = min(2 + UNJUDGED + len(script.judged), 9)
        wait_until(lambda: len(script.clients) >= begun, within_s=5, awaiting=f"{begun} runs to begin")
        assert len(script.clients) <= 2 + UNJUDGED + len(script.judged)

    script.before_judgement = wait_for_four
    assert names(run(script, tmp_path, JOBS[:9], kind=SCENARIOS, parallel=2)) == JOBS[:9]


def test_a_job_may_be_run_before_the_next_is_known(script: Script, tmp_path: Path) -> None:
    """As a search over versions does."""
    with Fleet(SCENARIOS, Place(), tmp_path / "runs", 1) as fleet:
        assert fleet.next() is None
        assert [fleet.run(job(name)).job.scenario for name in JOBS[:2]] == JOBS[:2]
    assert script.began == [[JOBS[0]], [JOBS[1]]]


# ---- clusters that serve several


def test_a_healthy_cluster_is_used_ten_times(script: Script, tmp_path: Path) -> None:
    ended = run(script, tmp_path, JOBS)
    assert [len(cluster) for cluster in script.began] == [MOST_RUNS, len(JOBS) - MOST_RUNS]
    assert names(ended) == JOBS
    assert list((tmp_path / "clusters").iterdir()) == [], "nothing is kept of clusters without findings"


def test_a_run_after_a_finding_is_repeated_on_a_new_cluster(script: Script, tmp_path: Path) -> None:
    script.findings[JOBS[0]] = RunFinding(name="no-recovery", weight="new")
    ended = run(script, tmp_path, JOBS[:3])
    assert script.began == [JOBS[:2], JOBS[1:3]]
    assert [run.job.scenario for run in ended] == JOBS[:3]
    assert len(list((tmp_path / "runs").glob("*/2*"))) == 3, "the run that does not count is gone"
    (kept,) = (tmp_path / "clusters").iterdir()
    assert [path.name for path in (kept / "nodes" / "broker1").iterdir()] == [], "its logs, without its data"


def test_what_is_not_promised_does_not_speak_against_a_cluster(script: Script, tmp_path: Path) -> None:
    script.findings[JOBS[0]] = RunFinding(name="lost", weight="not promised")
    script.classes[JOBS[1]] = {"lost": 90, "duplicated": 2}
    run(script, tmp_path, JOBS[:3])
    assert script.began == [JOBS[:3]]


@pytest.mark.parametrize("finding", STRANGE)
def test_a_cluster_with_a_strange_finding_is_not_used_again(
    script: Script, tmp_path: Path, finding: str
) -> None:
    script.classes[JOBS[0]] = {finding: 1}
    assert names(run(script, tmp_path, JOBS[:3])) == JOBS[:3]
    assert script.began == [JOBS[:2], JOBS[1:3]]


def test_a_cluster_that_broke_a_promise_is_not_used_again(script: Script, tmp_path: Path) -> None:
    script.promises[JOBS[1]] = "broken"
    assert names(run(script, tmp_path, JOBS[:3])) == JOBS[:3]
    assert script.began == [JOBS[:3], JOBS[2:3]]


def test_a_run_that_was_not_complete_ends_its_cluster(script: Script, tmp_path: Path) -> None:
    script.answers[JOBS[0]] = [RunAnswer(usable=False)]
    run(script, tmp_path, JOBS[:3])
    assert script.began == [JOBS[:1], JOBS[1:3]]


def test_a_cluster_that_is_not_healthy_is_left(script: Script, tmp_path: Path) -> None:
    """The roles cannot be placed for the next job."""
    script.answers[JOBS[1]] = [RunAnswer(refused=True)]
    assert len(run(script, tmp_path, JOBS[:3])) == 3
    assert script.began == [JOBS[:1], JOBS[1:3]]


@pytest.mark.parametrize("shared", [True, False])
def test_a_process_that_ends_leaves_a_crashed_run(script: Script, tmp_path: Path, *, shared: bool) -> None:
    script.answers[JOBS[0]] = [LostClusterError("ended with its process, whose status is -9")]
    ended = run(script, tmp_path, JOBS[:2], kind=JobKind(program="stand-in", shared=shared))
    assert verdicts(ended) == ["crashed", "as declared"]
    manifest = RunFolder.open(ended[0].folder).manifest()
    assert manifest["cause"]["error"] == "LostClusterError"
    assert manifest["problem"] == (
        f"{JOBS[0]} on 2.7.1 zookeeper ended with its process, whose status is -9; see {script.logs[0]}"
    )


def test_several_clusters_share_the_work(script: Script, tmp_path: Path) -> None:
    assert names(run(script, tmp_path, JOBS, parallel=3)) == JOBS
    assert sorted(name for cluster in script.began for name in cluster) == JOBS


def test_jobs_may_be_submitted_while_others_run(script: Script, tmp_path: Path) -> None:
    """A cluster that waits for its next job takes it."""
    with Fleet(JobKind(program="stand-in"), Place(), tmp_path / "runs", 1) as fleet:
        for name in JOBS[:3]:
            assert fleet.run(job(name)).job.scenario == name
        fleet.submit(job(JOBS[3]))
    assert script.began[0][:3] == JOBS[:3]


# ---- the cases of an assessment

CASES = {case.name: case for case in battery(THREE_AZS.topology("zookeeper"), "zookeeper")}
HERE = ["isolate-az1.roles-az1", "kill-az-az1.roles-az1", "cut-az1-az2.roles-az1"]
"""Cases with the same roles."""
FAR = "isolate-az1.roles-az2"


def test_cases_with_the_same_roles_share_a_cluster(script: Script, tmp_path: Path) -> None:
    ended = run(script, tmp_path, [HERE[0], FAR, *HERE[1:]], kind=kind_of(CASES))
    assert names(ended) == sorted([*HERE, FAR])
    assert script.began == [HERE, [FAR]]


def test_brokers_that_know_fewer_zookeeper_nodes_have_clusters_of_their_own(
    script: Script, tmp_path: Path
) -> None:
    """They read the list when they start. Cases whose brokers know the same nodes share a cluster."""
    lost = ["cut-az1-az2.roles-az1.sessions-lost", "one-way-az1-az2.roles-az1.sessions-lost"]
    run(script, tmp_path, [HERE[0], *lost, HERE[2]], kind=kind_of(CASES))
    assert script.began == [[HERE[0], HERE[2]], lost]


def test_clusters_that_run_side_by_side_have_different_roles(tmp_path: Path) -> None:
    """As long as there are cases that no running cluster can take."""
    fleet = Fleet(kind_of(CASES), Place(), tmp_path, 3)
    fleet.submit(*map(job, (*HERE, FAR)))
    begun = [fleet._take() for _ in range(3)]
    assert [one and one.scenario for one in begun] == [HERE[0], FAR, HERE[1]]
    following = fleet._take(begun[0])
    assert following is not None and following.scenario == HERE[2]


@pytest.mark.parametrize("alone", ["power-all.roles-az1", "disk_full-broker1.roles-here"])
def test_a_fault_that_takes_data_has_a_cluster_for_itself(script: Script, tmp_path: Path, alone: str) -> None:
    run(script, tmp_path, [alone, alone, *HERE], kind=kind_of(CASES))
    assert sorted(script.began) == sorted([[alone], [alone], HERE])


# ---- what does not start


@pytest.mark.parametrize("kind", [SCENARIOS, JobKind(program="stand-in")])
def test_a_job_that_may_not_start_is_dropped(script: Script, tmp_path: Path, kind: JobKind) -> None:
    """A shorter one that follows it may."""
    ended = run(
        script, tmp_path, JOBS[:4], kind=kind, may_start=lambda job: job.scenario not in (JOBS[0], JOBS[2])
    )
    assert names(ended) == [JOBS[1], JOBS[3]]


def test_nothing_is_waited_for_if_nothing_may_start(script: Script, tmp_path: Path) -> None:
    assert run(script, tmp_path, JOBS[:3], may_start=lambda job: False) == []
    assert script.began == []


def test_a_cluster_that_does_not_start_is_started_again(script: Script, tmp_path: Path) -> None:
    script.fails = [LabError("no memory"), OSError(28, "No space left on device")]
    ended = run(script, tmp_path, JOBS[:3])
    assert names(ended) == JOBS[:3]
    assert script.began == [JOBS[:3]]


@pytest.mark.parametrize("kind", [SCENARIOS, JobKind(program="stand-in")])
def test_clusters_that_never_start_end_everything(script: Script, tmp_path: Path, kind: JobKind) -> None:
    script.fails = [LabError("no memory") for _ in range(3)]
    with pytest.raises(LabError, match="no memory"):
        run(script, tmp_path, JOBS[:3], kind=kind)


def test_a_full_disk_repeats_that_run_only(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_folder, calls = Fleet._new_folder, iter(range(100))

    def fail(self: Fleet, job: Job, cluster: Path | None) -> RunFolder:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        return new_folder(self, job, cluster)

    monkeypatch.setattr(Fleet, "_new_folder", fail)
    assert names(run(script, tmp_path, JOBS[:3])) == JOBS[:3]
    assert script.began == [JOBS[:1], JOBS[1:3]]


def test_a_failure_of_the_harness_is_raised(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> RunFolder:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(Fleet, "_new_folder", fail)
    with pytest.raises(RuntimeError, match="a mistake"):
        run(script, tmp_path, JOBS[:1])


# ---- judging


def test_a_run_is_judged_again_if_the_jvm_has_ended(script: Script, tmp_path: Path) -> None:
    script.jvm_ends = [Py4JNetworkError("Answer from Java side is empty")]
    assert verdicts(run(script, tmp_path, JOBS[:3])) == ["as declared"] * 3
    assert (script.forgotten, len(script.judged)) == (1, 4)
    assert script.began == [JOBS[:3]]


def test_a_jvm_that_ended_during_a_judgement_is_replaced(script: Script, tmp_path: Path) -> None:
    script.dies_at = 2
    assert verdicts(run(script, tmp_path, JOBS[:3])) == ["as declared"] * 3
    assert (script.forgotten, len(script.judged)) == (1, 4)


def test_a_run_that_no_jvm_judges_does_not_end_the_others(script: Script, tmp_path: Path) -> None:
    script.jvm_ends = [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "refused"),
    ]
    ended = run(script, tmp_path, JOBS[:3])
    assert verdicts(ended) == ["crashed", "as declared", "as declared"]
    assert "could not be judged (ConnectionRefusedError)" in ended[0].summary.reasons[0]
    assert not ended[0].summary.judged


def test_a_client_library_goes_with_its_runs(script: Script, tmp_path: Path) -> None:
    with Fleet(SCENARIOS, Place(), tmp_path / "runs", 1) as fleet:
        ended = fleet.run(job(JOBS[0], client="java@3.9.1"))
    assert (script.clients, ended.job.client) == (["java@3.9.1"], "java@3.9.1")


def test_a_verdict_that_nobody_gives_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(SCENARIOS, Place(), tmp_path, 1)
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    with fleet._changed:
        fleet._closed = True
    given: Future[bool] = Future()
    given.set_result(True)
    assert fleet._passed(given), "one that was given counts, whatever has stopped"
    assert not fleet._passed(Future())
