"""Which cases share a cluster, and when a new one is started. The clusters' processes are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.lab.layout import THREE_AZS
from run.folder import RunFolder
from studies.assess import clusters
from studies.assess.battery import battery
from studies.assess.clusters import MOST_CASES, run_cases
from studies.series.plan import Cell
from studies.series.pool import CellRun
from studies.series.serving import RunAnswer
from studies.series.summary import RunSummary

CASES = {case.name: case for case in battery(THREE_AZS.topology("zookeeper"), "zookeeper")}
HERE = ["isolate-az1.roles-az1", "kill-az-az1.roles-az1", "cut-az1-az2.roles-az1"]
"""Cases with the same roles."""
FAR = "isolate-az1.roles-az2"


class Script:
    """What the stand-ins do; ``began`` has the cases of each cluster, in the order of their starts."""

    def __init__(self) -> None:
        self.began: list[list[str]] = []
        self.answers: dict[str, list[RunAnswer]] = {}
        self.findings: dict[str, dict[str, int]] = {}
        self.promises: dict[str, str] = {}

    def clusters(self) -> list[list[str]]:
        return sorted(self.began)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Script]:
    made = Script()

    class Cluster:
        def __init__(self, line: Any, cell: Cell) -> None:
            self.path, self.log = tmp_path / "cluster", tmp_path / "log"
            self.mine: list[str] = []
            made.began.append(self.mine)

        def run(self, cell: Cell, folder: RunFolder) -> RunAnswer:
            answers = made.answers.get(cell.scenario, [])
            answer = answers.pop(0) if answers else RunAnswer(usable=True)
            if not answer.refused:
                self.mine.append(cell.scenario)
            return answer

        def __enter__(self) -> Cluster:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    class Processes:
        def __enter__(self) -> Processes:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def end_all(self) -> None:
            pass

    def judge(_: object, run: CellRun) -> RunSummary:
        name = run.cell.scenario
        judgement = {
            "findings_by_class": made.findings.get(name, {}),
            "promises": [{"promise": made.promises.get(name, "not promised")}],
        }
        (run.folder / "judgement.json").write_text(json.dumps(judgement))
        return RunSummary(scenario=name, version="2.7.1", mode="zookeeper", verdict="violated")

    monkeypatch.setattr("checkers.spark.session.start_session", lambda **_: None)
    monkeypatch.setattr(clusters, "_Cluster", Cluster)
    monkeypatch.setattr(clusters, "RunProcesses", Processes)
    monkeypatch.setattr(clusters, "judge_cell", judge)
    yield made


def run(
    tmp_path: Path,
    names: list[str],
    *,
    parallel: int = 1,
    may_start: Callable[[Cell], bool] = lambda cell: True,
) -> list[str]:
    cells = [Cell(scenario=name, version="2.7.1", mode="zookeeper") for name in names]
    found = run_cases(
        cells,
        CASES,
        tmp_path / "assess" / "runs",
        parallel=parallel,
        lab="embedded",
        settings={},
        may_start=may_start,
    )
    return sorted(summary.scenario for summary in found)


def test_cases_with_the_same_roles_share_a_cluster(script: Script, tmp_path: Path) -> None:
    assert run(tmp_path, [HERE[0], FAR, *HERE[1:]]) == sorted([*HERE, FAR])
    assert script.began == [HERE, [FAR]]


def test_brokers_that_know_fewer_zookeeper_nodes_have_clusters_of_their_own(
    script: Script, tmp_path: Path
) -> None:
    """They read the list when they start. Cases whose brokers know the same nodes share a cluster."""
    lost = ["cut-az1-az2.roles-az1.sessions-lost", "one-way-az1-az2.roles-az1.sessions-lost"]
    run(tmp_path, [HERE[0], *lost, HERE[2]])
    assert script.began == [[HERE[0], HERE[2]], lost]


def test_clusters_that_run_side_by_side_have_different_roles() -> None:
    """As long as there are cases that no running cluster can take."""
    work = clusters._Work(
        [Cell(scenario=name, version="2.7.1", mode="zookeeper") for name in (*HERE, FAR)], CASES
    )
    begun = [work.begin() for _ in range(3)]
    assert [cell and cell.scenario for cell in begun] == [HERE[0], FAR, HERE[1]]
    assert begun[0] is not None
    followed = work.follow(begun[0])
    assert followed is not None and followed.scenario == HERE[2]
    assert work.follow(begun[0]) is None and work.begin() is None


@pytest.mark.parametrize("alone", ["power-all.roles-az1", "disk_full-broker1.roles-here"])
def test_a_fault_that_takes_data_has_a_cluster_for_itself(script: Script, tmp_path: Path, alone: str) -> None:
    run(tmp_path, [alone, alone, *HERE])
    assert script.clusters() == sorted([[alone], [alone], HERE])


@pytest.mark.parametrize("finding", ["server_error", "process_exit", "not_converged", "diverged"])
def test_a_cluster_with_a_strange_finding_is_not_used_again(
    script: Script, tmp_path: Path, finding: str
) -> None:
    """What had begun there meanwhile does not count."""
    script.findings[HERE[0]] = {finding: 1}
    assert run(tmp_path, HERE) == sorted(HERE)
    assert script.began == [HERE[:2], HERE[1:]]
    first, *_ = sorted((tmp_path / "assess" / "runs" / HERE[1]).iterdir())
    assert RunFolder.open(first).manifest()["status"] == "unfit"


def test_a_loss_that_is_not_promised_is_ordinary(script: Script, tmp_path: Path) -> None:
    script.findings[HERE[0]] = {"lost": 90, "duplicated": 2}
    run(tmp_path, HERE)
    assert script.began == [HERE]


def test_a_cluster_that_broke_a_promise_is_not_used_again(script: Script, tmp_path: Path) -> None:
    script.promises[HERE[1]] = "broken"
    assert run(tmp_path, HERE) == sorted(HERE)
    assert script.began == [HERE, HERE[2:]]


def test_a_cluster_that_is_not_usable_any_more(script: Script, tmp_path: Path) -> None:
    """After a run that was not complete, and where the roles cannot be placed for the next case."""
    script.answers = {HERE[0]: [RunAnswer(usable=False)], HERE[2]: [RunAnswer(refused=True)]}
    assert run(tmp_path, HERE) == sorted(HERE)
    assert script.began == [HERE[:1], HERE[1:2], HERE[2:]]


def test_a_cluster_does_not_run_on_for_ever(script: Script, tmp_path: Path) -> None:
    assert len(run(tmp_path, HERE[:1] * (MOST_CASES + 2))) == MOST_CASES + 2
    assert [len(one) for one in script.began] == [MOST_CASES, 2]


def test_nothing_starts_after_the_budget(script: Script, tmp_path: Path) -> None:
    asked: list[str] = []

    def may_start(cell: Cell) -> bool:
        asked.append(cell.scenario)
        return len(asked) < 3

    assert len(run(tmp_path, [*HERE, FAR], may_start=may_start)) == 2
    assert len(asked) == 3


def test_a_process_that_ends_leaves_a_crashed_run(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = clusters._Cluster

    class Ended(cluster):  # type: ignore[valid-type, misc]
        def run(self, cell: Cell, folder: RunFolder) -> RunAnswer:
            if cell.scenario == HERE[0]:
                raise clusters.LostClusterError("ended with the process of its cluster")
            answer: RunAnswer = super().run(cell, folder)
            return answer

    monkeypatch.setattr(clusters, "_Cluster", Ended)
    assert run(tmp_path, HERE) == sorted(HERE)
    manifest = RunFolder.open(tmp_path / "assess" / "runs" / HERE[0] / "latest").manifest()
    assert manifest["status"] == "crashed"
    assert "ended with the process of its cluster" in manifest["problem"]
    assert script.began[1:] == [HERE[1:]]
