"""Findings about applications of Kafka Streams: rows of `findings`, one for each class, topic and cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from checkers.applications.history import AT_LEAST_ONCE, ApplicationHistory, application_histories
from checkers.applications.written import (
    FinalRecords,
    Message,
    Record,
    WrittenTopic,
    final_records,
    written_topic,
)
from checkers.causes import partition_events, storage_cause, unclean_election
from checkers.evidence import Evidence
from checkers.groups.history import offsets_log
from checkers.records import Cause, evidence_row, facts_text
from checkers.tables.source import Source
from harness.kafka.model import TRANSACTION_LOG, TopicPartition, broker_name

NOT_COUNTED, COUNTED_TWICE, STORE_DIFFERS = "not_counted", "counted_twice", "store_differs"
APPLICATION_CLASSES = (NOT_COUNTED, COUNTED_TWICE, STORE_DIFFERS)


@dataclass(frozen=True, kw_only=True)
class _Found:
    name: str
    topic: str
    """The topic in which it shows; of a store, the changelog."""
    cause: Cause
    facts: dict[str, object]
    message: Message | None = None
    offset: int | None = None
    rows: tuple[str, ...] = field(default=())


def application_findings(
    source: Source, evidence: Evidence, where: TopicPartition, sent: Collection[Message]
) -> list[dict[str, Any]]:
    """Rows of `findings` about the applications that read a partition.

    ``sent`` are the messages that were sent to it and may have been written.
    """
    histories = application_histories(evidence, where)
    if not histories:
        return []
    inputs = final_records(source, evidence, where)
    return [row for history in histories for row in _of_application(source, history, inputs, sent)]


def _of_application(
    source: Source, history: ApplicationHistory, inputs: FinalRecords, sent: Collection[Message]
) -> Iterator[dict[str, Any]]:
    where, application = history.where, history.application
    found: list[_Found] = []
    causes = _Causes(history)
    for topic, partition in ((application.output, None), (application.changelog, where.partition)):
        if topic is not None:
            written = written_topic(source, history.evidence, topic, partition)
            found += _about_messages(causes, inputs, sent, written)
    if inputs.whole and application.words:
        found += _about_stores(causes, inputs, sent)
    alike: dict[tuple[str, str, str, str | None], list[_Found]] = {}
    for one in found:
        alike.setdefault((one.name, one.topic, one.cause.kind, one.cause.text), []).append(one)
    for (name, topic, kind, facts), several in alike.items():
        first = several[0]
        writer, seq = first.message or (None, None)
        yield {
            "class": name,
            "topic": where.topic,
            "partition": where.partition,
            "offset": first.offset,
            "writer": writer,
            "seq": seq,
            "count": len(several),
            "reader": f"application {application.name}",
            "cause": kind,
            "cause_facts": facts,
            "evidence": [*first.rows, *first.cause.rows],
            "detail": facts_text(written_to=topic, **first.facts),
        }


# ---- messages


def _about_messages(
    causes: _Causes, inputs: FinalRecords, sent: Collection[Message], written: WrittenTopic
) -> Iterator[_Found]:
    """Messages that a topic lacks although the application has gone on, and those that it has too often."""
    committed = causes.history.committed()
    copies: defaultdict[Message, list[Record]] = defaultdict(list)
    for record in inputs.records:
        copies[record.message].append(record)
    for message, records in copies.items():
        offset = records[0].offset
        due = sum(record.readable and record.offset < committed for record in records)
        counted = written.readable[message]
        facts: dict[str, object] = {"counted": counted, "messages": len(records)}
        if written.whole and counted + written.perhaps[message] < due:
            yield _Found(
                name=NOT_COUNTED,
                topic=written.topic,
                cause=causes.taken_away(written.places),
                facts=facts,
                message=message,
                offset=offset,
                rows=(evidence_row("groups", None, f"offset {committed} is committed"),),
            )
        if inputs.whole and counted > len(records):
            yield _twice(causes, written, message, offset, facts)
    if inputs.whole:
        for message, counted in written.readable.items():
            if counted > 1 and message in sent and message not in copies:
                yield _twice(causes, written, message, None, {"counted": counted, "messages": 0})


def _twice(
    causes: _Causes,
    written: WrittenTopic,
    message: Message,
    offset: int | None,
    facts: dict[str, object],
) -> _Found:
    return _Found(
        name=COUNTED_TWICE,
        topic=written.topic,
        cause=causes.too_often,
        facts=facts,
        message=message,
        offset=offset,
        rows=(evidence_row("copies", None, f"{facts['counted']} committed records in {written.topic}"),),
    )


# ---- stores


def _about_stores(causes: _Causes, inputs: FinalRecords, sent: Collection[Message]) -> Iterator[_Found]:
    """Words that a store has counted less often than there are committed messages, or more than there are."""
    history = causes.history
    application, where = history.application, history.where
    topic = application.changelog or where.topic
    present = {record.message for record in inputs.records}
    most = Counter(application.word(*record.message) for record in inputs.records)
    most.update(application.word(*message) for message in sent if message not in present)
    for store in history.stores:
        committed = history.committed(store.ns)
        least = Counter(
            application.word(*record.message)
            for record in inputs.records
            if record.readable and record.offset < committed
        )
        for word in sorted({*least, *most, *store.counts}):
            counted = store.counts.get(word, 0)
            if least[word] <= counted <= most[word]:
                continue
            places = (TopicPartition(topic, where.partition),)
            cause = causes.too_often if counted > most[word] else causes.taken_away(places)
            yield _Found(
                name=STORE_DIFFERS,
                topic=topic,
                cause=cause,
                facts={
                    "word": word,
                    "counted": counted,
                    "messages": most[word] if counted > most[word] else least[word],
                    "instance": store.reader,
                },
                rows=(evidence_row("applications", store.ns, f"{word}: {counted}"),),
            )


# ---- causes


@dataclass
class _Causes:
    """Why records of an application are missing or too many; many messages have the same cause."""

    history: ApplicationHistory
    _taken: dict[TopicPartition, Cause | None] = field(default_factory=dict)

    @cached_property
    def too_often(self) -> Cause:
        """It processes at least once, or the log of its progress or of transactions lost some."""
        application, evidence = self.history.application, self.history.evidence
        if application.guarantee == AT_LEAST_ONCE:
            return Cause(kind="at_least_once")
        numbers = evidence.partitions_of(TRANSACTION_LOG)
        transactions = [TopicPartition(TRANSACTION_LOG, number) for number in numbers]
        return self.taken_away([offsets_log(evidence, application.name), *transactions])

    def taken_away(self, places: Iterable[TopicPartition]) -> Cause:
        """What took records from the topic partitions to which they were written."""
        for where in places:
            if where not in self._taken:
                self._taken[where] = self._loss(where)
            if (cause := self._taken[where]) is not None:
                return cause
        return Cause(kind="unexplained")

    def _loss(self, where: TopicPartition) -> Cause | None:
        """An unclean election, or a storage fault that hit the broker that led next."""
        evidence = self.history.evidence
        elections = partition_events(evidence, *where)[1]
        for event in elections:
            unclean = unclean_election(event, partition=str(where))
            if unclean is not None:
                return unclean
        for fault in evidence.data_losses(where):
            next_led = [event.broker for event in elections if event.ns > fault.from_ns]
            for leader in next_led[:1] or [event.broker for event in elections[-1:]]:
                if broker_name(leader) in fault.hosts:
                    return storage_cause(evidence, where, fault, leader)
        return None
