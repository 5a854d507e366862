"""What commands print fits terminals of 80, 120 and 200 columns, and nothing of it is cut.

The results are stored ones: `assessment.json` and `search.json` beside this file are those of real runs.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.commands import app
from harness.console import Console
from report import assessment, search, series, terminal
from report.console import RowTable
from report.model.judged import judged_model
from report.rows import row_table
from studies.series.summary import RunSummary, add_up, grid
from tests.runs.judged import judged_run

HERE = Path(__file__).parent
WIDTHS = (80, 120, 200)
STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COMMAND = re.compile(r" +acked ")
"""Begins a line to copy, which is never wrapped."""
RUN = RunSummary(
    scenario="leader-az-isolated-acks-all",
    version="2.7.1",
    mode="zookeeper",
    verdict="as declared",
    seconds=31.0,
    lost=120,
    claims={"a": "confirmed", "b": "refuted", "c": "unknown"},
)
OTHER = RunSummary(
    scenario="kraft-last-replica-wiped-elr-killed",
    version="4.3.1",
    mode="kraft-combined",
    verdict="violated",
    seconds=64.0,
    findings={"torn_transaction": 3, "hanging_transaction": 1},
    reasons=("12 lost and 3 torn transactions, which the scenario does not declare as expected findings",),
    claims={"a": "confirmed"},
)
SERIES = [RUN, OTHER]
Show = Callable[[Path, Console], None]
"""Prints a result; gets a folder with stored runs."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `runs` with two judged runs."""
    folder = tmp_path_factory.mktemp("here") / "runs"
    folder.mkdir()
    for name in ("leader-az-isolated", "leader-az-isolated-acks-all"):
        (folder / name).mkdir()
        judged_run(name, folder / name / "2026-01-01T00-00-00")
    return folder


def command(words: str) -> Show:
    """What a command prints; `RUNS`, `A` and `B` in it stand for the folders of the stored runs."""

    def show(runs: Path, console: Console) -> None:
        one, other = (f"runs/{folder.name}/2026-01-01T00-00-00" for folder in sorted(runs.iterdir()))
        places = {"RUNS": "runs", "A": one, "B": other}
        arguments = [places.get(word, word) for word in words.split()]
        env = {"FORCE_COLOR": "1" if console.is_terminal else None, "COLUMNS": str(console.width)}
        done = CliRunner().invoke(app, arguments, env=env, catch_exceptions=False)
        console.file.write(done.output)

    return show


def stored(name: str, show: Callable[[Any, Console], None]) -> Show:
    return lambda runs, console: show(json.loads((HERE / name).read_text(encoding="utf-8")), console)


def replay(document: Any, console: Console) -> None:
    """A replay whose runs showed the findings of the stored search."""
    shown = [
        {"weight": one["finding"]["weight"], "runs": 3, "interval": [0.2, 0.9], "example": one["finding"]}
        for one in document["groups"]
    ]
    tally = {"hits": 3, "runs": 5, "not_judged": 1, "interval": [0.2, 0.9], "decision": "comes back"}
    run = "runs/replay/2026-01-01T00-00-00/runs/schedule/2026-01-01T00-01-00"
    told = {**tally, "finding": document["groups"][1]["signature"], "findings": shown, "run": run}
    search.show_replay(told, console)


def table(made: Callable[[], RowTable]) -> Show:
    return lambda runs, console: made().show(console)


def judged(runs: Path, console: Console) -> None:
    (folder,) = (runs / "leader-az-isolated").iterdir()
    terminal.show(judged_model(json.loads((folder / "judgement.json").read_text())), console)


@pytest.fixture(autouse=True)
def beside_the_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent)


def rows(console: Console) -> None:
    """Rows of a query, one of them with a long value and one with none."""
    values = [[5, "broker1 acknowledged it while broker2 led", {"epoch": 1}], [6, "x" * 70, None]]
    row_table(["seq", "cause", "detail"], values).show(console)


SHOWN: dict[str, Show] = {
    "acked list --long": command("list --long"),
    "acked list --claims": command("list leader-az-isolated power-cut --claims"),
    "acked list": command("list"),
    "acked versions": command("versions"),
    "acked runs": command("runs --runs RUNS"),
    "acked runs prune": command("runs prune --runs RUNS --dry-run --keep 0"),
    "acked compare": command("compare A B"),
    "acked assess --list": command("assess --list"),
    "acked assess": stored("assessment.json", assessment.show),
    "acked search": stored("search.json", search.show_search),
    "acked replay": stored("search.json", replay),
    "acked check": judged,
    "acked run --all": table(lambda: series.table([(RUN.scenario, add_up([RUN])), (OTHER.scenario, None)])),
    "acked matrix": table(lambda: series.matrix(grid(SERIES))),
    "acked sql": lambda runs, console: rows(console),
    "reasons of a series": lambda runs, console: series.show_reasons(SERIES, console),
}
ABRIDGED = ("acked list", "acked list --long")
"""They show a terminal other facts than a pipe."""


def printed(show: Show, runs: Path, width: int = 0) -> list[str]:
    """The lines for a terminal of a width, or for a pipe."""
    out = io.StringIO()
    show(runs, Console(file=out, force_terminal=width > 0, width=width or 80, highlight=False))
    text = out.getvalue()
    assert width or "\x1b" not in text, "a pipe gets no styles"
    return STYLES.sub("", text).splitlines()


def words(lines: Sequence[str]) -> set[str]:
    return set(re.findall(r"[^\s:,–]+", "\n".join(lines)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SHOWN)
def test_what_is_printed_fits_the_terminal(name: str, width: int, runs: Path) -> None:
    """No line is too long, except for a single word or a command to copy; no word is cut or left out."""
    lines = printed(SHOWN[name], runs, width)
    assert [
        line for line in lines if len(line) > width and len(line.split()) > 1 and not COMMAND.match(line)
    ] == []
    assert [line for line in lines if "…" in line] == []
    piped = printed(SHOWN[name], runs)
    if name not in ABRIDGED:
        assert words(piped[1:]) - words(lines) == set()


@pytest.mark.parametrize("name", SHOWN)
def test_a_pipe_gets_the_same_however_wide(name: str, runs: Path) -> None:
    """Each row and each sentence is one line."""
    texts = []
    for width in (40, 200):
        out = io.StringIO()
        SHOWN[name](runs, Console(file=out, width=width, highlight=False))
        texts.append(out.getvalue())
    assert texts[0] == texts[1]
    assert "…" not in texts[0]


@pytest.mark.parametrize("name", ["", *typer.main.get_command(app).commands])
def test_help_cuts_no_word_at_80_columns(name: str) -> None:
    env = {"FORCE_COLOR": "1", "COLUMNS": "80"}
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env=env, catch_exceptions=False).output
    lines = STYLES.sub("", shown).splitlines()
    assert [line for line in lines if re.search(r"\w…", line) or len(line) > 80] == []
