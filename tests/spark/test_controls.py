"""`acked check --control`: which claims of a stored run hold without the events that they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import checkers.spark.session
from checkers.control import write_deaf, write_silence
from checkers.tables.source import open_source
from cli.commands import app
from harness.history.schema import TABLES
from tests.histories import History
from tests.spark.made_runs import explained

FAULT_NS = 900
"""When the fault of `explained` is injected: message 0 was acknowledged before, message 1 is sent after."""

CLAIMS: dict[str, dict[str, Any]] = {
    "about-the-loss": {"holds": "select count(*) = 4 as holds, '' as observed from life where fate = 'lost'"},
    "about-nothing": {"holds": "select count(*) = 0 as holds, '' as observed from life where seq = 77"},
    "before-the-fault": {"holds": "select count(*) > 0 as holds, '' as observed from sends"},
    "fault": {"holds": "select count(*) > 0 as holds, '' as observed from faults"},
    "corrected": {
        "holds": "select false as holds, '' as observed",
        "erratum": {
            "says": "it is otherwise",
            "because": "",
            "holds": "select true as holds, '' as observed",
        },
    },
    "given": {"holds": "select true as holds, '' as observed", "precondition": True},
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder whose claims hold for different reasons."""
    history = explained()
    history.add("marks", ns=850, name="cut", text="az1 is cut off")
    for broker in (1, 2, 3):
        history.replica(broker, ns=9900, leo=2, leader=broker == 2, in_sync=True)
    return stored(tmp_path / "run", history)


def stored(folder: Path, history: History) -> Path:
    history.write(folder / "history")
    claims = [
        {"name": name, "says": name, "section": "1", "given": None, "erratum": None, **claim}
        for name, claim in CLAIMS.items()
    ]
    (folder / "run.json").write_text(json.dumps({"status": "complete", "scenario": "made-up"}))
    (folder / "claims.json").write_text(json.dumps({"claims": claims, "expected": []}))
    return folder


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    table_rows: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return table_rows


def test_silence_empties_all_but_the_harness_own_tables(run: Path, tmp_path: Path) -> None:
    reduced = tmp_path / "reduced"
    reduced.mkdir()
    write_silence(open_source(run / "history"), reduced)
    assert {path.stem for path in reduced.iterdir()} >= set(TABLES) - {"configs", "writers"}
    assert {name for name in TABLES if (reduced / f"{name}.parquet").exists() and rows(reduced, name)} == {
        "marks"
    }
    assert open_source(reduced).rows("sends") == 0


def test_deaf_forgets_what_came_after_the_fault(run: Path, tmp_path: Path) -> None:
    reduced = tmp_path / "reduced"
    reduced.mkdir()
    write_deaf(open_source(run / "history"), FAULT_NS, reduced)
    assert [row["seq"] for row in rows(reduced, "sends")] == [0]
    assert {row["seq"] for row in rows(reduced, "copies")} == {0}
    assert [row["ns"] for row in rows(reduced, "views")] == [1]
    assert [len(rows(reduced, name)) for name in ("sightings", "log_events", "replicas")] == [0, 0, 0]
    assert len(rows(reduced, "faults")) == 2 and len(rows(reduced, "marks")) == 1
    assert not (reduced / "reads.parquet").exists(), "an absent table stays absent"


def test_deaf_has_no_outcome_that_came_after_the_fault(tmp_path: Path) -> None:
    history = History().send(0, offset=0, broker=1).send(1, offset=1, broker=1).logs([(0, 0), (1, 1)])
    place = {"topic": "t", "partition": 0, "broker": 1, "writer": 1}
    history.add("sightings", offset=0, seq=0, seen_ns=100, gone_ns=5000, **place)
    reduced = tmp_path / "reduced"
    reduced.mkdir()
    write_deaf(open_source(history.write(tmp_path / "history")), 1200, reduced)
    first, second = rows(reduced, "sends")
    assert (first["outcome"], first["offset"], first["done_ns"]) == ("ok", 0, 500)
    assert [second[name] for name in ("outcome", "offset", "done_ns", "broker")] == [None] * 4
    assert rows(reduced, "sightings")[0]["gone_ns"] is None


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("control", "held"),
    [
        ("silence", {"about-nothing": "confirmed", "corrected": "erratum"}),
        (
            "deaf",
            {
                "about-nothing": "confirmed",
                "before-the-fault": "confirmed",
                "fault": "confirmed",
                "corrected": "erratum",
            },
        ),
    ],
)
def test_claims_that_hold_under_a_control_are_listed(
    spark: Any, monkeypatch: pytest.MonkeyPatch, run: Path, control: str, held: dict[str, str]
) -> None:
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: spark)
    before = contents(run)
    done = CliRunner().invoke(app, ["check", str(run), str(run), "--control", control, "--json"])
    assert done.exit_code == 1, done.output
    controls = json.loads(done.stdout)
    assert {claim["name"]: claim["by"] for claim in controls["results"][0]["held"]} == held
    errata = sum(by == "erratum" for by in held.values())
    assert (controls["runs"], controls["claims"]) == (2, 10), "a declared precondition is not counted"
    assert (controls["confirmed"], controls["errata"]) == (2 * (len(held) - errata), 2 * errata)
    assert contents(run) == before, "nothing is written to the run folder"
    shown = CliRunner().invoke(app, ["check", str(run), "--control", control]).stdout
    assert f"{len(held)} of 5 claims hold" in shown and "about-nothing: about-nothing (1)" in shown


@pytest.mark.spark
def test_a_control_under_which_nothing_holds_and_one_that_does_not_apply(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: spark)
    monkeypatch.setitem(CLAIMS, "about-nothing", CLAIMS["about-the-loss"])
    monkeypatch.delitem(CLAIMS, "corrected")
    run = stored(tmp_path / "run", History().send(0, offset=0).logs([(0, 0)]))
    assert CliRunner().invoke(app, ["check", str(run), "--control", "silence"]).exit_code == 0
    done = CliRunner().invoke(app, ["check", str(run), "--control", "deaf"])
    assert done.exit_code == 0 and "skipped, no fault was injected" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--control", "deaf", "--import", "x"], "without --import"),
        (["hdfs://h/r", "--control", "deaf"], "is a URI"),
        (["RUN", "--control", "loud"], "no control 'loud'"),
    ],
)
def test_a_control_that_cannot_be_meant(
    monkeypatch: pytest.MonkeyPatch, run: Path, arguments: list[str], says: str
) -> None:
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: None)
    done = CliRunner().invoke(app, ["check", *(str(run) if a == "RUN" else a for a in arguments)])
    assert says in str(done.exception)
