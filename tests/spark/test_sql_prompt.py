"""The prompt of `acked sql` in a terminal, with a Spark of its own; and its queries from standard input."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.judge import judge
from harness.errors import EXIT_USAGE
from harness.waiting import wait_until
from tests.spark.made_runs import explained, stored_run

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>78]|\][^\x07]*\x07)")
ENDLESS = (
    "select count(*) from sends a, sends b, sends c, sends d, sends e, sends f, sends g, sends h, sends i"
)


@pytest.fixture(scope="module")
def run(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = stored_run(tmp_path_factory.mktemp("runs") / "made-up" / "one", explained())
    judge(spark, folder)
    return folder


class Terminal:
    """A command in a pseudo-terminal of 100 columns."""

    def __init__(self, arguments: list[str], state: Path) -> None:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(ours, (30, 100))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *arguments],
            cwd=ROOT,
            env={**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C reaches it
        )
        os.close(theirs)
        os.set_blocking(ours, False)
        self._terminal = ours
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, pattern: str, within_s: float = 180) -> str:
        """What the terminal shows up to a pattern; it is not looked at again."""
        match = wait_until(
            lambda: re.search(pattern, self._read()), within_s=within_s, awaiting=f"{pattern} in {self!r}"
        )
        assert match
        before, self._shown = self._shown[: match.end()], self._shown[match.end() :]
        return before

    def __repr__(self) -> str:
        return f"the terminal, which ends in {self._shown[-500:]!r}"

    def _read(self) -> str:
        try:
            while data := os.read(self._terminal, 1 << 16):
                if b"\x1b[6n" in data:  # where is the cursor?
                    self.type("\x1b[1;1R")
                self._shown += _CONTROL.sub("", data.decode(errors="replace")).replace("\r", "")
        except OSError:  # nothing there, or the process has ended
            pass
        return self._shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        os.close(self._terminal)


@pytest.fixture
def terminal(run: Path, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(["sql", str(run)], tmp_path / "state")
    yield opened
    opened.close()


def test_one_session_answers_many_queries(terminal: Terminal, tmp_path: Path) -> None:
    """Over several lines, with names completed, in three forms; a mistake and Ctrl-C leave the prompt."""
    terminal.expect("sql>")
    terminal.expect("Spark is starting")
    terminal.type("select label, lable from lost;\r")
    terminal.expect("no column 'lable' in lost; did you mean label", 30)  # Spark still starts
    terminal.type("help\r")
    terminal.expect("help is no query; the command is .help", 30)
    terminal.type("sel\t")
    terminal.expect("ect")
    terminal.type(" fate, count(*) as n from life\rgroup by fate order by n;\r")
    assert re.search(r"fate +n *\n *kept +2 *\n *lost +4", terminal.expect(r"lost +4"))
    terminal.expect("sql>")
    terminal.type(".mode csv\r")
    terminal.expect(r"csv\n(.*\n)*sql>")
    terminal.type("select fate, max(seq) as s from life where fate = 'lo\x03")
    terminal.expect(r"'lo(.*\n)*sql>")
    terminal.type("select fate, count(*) as n from life group by fate order by n;\r")
    shown = terminal.expect("fate,n\nkept,2\nlost,4\n", 60)
    assert "Spark is" not in shown, "the session was kept"
    terminal.type(f"{ENDLESS} where a.seq + b.seq + h.seq + i.seq < 0;\r")
    terminal.expect(r"the query is running, [1-9]")
    terminal.type("\x03")
    terminal.expect("The query was interrupted")
    terminal.type('.mode json\rselect "label" as text from lost limit 1;\r')
    terminal.expect('"label" in double quotes is a text in Spark SQL; write `label` in backticks')
    terminal.expect('"text": "label"')
    terminal.type(".schema availab\t")
    terminal.expect("ility")
    terminal.type("\r")
    terminal.expect('"column": "share"')
    terminal.type("drop table sends;\r")
    terminal.expect("Only one query")
    terminal.type(".nonsense\r")
    terminal.expect(r"'\.nonsense' is no command of this prompt; \.help lists them")
    terminal.type(".quit\r")
    assert terminal.process.wait(60) == 0
    history = (tmp_path / "state" / "acked" / "sql-history").read_text()
    assert "+select fate, count(*) as n from life\n+group by fate order by n;\n" in history


def test_a_signal_ends_the_prompt(terminal: Terminal) -> None:
    terminal.expect("sql>")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(120) == 130


def test_queries_from_standard_input(run: Path) -> None:
    """Each ends in a semicolon. The first that is refused ends the command; those before it are answered."""

    def acked(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli.main", "sql", str(run), *options]
        return subprocess.run(
            command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=300, check=False
        )

    done = acked("select ';' as a, null as b;\n-- two; lines\nselect array(1) as c", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "a,b\n;,\n\nc\n[1]\n"), done.stderr
    refused = acked("select 1; select * from sned;")
    assert (refused.returncode, refused.stdout.split()) == (EXIT_USAGE, ["1", "1"])
    assert "There is no table 'sned'; did you mean sends?" in refused.stderr
    assert "holds no query" in acked(" ; \n").stderr
