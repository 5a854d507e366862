"""Histories of other programs: two tables are enough, and violations of the schema are named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import checkers.spark.session
from cli.commands import app
from harness.errors import EXIT_BAD_DATA, EXIT_VIOLATED, BadDataError
from harness.history import example
from studies.series.rejudge import judge_imported

pytestmark = pytest.mark.spark


@pytest.fixture
def shared(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command joins the tests' session instead of starting one."""
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: spark)
    return spark


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The documented example, carried out by DuckDB."""
    (tmp_path / "sends.csv").write_text(example.SENDS_CSV)
    (tmp_path / "log.csv").write_text(example.LOG_CSV)
    with duckdb.connect() as database:
        text = example.SQL
        for name in ("sends.csv", "log.csv", "sends.parquet", "copies.parquet"):
            text = text.replace(f"'{name}'", f"'{tmp_path / name}'")
        database.execute(text)
    return tmp_path


def check(folder: Path, *options: str) -> str:
    """What `acked check --import` prints for a history with losses."""
    done = CliRunner().invoke(app, ["check", "--import", str(folder), *options])
    assert done.exit_code == EXIT_VIOLATED, done.output
    return done.stdout


def test_two_tables_of_another_program_are_judged(shared: Any, written: Path) -> None:
    judgement = json.loads(check(written, "--json"))
    listed = [
        (row["class"], row["topic"], row["partition"], row["offset"], row["message"])
        for row in judgement["findings"]
    ]
    assert sorted(listed) == [("lost", "orders", 0, 1, "7/1"), ("moved", "orders", 0, 2, "7/2")]
    shown = json.loads(example.FINDING)
    assert any(shown.items() <= row.items() for row in judgement["findings"]), (
        "the documented finding is real"
    )


def test_the_documented_output_is_real(shared: Any, written: Path) -> None:
    shown = check(written).replace(str(written), "DIR")
    assert re.sub(r"\s+", " ", shown).strip() == re.sub(r"\s+", " ", example.OUTPUT).strip()


def test_an_import_has_stories(shared: Any, written: Path) -> None:
    def story(*words: str) -> Any:
        return CliRunner().invoke(app, ["story", *words, str(written)])

    assert "has not been judged yet (no life.parquet); run `acked check --import " in str(
        story("7/1").exception
    )
    check(written)
    told = story("7/1")
    assert told.exit_code == 0, told.exception
    lines = told.stdout.splitlines()
    assert lines[0] == "Message 7/1 of an unnamed writer to orders/0: lost"
    assert "acknowledged at offset 1" in told.stdout and "on no replica" in lines[-2]
    assert "truncated under a later leader: epoch 1 begins at offset 1" in lines[-1]


def test_columns_of_other_widths_and_in_other_order(shared: Any, tmp_path: Path) -> None:
    """What pyarrow makes of plain Python values (64-bit integers) will do, and so will foreign columns."""
    sends = [
        {"seq": n, "writer": 1, "topic": "t", "partition": 0, "sent_ns": n, "done_ns": n, "outcome": "ok"}
        for n in range(3)
    ]
    sends = [row | {"offset": row["seq"], "shoe_size": 43} for row in sends]
    copies = [
        {"offset": n, "broker": b, "topic": "t", "partition": 0, "writer": 1, "seq": n}
        for b in (1, 2)
        for n in (0, 1)
    ]
    pq.write_table(pa.Table.from_pylist(sends), tmp_path / "sends.parquet")
    pq.write_table(pa.Table.from_pylist(copies), tmp_path / "copies.parquet")
    (finding,) = judge_imported(tmp_path).findings
    assert (finding["class"], finding["offset"], finding["message"]) == ("lost", 2, "1/2")


def test_topics_with_any_name_are_judged(shared: Any, tmp_path: Path) -> None:
    """The name of a topic is a value: no path, query or page is made of it."""
    topics = [
        "../../x",
        "/x",
        "a/b",
        "",
        300 * "t",
        "nul\0",
        "\u00fc\u4e2d",
        "x\ny",
        "'; --",
        "<b>",
        "t/0",
        "%s{x}",
    ]
    folder = tmp_path / "imported"
    folder.mkdir()
    fixed = {"writer": 1, "partition": 0}
    sends = [
        {**fixed, "seq": 2 * n + k, "topic": topic, "sent_ns": k, "done_ns": k, "outcome": "ok", "offset": k}
        for n, topic in enumerate(topics)
        for k in (0, 1)
    ]
    copies = [
        {**fixed, "seq": 2 * n, "topic": topic, "offset": 0, "broker": broker}
        for n, topic in enumerate(topics)
        for broker in (1, 2)
    ]
    pq.write_table(pa.Table.from_pylist(sends), folder / "sends.parquet")
    pq.write_table(pa.Table.from_pylist(copies), folder / "copies.parquet")
    lost = judge_imported(folder).findings
    assert [(row["class"], row["offset"]) for row in lost] == len(topics) * [("lost", 1)]
    assert sorted(row["topic"] for row in lost) == sorted(topics)
    assert {path.name for path in tmp_path.iterdir()} == {"imported"}


def _rewrite(folder: Path, change: Callable[[Any], Any]) -> None:
    path = folder / "copies.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def _truncate(folder: Path) -> None:
    path = folder / "copies.parquet"
    path.write_bytes(path.read_bytes()[:-40])


def _cut_head(folder: Path) -> None:
    path = folder / "sends.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\0" * 200 + data[204:])


def _null_offset(table: Any) -> Any:
    place = table.column_names.index("offset")
    return table.set_column(place, "offset", pa.array([None, *table["offset"].to_pylist()[1:]], pa.int64()))


def _text_offset(table: Any) -> Any:
    return table.set_column(table.column_names.index("offset"), "offset", table["offset"].cast(pa.string()))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "copies.parquet").unlink(), "copies.parquet is missing"),
    "truncated": (_truncate, "copies.parquet cannot be read as Parquet"),
    "overwritten bytes": (_cut_head, "sends.parquet cannot be read as Parquet"),
    "not Parquet": (
        lambda folder: _text(folder / "sends.parquet"),
        "sends.parquet cannot be read as Parquet",
    ),
    "empty file": (lambda folder: (folder / "sends.parquet").write_bytes(b"") and None, "sends.parquet"),
    "no column": (lambda f: _rewrite(f, lambda t: t.drop_columns(["broker"])), "has no column broker"),
    "wrong type": (lambda f: _rewrite(f, _text_offset), "column offset is string"),
    "null": (lambda f: _rewrite(f, _null_offset), "column offset is required"),
    "version": (
        lambda f: _rewrite(f, lambda t: t.replace_schema_metadata({"acked.schema_version": "9"})),
        "schema version 9",
    ),
}


def _text(path: Path) -> None:
    path.write_text("topic,partition\nt,0\n")


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_bad_table_is_one_sentence(shared: Any, written: Path, name: str) -> None:
    damage, says = DAMAGES[name]
    damage(written)
    with pytest.raises(BadDataError) as caught:
        judge_imported(written)
    assert caught.value.exit_code == EXIT_BAD_DATA == 4
    assert says in caught.value.message
    assert "\n" not in caught.value.message and "Traceback" not in caught.value.message
    assert not (written / "judgement.json").exists(), "nothing may look like a verdict"


def test_a_folder_that_is_not_there(shared: Any, tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="is not a folder"):
        judge_imported(tmp_path / "nowhere")
