"""Many runs: the whole catalogue or a part of it, several clusters side by side, each judged as it ends."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from harness.errors import UsageError
from harness.run.catalogue import all_scenarios
from harness.run.cell import Cell
from harness.run.folder import read_json, write_json
from harness.run.matrix import WORST_FIRST, CellResult, run_cells
from harness.scenario import Scenario

SIDE_BY_SIDE = 3
"""A scenario mostly waits for sessions and lags to end, so that two cores carry three clusters."""
_LOST = ("lost", "lost_after_read", "overwritten", "diverged")
_STYLES = {"as declared": "green", "unknown": "yellow"}


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    scenario: str
    verdict: str
    reasons: tuple[str, ...]
    lost: int
    duplicated: int
    moved: int
    confirmed: int
    refuted: int
    """Refuted, be it that an erratum foresees it."""
    open: int
    """Claims that stayed unknown or were not reproduced."""
    seconds: float
    folder: str


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


def run_many(
    scenarios: Sequence[Scenario],
    *,
    repeat: int,
    parallel: int,
    lab: str,
    runs: Path,
    say: Callable[[str], None],
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run and judge them all; one that fails stops nobody."""
    if parallel < 1:
        raise UsageError(f"--parallel {parallel}: say 1 or more.")
    outcomes: list[Outcome] = []
    for result in run_cells(cells(scenarios, repeat), runs, parallel=parallel, lab=lab, say=say):
        outcome = _outcome(result)
        outcomes.append(outcome)
        done(outcome)
    return outcomes


def _outcome(result: CellResult) -> Outcome:
    file = result.folder / "judgement.json"
    judged = read_json(file) if file.exists() else {}
    fates = judged.get("fates") or {}
    claims = judged.get("claims") or []
    states = [claim["status"] for claim in claims]
    return Outcome(
        scenario=result.cell.scenario,
        verdict=result.verdict,
        reasons=result.reasons,
        lost=sum(fates.get(fate, 0) for fate in _LOST),
        duplicated=fates.get("duplicated", 0),
        moved=fates.get("moved", 0),
        confirmed=states.count("confirmed"),
        refuted=states.count("refuted"),
        open=len(states) - states.count("confirmed") - states.count("refuted"),
        seconds=round(result.seconds, 1),
        folder=str(result.folder),
    )


def by_scenario(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Runs of each scenario, in the catalogue's order."""
    found: dict[str, list[Outcome]] = {name: [] for name in all_scenarios()}
    for outcome in outcomes:
        found[outcome.scenario].append(outcome)
    return {name: ran for name, ran in found.items() if ran}


def worst(outcomes: Sequence[Outcome]) -> str:
    """The verdict that decides the exit code."""
    return min((outcome.verdict for outcome in outcomes), key=WORST_FIRST.index, default="unknown")


def cells_of(ran: Sequence[Outcome], planned: int) -> tuple[str, ...]:
    """One row of the table: verdicts, losses, doubles, moves, claims, seconds; ranges where runs differ."""
    if not ran:
        return ("…", "", "", "", "", "")
    verdicts: dict[str, int] = {}
    for outcome in ran:
        verdicts[outcome.verdict] = verdicts.get(outcome.verdict, 0) + 1
    shown = ", ".join(
        name if planned == 1 else f"{count}/{planned} {name}" for name, count in verdicts.items()
    )
    claims = sorted({(outcome.confirmed, outcome.refuted, outcome.open) for outcome in ran})
    return (
        shown,
        _span([outcome.lost for outcome in ran]),
        _span([outcome.duplicated for outcome in ran]),
        _span([outcome.moved for outcome in ran]),
        "; ".join(f"{yes} / {no}" + (f" / {rest} open" if rest else "") for yes, no, rest in claims),
        _span([round(outcome.seconds) for outcome in ran]),
    )


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


HEADINGS = ("verdict", "lost", "doubled", "moved", "claims confirmed / refuted", "s")


def table(scenarios: Sequence[Scenario], outcomes: Sequence[Outcome], repeat: int) -> Table:
    """The table as it stands: one row per scenario."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scenario", *HEADINGS):
        shown.add_column(heading)
    ran = by_scenario(outcomes)
    for scenario in scenarios:
        mine = ran.get(scenario.name, [])
        first, *rest = cells_of(mine, repeat)
        style = _STYLES.get(worst(mine), "red") if mine else "dim"
        shown.add_row(scenario.name, f"[{style}]{first}[/]", *rest)
    return shown


@contextmanager
def live(console: Console, scenarios: Sequence[Scenario], repeat: int) -> Iterator[Callable[[Outcome], None]]:
    """A table that fills as runs end, where a person looks; nothing elsewhere."""
    seen: list[Outcome] = []
    if not console.is_terminal:
        yield seen.append
        return
    with Live(table(scenarios, seen, repeat), console=console, refresh_per_second=2) as shown:

        def done(outcome: Outcome) -> None:
            seen.append(outcome)
            shown.update(table(scenarios, seen, repeat))

        yield done


def keep(outcomes: Sequence[Outcome], runs: Path, facts: Mapping[str, object]) -> Path:
    """Write the outcome as `all.json` and `all.md`; returns their folder."""
    folder = runs / "all" / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "all.json", {**facts, "runs": [asdict(outcome) for outcome in outcomes]})
    (folder / "all.md").write_text(markdown(outcomes))
    return folder


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table as Markdown, as `docs/repeats.md` shows it."""
    lines = [f"| scenario | runs | {' | '.join(HEADINGS)} |", f"|---|---|{'---|' * len(HEADINGS)}"]
    for name, ran in by_scenario(outcomes).items():
        lines.append(f"| {name} | {len(ran)} | {' | '.join(cells_of(ran, len(ran)))} |")
    return "\n".join(lines) + "\n"


def as_json(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as one JSON document."""
    return json.dumps([asdict(outcome) for outcome in outcomes], indent=2)
