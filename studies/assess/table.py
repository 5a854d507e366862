"""The table of an assessment and what follows from it in words: data only, no cluster and no queries.

A line is one case and one place of the partitions' leaders. For repeated runs it holds the worst values. For
several topics it holds the sum of messages, the longest time and the worst judgement, and contains a line for
each topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.processors import BUSY_PERCENT
from studies.assess.battery import Case
from studies.assess.measure import PROMISED, MeasureRow, Measures

COUNTS = ("acknowledged", "lost", "lost_after_read", "duplicated", "undetermined")
STATUSES = ("measured", "invalid", "crashed", "unfit", "not run")
_OWN_COLUMNS = ("duplicated", "out_of_order")
"""Classes of findings that the table counts in columns of their own."""
NOTICEABLE_S = 1.0
"""Shorter times without a write also occur without a fault, on a busy machine."""


@dataclass(frozen=True)
class Gap:
    """The longest time without an acknowledged write, or without a read, in any one partition."""

    seconds: float
    until_heal: bool
    """It lasted as long as the fault: the AZ would have waited longer for a longer one."""
    least_s: float
    """The same time in the repeated run where it was shortest."""


@dataclass(frozen=True, kw_only=True)
class WriteRates:
    """How many writes of the described producer were acknowledged in each second, in one run of the line."""

    from_s: int = 0
    """When the first of the seconds begins, from the fault; negative: before it."""
    by_az: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By the producer's AZ, for each second from ``from_s`` on."""


@dataclass(frozen=True, kw_only=True)
class ProducerOutcome:
    """The answers that the producers of one setting got, and what became of their messages."""

    acknowledged: int = 0
    lost: int = 0
    lost_after_read: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    undetermined: int = 0
    """Messages whose fate the final logs do not show."""
    writes: Mapping[str, Gap] = field(default_factory=dict)
    """By AZ."""
    promise: str = "unknown"
    """`broken` or `unknown` if a finding of its messages is judged so; `not promised` if one is judged so, or
    if Kafka promised nothing about messages that were acknowledged before the fault; else `kept`. Duplicates
    and order that Kafka does not promise to prevent do not count: they have columns of their own."""
    rows: tuple[str, ...] = ()
    """Rows of the promise table that decided it (docs/promises.md)."""
    known_bugs: tuple[str, ...] = ()
    """Known bugs of Kafka that explain a broken promise."""

    @property
    def outcome(self) -> str:
        """`lost`, `kept`, `unknown` or `at risk`.

        It is unknown where something could not be read, and at risk where nothing was lost, although Kafka
        does not promise that.
        """
        if self.lost:
            return "lost"
        if self.undetermined or not self.acknowledged:
            return "unknown"
        return "at risk" if self.promise == "not promised" else "kept"


