"""A history is judged alike by path and by URI: every column of life and findings, promises included."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from checkers.judge import judge, judge_import
from checkers.run_folder import read_json
from checkers.tables.files import file_system, inside, is_folder, listed, open_parquet, parquet_files
from checkers.tables.output import TRANSACTION_TABLES
from harness.errors import BadDataError, UnfitError, UsageError
from tests.anomalies.messages import CASES, FOUR, LISTED, kept
from tests.anomalies.readers import READERS
from tests.anomalies.transactions import TRANSACTIONS
from tests.histories import History, together
from tests.spark.conftest import free_port
from tests.spark.made_runs import FOUR_LOST, explained, stored_run

pytestmark = pytest.mark.spark

TABLES = ("life", "findings", "transaction_fates", "transaction_records", "isolation_anomalies")


def diverged() -> History:
    """The leader alone acknowledged message 2 (acks=1), and the follower in sync lacks it."""
    history = History().send(0, offset=0).send(1, offset=1).send(2, offset=2)
    history.add("writers", writer=1, name="w", host="client1", client="raw", acks=1, idempotent=False)
    history.log(1, [(0, 0), (1, 1), (2, 2)]).log(2, [(0, 0), (1, 1)])
    for broker, leo in ((1, 3), (2, 2)):
        history.replica(broker, leader=broker == 1, leo=leo, log_start=0, in_sync=True, high_watermark=2)
    return history


def rows_of(place: str) -> list[dict[str, Any]]:
    """Rows of an output table, which is a file or a folder."""
    rows: list[dict[str, Any]] = []
    for path in parquet_files(place) if is_folder(place) else [place]:
        with open_parquet(path) as parquet:
            rows += parquet.read().to_pylist()
    return rows


def tables_of(folder: Path | str) -> dict[str, list[str]]:
    """Rows of the output tables as texts, in an order of their own."""
    names = {entry.base_name for entry in listed(str(folder))}
    return {
        name: sorted(map(str, rows_of(inside(folder, f"{name}.parquet"))))
        for name in TABLES
        if f"{name}.parquet" in names
    }


def uploaded(folder: Path, name: str) -> str:
    """A copy of a folder in S3."""
    there = f"s3a://histories/{name}"
    system, inner = file_system(there)
    pafs.copy_files(
        str(folder), inner, source_filesystem=pafs.LocalFileSystem(), destination_filesystem=system
    )
    return there


def judged_alike(spark: Any, histories: Mapping[str, History], folder: Path, name: str) -> None:
    by_path = together(histories, folder / "path")
    by_uri = uploaded(by_path, name)
    one, other = judge_import(spark, by_path), judge_import(spark, by_uri)
    assert tables_of(by_path) == tables_of(by_uri)
    assert (one.verdict, one.findings_by_class, one.promises, one.fates_by_writer) == (
        other.verdict,
        other.findings_by_class,
        other.promises,
        other.fates_by_writer,
    )
    assert read_json(inside(by_uri, "judgement.json"))["run"] == by_uri
    assert not [entry for entry in listed(by_uri) if entry.base_name.startswith(".")], "scratch is gone"


def test_by_path_and_by_uri(spark: Any, s3: Any, tmp_path: Path) -> None:
    histories = {
        "leader-alone": diverged(),
        "lost": explained(),
        "skip": READERS["committed-past"][1],
        "torn": TRANSACTIONS["late-abort"][1],
    }
    judged_alike(spark, histories, tmp_path, "some cases")
    (finding,) = (
        row
        for row in rows_of("s3://histories/some cases/findings.parquet")
        if (row["topic"], row["class"]) == ("leader-alone", "diverged")
    )
    assert (finding["brokers"], finding["detail"], finding["promise"]) == (
        [2],
        '{"difference": "log_ends_earlier"}',
        "not promised",
    )


@pytest.mark.long
def test_every_case_by_path_and_by_uri(spark: Any, s3: Any, tmp_path: Path) -> None:
    cases = [*CASES.items(), *LISTED.items(), *READERS.items(), *TRANSACTIONS.items()]
    judged_alike(spark, {name: history for name, (_, history, _) in cases}, tmp_path, "every case")


@pytest.mark.long
def test_what_does_not_count_as_small(
    spark: Any, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers read the tables of claims and rewrite findings; nothing is handed over as rows."""
    monkeypatch.setattr("checkers.judge.SMALL_ROWS", 0)
    monkeypatch.setattr("checkers.claims.expected._KEEP_WHOLE", 0)
    counted = "select count(*) = 4 as holds, string(count(*)) as observed from"
    claims = {
        "findings": f"{counted} findings where class = 'lost'",
        "sends": f"{counted} sends where seq > 1",
        **FOUR_LOST,
    }
    run = stored_run(tmp_path / "run", explained(), claims)
    one = judge(spark, run)
    there = uploaded(stored_run(tmp_path / "again", explained(), claims), "large")
    other = judge(spark, there)
    assert (one.verdict, one.expected_by_class) == ("as declared", {"lost": 4})
    assert (other.verdict, other.expected_by_class, other.claims) == (
        one.verdict,
        one.expected_by_class,
        one.claims,
    )
    assert tables_of(run) == tables_of(there)


