"""However a command ends: the documented exit code, and one short printable sentence."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.table import Table

from cli import commands
from cli import main as entry
from harness.console import Console, echo
from harness.errors import (
    EXIT_CRASHED,
    EXIT_INTERRUPTED,
    EXIT_UNFIT,
    EXIT_USAGE,
    INTERRUPTED,
    StoppedError,
    UnfitError,
    UsageError,
)

SAID = f"acked: {INTERRUPTED}\n"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(entry, "_interrupts", [])
    monkeypatch.setattr(logging, "disable", lambda: None)  # it would last for all tests of this process
    monkeypatch.setattr(sys, "argv", ["acked", "list"])
    yield
    for number, action in before.items():
        signal.signal(number, action)


def ends_with(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of a command that does ``work``."""
    monkeypatch.setattr(commands, "app", lambda **_options: work())
    with pytest.raises(SystemExit) as end:
        entry.main()
    return end.value.code


def raising(error: BaseException) -> Callable[[], object]:
    def work() -> object:
        raise error

    return work


def nested(depth: int) -> int:
    return nested(depth + 1) + 1


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (raising(ValueError("a value")), "ValueError"),
        (raising(MemoryError()), "MemoryError"),
        (raising(GeneratorExit()), "GeneratorExit"),
        (raising(BaseException("base")), "BaseException"),
        (raising(SystemExit(1)), "SystemExit"),
        (raising(SystemExit("a text")), "SystemExit"),
        (raising(ModuleNotFoundError("No module named 'x'", name="x")), "ModuleNotFoundError"),
        (lambda: nested(0), "RecursionError"),
        (raising(ValueError("\x1b[31m" + "x" * 5000 + "\nline")), "ValueError"),
    ],
)
def test_an_unforeseen_exception_is_a_crash_and_no_verdict(
    work: Callable[[], object],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ends_with(work, monkeypatch) == EXIT_CRASHED
    said = capsys.readouterr().err
    first, *traceback = said.splitlines()
    assert re.match(rf"acked: {name} at \S+test_endings\.py:\d+", first)
    assert len(first) <= 300
    assert traceback[0].startswith("Traceback")
    assert "\x1b" not in said


def test_a_command_line_that_cannot_be_imported_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cli.commands", None)
    monkeypatch.delattr("cli.commands")
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == EXIT_CRASHED
    assert capsys.readouterr().err.startswith("acked: ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a value \x1b]0;title\x07" + "v" * 18_000 + ": correct it."), EXIT_USAGE),
        (UnfitError("two\nlines " + " ".join(["word"] * 5000) + ": correct it."), EXIT_UNFIT),
    ],
)
def test_a_sentence_is_one_short_printable_line(
    error: UsageError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong and the remedy stay; the value gives way."""
    assert ends_with(raising(error), monkeypatch) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) <= 300
    assert line.isprintable()
    assert line.endswith(": correct it.")
    assert line.startswith(f"acked: {error.message[:8]}".replace("\n", " "))


def test_an_interruption_that_a_library_turns_into_its_own_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise UnfitError("answer from Java side is empty") from None

    assert ends_with(interrupted, monkeypatch) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == SAID


def test_a_second_interruption_while_the_first_is_dealt_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def impatient() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.default_int_handler)
    assert ends_with(impatient, monkeypatch) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == SAID


def test_a_command_that_knows_more_of_its_interruption_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends_with(raising(StoppedError("after 2 of 3 runs")), monkeypatch) == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "acked: after 2 of 3 runs\n"


WHILE = """
import importlib.abc, os, signal, sys

class InterruptingFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{number})

sys.meta_path.insert(0, InterruptingFinder())
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.argv = ["acked", "list"]
from cli.main import main
main()
"""
"""A command to which a signal comes while a module is imported."""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", ["cli.commands", "rich", "run.catalogue"])
def test_an_interruption_while_modules_are_imported(number: str, module: str, tmp_path: Path) -> None:
    code = WHILE.format(module=module, number=number)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, SAID)
    assert list(tmp_path.iterdir()) == []


def test_a_command_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    code = WHILE.replace("SIG_DFL", "SIG_IGN").format(module="rich", number="SIGHUP")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_after_the_outcome_does_not_change_it(tmp_path: Path) -> None:
    code = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["acked", "--version"]
from cli.main import main
main()
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_nobody_reads_any_more(tmp_path: Path) -> None:
    """`acked list | head -1`: no traceback."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "cli.main", "list"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, "")


def test_control_characters_of_others_are_visible(capsys: pytest.CaptureFixture[str]) -> None:
    """In texts, and in tables, whose columns stay where they are."""
    out = Console(highlight=False, width=60)
    table = Table("name", "value")
    table.add_row("a\x1b[31mb", "c\x9b2Jd")
    out.print(table)
    out.print("title \x1b]0;x\x07 \u202eend")
    echo("text\x1b[2J\ttab\x7f")
    said = capsys.readouterr().out
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e", "\x7f"}
    assert "a␛[31mb" in said
    assert "text␛[2J\ttab␡" in said


def test_an_interruption_inside_of_code_that_a_c_library_runs(tmp_path: Path) -> None:
    """Python notes it as unhandled, and would end itself by SIGINT after everything else."""
    code = """
import ctypes, sys
from cli import commands
from cli.main import main

def app(**_options):
    text = b"import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    run = ctypes.pythonapi.PyRun_String
    run.restype, run.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_int, *[ctypes.py_object] * 2]
    run(text, 257, {}, {})

commands.app = app
main()
"""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "interrupted.py").write_text(code)
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(tmp_path / "modules")}
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, SAID)
