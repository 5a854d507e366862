"""What `kafka-dump-log --print-data-log` prints about the segments of a broker (`DumpLogSegments`).

From Kafka 2.0 on, a line for each batch (`baseOffset: … partitionLeaderEpoch: …`) precedes a line for each of
its records (`| offset: … payload: …`). Older tools print one line for each record, without the leader epoch.
A line `Dumping FOLDER/TOPIC-PARTITION/OFFSET.log` begins each segment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from harness.errors import UsageError, quoted
from harness.history.identity import decode
from harness.history.imports.format import Format, GivenFile
from harness.history.imports.lines import MAX_INT, MAX_LONG, MAX_OFFSET, Place, lines_of
from harness.history.imports.recording import Recording, Rows

Identity = tuple[int, int]
"""Writer and number of a message."""

Identify = Callable[[int, str, str], Identity | None]
"""What a record's partition, key and value say about its identity; None: nothing. An absent one is empty."""

_SEGMENT = re.compile(r"Dumping (?:.*/)?(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})/[^/]+")
_START = re.compile(r"(?:Log starting|Starting) offset: ([0-9]{1,19})")
_TIME = r"(?:(?:CreateTime|LogAppendTime|NoTimestampType): (?P<time>-?[0-9]{1,19}) )?"
_BATCH = re.compile(
    r"baseOffset: (?P<base>[0-9]{1,19}) lastOffset: (?P<last>[0-9]{1,19}) count: (?P<count>[0-9]{1,10}|null) "
    r"(?:baseSequence: (?P<sequence>-?[0-9]{1,10}) lastSequence: -?[0-9]{1,10} )?"
    r"producerId: (?P<producer>-?[0-9]{1,19}) producerEpoch: (?P<producer_epoch>-?[0-9]{1,5}) "
    r"partitionLeaderEpoch: (?P<epoch>-?[0-9]{1,10}) "
    r"isTransactional: (?P<transactional>true|false) (?:isControl: (?P<control>true|false) )?.*"
    r"magic: (?P<magic>[0-9]) .*crc: (?P<crc>[0-9]{1,10}) isvalid: (?P<valid>true|false)"
)
_RECORD = re.compile(
    rf"\| offset: (?P<offset>[0-9]{{1,19}}) (?:isValid: [a-z]+ crc: \S+ )?{_TIME}"
    r"key[sS]ize: (?P<key_size>-?[0-9]{1,10}) value[sS]ize: (?P<value_size>-?[0-9]{1,10})"
    r"(?: sequence: (?P<sequence>-?[0-9]{1,10}) headerKeys: \[.*?\])?(?P<data>(?: .*)?)",
    re.DOTALL,
)
_OLD_RECORD = re.compile(
    rf"offset: (?P<offset>[0-9]{{1,19}}) position: [0-9]+ {_TIME}isvalid: (?P<valid>true|false) "
    r"(?:key[sS]ize: (?P<key_size>-?[0-9]{1,10}) value[sS]ize: (?P<value_size>-?[0-9]{1,10})"
    r"|payloadsize: (?P<payload_size>-?[0-9]{1,10})) magic: (?P<magic>[0-9]) compresscodec: (?P<codec>\S+)"
    r"(?: crc: (?P<crc>[0-9]{1,10}))?"
    r"(?: producerId: (?P<producer>-?[0-9]{1,19}) producerEpoch: (?P<producer_epoch>-?[0-9]{1,5}) "
    r"sequence: (?P<sequence>-?[0-9]{1,10}) isTransactional: (?P<transactional>true|false) "
    r"headerKeys: \[.*?\])?(?P<data>(?: .*)?)",
    re.DOTALL,
)
_MARKER = re.compile(r" endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (-?[0-9]{1,10})")
_DAMAGED = re.compile(r"Found [0-9]+ invalid bytes at the end of |.* is invalid|Record is corrupt", re.I)
_NO_DUMP = "is this what kafka-dump-log --print-data-log prints for the broker's .log files?"
_COLUMNS = (
    "topic partition broker offset epoch writer seq intact batch_offset crc timestamp_ms producer_id "
    "producer_epoch sequence control transactional marker coordinator_epoch"
)


