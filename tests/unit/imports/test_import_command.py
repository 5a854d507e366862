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


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("columns", "openchaos")])
def test_a_folder_is_no_file(tmp_path: Path, form: str) -> None:
    file = tmp_path / "valid_offsets_t.json"
    file.mkdir()
    with pytest.raises(BadDataError, match="is a folder, but must be a file"):
        imported(form, f"1={file}" if form == "kafka-dump-log" else file, "--to", tmp_path / "out")


def test_a_file_with_an_equals_sign_has_its_folder_before_it() -> None:
    assert GivenFile.parse("./a=b") == GivenFile(Path("./a=b"))
    assert GivenFile.parse("logs/a=b") == GivenFile(Path("logs/a=b"))
    assert GivenFile.parse("1=logs/a=b") == GivenFile(Path("logs/a=b"), "1")