@dataclass(frozen=True, kw_only=True)
class CaseLine:
    """A line of the table."""

    case: str
    says: str
    subject: str
    placement: str
    """The kind of case: the beginning of its name."""
    roles: str
    led: str
    """Where the leaders are: `inside` or `outside`."""
    status: str
    controller: str = ""
    """Host of the active controller when the fault began."""
    quorum_leader: str = ""
    """The ZooKeeper node that led then; empty in KRaft."""
    reason: str = ""
    """Why it was not measured."""
    varies: str = ""
    """What its times depend on, if they differ from run to run."""
    runs: tuple[str, ...] = ()
    settings: Mapping[str, ProducerOutcome] = field(default_factory=dict)
    reads: Mapping[str, Gap] = field(default_factory=dict)
    group: Gap | None = None
    """The longest time in which a topic's group, all members together, received nothing of a partition."""
    rates: WriteRates = field(default_factory=WriteRates)
    """Of the run in which the described producer waited longest for an acknowledgement."""
    failover_s: float | None = None
    """From the fault until the last of the partitions that got another leader had it; None: none did."""
    fault_s: float | None = None
    recovery_s: float | None = None
    """From the heal until all partitions of the run had a leader and a full ISR; None: they never did."""
    busy_percent: int | None = None
    """How busy the machine's processors were from the fault until the recovery; None: not known."""
    operator: tuple[str, ...] = ()
    """What an operator had to do."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """Further findings of the run by class."""
    topic: str = ""
    """The described topic that the line is about; empty: all topics."""
    partitions: int = 0
    """How many of its partitions are led there."""
    topics: tuple[CaseLine, ...] = ()
    """A line for each topic, if there are several."""

    @property
    def topics_differ(self) -> bool:
        """Whether the topics fared differently, apart from a few seconds."""
        return len({_fared(line) for line in self.topics}) > 1


def _fared(line: CaseLine) -> tuple[object, ...]:
    stuck = {az for one in line.settings.values() for az, gap in one.writes.items() if gap.until_heal}
    return (
        frozenset(stuck),
        *(
            (name, one.outcome, one.promise, bool(one.duplicated), bool(one.out_of_order))
            for name, one in line.settings.items()
        ),
    )


@dataclass(frozen=True, kw_only=True)
class CaseEnd:
    """How one run of a case ended. ``run`` is its name in the measures."""

    case: str
    run: str
    status: str
    reason: str = ""


def lines(
    cases: Sequence[Case],
    ended: Iterable[CaseEnd],
    measures: Measures,
    unfit: Mapping[str, str] | None = None,
    *,
    described: str = "acks=all",
) -> list[CaseLine]:
    """The table: two lines per case, or one if the fault hits no broker or every broker.

    ``unfit`` gives the reason for every case that this machine cannot run; ``described`` names the producer
    setting of the user, which is the first in each line.
    """
    by_case: dict[str, list[CaseEnd]] = {}
    for run in ended:
        by_case.setdefault(run.case, []).append(run)
    rows = []
    for case in cases:
        runs = by_case.get(case.name, [])
        bad = [run for run in runs if run.status != "measured"]
        if case.name in (unfit or {}):
            rows.append(_unmeasured(case, "unfit", (unfit or {})[case.name]))
        elif not runs:
            rows.append(_unmeasured(case, "not run", ""))
        elif bad:
            rows.append(_unmeasured(case, bad[0].status, bad[0].reason, runs))
        else:
            names = tuple(run.run for run in runs)
            rows += [_line(case, led, names, measures, described) for led in _leds(names, measures)]
    return rows


def _unmeasured(case: Case, status: str, reason: str, runs: Sequence[CaseEnd] = ()) -> CaseLine:
    return _line_of(case)(led="", status=status, reason=reason, runs=tuple(run.run for run in runs))


def _line_of(case: Case) -> partial[CaseLine]:
    return partial(
        CaseLine,
        case=case.name,
        says=case.says,
        subject=case.subject,
        placement=case.kind,
        varies=case.placement.varies,
        roles=case.roles,
        controller=case.controller,
        quorum_leader=case.quorum_leader,
    )


def _leds(runs: Sequence[str], measures: Measures) -> list[str]:
    return sorted({str(row["led"]) for row in measures["messages"] if row["run"] in runs})


def _line(case: Case, led: str, runs: tuple[str, ...], measures: Measures, described: str) -> CaseLine:
    """The line of all topics together, with a line for each that is led there if there are several."""
    messages = [row for row in measures["messages"] if row["run"] in runs]
    topics = sorted({str(row["topic"]) for row in messages if row["led"] == led})
    about = partial(_line_about, case=case, led=led, runs=runs, measures=measures, described=described)
    whole = about("")
    if len({row["topic"] for row in messages}) == 1:
        return whole
    return replace(whole, topics=tuple(about(topic) for topic in topics))


def _line_about(
    topic: str, *, case: Case, led: str, runs: tuple[str, ...], measures: Measures, described: str
) -> CaseLine:
    def rows(query: str, *, of_run: bool = False) -> list[MeasureRow]:
        return [
            row
            for row in measures[query]
            if row["run"] in runs and (of_run or (row["led"] == led and (not topic or row["topic"] == topic)))
        ]

    recovery = rows("recovery", of_run=True)
    recovered = [row["recovery_s"] for row in recovery]
    failovers = [row["failover_s"] for row in rows("failover") if row["failover_s"] is not None]
    return _line_of(case)(
        led=led,
        topic=topic,
        status="measured",
        runs=runs,
        settings={
            name: _setting(
                name, rows("messages"), rows("order"), rows("writes"), rows("promises"), rows(PROMISED)
            )
            for name in sorted({str(row["setting"]) for row in rows("messages")}, key=described.__ne__)
        },
        reads=_gaps(rows("reads"), "read_gap_s", by="az"),
        group=_gaps(rows("groups"), "group_gap_s", by="readers").get("group"),
        rates=_rates(rows("rates"), rows("writes"), described),
        partitions=_most(rows("failover"), "partitions"),
        failover_s=max(failovers, default=None),
        fault_s=max((row["fault_s"] for row in recovery), default=None),
        recovery_s=None if not recovered or None in recovered else max(recovered),
        busy_percent=max((row["busy_percent"] for row in rows("busy", of_run=True)), default=None),
        operator=tuple(dict.fromkeys(str(row["action"]) for row in rows("operator", of_run=True))),
        findings=_worst_counts(rows("findings", of_run=True)),
    )


def _setting(
    name: str,
    messages: Sequence[MeasureRow],
    order: Sequence[MeasureRow],
    writes: Sequence[MeasureRow],
    promises: Sequence[MeasureRow],
    promised: Sequence[MeasureRow],
) -> ProducerOutcome:
    """The results of one setting.

    ``promises`` has the findings of all settings, and those of records that name no producer. The latter
    count here only if Kafka promised something, because otherwise they say nothing about this setting.
    """
    of_setting = [row for row in messages if row["setting"] == name]
    judged = [
        row
        for row in promises
        if row["setting"] in (name, None)
        and not (
            row["promise"] == "not promised" and (row["setting"] is None or row["class"] in _OWN_COLUMNS)
        )
    ]
    applied = [row for row in promised if row["setting"] == name]
    promise, rows = _promise(judged, applied)
    return ProducerOutcome(
        **{count: _most(of_setting, count) for count in COUNTS},
        out_of_order=_most([row for row in order if row["setting"] == name], "out_of_order"),
        writes=_gaps([row for row in writes if row["setting"] == name], "write_gap_s", by="az"),
        promise=promise,
        rows=rows,
        known_bugs=tuple(sorted({str(row["known_bug"]) for row in judged if row["known_bug"]})),
    )


def _most(rows: Sequence[MeasureRow], column: str) -> int:
    """The highest count of any run; the rows of a run are its topics, and are added up."""
    by_run: dict[object, int] = {}
    for row in rows:
        by_run[row["run"]] = by_run.get(row["run"], 0) + int(row[column])
    return max(by_run.values(), default=0)


def _promise(judged: Sequence[MeasureRow], applied: Sequence[MeasureRow]) -> tuple[str, tuple[str, ...]]:
    """What became of the promise, and the rows of the table of promises that say so."""
    for promise in ("broken", "unknown", "not promised"):
        for rows in (judged, applied):
            promise_rows = {str(row["promise_row"]) for row in rows if row["promise"] == promise}
            if promise_rows:
                return promise, tuple(sorted(promise_rows - {"None"}))
    return "kept" if applied else "unknown", tuple(sorted({str(row["promise_row"]) for row in applied}))


def _gaps(rows: Sequence[MeasureRow], column: str, *, by: str) -> dict[str, Gap]:
    """By the values of a column, the longest gap of any topic, in the worst and in the best run."""
    by_name: dict[str, dict[object, MeasureRow]] = {}
    for row in rows:
        runs = by_name.setdefault(str(row[by]), {})
        if row["run"] not in runs or row[column] > runs[row["run"]][column]:
            runs[row["run"]] = row
    return {name: _worst_gap(list(runs.values()), column) for name, runs in sorted(by_name.items())}


def _rates(rates: Sequence[MeasureRow], writes: Sequence[MeasureRow], described: str) -> WriteRates:
    """The rates of the described producer in the run with its longest gap."""
    gaps = [row for row in writes if row["setting"] == described]
    worst = max(gaps, key=lambda row: float(row["write_gap_s"]), default=None)
    counts: dict[str, dict[int, int]] = {}
    for row in rates:
        if worst is not None and (row["run"], row["setting"]) == (worst["run"], described):
            of_az = counts.setdefault(str(row["az"]), {})
            of_az[row["second"]] = of_az.get(row["second"], 0) + int(row["acknowledged"])
    seconds = [second for of_az in counts.values() for second in of_az]
    if not seconds:
        return WriteRates()
    span = range(min(seconds), max(seconds) + 1)
    return WriteRates(
        from_s=span.start,
        by_az={az: tuple(of_az.get(second, 0) for second in span) for az, of_az in sorted(counts.items())},
    )


def _worst_gap(rows: Sequence[MeasureRow], column: str) -> Gap:
    worst = max(rows, key=lambda row: float(row[column]))
    least_s = min(float(row[column]) for row in rows)
    return Gap(float(worst[column]), bool(worst["lasted_until_heal"]), least_s)


def _worst_counts(rows: Sequence[MeasureRow]) -> dict[str, int]:
    worst: dict[str, int] = {}
    for row in rows:
        worst[str(row["class"])] = max(worst.get(str(row["class"]), 0), int(row["findings"]))
    return worst


def consequences(table: Sequence[CaseLine], az_names: Mapping[str, str], parallel: int = 1) -> list[str]:
    """What follows from the numbers: a sentence or two for each fault, over all placements of the roles.

    A last sentence says whether the machine was too busy for its times to be Kafka's; ``parallel`` runs were
    side by side.
    """
    by_fault: dict[str, list[CaseLine]] = {}
    for line in table:
        if line.status == "measured":
            by_fault.setdefault(line.subject, []).append(line)
    return [
        *(_sentence(fault, measured, az_names) for fault, measured in by_fault.items()),
        *_too_busy(table, parallel),
    ]


def _too_busy(table: Sequence[CaseLine], parallel: int) -> Iterator[str]:
    cases = {line.case: line.busy_percent for line in table if line.status == "measured"}
    busy = [case for case, percent in cases.items() if percent is not None and percent >= BUSY_PERCENT]
    if busy:
        yield (
            f"The processors of this machine were at least {BUSY_PERCENT} % busy during {len(busy)} of "
            f"{len(cases)} faults. All times contain waiting for a processor, and vary; they are shorter "
            f"{'with --parallel 1' if parallel > 1 else 'if no other program runs'}."
        )


def _sentence(fault: str, measured: Sequence[CaseLine], az_names: Mapping[str, str]) -> str:
    first, *others = measured[0].settings
    lost = {name: _most_lost(measured, name) for name in (first, *others)}
    up_to = "up to " if len({line.case for line in measured}) > 1 else ""
    outcomes = {line.settings[first].outcome for line in measured}
    loss = (
        f"loses {up_to}{lost[first]} acknowledged messages"
        if lost[first]
        else "loses no acknowledged message"
    )
    losing = _topics_where(measured, lambda topic: any(line.settings[first].lost for line in topic))
    if losing:
        loss += f", all of topic {_and(losing)}"
    if "unknown" in outcomes and not lost[first]:
        loss = "leaves open whether acknowledged messages are lost"
    elif "at risk" in outcomes and not lost[first]:
        loss += ", although Kafka does not promise that"
    compared = [
        f"with {name} it {_compared(measured, name, up_to, lost[name])}"
        for name in others
        if lost[name] != lost[first] or ("at risk" not in outcomes and _at_risk(measured, name))
    ]
    text = f"{fault} {_interruption(measured, first, az_names)}, and {'; '.join((loss, *compared))}."
    broken = [name for name in (first, *others) if any(_breaks(line, name) for line in measured)]
    if broken:
        where = _topics_where(
            measured, lambda topic: any(_breaks(line, name) for line in topic for name in broken)
        )
        of_topic = f", for topic {_and(where)}" if where else ""
        text += f" This breaks a promise of Kafka (with {_and(broken)}{of_topic})."
    elif lost[first]:
        decided = all(line.settings[first].promise in ("kept", "not promised") for line in measured)
        conclusion = (
            "Kafka makes no promise in this case" if decided else "Whether that breaks a promise is open"
        )
        text += f" {conclusion}."
    actions = tuple(dict.fromkeys(action for line in measured for action in line.operator))
    if actions:
        text += f" An operator has to {_and(actions)}."
    if _longest_s(measured) >= NOTICEABLE_S and (why := measured[0].varies):
        text += f" The times vary from run to run: they depend on {why}."
    if any(line.recovery_s is None for line in measured):
        text += " The cluster does not recover" + (" even then." if actions else " by itself.")
    return text


def _longest_s(measured: Sequence[CaseLine]) -> float:
    """The longest gap of writes, with any setting."""
    gaps = (gap for line in measured for one in line.settings.values() for gap in one.writes.values())
    return max((gap.seconds for gap in gaps), default=0.0)


def _at_risk(measured: Sequence[CaseLine], setting: str) -> bool:
    return any(line.settings[setting].outcome == "at risk" for line in measured)


def _compared(measured: Sequence[CaseLine], setting: str, up_to: str, lost: int) -> str:
    if lost:
        return f"loses {up_to}{lost}"
    return "lost none, but can lose some" if _at_risk(measured, setting) else "loses none"


def _topics_where(measured: Sequence[CaseLine], holds: Callable[[Sequence[CaseLine]], bool]) -> list[str]:
    """The topics for which something holds; none if it holds for all, or if there is only one."""
    topics: dict[str, list[CaseLine]] = {}
    for line in measured:
        for one in line.topics:
            topics.setdefault(one.topic, []).append(one)
    those = [topic for topic, its in topics.items() if holds(its)]
    return sorted(those) if len(those) < len(topics) else []


def _stuck_azs(measured: Sequence[CaseLine], setting: str) -> set[str]:
    """AZs that could not write to some partition until the heal."""
    gaps = [entry for line in measured for entry in line.settings[setting].writes.items()]
    return {az for az, gap in gaps if gap.until_heal and gap.seconds >= NOTICEABLE_S}


def _most_lost(measured: Sequence[CaseLine], setting: str) -> int:
    """Messages lost in the worst of the cases; the lines of one case are partitions of the same run."""
    counts: dict[str, int] = {}
    for line in measured:
        counts[line.case] = counts.get(line.case, 0) + line.settings[setting].lost
    return max(counts.values(), default=0)


def _breaks(line: CaseLine, setting: str) -> bool:
    return setting in line.settings and line.settings[setting].promise == "broken"


def _interruption(measured: Sequence[CaseLine], setting: str, az_names: Mapping[str, str]) -> str:
    each = [one for line in measured for one in line.topics or (line,)]
    gaps = [entry for line in each for entry in line.settings[setting].writes.items()]
    azs = {az for az, _ in gaps}
    stuck = _stuck_azs(each, setting)
    longest_s = max((gap.seconds for az, gap in gaps if az not in stuck), default=0.0)
    brief = f"for at most {longest_s:.0f} s" if longest_s >= NOTICEABLE_S else ""
    if not stuck:
        return f"stops writes {brief}" if brief else "does not stop writes"
    if stuck == azs:
        where = _topics_where(measured, lambda topic: _stuck_azs(topic, setting) == azs)
        return f"stops all writes to some partition{f' of {_and(where)}' if where else ''} until it is over"
    names = _and(az_names.get(az, az) for az in sorted(stuck))
    return f"stops writes from {names} until it is over" + (f" and from elsewhere {brief}" if brief else "")


def _and(parts: Iterable[str]) -> str:
    *rest, last = parts
    return f"{', '.join(rest)} and {last}" if rest else last
