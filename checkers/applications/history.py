"""The history of one application of Kafka Streams and one partition of its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from checkers.evidence import Evidence, Row
from checkers.partition.messages import FOREVER
from harness.kafka.model import TopicPartition

AT_LEAST_ONCE = "at_least_once"
"""processing.guarantee of an application that may count messages twice."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application, as its instances were started."""

    name: str
    """Its application.id, which is also its group."""
    source: str
    output: str | None
    changelog: str | None
    guarantee: str
    """`AT_LEAST_ONCE` if any instance had it."""
    words: int
    """What divides a message's number to find its word; 0: not known."""

    def word(self, writer: int, seq: int) -> str:
        """The word of a message."""
        return f"{writer}/{seq % self.words}"


@dataclass(frozen=True, kw_only=True)
class StoreContent:
    """What an instance's store held of a partition."""

    reader: int
    ns: int
    counts: Mapping[str, int]
    """By word."""


@dataclass(frozen=True, kw_only=True)
class ApplicationHistory:
    """The rows about one application and one partition of its source."""

    evidence: Evidence
    application: Application
    where: TopicPartition

    def committed(self, until_ns: int = FOREVER) -> int:
        """The offset up to which the application had committed its progress at a time; -1: not known."""
        return max(
            (
                int(row["offset"])
                for row in self.evidence.rows_about("groups", self.where)
                if row["group"] == self.application.name
                and row["event"] in ("assigned", "committed", "fetched")
                and row["offset"] is not None
                and not row["error"]
                and row["ns"] <= until_ns
            ),
            default=-1,
        )

    @cached_property
    def _own(self) -> Sequence[Row]:
        name = self.application.name
        return [row for row in self.evidence.rows("applications") if row["application"] == name]

    def _left(self, reader: int, ns: int) -> bool:
        """Whether another instance had taken the partition over at a time.

        One that is cut off cannot know that, and its store may hold anything older.
        """
        states = [
            row
            for row in self._own
            if row["event"] == "state"
            and row["ns"] <= ns
            and self.where.partition in (row["partitions"] or ())
        ]
        newest = max(states, key=lambda row: int(row["ns"]), default=None)
        return newest is not None and newest["reader"] != reader

    @cached_property
    def stores(self) -> Sequence[StoreContent]:
        """What stores held of the partition when they were asked, by time, if their instances had it then."""
        found: dict[tuple[int, int], dict[str, int]] = {}
        for row in self._own:
            if row["event"] != "stored" or row["partition"] != self.where.partition:
                continue
            if not self._left(row["reader"], row["ns"]):
                counts = found.setdefault((int(row["ns"]), row["reader"]), {})
                if row["word"] is not None and row["count"] is not None:
                    counts[row["word"]] = int(row["count"])
        return [
            StoreContent(reader=reader, ns=ns, counts=counts)
            for (ns, reader), counts in sorted(found.items())
        ]


def application_histories(evidence: Evidence, where: TopicPartition) -> list[ApplicationHistory]:
    """The history of each application that reads a partition."""
    found: dict[str, Application] = {}
    for row in evidence.rows("applications"):
        if row["event"] != "started" or row["source"] != where.topic:
            continue
        known = found.get(row["application"])
        weak = row["guarantee"] == AT_LEAST_ONCE or (known is not None and known.guarantee == AT_LEAST_ONCE)
        found[row["application"]] = Application(
            name=row["application"],
            source=row["source"],
            output=row["output"],
            changelog=row["changelog"],
            guarantee=AT_LEAST_ONCE if weak else str(row["guarantee"]),
            words=max(0, row["words"] or 0),
        )
    return [
        ApplicationHistory(evidence=evidence, application=application, where=where)
        for _, application in sorted(found.items())
    ]
