"""Whatever a file or an option says: the documented exit code, and one short printable sentence."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer.main

from cli import commands
from cli.main import main
from harness import artifacts, doctor
from harness.errors import EXIT_BAD_DATA, EXIT_USAGE
from tests.unit.cli import hostile

BUILT = typer.main.get_command(commands.app)
Ends = Callable[..., int | str | None]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ends:
    """The exit code of a command that says one sentence, and starts and writes nothing."""

    def started(*_: object, **__: object) -> None:
        pytest.fail("the command started to work")

    monkeypatch.setattr(typer.main, "get_command", lambda _: BUILT)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for module, name in ((doctor, "require"), (artifacts, "resolve"), (artifacts, "resolve_all")):
        monkeypatch.setattr(module, name, started)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    def run(*words: str | Path) -> int | str | None:
        monkeypatch.setattr(sys, "argv", ["acked", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        lines = said.err.split("\n")
        assert (said.out, lines[1:]) == ("", [""]), said
        assert lines[0].startswith("acked: ")
        assert lines[0].isprintable(), lines[0]
        assert len(lines[0]) <= 300, lines[0]
        assert hostile.SECRET not in lines[0]
        assert list(here.iterdir()) == []
        return end.value.code

    return run


def _id(value: object) -> str:
    return ascii(value)[:60]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str | bytes, str], Path]:
    """Writes a file."""

    def write(content: str | bytes, name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))
        return path

    return write


Written = Callable[[str | bytes, str], Path]


@pytest.mark.parametrize("content", hostile.CLUSTER_FILES, ids=_id)
def test_a_cluster_file(content: str | bytes, ends: Ends, file: Written) -> None:
    assert ends("assess", file(content, "cluster.toml")) == EXIT_USAGE


@pytest.mark.parametrize("content", hostile.PROPERTIES, ids=_id)
def test_a_properties_file(content: str | bytes, ends: Ends, file: Written) -> None:
    assert ends("run", "canary", "--broker-config", file(content, "broker.properties")) == EXIT_USAGE


@pytest.mark.parametrize("content", hostile.SCENARIOS, ids=_id)
def test_a_scenario_file(content: str | bytes, ends: Ends, file: Written) -> None:
    assert ends("run", file(content, "case.py")) == EXIT_USAGE


@pytest.mark.parametrize("content", hostile.RUNS_LISTS, ids=_id)
def test_a_list_of_runs(content: str | bytes, ends: Ends, file: Written) -> None:
    assert ends("summary", file(content, "runs.jsonl")) == EXIT_BAD_DATA


@pytest.mark.parametrize("content", hostile.SCHEDULES, ids=_id)
def test_a_schedule(content: str | bytes, ends: Ends, file: Written) -> None:
    assert ends("replay", file(content, "schedule.json")) == EXIT_BAD_DATA


@pytest.mark.parametrize("words", hostile.OPTIONS, ids=_id)
def test_a_value_of_an_option(words: Sequence[str], ends: Ends) -> None:
    assert ends(*words) == EXIT_USAGE


@pytest.mark.parametrize("words", [("assess",), ("run", "canary", "--broker-config"), ("run",)], ids=_id)
@pytest.mark.parametrize("kind", ["fifo", "loop", "folder"])
def test_no_file_at_all(words: Sequence[str], kind: str, ends: Ends, tmp_path: Path) -> None:
    """A FIFO to which nobody writes does not keep the command waiting."""
    path = tmp_path / "given.py"
    make: dict[str, Callable[[], object]] = {
        "fifo": lambda: os.mkfifo(path),
        "loop": lambda: path.symlink_to(path),
        "folder": path.mkdir,
    }
    make[kind]()
    assert ends(*words, path) == EXIT_USAGE
