"""Links, FIFOs, devices and folders in the places of files: one sentence, and nothing is written."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import app
from harness.errors import EXIT_BAD_DATA, AckedError, BadDataError, UsageError
from harness.plain_files import folders_with, require_plain, write_output, write_plain
from tests.histories import History


def loop(place: Path) -> None:
    place.symlink_to(place.name)


def dangling(place: Path) -> None:
    place.symlink_to(place.parent.parent / "outside" / "new")


def to_a_folder(place: Path) -> None:
    place.symlink_to(place.parent.parent / "outside")


def a_socket(place: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(place.parent)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(place.name)
    os.fchdir(here)
    os.close(here)


def to_a_device(place: Path) -> None:
    place.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a socket": a_socket,
    "a link that leads nowhere": dangling,
    "a link loop": loop,
    "a link to a folder": to_a_folder,
    "a link to a device": to_a_device,
    "a folder": Path.mkdir,
}
FILES = (
    "run.json",
    "claims.json",
    "judgement.json",
    "report.html",
    "life.parquet",
    "findings.parquet",
    "history/sends.parquet",
    "history/replicas.parquet",
)


def made(folder: Path) -> Path:
    """A folder that looks like a judged run, and one beside it that is none of its business."""
    run = folder / "run"
    History().send(0, offset=0).logs([(0, 0)]).write(run / "history")
    (run / "run.json").write_text('{"status": "complete"}')
    (run / "claims.json").write_text('{"claims": [], "expected": []}')
    (run / "judgement.json").write_text("{}")
    (folder / "outside").mkdir()
    return run


ODD = [
    (file, kind)
    for file in FILES
    for kind in KINDS
    # A table may be a folder, but this one is empty, which the reader of the table says.
    if not (file.endswith(".parquet") and kind == "a folder")
    and not (file.startswith("history/") and kind == "a link to a folder")
]


@pytest.mark.parametrize(("file", "kind"), ODD)
def test_every_odd_file_is_named(tmp_path: Path, file: str, kind: str) -> None:
    run = made(tmp_path)
    (run / file).unlink(missing_ok=True)
    KINDS[kind](run / file)
    with pytest.raises(BadDataError, match=file) as caught:
        require_plain(run)
    assert len(caught.value.message.replace(str(run), "RUN")) <= 300
    assert "\n" not in caught.value.message


COMMANDS = (
    ("check", "{run}"),
    ("check", "--import", "{run}/history"),
    ("report", "{run}"),
    ("report", "{run}", "--json"),
    ("compare", "{run}", "{run}"),
    ("story", "0/0", "{run}"),
    ("export", "{run}", "--to", "{run}/../new.edn"),
    ("sql", "select 1", "{run}"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", ["a FIFO", "a link loop", "a link to a device"])
def test_every_command_refuses_odd_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], kind: str
) -> None:
    """In one sentence, and without a change."""
    monkeypatch.setattr("checkers.spark.session.start_session", lambda **_: None)
    run = made(tmp_path)
    (run / "history" / "sends.parquet").unlink()
    KINDS[kind](run / "history" / "sends.parquet")
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, [part.format(run=run) for part in command])
    assert isinstance(done.exception, AckedError), done.output
    assert done.exception.exit_code == EXIT_BAD_DATA
    assert "sends.parquet" in done.exception.message
    assert sorted(tmp_path.rglob("*")) == before


RESUMED = (
    ("assess", "--resume", "plan.json"),
    ("search", "--resume", "plan.json"),
    ("search", "--resume", "schedules.jsonl"),
    ("search", "--resume", "comparison.json"),
    ("shrink", "--resume", "tests.jsonl"),
    ("run", "--resume", "runs.jsonl"),
    ("replay", "{file}", "schedule.json"),
)


@pytest.mark.parametrize("words", RESUMED, ids=" ".join)
@pytest.mark.parametrize("kind", ["a FIFO", "a link loop", "a link to a device"])
def test_what_resumes_refuses_odd_files(tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    """Before it reads the first of them."""
    *command, name = words
    KINDS[kind](tmp_path / name)
    place = tmp_path / name if "{file}" in command else tmp_path
    done = CliRunner().invoke(app, [*(word for word in command if word != "{file}"), str(place)])
    assert isinstance(done.exception, AckedError), done.output
    assert done.exception.exit_code == EXIT_BAD_DATA
    assert name in done.exception.message
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize("name", ["runs.jsonl", "schedules.jsonl", "tests.jsonl"])
def test_no_line_is_added_through_a_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(BadDataError, match=f"{name} is a link"):
        require_plain(tmp_path / "work")


def test_a_run_without_odd_files_passes(tmp_path: Path) -> None:
    """Tables may lie elsewhere: links to files and folders are read."""
    run = made(tmp_path)
    moved = tmp_path / "outside" / "sends.parquet"
    (run / "history" / "sends.parquet").rename(moved)
    (run / "history" / "sends.parquet").symlink_to(moved)
    require_plain(run)
    require_plain(tmp_path / "nowhere")


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    outside, file = tmp_path / "outside", tmp_path / "judgement.json"
    outside.write_text("kept")
    file.symlink_to(outside)
    write_plain(file, "new")
    assert (outside.read_text(), file.read_text(), file.is_symlink()) == ("kept", "new", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judgement.json", "outside"]


def test_the_mode_of_a_written_file_follows_the_umask(tmp_path: Path) -> None:
    write_plain(tmp_path / "a.json", "x")
    (tmp_path / "b.json").write_text("x")
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "b.json").stat().st_mode


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a folder"])
def test_nothing_is_written_into_what_is_no_file(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "report.html")
    with pytest.raises(BadDataError, match="report.html"):
        write_plain(tmp_path / "report.html", "x")
    with pytest.raises(UsageError, match="--output"):
        write_output(tmp_path / "report.html", "x", "--output")


def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    loop(tmp_path / "a.json")
    for place in (tmp_path / "a.json", tmp_path / "nowhere" / "a.json"):
        with pytest.raises(UsageError, match="--to .* cannot be written"):
            write_output(place, "x", "--to")


def test_a_manifest_that_is_no_file_leaves_other_runs_listed(tmp_path: Path) -> None:
    for name in ("good", "odd"):
        (tmp_path / "scenario" / name).mkdir(parents=True)
        (tmp_path / "scenario" / name / "journal").mkdir()
    (tmp_path / "scenario" / "good" / "run.json").write_text(json.dumps({"status": "complete"}))
    os.mkfifo(tmp_path / "scenario" / "odd" / "run.json")
    done = CliRunner().invoke(app, ["runs", "--runs", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "good" in done.output


def test_folders_that_vanish_or_lead_elsewhere_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search removes folders while somebody judges what lies beside them."""
    for name in ("a", "b/c", "gone"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").touch()
    (tmp_path / "b" / "latest").symlink_to("c")
    scan = os.scandir

    def scandir(place: str) -> object:
        if str(place).endswith("gone"):
            raise FileNotFoundError(place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", scandir)
    assert folders_with("run.json", tmp_path) == [tmp_path / "a", tmp_path / "b" / "c"]