@dataclass(kw_only=True)
class _Batch:
    """The batch whose records follow."""

    base: int
    last: int
    records: int
    """How many are still to come; -1: the tool does not say (formats 0 and 1)."""
    epoch: int | None
    crc: int | None
    producer: int
    producer_epoch: int
    transactional: bool
    control: bool
    valid: bool


@dataclass
class _Replica:
    """What the text shows of one replica's log."""

    file: Path
    """The text."""
    start: int
    end: int
    problem: str | None = None


@dataclass
class ReplicaLogs:
    """The logs of replicas, read from the texts of one or more brokers."""

    identify: Identify
    copies: Rows = field(default_factory=lambda: Rows("copies", _COLUMNS))
    replicas: dict[tuple[str, int, int], _Replica] = field(default_factory=dict)

    def read(self, file: Path, broker: int) -> None:
        """Read the text about a broker's segments. Raises BadDataError."""
        place = Place(file)
        reader = _Text(self, place, broker)
        for line in lines_of(place, errors="replace"):
            reader.take(line)
        reader.finish()

    def add_to(self, recording: Recording) -> None:
        """Put the tables `copies` and `replicas` into a recording."""
        rows = Rows("replicas", "topic partition broker complete leo log_start error")
        for (topic, partition, broker), one in self.replicas.items():
            rows.add(topic, partition, broker, one.problem is None, one.end, one.start, one.problem)
        recording.tables["copies"], recording.tables["replicas"] = self.copies.table(), rows.table()


