"""One line per run, kept as runs end: what an interrupted series has, and what several rounds add up to."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkers.partition.fate import LOSSES
from checkers.verdict import NOT_JUDGED
from checkers.verdict import worst as worst_verdict
from harness.errors import BadDataError
from harness.run.folder import read_json
from harness.series.cell import Cell
from harness.series.pool import CellResult

FILE = "runs.jsonl"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """What one run came to; ``version`` may name a protocol: `2.7.1@2.6`."""

    scenario: str
    version: str
    mode: str
    verdict: str
    lost: int = 0
    duplicated: int = 0
    moved: int = 0
    seconds: float = 0.0
    """Wall time of the run, without its judgement."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Status of each claim's own words (not of its erratum), by name."""
    reasons: tuple[str, ...] = ()
    folder: str = ""
    ended: str = ""
    """UTC, to the second."""

    @property
    def key(self) -> Key:
        """What was run, whatever came of it."""
        return self.scenario, self.version, self.mode

    @property
    def counts(self) -> tuple[int, int, int]:
        """Claims confirmed, refuted (be it that an erratum foresees it), and left open."""
        states = Counter(self.claims.values())
        yes, no = states["confirmed"], states["refuted"]
        return yes, no, len(self.claims) - yes - no


def row_of(result: CellResult) -> Row:
    """The row of a run that has been judged."""
    file = result.folder / "judgement.json"
    fates = (read_json(file).get("fates") or {}) if file.exists() else {}
    return Row(
        scenario=result.cell.scenario,
        version=result.cell.version,
        mode=result.cell.mode,
        verdict=result.verdict,
        lost=sum(fates.get(fate, 0) for fate in LOSSES),
        duplicated=fates.get("duplicated", 0),
        moved=fates.get("moved", 0),
        seconds=round(result.seconds, 1),
        claims=result.claims,
        reasons=result.reasons,
        folder=str(result.folder),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def append(file: Path, row: Row) -> None:
    """Add a row; what was written before stays whatever happens next."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(row)) + "\n")


def read_rows(files: Iterable[Path]) -> list[Row]:
    """Rows of all files, each run once. A last line without its end was being written, and is left out.

    Raises BadDataError with file and line.
    """
    found: dict[tuple[str, ...], Row] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadDataError(f"{file} cannot be read as rows of runs ({error}).") from error
        *lines, _ = text.split("\n")
        for number, line in enumerate(lines, 1):
            row = _row(line, f"{file}, line {number}")
            found[(*row.key, row.folder, row.ended)] = row
    return list(found.values())


def _row(line: str, place: str) -> Row:
    names = {one.name for one in fields(Row)}
    try:
        values: dict[str, Any] = json.loads(line)
        known = {name: value for name, value in values.items() if name in names}
        return Row(**{**known, "reasons": tuple(known.get("reasons", ()))})
    except (ValueError, TypeError, AttributeError) as error:
        raise BadDataError(f"{place} is no row of a run ({error}); see harness/series/rows.py.") from None


def remaining(cells: Sequence[Cell], rows: Iterable[Row]) -> list[Cell]:
    """The cells that the rows do not have yet; as many of each as are missing."""
    done = Counter(row.key for row in rows)
    left: list[Cell] = []
    for cell in cells:
        key = (cell.scenario, cell.version, cell.mode)
        if done[key]:
            done[key] -= 1
        else:
            left.append(cell)
    return left


def longest_first(cells: Iterable[Cell], earlier: Iterable[Row]) -> list[Cell]:
    """Cells in rounds, in each round those first that took longest before: none is left to run alone.

    What never ran comes first, in the order given.
    """
    seconds = {row.key: row.seconds for row in earlier if row.verdict not in NOT_JUDGED}
    rounds: list[tuple[int, float, Cell]] = []
    seen: Counter[Key] = Counter()
    for cell in cells:
        key = (cell.scenario, cell.version, cell.mode)
        rounds.append((seen[key], -seconds.get(key, math.inf), cell))
        seen[key] += 1
    return [cell for _, _, cell in sorted(rounds, key=lambda entry: entry[:2])]


def by_key(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    """Runs of each scenario, version and mode, in the order in which they first ended."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def worst(rows: Iterable[Row]) -> str:
    """The verdict that decides the exit code."""
    return worst_verdict(row.verdict for row in rows)


def verdicts(rows: Sequence[Row], planned: int) -> str:
    """How often which verdict, of so many runs."""
    told = Counter(row.verdict for row in rows)
    return ", ".join(name if planned == 1 else f"{count}/{planned} {name}" for name, count in told.items())


def same_claims(rows: Iterable[Row]) -> bool:
    """Whether every run that was judged confirmed the same claims and refuted the same."""
    return len({tuple(sorted(row.claims.items())) for row in rows if row.verdict not in NOT_JUDGED}) <= 1


def alike_at_the_end(rows: Iterable[Row]) -> int:
    """How many of the last runs had the verdict and the claims of the very last."""
    last_first = sorted(rows, key=lambda row: row.ended, reverse=True)
    outcomes = [(row.verdict, dict(row.claims)) for row in last_first]
    return next((n for n, outcome in enumerate(outcomes) if outcome != outcomes[0]), len(outcomes))


def span(values: Iterable[int]) -> str:
    """Least and most, or the one number that they all are."""
    low, *_, high = sorted(values) * 2
    return str(low) if low == high else f"{low}–{high}"
