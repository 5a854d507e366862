"""No stored run breaks a promise of Kafka, except by a known bug; the facts decide every promise."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from checkers.evidence import Evidence, evidence_of
from checkers.promises.facts import Message, RunFacts, facts_of
from checkers.promises.judging import with_promises
from harness.history.schema import TABLES
from tests.runs.stored import all_stored, derive, read_stored, written

_LATE_END, _LATE_WRITE = "KAFKA-17754", "KIP-890"
KNOWN_BROKEN: Mapping[str, str] = {
    "delayed-end-txn": _LATE_END,
    "delayed-end-txn-client-az-cut": _LATE_END,
    "delayed-end-txn-librdkafka": _LATE_END,
    "versions/delayed-end-txn-java@3.9.1": _LATE_END,
    "versions/delayed-end-txn@3.6.2": _LATE_END,
    "late-produce-after-abort": _LATE_WRITE,
    "late-produce-unverified": _LATE_WRITE,
    "versions/late-produce-after-abort@3.6.2": _LATE_WRITE,
    "hw-truncation-by-version": "KIP-101 (KAFKA-1211)",
    "hw-truncation-diverges": "KIP-101 (KAFKA-1211)",
    "hw-truncation-fast-failovers": "KIP-101 (KAFKA-1211)",
    "kip-279-gap": "KIP-279 (KAFKA-6361)",
    "idempotent-first-sequence-librdkafka": "librdkafka: implicit acknowledgement",
    "idempotent-timeout-java": "new producer epoch after a time-out",
    "idempotent-timeout-librdkafka": "new producer epoch after a time-out",
    "reader-stale-leader-librdkafka": "librdkafka: leader epoch forgotten",
}
"""Runs that show a known bug, which breaks a promise."""
LEFT_OPEN: Mapping[str, str] = {
    "kraft-last-replica-wiped-no-elr": "whether eligible leader replicas were enabled is not recorded",
}
"""Runs that were recorded before the fact that decides was."""


Name = tuple[int, int]
"""Writer and seq of a message."""


@dataclass(frozen=True)
class Judged:
    """A stored run's findings, and the facts by which they are judged."""

    findings: pa.Table
    evidence: Evidence
    facts: RunFacts

    def promises(self, facts: RunFacts | None = None) -> list[dict[str, Any]]:
        """The findings judged by these facts."""
        rows: list[dict[str, Any]] = with_promises(self.findings, facts or self.facts).to_pylist()
        return rows


@cache
def judged(name: str) -> Judged:
    run = read_stored(name)
    empty = {table: schema.arrow().empty_table() for table, schema in TABLES.items()}
    evidence = evidence_of({**empty, **run.tables})
    with written(run.tables) as history:
        findings = derive(history, transactions=True).findings
    twice = {(row["writer"], row["seq"]) for row in findings.to_pylist() if row["class"] == "duplicated"}
    messages = producers_of(run.tables["copies"], twice)
    return Judged(findings, evidence, facts_of(evidence, kafka=run.kafka, mode=run.mode, messages=messages))


def producers_of(copies: pa.Table, names: AbstractSet[Name]) -> dict[Name, Message]:
    """Producer ids and epochs of these messages' records, where the stored run has them."""
    if "producer_id" not in copies.column_names:
        return {}
    epochs: dict[Name, set[tuple[int, int]]] = {}
    for row in copies.to_pylist():
        if (name := (row["writer"], row["seq"])) in names and row["producer_id"] is not None:
            epochs.setdefault(name, set()).add((row["producer_id"], row["producer_epoch"]))
    return {
        name: Message(sessions=len({one for one, _ in sessions}), epochs=len(sessions))
        for name, sessions in epochs.items()
    }


SHORT = {
    *KNOWN_BROKEN,
    *LEFT_OPEN,
    "no-fault",
    "configuration-matrix",
    "last-replica-wiped",
    "operator-actions",
}


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in all_stored()]
)
def test_only_known_bugs_break_a_promise(name: str) -> None:
    rows = judged(name).promises()
    broken = {row["known_bug"] for row in rows if row["promise"] == "broken"}
    assert broken == ({KNOWN_BROKEN[name]} if name in KNOWN_BROKEN else set())
    unknown = {row["promise_reason"] for row in rows if row["promise"] == "unknown"}
    assert unknown == ({LEFT_OPEN[name]} if name in LEFT_OPEN else set())
    assert all(row["promise"] and row["promise_row"] and row["promise_reason"] for row in rows)


def _rows_of(name: str, facts: RunFacts) -> set[tuple[str, str, str]]:
    rows = judged(name).promises(facts)
    return {(row["class"], row["promise"], row["promise_row"]) for row in rows}


def _with_writers(facts: RunFacts, **changed: Any) -> RunFacts:
    return replace(facts, writers={number: row | changed for number, row in facts.writers.items()})


def test_the_same_losses_would_break_a_promise_with_acks_all() -> None:
    for name in ("leader-az-isolated", "kraft-leader-az-isolated", "leader-paused"):
        facts = judged(name).facts
        assert _rows_of(name, facts) == {("lost", "not promised", "acks-1-leader")}
        changed = {promise for _, promise, _ in _rows_of(name, _with_writers(facts, acks=-1))}
        assert changed == {"broken"}, name


def test_the_same_loss_would_break_a_promise_with_clean_elections() -> None:
    facts = judged("unclean-election").facts
    configs = {key: "false" if value == "true" else value for key, value in facts.configs.items()}
    assert _rows_of("unclean-election", facts) == {("lost", "not promised", "unclean-enabled")}
    clean = _rows_of("unclean-election", replace(facts, configs=configs))
    assert clean == {("lost", "broken", "clean-election")}


def test_the_same_loss_would_break_a_promise_with_a_flush_each() -> None:
    facts = judged("power-cut").facts
    key = ("topic", "t", "flush.messages")
    flushed = replace(facts, configs={**facts.configs, key: "1"})
    assert _rows_of("power-cut", facts) == {("lost", "not promised", "all-in-sync-replicas-lost-data")}
    assert _rows_of("power-cut", flushed) == {("lost", "broken", "power-loss-flushed")}


def test_the_same_duplicate_would_break_a_promise_without_retries() -> None:
    facts = judged("leader-az-cut-short").facts
    once = _with_writers(facts, client="raw", retries=0)
    assert _rows_of("leader-az-cut-short", facts) == {("duplicated", "not promised", "duplicate-retry")}
    assert _rows_of("leader-az-cut-short", once) == {("duplicated", "broken", "duplicate-one-attempt")}


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("unclean-election", "configs"),
        ("power-cut", "states"),
        ("leader-az-isolated", "writers"),
        ("follower-az-isolated", "writers"),
    ],
)
def test_a_missing_fact_is_not_taken_for_no_promise(name: str, without: str) -> None:
    facts = replace(judged(name).facts, **{without: {}})
    assert {promise for _, promise, _ in _rows_of(name, facts)} == {"unknown"}