class _Text:
    """Takes one file line by line. A record's text may go on in the next lines."""

    def __init__(self, logs: ReplicaLogs, place: Place, broker: int) -> None:
        self._logs, self._place, self._broker = logs, place, broker
        self._where: tuple[str, int] | None = None
        self._replica: _Replica | None = None
        self._batch: _Batch | None = None
        self._pending: list[str] = []
        """The lines of a record that may go on."""

    def take(self, line: str) -> None:
        if self._pending and not self._begins(line):
            self._pending.append(line)
            if len(self._pending) > 100_000:
                raise self._refusal("a record's text has more than 100,000 lines")
            return
        self._flush()
        if line.startswith("| offset: ") or line.startswith("offset: "):
            self._pending = [line]
        elif line.startswith("baseOffset: "):
            self._begin_batch(line)
        elif line.startswith("Dumping "):
            self._begin_segment(line)
        elif (match := _START.fullmatch(line)) is not None:
            self._start_at(self._place.number(match[1], "a starting offset", most=MAX_OFFSET))
        elif _DAMAGED.match(line):
            if self._replica is not None:
                self._replica.problem = line[:200]
        elif line.strip() and self._where is None:
            raise self._refusal(f"{quoted(line)} is no line of such a text")

    def finish(self) -> None:
        self._flush()
        self._end_batch()
        if self._where is None:
            raise self._refusal("no line begins with `Dumping`")

    def _begins(self, line: str) -> bool:
        """Whether a line begins something new, as far as what is expected next tells."""
        batch = self._batch
        if batch is not None and batch.records > 1:
            return line.startswith("| offset: ")
        return line.startswith(("baseOffset: ", "Dumping ", "| offset: ", "offset: ", "Found "))

    def _begin_segment(self, line: str) -> None:
        self._end_batch()
        match = _SEGMENT.fullmatch(line)
        if match is None:
            raise self._refusal(f"{quoted(line, 120)} names no file in a folder TOPIC-PARTITION")
        self._where = match["topic"], self._place.number(match["partition"], "a partition", most=MAX_INT)
        name = (*self._where, self._broker)
        self._replica = self._logs.replicas.get(name)
        if self._replica is not None and self._replica.file is not self._place.file:
            raise self._refusal(
                f"{self._replica.file} has the log of {'/'.join(map(str, self._where))} on broker "
                f"{self._broker}, too",
                "give each replica's log once",
            )

    def _start_at(self, offset: int) -> None:
        if self._where is None:
            raise self._refusal("a starting offset precedes the line `Dumping`")
        if self._replica is None:
            self._replica = _Replica(file=self._place.file, start=offset, end=offset)
            self._logs.replicas[(*self._where, self._broker)] = self._replica

    def _begin_batch(self, line: str) -> None:
        self._end_batch()
        match = _BATCH.fullmatch(line)
        if match is None:
            raise self._refusal(f"{quoted(line, 120)} is no line about a batch")
        number = self._place.number
        base = number(match["base"], "baseOffset", most=MAX_OFFSET)
        last = number(match["last"], "lastOffset", most=MAX_OFFSET)
        valid = match["valid"] == "true"
        epoch = number(match["epoch"], "partitionLeaderEpoch", least=-1, most=MAX_INT)
        self._batch = _Batch(
            base=base,
            last=last,
            records=-1 if match["count"] == "null" else number(match["count"], "count", most=MAX_INT),
            epoch=None if epoch < 0 else epoch,
            crc=number(match["crc"], "crc"),
            producer=number(match["producer"], "producerId", least=-1),
            producer_epoch=number(match["producer_epoch"], "producerEpoch", least=-1, most=MAX_INT),
            transactional=match["transactional"] == "true",
            control=match["control"] == "true",
            valid=valid,
        )
        self._reach(last)
        if not valid and self._replica is not None:
            self._replica.problem = f"the batch at offset {base} is not valid"

    def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None and batch.records > 0 and batch.valid:
            raise self._refusal(
                f"the batch at offset {batch.base} lacks {batch.records} of its records",
                "print them with --print-data-log (and --deep-iteration before Kafka 2.0)",
            )

    def _reach(self, offset: int) -> None:
        if self._replica is None:
            raise self._refusal("a record precedes the lines `Dumping` and `Log starting offset`")
        self._replica.end = max(self._replica.end, offset + 1)

    def _flush(self) -> None:
        if not self._pending:
            return
        text, self._pending = "\n".join(self._pending), []
        batch = self._batch
        old = text.startswith("offset: ")
        match = (_OLD_RECORD if old else _RECORD).fullmatch(text)
        if match is None or (not old and batch is None):
            raise self._refusal(f"{quoted(text, 120)} is no line about a record")
        number, named = self._place.number, match.groupdict()
        offset = number(match["offset"], "offset", most=MAX_OFFSET)
        data = match["data"]
        if old:
            codec = named["codec"]
            if codec.upper() != "NONE" and not data:
                raise self._refusal(
                    "a compressed batch is printed as one record",
                    "print it with --deep-iteration --print-data-log",
                )
            batch = _Batch(
                base=-1,
                last=offset,
                records=-1,
                epoch=None,
                crc=None if named["crc"] is None else number(named["crc"], "crc"),
                producer=number(named["producer"] or "-1", "producerId", least=-1),
                producer_epoch=number(
                    named["producer_epoch"] or "-1", "producerEpoch", least=-1, most=MAX_INT
                ),
                transactional=named["transactional"] == "true",
                control=_MARKER.match(data) is not None,
                valid=named["valid"] == "true",
            )
            if not batch.valid and self._replica is not None:
                self._replica.problem = f"the record at offset {offset} is not valid"
        assert batch is not None
        if not old:
            if not batch.base <= offset <= batch.last or batch.records == 0:
                raise self._refusal(
                    f"the record at offset {offset} is not one of the batch from {batch.base} to {batch.last}"
                )
            batch.records -= batch.records > 0
        self._reach(offset)
        marker = _MARKER.match(data) if batch.control else None
        control = batch.control
        key, value = ("", "") if control else _key_and_value(data, int(named["key_size"] or -1))
        where = self._where or ("", 0)
        identity = None if control else self._logs.identify(where[1], key, value)
        writer, seq = identity or (None, None)
        sequence = named["sequence"]
        time = named["time"]
        self._logs.copies.add(
            *(*where, self._broker, offset, batch.epoch, writer, seq),
            batch.valid,
            None if batch.base < 0 else batch.base,
            batch.crc,
            None if time is None else number(time, "a timestamp", least=-MAX_LONG),
            batch.producer,
            batch.producer_epoch,
            None if sequence is None else number(sequence, "a sequence number", least=-1, most=MAX_INT),
            control,
            batch.transactional,
            None if marker is None else marker[1].lower(),
            None if marker is None else number(marker[2], "coordinatorEpoch", least=-1, most=MAX_INT),
        )

    def _refusal(self, problem: str, remedy: str = _NO_DUMP) -> Exception:
        return self._place.refusal(problem, remedy)


