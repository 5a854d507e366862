"""The general plan has the same results as the fast one, causes included, and reads and writes at URIs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.judge import judge, judge_import
from checkers.verdict import Judgement
from harness.errors import BadDataError, UnfitError, UsageError
from tests.histories import History, together
from tests.sampling import every
from tests.spark.anomalies import CASES, FOUR, LISTED, kept
from tests.spark.reader_anomalies import READERS

pytestmark = pytest.mark.spark

PLACE = ("class", "topic", "partition", "offset", "writer", "seq")
TOLD = (
    *("label", "acked_ns", "acked_by", "acked_during", "acked_fault", "last_broker", "cause", "evidence"),
    "expected",
)


def rows(folder: Path, table: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of life or findings, sorted by ``keys``."""
    found: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return sorted(found, key=lambda row: [(row[key] is not None, row[key]) for key in keys])


def explained() -> History:
    """Losses with a cause: what broker 1 acknowledged alone was truncated when broker 2 had been elected."""
    history = kept(6).logs([(0, 0), (1, 1)], epoch=0)
    history.add("faults", ns=900, fault=1, name="isolate az1", kind="link", moment="injected", targets="[]")
    history.add("faults", ns=8000, fault=1, name="isolate az1", kind="link", moment="healed", targets="[]")
    told = {"subject": "partition", "topic": "t", "partition": 0}
    history.add("views", ns=1, source="broker1", leader=1, epoch=0, isr=[1, 2, 3], **told)
    history.add("views", ns=3200, source="broker2", leader=2, epoch=1, isr=[2, 3], **told)
    cut = {"ns": 9000, "host": "broker1", "kind": "truncated", "text": "Truncating to offset 2"}
    history.add("log_events", topic="t", partition=0, offset=2, epoch=0, **cut)
    seen = {"topic": "t", "partition": 0, "broker": 1, "epoch": 0, "writer": 1, "gone_ns": 9000}
    for seq in range(2, 6):
        history.add("sightings", offset=seq, seq=seq, seen_ns=seq * 1000 + 400, **seen)
    return history


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CASES, id="plain", marks=pytest.mark.long),
        pytest.param(READERS, id="readers", marks=pytest.mark.long),
        pytest.param(LISTED, id="listed", marks=pytest.mark.long),
    ],
)
def test_the_general_plan_judges_as_the_fast_one(spark: Any, tmp_path: Path, cases: dict[str, Any]) -> None:
    histories = {name: history for name, (_, history, _) in cases.items()}
    if cases is CASES:
        histories["explained"] = explained()
    fast, general = (together(histories, tmp_path / name) for name in ("fast", "general"))
    one, other = judge_import(spark, fast, plan="fast"), judge_import(spark, general, plan="general")
    assert rows(fast, "life", PLACE[1:]) == rows(general, "life", PLACE[1:])
    told = [
        [tuple(row[key] for key in (*PLACE, *TOLD)) for row in rows(folder, "findings", PLACE)]
        for folder in (fast, general)
    ]
    assert told[0] == told[1]
    assert cases is not CASES or any("old leader truncated on rejoin" in str(row) for row in told[1])
    assert (one.verdict, one.fates, one.findings_by_class) == (
        other.verdict,
        other.fates,
        other.findings_by_class,
    )
    assert sorted(map(str, one.fates_by_writer)) == sorted(map(str, other.fates_by_writer))
    assert not list(general.glob(".acked*")), "scratch is gone"


def stored_run(folder: Path, history: History) -> Path:
    """A run folder as the harness leaves it: a manifest, claims and a history."""
    history.write(folder / "history")
    (folder / "run.json").write_text(json.dumps({"status": "complete", "scenario": "made-up"}))
    claim = {
        "name": "four were lost",
        "says": "",
        "section": "",
        "given": None,
        "holds": "select count(*) = 4 as holds, string(count(*)) as observed from life where fate = 'lost'",
        "erratum": None,
    }
    expected = {"finding": "lost", "where": "sent_during = 'isolate az1'", "because": ""}
    (folder / "claims.json").write_text(json.dumps({"claims": [claim], "expected": [expected]}))
    return folder


def judged_by_uri(spark: Any, folder: Path) -> Judgement:
    return judge(spark, f"file://{folder}")


