"""The findings of a judged run, in groups by signature, and how much each group matters.

A signature is the class of the findings, what the promise table says of them, their cause, and the settings
of the producer and the topic. Its `kind` leaves the settings out: shrinking changes those.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.promises.table import UNEXPLAINED
from checkers.tables.source import Source, open_source, read_small
from harness.errors import json_file, json_object
from studies.search.crowd import number_of
from studies.search.schedule import Schedule

MarkFacts = Mapping[str, Any]
"""The facts of a mark."""
Weight = Literal["new", "unknown", "known", "not promised"]
WEIGHTS: tuple[Weight, ...] = ("new", "unknown", "known", "not promised")
"""How much a finding matters, the most important weight first.

`new`: a broken promise, or an error, an exit or a cluster that does not recover, which no fault and no known
bug explains. `unknown`: the history does not decide. `known`: a known bug of the version. `not promised`:
Kafka does not promise to prevent it."""
MARK = "finding-"
"""Begins the names of marks about what must not happen; their facts have the rest as `finding`."""
CLEARED = "min.insync.replicas changed without a leader"
"""A known bug: the change clears the eligible leader replicas and the last known leader (KIP-966)."""
_COLUMNS = (
    *("class", "promise", "promise_row", "known_bug", "cause"),
    *("writer", "topic", "partition", "detail", "count"),
)
_BEGINNING = 70
SEQUENCE_REFUSED = "librdkafka: fatal error after OUT_OF_ORDER_SEQUENCE_NUMBER"
"""A known bug: librdkafka also takes the answer of a leader that was deposed for a loss of messages."""
_OF_A_START = ("Fatal error during KafkaServer start", "Exiting Kafka")
"""Parts of the ERROR lines with which a broker gives up its start."""
_FATAL = -150
"""`RD_KAFKA_RESP_ERR__FATAL`: an earlier fatal error of librdkafka has stopped the producer."""
_OUT_OF_ORDER = 45


class RunFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A group of findings of one run."""

    name: str
    """The class, such as `lost`, or what a mark says: `no-recovery`."""
    weight: Weight
    promise: str = ""
    """`broken`, `not promised` or `unknown`; empty for findings that the table does not cover."""
    row: str = ""
    known_bug: str = ""
    cause: str = ""
    """The kind of the cause; for an error, an exit or a setting, what it is about, without numbers."""
    settings: str = ""
    count: int = 1

    @property
    def kind(self) -> str:
        """The signature without the settings."""
        because = self.known_bug or self.row
        return ": ".join(filter(None, (self.name, self.promise, because, self.cause)))

    @property
    def essence(self) -> str:
        """The part of the kind that stays the same when faults are left out.

        For a broken promise, that is the class. The row of the table and the cause may change with the
        faults. For a known bug, it is the class and the bug: the row depends on the producer.
        """
        if self.known_bug:
            return f"{self.name}: {self.known_bug}"
        if self.weight == "new" and self.promise == "broken":
            return f"{self.name}: {self.promise}"
        return self.kind

    @property
    def signature(self) -> str:
        """The text that identifies this group."""
        return f"{self.kind} [{self.settings}]" if self.settings else self.kind


def findings_of(folder: Path, schedule: Schedule) -> tuple[RunFinding, ...]:
    """The groups of findings of a judged run, the most important first. Raises BadDataError."""
    counts: Counter[RunFinding] = Counter()
    source = open_source(str(folder / "history"))
    writers = {row["writer"]: str(row["name"]) for row in read_small(source, "writers").to_pylist()}
    file = folder / "findings.parquet"
    stuck: dict[str, str] = {}
    if file.exists():
        failed = _failed_starts(source)
        rows = pq.read_table(file, columns=list(_COLUMNS)).to_pylist()
        stuck = _stuck_isrs(rows)
        for row in rows:
            finding = _of_row(row, _settings(row, writers, schedule), failed)
            counts[finding] += 1
    texts = read_small(source, "marks")["facts"].drop_null().to_pylist()
    marks = [json_object(text, "facts of marks") for text in texts]
    bug = _offline_because(marks, schedule) or _incomplete_because(marks, stuck)
    stopped = (
        _stopped(source, writers) if any(mark.get("finding") == "client-stuck" for mark in marks) else {}
    )
    for facts in marks:
        if "finding" in facts:
            counts[_of_mark(facts, bug, stopped)] += 1
    grouped = (msgspec.structs.replace(finding, count=count) for finding, count in counts.items())
    # A cluster or client that is stuck is often the effect of what broke a promise.
    return tuple(sorted(grouped, key=lambda one: (WEIGHTS.index(one.weight), not one.promise, one.signature)))


def _failed_starts(source: Source) -> set[str]:
    """Hosts whose process ended before it was ready, after a pause: it found its ZooKeeper session ended.

    Kafka then gives up its start.
    """
    starting: dict[str, bool] = {}
    failed: set[str] = set()
    rows = read_small(source, "processes").to_pylist()
    for row in sorted(rows, key=lambda row: int(row["ns"])):
        host, event = str(row["host"]), row["event"]
        if event == "started":
            starting[host] = False
        elif event == "paused" and host in starting:
            starting[host] = True
        elif event == "exited" and starting.pop(host, False):
            failed.add(host)
        elif event in ("ready", "killed"):
            starting.pop(host, None)
    return failed


