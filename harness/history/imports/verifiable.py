"""The output of Kafka's own test clients, VerifiableProducer and VerifiableConsumer (kafkatest).

Each prints a JSON object on a line for each event, between lines of its log. The producer's values are
`NUMBER` or, with `--value-prefix`, `PREFIX.NUMBER`, and rise from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from harness.errors import BadDataError, quoted
from harness.history.imports.dump_log import Identity, read_logs, split_logs
from harness.history.imports.format import Format, GivenFile, refuse_named, unnamed
from harness.history.imports.lines import MAX_INT, MAX_NS, MAX_OFFSET, NS_OF_MS, Place, lines_of
from harness.history.imports.recording import Recording, Rows

_VALUE = re.compile(r"(?:([0-9]{1,9})\.)?([0-9]{1,18})")
_NO_EVENT = "is this a line of VerifiableProducer or VerifiableConsumer?"

_PRODUCER = frozenset(("producer_send_success", "producer_send_error", "tool_data"))
_CONSUMER = frozenset(
    ("record_data", "records_consumed", "offsets_committed", "partitions_assigned", "partitions_revoked")
)


class Verifiable(Format):
    """Outputs of VerifiableProducer and VerifiableConsumer."""

    name: ClassVar[str] = "verifiable"
    source: ClassVar[str] = (
        "VerifiableProducer and VerifiableConsumer (`kafka-verifiable-producer`, kafkatest)"
    )
    files: ClassVar[str] = (
        "outputs of producers and consumers, and a text of kafka-dump-log for each broker (1=FILE 2=FILE ...)"
    )
    gives: ClassVar[str] = (
        "sends with outcome and offset; with `--verbose` of the consumer reads, commits and assignments; "
        "replicas' logs"
    )
    lacks: ClassVar[str] = (
        "when a message was sent (the time of its answer stands for it), acks, numbers of requests; an error "
        "counts as an unknown outcome"
    )

    def __init__(self) -> None:
        self._writers: dict[int | None, int] = {}
        """The writer of each prefix."""
        self._writer_names: dict[int, str] = {}
        self._sends = Rows("sends", "topic partition writer seq sent_ns done_ns outcome offset label")
        self._reads = Rows("reads", "topic partition reader ns offset writer seq poll group")
        self._groups = Rows("groups", "ns group reader event topic partition offset")
        self._last_ns = 0
        self._not_json = 0

    def read(self, files: Sequence[GivenFile]) -> Recording:
        logs, others = split_logs(files)
        refuse_named(others, Verifiable)
        recording = Recording()
        producers: dict[int | None, Path] = {}
        readers = 0
        for path in unnamed(others, Verifiable):
            events = _Events(path)
            if self._of_producer(events):
                self._read_producer(events, producers)
            else:
                self._read_consumer(events, readers, recording)
                readers += 1
            self._not_json += events.not_json
        recording.tables |= {"sends": self._sends.table(), "groups": self._groups.table()}
        if readers:
            recording.tables["reads"] = self._reads.table()
        read_logs(logs, self._identify, recording)
        recording.settle(self._last_ns, self._writer_names)
        writers = Rows("writers", "writer name client")
        for writer, name in self._writer_names.items():
            writers.add(writer, name, "java")
        recording.tables["writers"] = writers.table()
        if self._not_json:
            recording.left_out["lines that are no JSON"] = self._not_json
        return recording

    def _of_producer(self, events: _Events) -> bool:
        for _, event in events:
            name = event["name"]
            if name in _PRODUCER:
                return True
            if name in _CONSUMER:
                return False
        raise BadDataError(f"{events.path} has no event of a producer or consumer; {_NO_EVENT}")

    def _read_producer(self, events: _Events, producers: dict[int | None, Path]) -> None:
        for place, event in events:
            ns = _ns(place, event)
            self._last_ns = max(self._last_ns, ns)
            name = event["name"]
            if name not in ("producer_send_success", "producer_send_error"):
                continue
            value = event.get("value")
            match = _VALUE.fullmatch(value) if isinstance(value, str) else None
            if match is None:
                raise place.refusal(f"value {quoted(value)} is neither NUMBER nor PREFIX.NUMBER", _NO_EVENT)
            prefix = None if match[1] is None else int(match[1])
            if producers.setdefault(prefix, events.path) != events.path:
                raise place.refusal(
                    f"{producers[prefix].name} has values of the same form",
                    "two producers of one topic need different --value-prefix, and their logs apart",
                )
            writer = self._writers.setdefault(prefix, 0 if prefix is None else prefix + 1)
            self._writer_names.setdefault(writer, events.path.name[:200])
            topic = place.topic(event.get("topic"))
            row = (writer, int(match[2]), ns, ns)
            if name == "producer_send_error":
                self._sends.add(topic, None, *row, "info", None, value)
                continue
            partition = place.number(event.get("partition"), "partition", most=MAX_INT)
            offset = place.number(event.get("offset"), "offset", least=-1, most=MAX_OFFSET)
            self._sends.add(topic, partition, *row, "ok", None if offset < 0 else offset, value)

    def _read_consumer(self, events: _Events, reader: int, recording: Recording) -> None:
        verbose = any(event["name"] == "record_data" for _, event in events)
        if not verbose:
            recording.left_out[
                f"events of {events.path.name}, which names no records (start the consumer with --verbose)"
            ] = sum(1 for _ in events)
            return
        poll = 0
        for place, event in events:
            ns = _ns(place, event)
            name = event["name"]
            if name == "record_data":
                where = _where(place, event)
                offset = place.number(event.get("offset"), "offset", most=MAX_OFFSET)
                identity = self._identify(where[1], "", str(event.get("value") or ""))
                self._reads.add(*where, reader, ns, offset, *(identity or (None, None)), poll, _GROUP)
            elif name == "records_consumed":
                poll += 1
            elif name == "offsets_committed":
                kind = "committed" if event.get("success") is True else "commit_failed"
                for one in _entries(place, event, "offsets"):
                    offset = place.number(one.get("offset"), "offset", most=MAX_OFFSET)
                    self._groups.add(ns, _GROUP, reader, kind, *_where(place, one), offset)
            elif name in ("partitions_assigned", "partitions_revoked"):
                for one in _entries(place, event, "partitions"):
                    kind = name.removeprefix("partitions_")
                    self._groups.add(ns, _GROUP, reader, kind, *_where(place, one), None)

    def _identify(self, partition: int, key: str, value: str) -> Identity | None:
        match = _VALUE.fullmatch(value)
        if match is None:
            return None
        writer = self._writers.get(None if match[1] is None else int(match[1]))
        return None if writer is None else (writer, int(match[2]))


_GROUP = "verifiable-consumer"
"""The consumer's output does not name its group; all given consumers count as one."""


class _Events:
    """The events of a file, which may be read more than once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.not_json = 0

    def __iter__(self) -> Any:
        place = Place(self.path)
        self.not_json = 0
        for line in lines_of(place, errors="replace"):
            event = None
            if line.startswith("{"):
                try:
                    event = msgspec.json.decode(line)
                except (msgspec.DecodeError, RecursionError):
                    event = None
            if isinstance(event, dict) and isinstance(event.get("name"), str):
                yield place, event
            elif line.strip():
                self.not_json += 1


def _ns(place: Place, event: Mapping[str, Any]) -> int:
    time = event.get("timestamp", event.get("time_ms"))
    return place.number(time, "timestamp", most=MAX_NS // NS_OF_MS) * NS_OF_MS


def _where(place: Place, event: Mapping[str, Any]) -> tuple[str, int]:
    return place.topic(event.get("topic")), place.number(event.get("partition"), "partition", most=MAX_INT)


def _entries(place: Place, event: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    entries = event.get(name)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise place.refusal(f"{name} is {quoted(entries)}, not a list of objects", _NO_EVENT)
    return entries
