"""The history files of OpenChaos (OpenMessaging Chaos): a line of fields with tabs for each event.

    CLIENT  enqueue  REQUEST   VALUE   SHARDING-KEY  TIMESTAMP  [...]
    CLIENT  enqueue  RESPONSE  RESULT  VALUE  SHARDING-KEY  TIMESTAMP  LATENCY  [...]
    fault   NAME     OPERATION  TIMESTAMP

A consumer's `dequeue` has the same fields. Values are unique in the run. Neither partitions nor offsets are
recorded, so both come from the replicas' logs. See `RequestLogEntry` and `ResponseLogEntry` of OpenChaos.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from harness.errors import UsageError, quoted
from harness.history.imports.dump_log import Identity, read_logs, split_logs
from harness.history.imports.format import Format, GivenFile, refuse_named, unnamed
from harness.history.imports.lines import LONGEST_LABEL, MAX_INT, MAX_NS, NS_OF_MS, Place, lines_of
from harness.history.imports.recording import Recording, Rows, find_rows, longs

_NO_HISTORY = "is this a history file of OpenChaos with the queue model?"
_OUTCOMES = {"SUCCESS": "ok", "FAILURE": "info", "UNKNOWN": "info"}
"""Of an enqueue. The driver calls any error but a time-out a failure; the message may have been written."""


class OpenChaos(Format):
    """A history file of OpenChaos."""

    name: ClassVar[str] = "openchaos"
    source: ClassVar[str] = "OpenChaos (OpenMessaging Chaos), queue model"
    files: ClassVar[str] = "a history file, and a text of kafka-dump-log for each broker (1=FILE 2=FILE ...)"
    gives: ClassVar[str] = (
        "sends with outcome, records that consumers received, faults as marks, replicas' logs"
    )
    lacks: ClassVar[str] = (
        "acknowledged offsets and partitions (those of the logs stand for them), acks; FAILURE counts as an "
        "unknown outcome"
    )

    def __init__(self) -> None:
        self._numbers: dict[str, Identity] = {}
        """Client and number of each value that was sent."""
        self._counts: dict[int, int] = {}
        self._answers: dict[str, tuple[int, str]] = {}
        self._sent: dict[str, int] = {}
        self._received = Rows("reads", "reader ns writer seq")
        self._marks = Rows("marks", "ns name text")
        self._unknown_reads = 0

    def read(self, files: Sequence[GivenFile]) -> Recording:
        logs, others = split_logs(files)
        refuse_named(others, OpenChaos)
        paths = unnamed(others, OpenChaos)
        if len(paths) > 1 or not logs:
            raise UsageError(f"acked import {self.name} takes {self.files}; name these.")
        place = Place(paths[0])
        for line in lines_of(place):
            self._take(place, line.split("\t"))
        recording = Recording()
        read_logs(logs, self._identify, recording)
        copies = recording.tables["copies"]
        topics = [one for one in copies["topic"].unique().to_pylist() if not one.startswith("__")]
        if len(topics) != 1:
            raise UsageError(
                f"The texts of kafka-dump-log hold {len(topics)} topics ({', '.join(topics)[:80]}), and the "
                f"history does not name its own; print the logs of its topic alone."
            )
        sends = Rows("sends", "topic writer seq sent_ns done_ns outcome label")
        for value, (writer, seq) in self._numbers.items():
            done_ns, outcome = self._answers.get(value, (None, None))
            sends.add(topics[0], writer, seq, self._sent[value], done_ns, outcome, value[:LONGEST_LABEL])
        table = sends.table()
        recording.tables["sends"] = table.append_column("partition", pa.nulls(table.num_rows, pa.int32()))
        recording.tables["marks"] = self._marks.table()
        self._place_reads(recording, copies)
        recording.settle(max(self._sent.values(), default=0), self._counts)
        writers = Rows("writers", "writer name client")
        for client in self._counts:
            writers.add(client, f"client {client}", "java")
        recording.tables["writers"] = writers.table()
        if self._unknown_reads:
            recording.left_out["received values that nobody sent"] = self._unknown_reads
        return recording

    def _take(self, place: Place, fields: Sequence[str]) -> None:
        if len(fields) == 4 and fields[0] == "fault":
            ns = place.number(fields[3], "timestamp", most=MAX_NS // NS_OF_MS) * NS_OF_MS
            self._marks.add(ns, f"{fields[1]} {fields[2]}"[:LONGEST_LABEL], None)
            return
        if len(fields) < 6 or fields[1] not in ("enqueue", "dequeue") or fields[2] not in _FIELDS:
            raise place.refusal(f"{quoted(' '.join(fields))} is no event of a queue", _NO_HISTORY)
        value_at, time_at = _FIELDS[fields[2]]
        if len(fields) <= time_at:
            raise place.refusal(f"the line has {len(fields)} fields", _NO_HISTORY)
        client = place.number(fields[0], "a client", most=MAX_INT)
        ns = place.number(fields[time_at], "timestamp", most=MAX_NS // NS_OF_MS) * NS_OF_MS
        value, result = fields[value_at], fields[3]
        if fields[1] == "enqueue" and fields[2] == "REQUEST":
            if value in self._numbers:
                raise place.refusal(f"value {quoted(value)} is sent twice", "values must differ")
            seq = self._counts.get(client, 0)
            self._counts[client] = seq + 1
            self._numbers[value], self._sent[value] = (client, seq), ns
        elif fields[1] == "enqueue":
            if result not in _OUTCOMES:
                raise place.refusal(f"result {quoted(result)} is none of {', '.join(_OUTCOMES)}", _NO_HISTORY)
            if value in self._numbers:
                self._answers[value] = ns, _OUTCOMES[result]
        elif fields[2] == "RESPONSE" and result == "SUCCESS":
            if value in self._numbers:
                self._received.add(client, ns, *self._numbers[value])
            else:
                self._unknown_reads += 1

    def _identify(self, partition: int, key: str, value: str) -> Identity | None:
        return self._numbers.get(value)

    def _place_reads(self, recording: Recording, copies: pa.Table) -> None:
        """The reads, each at the first offset at which a log holds the message; others are left out."""
        reads = self._received.table()
        row = find_rows(
            (longs(reads["writer"]), longs(reads["seq"])), (longs(copies["writer"]), longs(copies["seq"]))
        )
        held = np.flatnonzero(row >= 0)
        if len(held) < len(row):
            recording.left_out["received messages that no log holds"] = len(row) - len(held)
        reads, at = reads.take(pa.array(held)), pa.array(row[held])
        for name in ("topic", "partition", "offset"):
            reads = reads.append_column(name, copies[name].take(at))
        recording.tables["reads"] = reads


_FIELDS = {"REQUEST": (3, 5), "RESPONSE": (4, 6)}
"""Where the value and the timestamp of an event are."""
