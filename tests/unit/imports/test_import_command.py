"""`acked import`: what it prints, what it refuses, and what its page says about the formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import app
from harness.errors import BadDataError, UsageError
from harness.history.imports.document import table
from harness.history.imports.format import GivenFile
from harness.history.imports.formats import FORMATS
from tests.unit.imports.judging import dump

DOCS = Path(__file__).parents[3] / "docs"


def imported(*words: object) -> str:
    return CliRunner().invoke(app, ["import", *map(str, words)], catch_exceptions=False).stdout


def test_the_page_has_the_table_of_formats() -> None:
    page = (DOCS / "import.md").read_text()
    assert f"\n\n{table()}\n\n<!-- end of formats -->" in page


def test_the_help_names_every_format() -> None:
    shown = imported("--help")
    assert [name for name in FORMATS if name not in shown] == []


def test_what_is_printed(tmp_path: Path) -> None:
    texts = dump(tmp_path, {1: [(0, 0, None, "7 0 x")], 2: [(0, 0, None, "7 0 x")]})
    shown = imported("kafka-dump-log", *texts, "--to", tmp_path / "one")
    assert shown.splitlines() == [
        f"{tmp_path}/one: 2 copies, 2 replicas.",
        f"Not known: {FORMATS['kafka-dump-log'].lacks}.",
        f"Judge it with: acked check --import {tmp_path}/one",
    ]
    done = json.loads(imported("kafka-dump-log", *texts, "--to", tmp_path / "two", "--json"))
    assert done["rows"]["copies"] == 2 and done["left_out"] == {} and done["notes"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("jepson", "x"), "No format is called 'jepson'; did you mean jepsen?"),
        (("kafka-dump-log", "x"), "is no broker's number"),
        (("jepsen", "1=x"), "acked import jepsen takes one history.edn"),
        (("verifiable", "1=x"), "acked import verifiable needs outputs of producers"),
        (("openchaos", "x"), "acked import openchaos takes a history file, and"),
        (("columns", "x", "y"), "takes one map, and y is a second"),
    ],
)
def test_other_files_than_it_takes(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        imported(*words, "--to", tmp_path / "out")
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("columns", "openchaos")])
def test_a_file_that_is_missing_is_one_sentence(tmp_path: Path, form: str) -> None:
    file = tmp_path / "valid_offsets_t.json"
    with pytest.raises(BadDataError, match="cannot be read"):
        imported(form, f"1={file}" if form == "kafka-dump-log" else file, "--to", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


EMPTY_TABLES = "[sends]\nfile = 'sends.csv'\n[copies]\nfile = 'copies.csv'\n"
SENDS = "topic,partition,writer,seq,sent_ns,done_ns,outcome\n"
COPIES = "topic,partition,broker,offset,writer,seq\n"


@pytest.mark.parametrize(
    ("sends", "copies", "says"),
    [
        ("t,0,1,0,5,6,ok", "t,0,1,0,1,0\nt,0,1,0,1,0", "two records at offset 0 of broker 1"),
        ("t,0,1,0,5,6,ok\nt,0,1,0,7,8,ok", "t,0,1,0,1,0", "twice"),
        ("t,0,1,0,5,6,ok\nt,1,1,0,7,8,ok", "t,0,1,0,1,0", "in t/0 and in t/1"),
        ("t,0,1,0,5,4,ok", "t,0,1,0,1,0", "before it was sent"),
        ("t,0,1,0,5,6,ok", "t,0,-1,0,1,0", "hold broker -1"),
    ],
)
def test_what_cannot_be_judged_is_not_imported(tmp_path: Path, sends: str, copies: str, says: str) -> None:
    """Otherwise only `acked check` would refuse it."""
    (tmp_path / "map.toml").write_text(EMPTY_TABLES)
    (tmp_path / "sends.csv").write_text(f"{SENDS}{sends}\n")
    (tmp_path / "copies.csv").write_text(f"{COPIES}{copies}\n")
    with pytest.raises(BadDataError) as refusal:
        imported("columns", tmp_path / "map.toml", "--to", tmp_path / "out")
    assert says in refusal.value.message and not (tmp_path / "out").exists()


def test_a_map_without_replicas_is_told_what_that_means(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(EMPTY_TABLES)
    (tmp_path / "sends.csv").write_text(f"{SENDS}t,0,1,0,5,6,ok\n")
    (tmp_path / "copies.csv").write_text(f"{COPIES}t,0,1,0,1,0\n")
    shown = imported("columns", tmp_path / "map.toml", "--to", tmp_path / "out")
    assert "Without a table [replicas], every log counts as read to its end" in shown


def test_the_log_of_a_replica_is_given_once(tmp_path: Path) -> None:
    first, second = (dump(tmp_path, {1: [(0, 0, None, "7 0 x")]}, where) for where in ("a-0", "b-0"))
    imported("kafka-dump-log", *first, *second, "--to", tmp_path / "topics")
    with pytest.raises(BadDataError, match="has the log of a/0 on broker 1, too; give each"):
        imported("kafka-dump-log", *first, *first, "--to", tmp_path / "twice")


@pytest.mark.parametrize(("name", "text"), [("h.edn", ""), ("h.edn", "[]"), ("h.json", "")])
def test_a_history_without_operations_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadDataError, match="has no operation; is this a history of jepsen"):
        imported("jepsen", tmp_path / name, "--to", tmp_path / "out")


@pytest.mark.parametrize("text", ["", "Dumping x\n", '{"f": 1}\n', "{"])
@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("columns", "kgo-verifier")])
def test_a_refusal_ends_once(tmp_path: Path, form: str, text: str) -> None:
    file = tmp_path / "history.json"
    file.write_text(text)
    files = [f"1={file}"] if form == "kafka-dump-log" else [file, f"1={file}"]
    with pytest.raises(BadDataError) as refusal:
        imported(form, *(files[:1] if form == "jepsen" else files), "--to", tmp_path / "out")
    assert refusal.value.message[-1] in ".?" and refusal.value.message[-2] not in ".?"


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("columns", "openchaos")])
def test_a_folder_is_no_file(tmp_path: Path, form: str) -> None:
    file = tmp_path / "valid_offsets_t.json"
    file.mkdir()
    with pytest.raises(BadDataError, match="is a folder, but must be a file; name a file"):
        imported(form, f"1={file}" if form == "kafka-dump-log" else file, "--to", tmp_path / "out")


def test_a_file_with_an_equals_sign_has_its_folder_before_it() -> None:
    assert GivenFile.parse("./a=b") == GivenFile(Path("./a=b"))
    assert GivenFile.parse("logs/a=b") == GivenFile(Path("logs/a=b"))
    assert GivenFile.parse("1=logs/a=b") == GivenFile(Path("logs/a=b"), "1")