def test_a_run_behind_a_uri_of_this_machine(spark: Any, tmp_path: Path) -> None:
    """`file://` is a path; judging again replaces what was written."""
    run = stored_run(tmp_path / "with blank", explained())
    there = f"file://{tmp_path}/with%20blank"
    for _ in range(2):
        judgement = judge(spark, there)
        assert (judgement.verdict, judgement.expected_by_class) == ("as declared", {"lost": 4})
    written = json.loads((run / "judgement.json").read_text())
    assert (written["run"], written["fates"]) == (there, {"kept": 2, "lost": 4})
    assert not Path("file:").exists()
    assert {file.name for file in run.iterdir()} == {
        *("claims.json", "history", "judgement.json", "run.json"),
        *(f"{name}.parquet" for name in ("life", "findings", *TRANSACTION_TABLES)),
    }


@pytest.mark.parametrize(
    ("uri", "error", "says"),
    [
        (
            "gopher://host/runs/x",
            UsageError,
            "no file system of scheme 'gopher'; give a path or one of file://",
        ),
        ("file:///no/such/folder", BadDataError, "is not a folder"),
        ("s3://histories/nothing", BadDataError, "is not a folder"),
        ("s3://no-such-bucket/runs/x", BadDataError, "is not a folder"),
        ("webhdfs://127.0.0.1:PORT/x", UnfitError, "cannot be reached"),
        (
            "hdfs://127.0.0.1:8020/x",
            UnfitError,
            "through WebHDFS at port 9870, else give webhdfs://HOST:PORT/",
        ),
    ],
)
def test_a_uri_that_leads_nowhere(spark: Any, s3: Any, uri: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        judge_import(spark, uri.replace("PORT", str(free_port())))
    assert len(str(caught.value)) <= 300


def _missing(place: str) -> None:
    system, inner = file_system(place)
    system.delete_file(inner)


def _truncated(place: str) -> None:
    system, inner = file_system(place)
    with system.open_input_stream(inner) as stream:
        data = stream.read()
    with system.open_output_stream(inner) as stream:
        stream.write(data[:-40])


DAMAGES: dict[str, tuple[Callable[[str], None], History, str]] = {
    "missing": (_missing, kept().logs(FOUR), "copies.parquet is missing"),
    "truncated": (_truncated, kept().logs(FOUR), "copies.parquet cannot be read as Parquet"),
    "impossible value": (lambda _: None, kept().send(9, offset=-7).logs(FOUR), "hold offset -7"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_behind_a_uri_is_one_sentence(spark: Any, s3: Any, tmp_path: Path, name: str) -> None:
    damage, history, says = DAMAGES[name]
    there = uploaded(history.write(tmp_path), f"damage/{name}")
    damage(inside(there, "copies.parquet"))
    with pytest.raises(BadDataError, match=says) as caught:
        judge_import(spark, there)
    assert "\n" not in caught.value.message
    assert {entry.base_name for entry in listed(there)} <= {"sends.parquet", "copies.parquet"}


def test_more_replicas_than_a_machine_word_has_bits(spark: Any, tmp_path: Path) -> None:
    history = kept()
    for broker in range(70):
        history.log(broker, FOUR).replica(broker, leo=4, log_start=0, leader=broker == 0, in_sync=True)
    history.log(69, [(4, 9)])
    history.rows["copies"] = [
        row for row in history.rows["copies"] if (row["broker"], row["offset"]) not in ((0, 3), (68, 3))
    ]
    judgement = judge_import(spark, history.write(tmp_path))
    assert (judgement.fates, judgement.findings_by_class) == (
        {"kept": 3, "diverged": 1},
        {"diverged": 1, "foreign": 1},
    )
    (row,) = (row for row in rows_of(str(tmp_path / "life.parquet")) if row["fate"] == "diverged")
    assert row["replicas"] == [*range(1, 68), 69]
