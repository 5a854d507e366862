"""`acked search` runs schedules from a seed, mutates those that reached something new, and groups findings.

The folder of a search, `runs/search/<UTC time>`, holds

| file | |
|---|---|
| `plan.json` | what is searched |
| `schedules.jsonl` | a line for each schedule that was carried out (`TriedSchedule`) |
| `runs/` | the run folders; clean runs keep only their summary |
| `corpus/` | the schedules that reached something new |
| `search.json` | the outcome |
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from checkers.promises.table import ROWS
from checkers.verdict import NOT_JUDGED
from harness.cluster.settings import Settings
from harness.errors import BadDataError, json_object
from harness.lab.model import Topology
from harness.lab.registry import EMBEDDED
from report.model.shapes import SEARCH
from studies.assess.series import Target, timings
from studies.search.findings import WEIGHTS, RunFinding, option_of
from studies.search.grammar import fresh, mutated
from studies.search.rates import wilson
from studies.search.rules import read
from studies.search.runs import SCHEDULES, job_of, schedule_of, thin
from studies.search.scenario import NAME
from studies.search.schedule import FILE, Schedule
from studies.search.score import score
from studies.search.space import Space, space_of
from studies.series import planned
from studies.series.fleet import Fleet, JudgedRun
from studies.series.job import Job, Place
from studies.steps.step import described

_BRIEFS = {row.name: row.brief for row in ROWS}
RECORDS = "schedules.jsonl"
MUTATE = 0.5
"""Share of the schedules that are mutated from the corpus, as soon as there is one."""
KEPT_OF_A_GROUP = 3
"""How many runs of a group are kept whole if Kafka promises nothing or the bug is known."""
BUDGET_S = 1800.0


class SearchPlan(planned.Plan, frozen=True, kw_only=True):
    """What is searched; stored, so that a search can be resumed."""

    seed: int
    faults: str | None = None
    producers: str | None = None
    groups: str | None = None
    safe: bool = False
    lacks: tuple[str, ...] = ()
    """What clients or brokers cannot do, such as `transactions`."""


class TriedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was carried out."""

    number: int
    digest: str
    folder: str
    verdict: str
    seconds: float
    parent: int | None = None
    findings: tuple[RunFinding, ...] = ()
    reached: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    """What no schedule had reached before."""
    promises: dict[str, int] = {}
    """Promises that were put to the test, and in how many assumed cases."""
    skipped: int = 0
    """Steps that could not be carried out."""
    reasons: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether the run says anything about Kafka."""
        return self.verdict not in NOT_JUDGED


class RecurringFinding(msgspec.Struct, frozen=True, kw_only=True):
    """All findings of one signature."""

    finding: RunFinding
    runs: int
    """Runs that showed it."""
    of: int
    """Runs that were judged."""
    first: int
    """Number of the first schedule that showed it."""
    folder: str
    low: float
    high: float
    """Bounds of the rate (Wilson, 95 %)."""


@dataclass(kw_only=True)
class Search:
    """A search in its folder."""

    path: Path
    plan: SearchPlan
    records: list[TriedSchedule] = field(default_factory=list)
    corpus: dict[int, Schedule] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    """What was reached, and by how many schedules."""
    earlier: int = 0
    """How many schedules had been carried out when the search was resumed."""

    @classmethod
    def create(cls, runs: Path, plan: SearchPlan, cluster: Path | None) -> Search:
        """Make the folder. Raises UsageError if it cannot be made."""
        return cls(path=planned.create(runs, "search", plan, cluster).path, plan=plan)

    @classmethod
    def resume(cls, path: Path) -> Search:
        """A search that has ended or was interrupted. Raises BadDataError if the folder holds none."""
        plan = planned.read_plan(path, SearchPlan, what="search", kind="search")
        records = planned.read_lines(path, RECORDS, TriedSchedule, what="search", kind="search")
        search = cls(path=path, plan=plan, records=records, earlier=len(records))
        for record in records:
            search.known.update(record.reached)
            file = search._corpus_file(record.number)
            if file.exists():
                search.corpus[record.number] = read(file)
        search._remove_unfinished()
        return search

    def _remove_unfinished(self) -> None:
        """Remove the runs that were under way when the search was ended: their schedules run again."""
        kept = {Path(record.folder).name for record in self.records}
        for folder in (self.path / "runs" / NAME).glob("*"):
            if folder.is_dir() and not folder.is_symlink() and folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def place(self) -> Place:
        """Where the schedules are carried out."""
        return self.plan.place(self.path)

    def space(self) -> Space:
        """What schedules are made of."""
        return space_for(self.plan, self.place().topology(self.plan.mode))

    def run(
        self,
        parallel: int,
        ended: Callable[[TriedSchedule], None],
        may_start: Callable[[int], bool],
        extra: Sequence[Schedule] = (),
    ) -> bool:
        """Carry out schedules until ``may_start`` says no. Returns whether Ctrl-C ended it early.

        ``may_start`` gets the number of schedules that have begun in this call. ``extra`` are carried out
        first: the corpus of another search.
        """

        def jobs() -> Iterator[Job]:
            space, first = self.space(), list(extra)
            number = max((record.number for record in self.records), default=0)
            for begun in itertools.count():
                if not may_start(begun):
                    return
                number += 1
                yield job_of(self.plan, first.pop(0), number) if first else self._next(space, number)

        return self._carry_out(jobs(), parallel, ended)

    def follow(self, leader: Search, parallel: int, ended: Callable[[TriedSchedule], None]) -> bool:
        """Carry out the schedules that only another search has carried out, under the same numbers.

        Returns whether Ctrl-C ended it early.
        """
        jobs = (
            job_of(self.plan, read(Path(record.folder) / FILE), record.number, record.parent)
            for record in self.behind(leader)
        )
        return self._carry_out(jobs, parallel, ended)

    def behind(self, leader: Search) -> list[TriedSchedule]:
        """The schedules that another search has carried out and this one has not."""
        done = {record.number for record in self.records}
        return [record for record in leader.records if record.number not in done]

    def _carry_out(self, jobs: Iterator[Job], parallel: int, ended: Callable[[TriedSchedule], None]) -> bool:
        """Carry out jobs, each made just before it may begin. Returns whether Ctrl-C ended it early."""
        try:
            with planned.alone(self.path), self._fleet(parallel) as fleet:
                while True:
                    # One more waits than clusters run, so that none is idle during a judgement.
                    while fleet.open <= parallel and (job := next(jobs, None)) is not None:
                        fleet.submit(job)
                    if (judged := fleet.next()) is None:
                        return False
                    ended(self._add(judged))
        except KeyboardInterrupt:
            return True

    def _fleet(self, parallel: int) -> Fleet[RunFinding]:
        return Fleet(SCHEDULES, self.place(), self.path / "runs", parallel)

    def _next(self, space: Space, number: int) -> Job:
        """A fresh schedule, or a mutation of one that reached something new."""
        rng = Random(f"{self.plan.seed}/{number}/choice")
        if not self.corpus or rng.random() >= MUTATE:
            return job_of(self.plan, fresh(space, self.plan.seed, number), number)
        parent = rng.choice(sorted(self.corpus))
        child = mutated(space, self.corpus[parent], self.plan.seed, number)
        return job_of(self.plan, child, number, parent)

    def _add(self, judged: JudgedRun[RunFinding]) -> TriedSchedule:
        """Record a run that has ended, keep its schedule if it is new, and thin the run if it is clean."""
        from checkers.tables.source import open_source, read_small
        from studies.search.reached import exercised, reached

        job, run = judged.job, judged.summary
        schedule = schedule_of(job)
        states: frozenset[str] = frozenset()
        promises: Counter[str] = Counter()
        skipped = 0
        with suppress(BadDataError):  # without a readable history, nothing counts as reached
            if run.judged:
                states, promises = reached(judged.folder), exercised(judged.folder)
                marks = read_small(open_source(str(judged.folder / "history")), "marks")
                stated = marks.column("facts").drop_null().to_pylist()
                skipped = sum("skipped" in json_object(text, "facts of marks") for text in stated)
        new = tuple(sorted(state for state in states if not self.known[state]))
        record = TriedSchedule(
            number=job.number,
            digest=schedule.digest,
            folder=run.folder,
            verdict=run.verdict,
            seconds=run.seconds,
            parent=job.parent,
            findings=judged.findings,
            reached=tuple(sorted(states)),
            new=new,
            promises=dict(promises),
            skipped=skipped,
            reasons=run.reasons,
        )
        if record.judged and not self._worth_keeping(record):
            thin(judged.folder)
        self.known.update(states)
        if new:
            self.corpus[job.number] = schedule
            file = self._corpus_file(job.number)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(schedule.encode())
        self.records.append(record)
        planned.append(self.path / RECORDS, record)
        return record

    def _worth_keeping(self, record: TriedSchedule) -> bool:
        """Whether the run has a finding that matters, or one of the first few of its group."""
        seen = Counter(one.signature for other in self.records for one in other.findings)
        return any(
            one.weight in ("new", "unknown") or seen[one.signature] < KEPT_OF_A_GROUP
            for one in record.findings
        )

    def _corpus_file(self, number: int) -> Path:
        return self.path / "corpus" / f"{number:05}.json"

    def is_new(self, finding: RunFinding, record: TriedSchedule) -> bool:
        """Whether no record before this one has the finding."""
        return not any(
            one.signature == finding.signature
            for other in self.records
            if other is not record
            for one in other.findings
        )

    def groups(self) -> list[RecurringFinding]:
        """Findings by signature; the most important come first, then the most frequent."""
        judged = [record for record in self.records if record.judged]
        by_signature: dict[str, list[tuple[TriedSchedule, RunFinding]]] = {}
        for record in judged:
            for one in record.findings:
                by_signature.setdefault(one.signature, []).append((record, one))
        groups = []
        for pairs in by_signature.values():
            (record, finding), runs = pairs[0], len(pairs)
            low, high = wilson(runs, len(judged))
            total = sum(one.count for _, one in pairs)
            groups.append(
                RecurringFinding(
                    finding=msgspec.structs.replace(finding, count=total),
                    runs=runs,
                    of=len(judged),
                    first=record.number,
                    folder=record.folder,
                    low=low,
                    high=high,
                )
            )
        return sorted(groups, key=lambda one: (WEIGHTS.index(one.finding.weight), -one.runs, one.first))

    def _option(self, group: RecurringFinding) -> str:
        """What `--finding` must be to repeat this finding of its first run; empty: it need not be given."""
        record = next(one for one in self.records if one.number == group.first)
        return option_of(group.finding, record.findings)

    def document(self, seconds: float) -> dict[str, Any]:
        """What `search.json` holds. ``seconds`` is how long this call has searched."""
        from studies.search.reached import TESTABLE

        promises: Counter[str] = Counter()
        for record in self.records:
            promises.update(dict.fromkeys(record.promises, 1))
        verdicts = Counter(record.verdict for record in self.records)
        document = {
            "plan": msgspec.to_builtins(self.plan),
            "schedules": len(self.records),
            "judged": sum(record.judged for record in self.records),
            "not_judged": {verdict: verdicts[verdict] for verdict in NOT_JUDGED if verdicts[verdict]},
            "seconds": round(seconds, 1),
            "per_hour": round((len(self.records) - self.earlier) / seconds * 3600) if seconds else 0,
            "skipped_steps": sum(record.skipped for record in self.records),
            "groups": [
                msgspec.to_builtins(group)
                | {
                    "signature": group.finding.signature,
                    "brief": _BRIEFS.get(group.finding.row, ""),
                    "option": self._option(group),
                    **told(Path(group.folder) / FILE),
                }
                for group in self.groups()
            ],
            "reached": dict(self.known.most_common()),
            "saturation": list(itertools.accumulate(len(record.new) for record in self.records)),
            "promises": {name: promises[name] for name in TESTABLE if promises[name]},
            "not_exercised": [name for name in TESTABLE if not promises[name]],
            "corpus": sorted(self.corpus),
        }
        (self.path / SEARCH).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return document


def told(file: Path) -> dict[str, Any]:
    """The steps of a stored schedule in words and as a score; nothing if it cannot be read."""
    with suppress(BadDataError):
        schedule = read(file)
        return {"steps": [described(step) for step in schedule.steps], "score": score(schedule)}
    return {"steps": [], "score": []}


def corpus_of(folder: Path) -> list[Schedule]:
    """The schedules of a folder, in the order of their names. Raises BadDataError if it holds none."""
    inner = folder / "corpus" if (folder / "corpus").is_dir() else folder
    files = sorted(inner.glob("*.json"))
    if not files:
        raise BadDataError(f"--corpus {folder}: the folder holds no schedule (*.json); name one that does.")
    return [read(file) for file in files]


def space_for(plan: SearchPlan, topology: Topology) -> Space:
    """What the schedules of a plan are made of. Raises UsageError."""
    return space_of(
        kafka=plan.version,
        mode=plan.mode,
        topology=topology,
        timings=timings(Settings.from_json(plan.settings), plan.mode),
        faults=plan.faults,
        producers=plan.producers,
        groups=plan.groups,
        safe=plan.safe,
        lacks=plan.lacks,
    )


def plan_of(
    target: Target,
    *,
    seed: int,
    faults: str | None = None,
    producers: str | None = None,
    groups: str | None = None,
    safe: bool = False,
    lab: str = EMBEDDED,
    client: str = "",
) -> SearchPlan:
    """The plan for a cluster and a client library."""
    return SearchPlan(
        seed=seed,
        version=target.version.label,
        mode=target.mode,
        settings=dict(target.settings.as_json()),
        lab=lab,
        client=client,
        faults=faults,
        producers=producers,
        groups=groups,
        safe=safe,
        cluster=target.file is not None,
    )
