"""Scenario by version by mode: which cells there are, and where a claim changes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import kafka_version
from harness.run.folder import RunFolder
from harness.scenario import Claim, Erratum, Expected, Scenario, Setup, speaks_of
from harness.series import pool as matrix
from harness.series.bisect import candidates, search
from harness.series.cell import Cell, Ran, Running, run_cell, speaking
from harness.series.pool import CellResult, plan, summary, versions_of
from harness.waiting import wait_until


def scenario(**changes: object) -> Scenario:
    """A scenario whose claim is cured in 3.7.0."""
    cured = Erratum("it does not", "a fix", "SELECT false AS holds", since="3.7.0")
    values: dict[str, object] = {
        "name": "example",
        "title": "",
        "article": "",
        "section": "",
        "body": lambda _stage: None,
        "setup": Setup(topics=()),
        "claims": (
            Claim(name="loses", says="it loses", section="1", holds="SELECT true AS holds", erratum=cured),
            Claim(name="early", says="only then", section="1", holds="SELECT true AS holds", before="3.9.0"),
        ),
        "expected": (Expected("lost", "true", "", before="3.7.0"),),
        "kafka": "3.9.1",
        "mode": "kraft",
        "versions": ("3.6.2", "3.9.1", "4.3.1"),
    }
    return Scenario(**{**values, **changes})  # type: ignore[arg-type]


def result(version: str, claims: Mapping[str, str], verdict: str = "as declared") -> CellResult:
    return CellResult(Cell("example", version, "kraft"), Path("runs/x"), verdict, claims=claims)


def test_an_erratum_is_told_only_of_its_versions() -> None:
    """What is stored in a run folder speaks of the version that ran, so that judging needs no versions."""
    old, new = scenario().declared("3.6.2"), scenario().declared("3.9.1")
    assert [claim["erratum"] is None for claim in old["claims"]] == [True, True]
    assert [claim["name"] for claim in new["claims"]] == ["loses"]
    assert new["claims"][0]["erratum"]["says"] == "it does not"
    assert "since" not in new["claims"][0]["erratum"]
    assert (len(old["expected"]), len(new["expected"])) == (1, 0)


@pytest.mark.parametrize(
    ("version", "speaks"), [("3.6.2", False), ("3.7.0", True), ("3.10.0", True), ("4.0.0", False)]
)
def test_bounds_compare_numbers_not_text(version: str, speaks: bool) -> None:
    """3.10 comes after 3.9; the upper bound itself is out."""
    assert speaks_of(Expected("lost", "", "", since="3.7.0", before="4.0.0"), version) is speaks


def test_a_scenario_brings_its_own_versions_and_modes() -> None:
    """Without being asked for others, each is run where it shows a difference."""
    cells = plan([scenario(modes=("kraft", "kraft-combined"))])
    assert [(cell.version, cell.mode) for cell in cells] == [
        (version, mode) for version in ("3.6.2", "3.9.1", "4.3.1") for mode in ("kraft", "kraft-combined")
    ]


def test_impossible_combinations_give_no_cell() -> None:
    """2.7.1 knows no KRaft here; 3.9.1 is not run with ZooKeeper."""
    asked = versions_of("3.9.1, 2.7.1")
    cells = plan([scenario()], asked, ("kraft", "zookeeper"))
    assert [(cell.version, cell.mode) for cell in cells] == [("2.7.1", "zookeeper"), ("3.9.1", "kraft")]
    with pytest.raises(UsageError, match=r"None of these can be run here: 2\.7\.1 kraft"):
        plan([scenario()], versions_of("2.7.1"))


def test_versions_are_sorted_and_known() -> None:
    """Oldest first, each once; a typing error is answered with the nearest."""
    assert [v.version for v in versions_of("4.1.0,0.10.2.2,2.7.1,4.1.0")] == ["0.10.2.2", "2.7.1", "4.1.0"]
    with pytest.raises(UsageError, match=r"did you mean 3\.9\.1"):
        versions_of("3.9.11")


def test_an_older_protocol_is_a_column_of_its_own() -> None:
    """2.7.1 whose brokers speak 2.6 is neither of the two; a protocol that is not older is refused."""
    assert [v.label for v in versions_of("2.7.1@2.6,2.7.1")] == ["2.7.1", "2.7.1@2.6"]
    older = kafka_version("2.7.1@2.6")
    assert (older.version, older.protocol, older.alter_isr) == ("2.7.1", "2.6", False)
    (cell,) = plan([scenario(mode="zookeeper")], (older,))
    assert str(cell) == "example on 2.7.1@2.6 zookeeper"
    told = speaking(scenario(), older).setup.broker_config
    assert told == {"inter.broker.protocol.version": "2.6"}
    for wrong in ("2.7.1@2.7", "2.7.1@", "3.9.1@2.6"):
        with pytest.raises(UsageError, match="protocol|no Kafka version"):
            kafka_version(wrong)


def test_cells_as_the_table_shows_them() -> None:
    """The verdict, and what an operator asks next."""
    assert summary(result("3.9.1", {})) == "as declared, nothing lost"
    full = CellResult(Cell("example", "3.9.1", "kraft"), Path(), "violated", lost=3, duplicated=1)
    assert summary(full) == "violated, 3 lost, 1 duplicated"
    assert summary(CellResult(full.cell, Path(), "crashed", lost=3)) == "crashed"


def test_a_cell_that_cannot_start_ends_as_crashed_with_the_reason(tmp_path: Path) -> None:
    """Nothing hangs, and the run folder tells what its process said."""
    ran = run_cell(Cell("no-such-scenario", "3.9.1", "kraft"), tmp_path / "runs")
    manifest = RunFolder.open(ran.folder).manifest()
    assert manifest["status"] == "crashed"
    assert "There is no scenario 'no-such-scenario'" in manifest["problem"]


def test_who_is_interrupted_starts_nothing_more(tmp_path: Path) -> None:
    """A thread that was about to begin its run must not, once all were ended."""
    running = Running()
    running.end_all()
    with pytest.raises(KeyboardInterrupt):
        run_cell(Cell("no-fault", "2.7.1", "zookeeper"), tmp_path / "runs", running=running)


def test_the_search_halves() -> None:
    """Five versions, a change in the fourth: three runs are enough."""
    versions = ["3.3.0", "3.4.0", "3.5.0", "3.6.2", "3.7.0", "3.8.0", "3.9.1", "4.1.0"]
    run: list[str] = []

    def on(version: str) -> CellResult:
        run.append(version)
        old = versions.index(version) < versions.index("3.7.0")
        return result(version, {"loses": "confirmed" if old else "refuted"})

    found = search("loses", versions, on)
    assert (found.last_before, found.first) == ("3.6.2", "3.7.0")
    assert len(run) == len(set(run)) == 5
    assert found.sentence() == "loses changes in 3.7.0: confirmed in 3.6.2, refuted in 3.7.0."


def test_no_change_takes_two_runs() -> None:
    """Both ends agree: nothing is looked for in between."""
    found = search("loses", ["3.6.2", "3.7.0", "3.9.1"], lambda v: result(v, {"loses": "confirmed"}))
    assert found.first == ""
    assert len(found.statuses) == 2
    assert "in all versions that were tried" in found.sentence()


@pytest.mark.parametrize(("status", "verdict"), [("unknown", "unknown"), ("confirmed", "crashed")])
def test_a_run_that_decides_nothing_ends_the_search(status: str, verdict: str) -> None:
    """Half of an answer would name the wrong version."""
    with pytest.raises(InvalidRunError, match="does not decide claim 'loses'"):
        search("loses", ["3.6.2", "3.9.1"], lambda v: result(v, {"loses": status}, verdict))


def test_only_versions_that_have_the_claim_are_searched() -> None:
    """`early` is asked below 3.9 alone, so there is nothing to compare."""
    known = tuple(kafka_version(name) for name in ("3.6.2", "3.9.1", "4.3.1"))
    assert [v.version for v in candidates(scenario(), "loses", known, "kraft")] == ["3.6.2", "3.9.1", "4.3.1"]
    with pytest.raises(UsageError, match="1 do"):
        candidates(scenario(), "early", known, "kraft")
    with pytest.raises(UsageError, match="has no claim 'nonsense'; it has early, loses"):
        candidates(scenario(), "nonsense", known, "kraft")


def test_runs_wait_for_spark_to_keep_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two side by side, two more may wait for their judgement: the fifth starts when one has it."""
    begun: list[Cell] = []

    def run(cell: Cell, *_: object) -> Ran:
        begun.append(cell)
        return Ran(cell, tmp_path, 0.0)

    def judge(_: object, ran: Ran) -> CellResult:
        wait_until(lambda: len(begun) >= min(4, len(cells)), within_s=5, awaiting="four runs to begin")
        assert len(begun) <= 4 + len(judged)
        return CellResult(ran.cell, ran.folder, "as declared")

    judged: list[CellResult] = []
    monkeypatch.setattr("checkers.spark.session.start_session", lambda **_: None)
    monkeypatch.setattr(matrix, "run_cell", run)
    monkeypatch.setattr(matrix, "judge_cell", judge)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    cells = [Cell(f"number {number}", "2.7.1", "zookeeper") for number in range(9)]
    for result in matrix.run_cells(cells, tmp_path, parallel=2, say=lambda _: None):
        judged.append(result)
    assert {result.cell.scenario for result in judged} == {cell.scenario for cell in cells}
