"""Cells run in processes of their own; no more of them start than judgements can follow."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from pathlib import Path

import pytest

from checkers.claims.evaluate import ClaimResult
from checkers.groups.findings import CLASSES as OF_GROUPS
from checkers.tables.output import FINDINGS
from checkers.transactions.fates import CLASSES as OF_TRANSACTIONS
from checkers.verdict import TRANSACTIONS_AND_GROUPS, Judgement
from harness.waiting import wait_until
from run.folder import RunFolder
from studies.series import pool
from studies.series.plan import Cell
from studies.series.pool import CellRun, RunProcesses, run_cell, summarised
from studies.series.summary import AS_SAID, OTHERWISE, RunSummary


def test_a_cell_that_cannot_start_ends_as_crashed_with_the_reason(tmp_path: Path) -> None:
    """Nothing hangs, and the run folder has the error of its process."""
    ran = run_cell(Cell(scenario="no-such-scenario", version="3.9.1", mode="kraft"), tmp_path / "runs")
    manifest = RunFolder.open(ran.folder).manifest()
    assert manifest["status"] == "crashed"
    assert "There is no scenario 'no-such-scenario'" in manifest["problem"]


def test_nothing_starts_after_an_interruption(tmp_path: Path) -> None:
    """A thread that is about to start its run finds that all were ended."""
    processes = RunProcesses()
    processes.end_all()
    with pytest.raises(KeyboardInterrupt):
        run_cell(
            Cell(scenario="no-fault", version="2.7.1", mode="zookeeper"),
            tmp_path / "runs",
            processes=processes,
        )


def test_runs_wait_for_spark_to_keep_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two concurrent runs, two more may wait for judgement; the fifth starts when one is judged."""
    begun: list[Cell] = []

    def begin(cell: Cell, *_: object) -> CellRun:
        begun.append(cell)
        return CellRun(cell, tmp_path, 0.0)

    def judge(_: object, run: CellRun) -> RunSummary:
        wait_until(lambda: len(begun) >= min(4, len(cells)), within_s=5, awaiting="four runs to begin")
        assert len(begun) <= 4 + len(judged)
        cell = run.cell
        return RunSummary(scenario=cell.scenario, version=cell.version, mode=cell.mode, verdict="as declared")

    judged: list[RunSummary] = []
    monkeypatch.setattr("checkers.spark.session.start_session", lambda **_: None)
    monkeypatch.setattr(pool, "run_cell", begin)
    monkeypatch.setattr(pool, "judge_cell", judge)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    cells = [Cell(scenario=f"number {number}", version="2.7.1", mode="zookeeper") for number in range(9)]
    for summary in pool.run_cells(cells, tmp_path, parallel=2):
        judged.append(summary)
    assert {summary.scenario for summary in judged} == {cell.scenario for cell in cells}


def test_a_judged_run_is_recorded_with_its_losses_and_its_findings_about_transactions() -> None:
    judgement = Judgement(
        verdict="violated",
        exit_code=1,
        fates={"kept": 5, "lost": 1, "lost_after_read": 2, "duplicated": 1},
        findings_by_class={"lost": 1, "server_error": 4, "commit_lost": 2, "torn_transaction": 1},
    )
    run = RunSummary(scenario="a", version="2.7.1", mode="zookeeper", verdict="crashed")
    found = summarised(judgement, run)
    assert (found.verdict, found.lost, found.duplicated) == ("violated", 3, 1)
    assert found.findings == {"torn_transaction": 1, "commit_lost": 2}


def test_a_judged_run_says_which_of_two_outcomes_occurred() -> None:
    """A claim that allows one outcome, or none of whose outcomes occurred, has no entry."""

    def claim(name: str, occurred: str, status: str, *, two: bool = True) -> ClaimResult:
        return ClaimResult(
            name=name,
            section="",
            says="the leader changes",
            observed="",
            status=status,
            as_declared=status == "confirmed",
            erratum=None,
            either={"says": "the leader stays"} if two else None,
            occurred=occurred,
        )

    claims = [
        claim("first", "the leader changes", "confirmed"),
        claim("second", "the leader stays", "confirmed"),
        claim("neither", "", "unknown"),
        claim("plain", "the leader changes", "confirmed", two=False),
    ]
    run = RunSummary(scenario="a", version="2.7.1", mode="zookeeper", verdict="crashed")
    judgement = Judgement(verdict="as declared", exit_code=0, fates={}, findings_by_class={}, claims=claims)
    assert summarised(judgement, run).outcomes == {"first": AS_SAID, "second": OTHERWISE}


def test_findings_about_transactions_and_groups_are_classes_of_findings() -> None:
    assert set(TRANSACTIONS_AND_GROUPS) <= set(FINDINGS)
    assert {*OF_TRANSACTIONS, *OF_GROUPS} <= set(TRANSACTIONS_AND_GROUPS)


def test_runs_that_have_ended_are_taken_in_the_order_of_the_series() -> None:
    futures: list[Future[CellRun | None]] = [Future() for _ in range(4)]
    for place in (3, 1, 2):
        futures[place].set_result(None)
    taken = pool._as_they_end(futures)
    assert [futures.index(next(taken)) for _ in range(2)] == [1, 2]
    futures[0].set_result(None)
    assert [futures.index(one) for one in taken] == [0, 3]
