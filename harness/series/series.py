"""Many runs: the whole catalogue or a part of it, several clusters side by side, each judged as it ends."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from harness.errors import BadDataError, StoppedError, UsageError
from harness.run.catalogue import all_scenarios
from harness.run.folder import write_json
from harness.scenario import Scenario
from harness.series.cell import Cell
from harness.series.pool import CellResult, run_cells
from harness.series.rows import FILE, Row, append, longest_first, read_rows, row_of, span, verdicts, worst

_STYLES = {"as declared": "green", "unknown": "yellow"}


def select(pattern: str) -> list[Scenario]:
    """Scenarios whose names comma-separated globs mean. Raises UsageError for one that means none."""
    known = all_scenarios()
    wanted: set[str] = set()
    for glob in (pattern or "*").split(","):
        found = fnmatch.filter(known, glob.strip())
        if not found:
            raise UsageError(f"No scenario is called {glob.strip()!r}; `acked list` shows them all.")
        wanted |= set(found)
    return [scenario for name, scenario in known.items() if name in wanted]


def cells(scenarios: Sequence[Scenario], repeat: int) -> list[Cell]:
    """Each scenario on its own Kafka version, ``repeat`` times, in rounds."""
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: say 1 or more.")
    return [Cell(one.name, one.kafka, one.mode) for _ in range(repeat) for one in scenarios]


class Series:
    """A folder that a series of runs is recorded in: a line per run, written as the run ends.

    Whatever interrupts the series, it can be taken up again where it was.
    """

    def __init__(self, folder: Path) -> None:
        """Take up ``folder``, with the rows it has."""
        self.folder = folder
        self.file = folder / FILE
        self.rows = read_rows([self.file]) if self.file.exists() else []

    def stopped(self, ended: int, planned: int) -> StoppedError:
        """What somebody who pressed Ctrl-C is told."""
        told = f" --resume {self.folder} goes on." if ended else ""
        return StoppedError(
            f"interrupted after {ended} of {planned} runs; everything that was started has been ended.{told}"
        )

    @classmethod
    def begin(cls, runs: Path, kind: str, resume: Path | None) -> Series:
        """A new folder below ``runs``, or the one to go on with. Raises UsageError, BadDataError."""
        if resume is None:
            folder = runs / kind / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"{folder} cannot be made ({error.strerror}); say --runs.") from error
            return cls(folder)
        if not (resume / FILE).is_file():
            raise BadDataError(
                f"{resume} has no {FILE}, so nothing can be resumed; say a folder like runs/{kind}/<time>."
            )
        return cls(resume)

    def add(self, result: CellResult) -> Row:
        """Record one run."""
        row = row_of(result)
        append(self.file, row)
        self.rows.append(row)
        return row

    def close(self) -> None:
        """A series without any run leaves nothing behind."""
        if not self.rows and not any(self.folder.iterdir()):
            self.folder.rmdir()


def run_series(
    planned: Sequence[Cell],
    series: Series,
    *,
    parallel: int,
    lab: str,
    runs: Path,
    say: Callable[[str], None],
    done: Callable[[Row], None] = lambda row: None,
) -> list[CellResult]:
    """Run and judge them all; one that fails stops nobody."""
    if parallel < 1:
        raise UsageError(f"--parallel {parallel}: say 1 or more.")
    results: list[CellResult] = []
    planned = longest_first(planned, earlier(runs))
    with closing(run_cells(planned, runs, parallel=parallel, lab=lab, say=say)) as ended:
        for result in ended:
            results.append(result)
            done(series.add(result))
    return results


def earlier(runs: Path) -> list[Row]:
    """What runs of earlier series came to; a file that cannot be read tells nothing."""
    found: list[Row] = []
    for file in sorted(runs.glob(f"*/*/{FILE}")):
        with suppress(BadDataError):
            found += read_rows([file])
    return found


def by_scenario(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Runs of each scenario, in the catalogue's order."""
    found: dict[str, list[Row]] = {name: [] for name in all_scenarios()}
    for row in rows:
        found.setdefault(row.scenario, []).append(row)
    return {name: ran for name, ran in found.items() if ran}


def cells_of(ran: Sequence[Row], planned: int) -> tuple[str, ...]:
    """One row of the table: verdicts, losses, doubles, moves, claims, seconds; ranges where runs differ."""
    if not ran:
        return ("…", "", "", "", "", "")
    claims = sorted({row.counts for row in ran})
    return (
        verdicts(ran, planned),
        span(row.lost for row in ran),
        span(row.duplicated for row in ran),
        span(row.moved for row in ran),
        "; ".join(f"{yes} / {no}" + (f" / {rest} open" if rest else "") for yes, no, rest in claims),
        span(round(row.seconds) for row in ran),
    )


HEADINGS = ("verdict", "lost", "doubled", "moved", "claims confirmed / refuted", "s")


def table(scenarios: Sequence[Scenario], rows: Sequence[Row], repeat: int) -> Table:
    """The table as it stands: one row per scenario."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scenario", *HEADINGS):
        shown.add_column(heading)
    ran = by_scenario(rows)
    for scenario in scenarios:
        mine = ran.get(scenario.name, [])
        first, *rest = cells_of(mine, max(repeat, len(mine)))
        style = _STYLES.get(worst(mine), "red") if mine else "dim"
        shown.add_row(scenario.name, f"[{style}]{first}[/]", *rest)
    return shown


@contextmanager
def live(
    console: Console, scenarios: Sequence[Scenario], repeat: int, rows: Sequence[Row] = ()
) -> Iterator[Callable[[Row], None]]:
    """A table that fills as runs end, where a person looks; nothing elsewhere."""
    seen = list(rows)
    if not console.is_terminal:
        yield seen.append
        return
    with Live(table(scenarios, seen, repeat), console=console, refresh_per_second=2) as shown:

        def done(row: Row) -> None:
            seen.append(row)
            shown.update(table(scenarios, seen, repeat))

        yield done


def keep(rows: Sequence[Row], folder: Path, facts: Mapping[str, object]) -> None:
    """Write the outcome as `all.json` and `all.md`."""
    write_json(folder / "all.json", {**facts, "runs": [asdict(row) for row in rows]})
    (folder / "all.md").write_text(markdown(rows))


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    lines = [f"| scenario | runs | {' | '.join(HEADINGS)} |", f"|---|---|{'---|' * len(HEADINGS)}"]
    for name, ran in by_scenario(rows).items():
        lines.append(f"| {name} | {len(ran)} | {' | '.join(cells_of(ran, len(ran)))} |")
    return "\n".join(lines) + "\n"


def as_json(rows: Sequence[Row]) -> str:
    """All rows as one JSON document."""
    return json.dumps([asdict(row) for row in rows], indent=2)