def _stuck_isrs(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Partitions whose ISR a known bug left incomplete, such as `t1/0`, with the bug."""
    return {
        f"{row['topic']}/{row['partition']}": str(row["known_bug"])
        for row in rows
        if row["class"] == "not_converged" and row["known_bug"]
    }


def _of_row(row: Mapping[str, Any], settings: str, failed_starts: Collection[str]) -> RunFinding:
    name, promise, bug = str(row["class"]), str(row["promise"] or "unknown"), str(row["known_bug"] or "")
    cause = str(row["cause"] or "")
    detail = json_object(row["detail"] or "{}", "detail of findings")
    line = str(detail.get("text", ""))
    if name in UNEXPLAINED:
        cause, settings = _wording(detail), ""
    weight: Weight = "not promised"
    if detail.get("host") in failed_starts and (
        name == "process_exit" or any(part in line for part in _OF_A_START)
    ):
        return RunFinding(name=name, weight=weight, cause="paused while it started")
    if bug:
        weight = "known"
    elif name in UNEXPLAINED or promise == "broken":
        weight = "new"
    elif promise == "unknown":
        weight = "unknown"
    return RunFinding(
        name=name,
        weight=weight,
        promise="" if name in UNEXPLAINED else promise,
        row="" if name in UNEXPLAINED else str(row["promise_row"] or ""),
        known_bug=bug,
        cause=cause,
        settings=settings,
    )


def _offline_because(marks: Sequence[MarkFacts], schedule: Schedule) -> str:
    """The known bug that left a partition without candidates; then no client can get through either."""
    changed = any(step.fault == "configure" for step in schedule.steps)
    return CLEARED if changed and any(mark.get("without_candidates") for mark in marks) else ""


def _incomplete_because(marks: Sequence[MarkFacts], stuck: Mapping[str, str]) -> str:
    """The known bug that left ISRs incomplete, if that is all that the marks `no-recovery` name."""
    unrecovered = [mark for mark in marks if mark.get("finding") == "no-recovery"]
    bugs = {stuck.get(key, "") for one in unrecovered for key in one["incomplete"]}
    explained = all(one["only_incomplete"] for one in unrecovered) and all(bugs)
    return ", ".join(sorted(bugs)) if explained else ""


def _stopped(source: Source, writers: Mapping[int, str]) -> dict[str, str]:
    """The producers that a fatal error of their client library has stopped, with the known bug or nothing."""
    sends = read_small(source, "sends")

    def with_error(code: int) -> set[int]:
        return set(sends.filter(pc.equal(sends["error"], code))["writer"].to_pylist())

    refused = with_error(_OUT_OF_ORDER)
    return {
        writers.get(number, ""): SEQUENCE_REFUSED if number in refused else ""
        for number in with_error(_FATAL)
    }


def _of_mark(facts: MarkFacts, bug: str, stopped: Mapping[str, str]) -> RunFinding:
    name, producer = str(facts["finding"]), str(facts.get("producer", ""))
    because = stopped.get(producer, "") or (bug if name in ("no-recovery", "client-stuck") else "")
    return RunFinding(
        name=name,
        weight="known" if because else "new",
        known_bug=because,
        cause="fatal error of the client library" if producer in stopped else "",
        settings=str(facts.get("settings", "")),
    )


def _wording(detail: Mapping[str, Any]) -> str:
    """The facts of an error, an exit or a setting in a row, without numbers, which differ from run to run."""
    facts = " ".join(str(fact) for fact in detail.values())
    return re.sub(r"\d+", "#", facts)[:_BEGINNING].strip()


def _settings(row: Mapping[str, Any], writers: Mapping[int, str], schedule: Schedule) -> str:
    labels: list[str] = []
    name = writers.get(row["writer"], "") if row["writer"] is not None else ""
    if 0 < number_of(name) <= len(schedule.producers):
        labels.append(schedule.producers[number_of(name) - 1].label)
    topic = str(row["topic"] or "").partition("-")[0]
    labels += [plan.label for plan in schedule.topics if plan.name == topic]
    return ", ".join(labels)


def weightiest(findings: Sequence[RunFinding]) -> RunFinding | None:
    """The group that matters most."""
    return min(findings, key=lambda one: WEIGHTS.index(one.weight), default=None)


def select(findings: Sequence[RunFinding], text: str) -> Iterator[RunFinding]:
    """The groups whose signature contains a text."""
    return (one for one in findings if text.casefold() in one.signature.casefold())


def option_of(finding: RunFinding, findings: Sequence[RunFinding]) -> str:
    """A short text by which `select` finds a group among others; empty for the one that matters most."""
    most = weightiest(findings)
    if most is None or most.signature == finding.signature:
        return ""
    texts = (finding.name, finding.known_bug, finding.row, finding.cause, finding.kind, finding.signature)
    for text in filter(None, texts):
        first = next(select(findings, text), None)
        if first is not None and first.signature == finding.signature:
            return text
    return finding.signature


def is_judged(folder: Path) -> bool:
    """Whether a run folder holds a judgement."""
    return (folder / "judgement.json").is_file() and bool(json_file(folder / "judgement.json").get("run"))