@pytest.mark.long
def test_a_run_behind_a_uri(spark: Any, tmp_path: Path) -> None:
    """Read and written through Hadoop; the same verdict and files as by its path."""
    by_path, by_uri = (stored_run(tmp_path / name, explained()) for name in ("path", "uri with blank"))
    one, other = judge(spark, by_path), judged_by_uri(spark, by_uri)
    assert (one.verdict, one.expected_by_class) == ("as declared", {"lost": 4})
    assert (other.verdict, other.expected_by_class, other.claims) == (
        one.verdict,
        one.expected_by_class,
        one.claims,
    )
    assert rows(by_path, "life", PLACE[1:]) == rows(by_uri, "life", PLACE[1:])
    written = json.loads((by_uri / "judgement.json").read_text())
    assert written["run"] == f"file://{by_uri}"
    assert written["fates"] == {"kept": 2, "lost": 4}
    assert judged_by_uri(spark, by_uri).verdict == "as declared", "judging again replaces what was written"
    assert not (tmp_path / "file:").exists() and not Path("file:").exists()


@pytest.mark.parametrize(
    ("uri", "error", "says"),
    [
        ("gopher://host/runs/x", UsageError, "Hadoop knows no file system of scheme 'gopher'"),
        ("s3a://bucket/runs/x", UnfitError, "org.apache.hadoop:hadoop-aws"),
        ("file:///no/such/folder", BadDataError, "is not a folder"),
    ],
)
def test_a_uri_that_leads_nowhere(spark: Any, uri: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        judge_import(spark, uri)


def _missing(folder: Path) -> None:
    (folder / "copies.parquet").unlink()


def _truncated(folder: Path) -> None:
    path = folder / "copies.parquet"
    path.write_bytes(path.read_bytes()[:-40])


DAMAGES: dict[str, tuple[Callable[[Path], None], History, str]] = {
    "missing": (_missing, kept().logs(FOUR), "copies.parquet is missing"),
    "truncated": (_truncated, kept().logs(FOUR), "copies.parquet cannot be read as Parquet"),
    "impossible value": (lambda _: None, kept().send(9, offset=-7).logs(FOUR), "offset < -1"),
    "negative writer": (lambda _: None, kept().send(9, offset=9, writer=-1).logs(FOUR), "writer < 0"),
    "negative seq": (lambda _: None, kept().send(-1, "info", sent_ns=9, done_ns=9).logs(FOUR), "seq < 0"),
    "negative writer of a record": (
        lambda _: None,
        kept().logs([*FOUR, {"offset": 4, "writer": -1, "seq": 1}]),
        "writer < 0",
    ),
    "negative seq of a record": (
        lambda _: None,
        kept().logs([*FOUR, {"offset": 4, "seq": -1}]),
        "copies.parquet holds rows with seq < 0",
    ),
    "negative writer of a read": (
        lambda _: None,
        kept().logs(FOUR).read(0, 0, 9000, writer=-1),
        "reads.parquet holds rows with writer < 0",
    ),
    "negative seq of a read": (
        lambda _: None,
        kept().logs(FOUR).read(0, -1, 9000),
        "reads.parquet holds rows with seq < 0",
    ),
    "identity twice": (lambda _: None, kept().send(3, offset=3).logs(FOUR), "writer 1, seq 3 twice"),
    "offset twice": (lambda _: None, kept().logs([*FOUR, (3, 3)]), "offset 3 twice"),
}


@pytest.mark.parametrize("name", every(9, DAMAGES))
def test_damage_behind_a_uri_is_one_sentence(spark: Any, tmp_path: Path, name: str) -> None:
    damage, history, says = DAMAGES[name]
    folder = history.write(tmp_path)
    damage(folder)
    with pytest.raises(BadDataError, match=says) as caught:
        judge_import(spark, f"file://{folder}")
    assert "\n" not in caught.value.message
    assert not (folder / "judgement.json").exists()


@pytest.mark.parametrize("plan", ["fast", pytest.param("general", marks=pytest.mark.long)])
def test_more_replicas_than_a_machine_word_has_bits(spark: Any, tmp_path: Path, plan: str) -> None:
    history = kept()
    for broker in range(70):
        history.log(broker, FOUR).replica(broker, leo=4, log_start=0, leader=broker == 0, in_sync=True)
    history.log(69, [(4, 9)])
    history.rows["copies"] = [
        row for row in history.rows["copies"] if (row["broker"], row["offset"]) not in ((0, 3), (68, 3))
    ]
    found = judge_import(spark, history.write(tmp_path), plan=plan)
    assert (found.fates, found.findings_by_class) == (
        {"kept": 3, "diverged": 1},
        {"diverged": 1, "foreign": 1},
    )
    (row,) = (row for row in rows(tmp_path, "life", PLACE[1:]) if row["fate"] == "diverged")
    assert row["replicas"] == [*range(1, 68), 69]
