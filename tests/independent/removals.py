"""What documented removals explain, written from `docs/findings.md`, *Documented removals*."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.independent.model import History, Log, Partition, Row

SECOND = 10**9
"""`The clocks may differ by a second.`"""
SENT_WITH_ITS_TIME = ("raw", "librdkafka", "java")


class Removals:
    """The documented removals of one partition, as its reference log decides them."""

    def __init__(self, history: History, partition: Partition, reference: Log | None) -> None:
        self.history, self.partition, self.reference = history, partition, reference
        self.topic, self.number = partition.at
        self.settings = dict(self._settings())
        self.clients = {row["writer"]: row.get("client") for row in history.get("writers", ())}
        self.ages = {row["writer"]: row.get("event_age_ms") for row in history.get("writers", ())}
        deletions = [ns for ns, _ in (*self._faults("delete_topic"), *self._lines("topic_deleted"))]
        self.deleted = max(deletions, default=-1)
        self.compacted = any(log.compacted for log in partition.logs.values())

    def explain(self, send: Row, offset: int | None, *, occupied: bool) -> bool:
        """Whether any reason fits a message that was at ``offset`` (`None`: not known where)."""
        if 0 <= send["sent_ns"] <= self.deleted:
            return True
        log = self.reference
        if log is None or occupied:
            return False
        if self.compacted and (offset is None or offset < log.end):
            return True
        if log.start <= 0 or (offset is not None and offset >= log.start):
            return False
        if any((-1 if offset is None else offset) < below for below in self._deleted_below()):
            return True
        if not {"cleanup.policy", "retention.ms", "retention.bytes"} <= self.settings.keys():
            return True
        if not any("delete" in policy for policy in self.settings["cleanup.policy"]):
            return False
        return self._by_time(send, offset, log) or self._by_size(log)

    def _by_time(self, send: Row, offset: int | None, log: Log) -> bool:
        ages = [int(text) for text in self.settings["retention.ms"] if int(text) >= 0]
        if not ages:
            return False
        stamped = set(self.settings.get("message.timestamp.type", ())) == {"LogAppendTime"}
        age = self.ages.get(send["writer"])
        if not stamped and age is None and self.clients.get(send["writer"]) not in SENT_WITH_ITS_TIME:
            return True
        age_ns = 0 if stamped or age is None else age * 10**6
        gone = [] if log.read_ns is None else [log.read_ns]
        if offset is not None:
            reported = [ns for ns, start in log.starts if start > offset and ns > self.deleted]
            if reported and min(reported) >= send["sent_ns"]:
                gone.append(min(reported))
        return not gone or min(gone) - send["sent_ns"] + age_ns >= min(ages) * 10**6 - SECOND

    def _by_size(self, log: Log) -> bool:
        sizes = [int(text) for text in self.settings["retention.bytes"] if int(text) >= 0]
        return bool(sizes) and (log.size is None or log.size >= min(sizes))

    # ---- what the history says

    def _settings(self) -> Iterator[tuple[str, list[str]]]:
        values_by_key: dict[str, list[str]] = {}
        for row in self.history.get("configs", ()):
            value = row.get("value") if row.get("value") is not None else row.get("asked")
            if (row["scope"], row["name"]) == ("topic", self.topic) and value is not None:
                values_by_key.setdefault(row["key"], []).append(value)
        for row in self.history.get("faults", ()):
            targets = json.loads(row.get("targets") or "{}")
            topics = {place.rpartition("/")[0] for place in targets.get("partitions", ())}
            if row.get("mechanism") == "configure" and self.topic in topics:
                for key, value in targets.get("properties", {}).items():
                    values_by_key.setdefault(key, []).append(value)
        yield from values_by_key.items()

    def _faults(self, mechanism: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for row in self.history.get("faults", ()):
            targets = json.loads(row.get("targets") or "{}")
            here = f"{self.topic}/{self.number}" in targets.get("partitions", ())
            if here and row.get("mechanism") == mechanism:
                yield row["ns"], targets

    def _lines(self, *kinds: str) -> Iterator[tuple[int, Row]]:
        for row in self.history.get("log_events", ()):
            here = row.get("topic") == self.topic and row.get("partition") in (None, self.number)
            if here and row["kind"] in kinds:
                yield row["ns"], row

    def _deleted_below(self) -> Iterator[int]:
        for ns, targets in self._faults("delete_records"):
            if ns > self.deleted:
                yield targets["before_offset"]
        for ns, row in self._lines("records_deleted"):
            if ns > self.deleted and row.get("offset") is not None:
                yield row["offset"]