def _key_and_value(data: str, key_size: int) -> tuple[str, str]:
    """Key and value of a record; ``key_size`` in bytes decides where a key with blanks ends."""
    if not data.startswith(" key: "):
        return "", data.removeprefix(" payload: ") if data.startswith(" payload: ") else ""
    rest = data.removeprefix(" key: ")
    exact = rest.encode()[:key_size].decode(errors="ignore") if key_size >= 0 else ""
    if rest[len(exact) :].startswith(" payload: ") or rest == exact:
        return exact, rest[len(exact) :].removeprefix(" payload: ")
    key, _, value = rest.partition(" payload: ")
    return key, value


_NUMBERED = re.compile(r"([0-9]{1,9})[ .:/]([0-9]{1,18})(?![0-9])")


def identify_by_text(partition: int, key: str, value: str) -> Identity | None:
    """The identity that acked's messages carry, or a value that begins with writer and number (`7 12 …`)."""
    own = decode(value.encode())
    if own is not None:
        return own.writer, own.seq
    match = _NUMBERED.match(value)
    return None if match is None else (int(match[1]), int(match[2]))


def broker_of(file: GivenFile) -> int:
    """The broker that a file `BROKER=FILE` is about. Raises UsageError."""
    name = file.name.removeprefix("broker")
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        given = f"{file.name}={file.path}" if file.name else file.path
        raise UsageError(
            f"{quoted(file.name)} in {quoted(str(given), 120)} is no broker's number; write for example "
            f"1=broker1.txt."
        )
    return int(name)


def split_logs(files: Sequence[GivenFile]) -> tuple[list[GivenFile], list[GivenFile]]:
    """The files with texts about brokers (`BROKER=FILE`), and the others."""
    logs = [file for file in files if file.name.removeprefix("broker").isdigit()]
    return logs, [file for file in files if file not in logs]


def read_logs(files: Sequence[GivenFile], identify: Identify, recording: Recording) -> None:
    """Read the texts about brokers into a recording; without any, no log is known."""
    logs = ReplicaLogs(identify)
    for file in files:
        logs.read(file.path, broker_of(file))
    logs.add_to(recording)
    if not files:
        recording.notes.append(
            "No replica's log was given (1=FILE of kafka-dump-log), so nothing is known to be kept or lost"
        )


class DumpLog(Format):
    """Texts of kafka-dump-log alone."""

    name: ClassVar[str] = "kafka-dump-log"
    source: ClassVar[str] = "`kafka-dump-log --print-data-log` (DumpLogSegments)"
    files: ClassVar[str] = "a text for each broker (1=FILE 2=FILE ...)"
    gives: ClassVar[str] = (
        "replicas' logs with epochs and batches; a value that begins `WRITER SEQ` is a message"
    )
    lacks: ClassVar[str] = "what was sent and acknowledged: only replicas are compared"

    def read(self, files: Sequence[GivenFile]) -> Recording:
        if not files:
            raise UsageError(f"acked import {self.name} needs {self.files}; name one.")
        recording = Recording()
        read_logs(files, identify_by_text, recording)
        recording.tables["sends"] = pa.table(
            {
                name: pa.array([], kind)
                for name, kind in (
                    *(("topic", pa.string()), ("partition", pa.int32()), ("writer", pa.int32())),
                    *(("seq", pa.int64()), ("sent_ns", pa.int64()), ("outcome", pa.string())),
                )
            }
        )
        return recording
