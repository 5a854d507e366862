"""`acked search --compare`: the same schedules on several versions of Kafka, or with several clients.

The first side searches; the others carry out its schedules, some at a time, so that an end at any moment
leaves comparable sides. The folder `runs/compare/<UTC time>` holds

| file | |
|---|---|
| `comparison.json` | the names of the sides |
| `1/`, `2/`, ... | a search for each side |
| `compare.json` | the outcome |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import BadDataError
from harness.plain_files import require_plain, write_plain
from report.model.shapes import COMPARE
from studies.search.findings import WEIGHTS, RunFinding
from studies.search.hunt import RecurringFinding, Search, SearchPlan, TriedSchedule, told
from studies.search.rates import wilson
from studies.search.schedule import FILE, Schedule
from studies.series import planned
from studies.series.fleet import MOST_RUNS
from studies.series.folder import SeriesFolder

SIDES = "comparison.json"


@dataclass(frozen=True)
class Side:
    """One of the versions or clients that are compared."""

    name: str
    search: Search


@dataclass(frozen=True)
class SearchComparison:
    """A comparison in its folder."""

    path: Path
    sides: tuple[Side, ...]
    """The first one searches, the others follow."""

    @classmethod
    def create(
        cls, runs: Path, plans: Sequence[tuple[str, SearchPlan]], cluster: Path | None
    ) -> SearchComparison:
        """Make the folder, with a search for each name and plan. Raises UsageError if that fails."""
        series = SeriesFolder.create(runs, "compare")
        sides = []
        for number, (name, plan) in enumerate(plans, start=1):
            inner = series.path / str(number)
            inner.mkdir()
            planned.write_plan(SeriesFolder(inner), plan, cluster)
            sides.append(Side(name, Search(path=inner, plan=plan)))
        series.keep(SIDES, json.dumps([name for name, _ in plans]))
        return cls(series.path, tuple(sides))

    @classmethod
    def resume(cls, path: Path) -> SearchComparison:
        """A comparison that has ended or was interrupted. Raises BadDataError if the folder holds none."""
        require_plain(path)
        try:
            names = msgspec.json.decode((path / SIDES).read_bytes(), type=list[str])
        except (OSError, ValueError, RecursionError) as error:
            raise BadDataError(
                f"{path} holds no comparison to resume ({error}); name a folder like runs/compare/<time>."
            ) from None
        searches = [Search.resume(path / str(number)) for number in range(1, len(names) + 1)]
        return cls(path, tuple(map(Side, names, searches)))

    def run(
        self,
        parallel: int,
        ended: Callable[[Side, TriedSchedule], None],
        may_start: Callable[[int, int], bool],
        extra: Sequence[Schedule] = (),
    ) -> bool:
        """Carry out schedules on all sides until ``may_start`` says no. Returns whether Ctrl-C ended it.

        ``may_start`` gets the number of schedules that have begun in this call, and the number of runs that
        will be left to do if another one begins. ``extra`` are carried out first.
        """
        with planned.alone(self.path):
            return self._run(parallel, ended, may_start, extra)

    def _run(
        self,
        parallel: int,
        ended: Callable[[Side, TriedSchedule], None],
        may_start: Callable[[int, int], bool],
        extra: Sequence[Schedule],
    ) -> bool:
        first, *others = self.sides
        leader, many = first.search, len(self.sides)
        before = len(leader.records)
        while True:
            for side in others:
                if side.search.follow(leader, parallel, partial(ended, side)):
                    return True
            done = len(leader.records)

            def may(begun: int, done: int = done) -> bool:
                left = (begun + 1) * many - (len(leader.records) - done)
                return begun < MOST_RUNS * parallel and may_start(done - before + begun, left)

            if leader.run(parallel, partial(ended, first), may, extra[done - before :]):
                return True
            if len(leader.records) == done:
                return False

    def document(self, seconds: float) -> dict[str, Any]:
        """What `compare.json` holds. ``seconds`` is how long this call has taken."""
        plans = {side.name: side.search.document(seconds)["plan"] for side in self.sides}
        both = self._on_all_sides()
        document = {
            "sides": [side.name for side in self.sides],
            "plans": plans,
            "schedules": len(both),
            "judged": sum(all(record.judged for record in records) for records in both.values()),
            "seconds": round(seconds, 1),
            "groups": self._groups(),
            "differences": self._differences(both),
        }
        write_plain(self.path / COMPARE, json.dumps(document, indent=2) + "\n")
        return document

    def _on_all_sides(self) -> dict[int, list[TriedSchedule]]:
        """The records of each schedule that all sides have carried out, by its number."""
        by_side = [{record.number: record for record in side.search.records} for side in self.sides]
        numbers = sorted(set.intersection(*(set(records) for records in by_side)))
        return {number: [records[number] for records in by_side] for number in numbers}

    def _groups(self) -> list[dict[str, Any]]:
        """The groups of findings with their rates on each side; those that differ come first."""
        by_signature: dict[str, dict[str, RecurringFinding]] = {}
        for side in self.sides:
            for group in side.search.groups():
                by_signature.setdefault(group.finding.signature, {})[side.name] = group
        rows = []
        for signature, groups in by_signature.items():
            finding = next(iter(groups.values())).finding
            rates = [self._rate(side, groups.get(side.name)) for side in self.sides]
            rows.append(
                {
                    "signature": signature,
                    "finding": msgspec.to_builtins(finding),
                    "weight": finding.weight,
                    "promise": finding.promise,
                    "apart": max(rate["low"] for rate in rates) > min(rate["high"] for rate in rates),
                    "sides": rates,
                }
            )
        return sorted(rows, key=_by_difference)

    def _rate(self, side: Side, group: RecurringFinding | None) -> dict[str, Any]:
        of = sum(record.judged for record in side.search.records)
        low, high = wilson(group.runs if group else 0, of)
        return {
            "side": side.name,
            "runs": group.runs if group else 0,
            "of": of,
            "low": low,
            "high": high,
            "first": group.first if group else None,
        }

    def _differences(self, both: dict[int, list[TriedSchedule]]) -> list[dict[str, Any]]:
        """The schedules whose results differ between the sides, the most important first."""
        ranked: list[tuple[int, int, dict[str, Any]]] = []
        for number, records in both.items():
            signatures = [{one.signature: one for one in record.findings} for record in records]
            common = set.intersection(*(set(one) for one in signatures))
            apart = [one for own in signatures for name, one in own.items() if name not in common]
            unjudged = not all(record.judged for record in records)
            if not apart and not unjudged:
                continue
            sides = [
                {
                    "side": side.name,
                    "verdict": record.verdict,
                    "folder": record.folder,
                    "alone": [name for name in own if name not in common],
                }
                for side, record, own in zip(self.sides, records, signatures, strict=True)
            ]
            ranked.append(
                (
                    _most(apart),
                    number,
                    {"number": number, "sides": sides, **told(Path(records[0].folder) / FILE)},
                )
            )
        return [difference for _, _, difference in sorted(ranked, key=lambda one: one[:2])]


def _most(findings: Sequence[RunFinding]) -> int:
    """The place of the heaviest weight."""
    return min((WEIGHTS.index(one.weight) for one in findings), default=len(WEIGHTS))


def _by_difference(row: dict[str, Any]) -> tuple[bool, int, float, str]:
    rates = [rate["runs"] / rate["of"] if rate["of"] else 0.0 for rate in row["sides"]]
    return (not row["apart"], WEIGHTS.index(row["weight"]), min(rates) - max(rates), row["signature"])
