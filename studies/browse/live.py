"""Follows the journals of a run under way, for those who watch it. The run does nothing for this.

Only what is new is read, and only while somebody watches. Journals may be damaged or come from anybody: lines
that no run writes are left out.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from harness.clock import now_ns
from harness.errors import AckedError
from harness.history.sends import acknowledged_ns
from harness.history.stream_journal import (
    SUFFIX,
    Counters,
    StreamHeader,
    read_counters,
    read_header,
)
from harness.history.time_zero import TimeZero, time_zero
from harness.kafka.model import PartitionState, TopicPartition
from report.model.live import LiveModel, live_model
from report.model.model import NO_AZ
from run.metrics import Standing

MOST_ROWS = 20_000
"""Rows of a table that are kept; of a recording that takes hours, the last ones."""
_AT_ONCE_BYTES = 8_000_000
_SAME_CLOCK_NS = 120 * 10**9
"""A journal whose last row is older was written by another machine, or by a run that ended."""
_Ns = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]


class _View(msgspec.Struct, kw_only=True, tag="views", tag_field="table"):
    ns: _Ns
    source: str
    subject: str
    error: str | None = None
    topic: str | None = None
    partition: _Number | None = None
    leader: _Number | None = None
    epoch: _Number | None = None
    isr: list[_Number] | None = None
    replicas: list[_Number] | None = None
    controller: _Number | None = None


class _Fault(msgspec.Struct, kw_only=True, tag="faults", tag_field="table"):
    ns: _Ns
    fault: _Number
    name: str
    kind: str
    moment: str
    mechanism: str | None = None
    targets: str | None = None
    evidence: str | None = None
    stated: bool | None = None


class _Mark(msgspec.Struct, kw_only=True, tag="marks", tag_field="table"):
    ns: _Ns
    name: str
    text: str | None = None


class _Process(msgspec.Struct, kw_only=True, tag="processes", tag_field="table"):
    ns: _Ns
    host: str
    event: str


class _Watermarks(msgspec.Struct, kw_only=True, tag="watermarks", tag_field="table"):
    ns: _Ns
    topic: str
    partition: _Number
    broker: _Number
    leo: _Number | None = None
    high_watermark: _Number | None = None


class _Writer(msgspec.Struct, kw_only=True, tag="writers", tag_field="table"):
    writer: _Number
    name: str | None = None
    az: str | None = None


class _Done(msgspec.Struct, kw_only=True, tag="done", tag_field="table"):
    writer: _Number
    done_ns: _Ns
    outcome: str


_DECODER = msgspec.json.Decoder(_View | _Fault | _Mark | _Process | _Watermarks | _Writer | _Done)
_DRAWN = {"views": _View, "faults": _Fault, "marks": _Mark, "processes": _Process, "watermarks": _Watermarks}
_PREFIXES = tuple(f'{{"table":"{name}"'.encode() for name in (*_DRAWN, "writers", "done"))


class LiveRun:
    """The journals of one run, as far as they have been read. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._read: dict[Path, int] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _DRAWN}
        self._az: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._outcomes: dict[int, _Outcomes] = {}
        """Of messages with a journal line each, by writer."""
        self._answers: dict[str, bool] = {}
        self._stated: dict[tuple[TopicPartition, str], _View] = {}
        """The last statement about each partition, by broker."""
        self._done: Counter[tuple[int, int]] = Counter()
        self._streams: dict[Path, _Stream] = {}
        self._start_ns: int | None = None
        self._fault: TimeZero | None = None
        """The first fault in force."""
        self._last_ns = 0
        self._hosts: set[str] = set()

    def model(self) -> LiveModel | None:
        """What the journals show by now; None before their first event."""
        with self._lock:
            self._read_journals()
            if self._start_ns is None:
                return None
            zero = self._time_zero(self._start_ns)
            now = now_ns()
            current = 0 <= now - self._last_ns < _SAME_CLOCK_NS
            for rows in self._rows.values():
                del rows[:-MOST_ROWS]
                rows.sort(key=lambda row: row["ns"])
            return live_model(
                self._rows,
                self._acknowledged(zero.ns),
                zero=zero,
                start_ns=self._start_ns,
                now_ns=now if current else self._last_ns,
            )

    def standing(self) -> Standing:
        """What the journals say about now, as metrics."""
        with self._lock:
            self._read_journals()
            outcomes = {writer: replace(one) for writer, one in self._outcomes.items()}
            for stream in self._streams.values():
                outcomes.setdefault(stream.writer, _Outcomes()).add(stream.counters())
            return Standing(
                outcomes={
                    self._names.get(writer, str(writer)): one for writer, one in sorted(outcomes.items())
                },
                throttled_ms={},
                answers=[
                    ({"broker": source.removeprefix("broker")}, answers)
                    for source, answers in sorted(self._answers.items())
                ],
                partitions={
                    key: state
                    for key in sorted({key for key, _ in self._stated})
                    if (state := self._newest(key)) is not None
                },
            )

    def _newest(self, key: TopicPartition) -> PartitionState | None:
        """What the brokers that answer stated last, the highest leader epoch first; without them, any."""
        of_key = [view for (about, _), view in self._stated.items() if about == key]
        answering = [view for view in of_key if self._answers.get(view.source, True)]
        view = max(answering or of_key, key=lambda one: (-1 if one.epoch is None else one.epoch, one.ns))
        if view.leader is None:
            return None
        return PartitionState(
            leader=view.leader,
            leader_epoch=view.epoch,
            isr=tuple(view.isr or ()),
            replicas=None if view.replicas is None else tuple(view.replicas),
        )

    def _read_journals(self) -> None:
        for file in self._journals():
            self._follow(file)

    def _journals(self) -> Iterator[Path]:
        """The journals; those of a client lie in its host's folder until they are collected."""
        nodes = self.folder / "nodes"
        for host in _entries(nodes):
            for file in _entries(host):
                if file.name.startswith("client.") and file.name.endswith((".jsonl", SUFFIX)):
                    self._hosts.add(host.name)
                    yield file
        for file in _entries(self.folder / "journal"):
            if file.name.endswith((".jsonl", SUFFIX)) and file.name.split(".")[0] not in self._hosts:
                yield file

    def _follow(self, file: Path) -> None:
        with suppress(OSError, AckedError):
            if not stat.S_ISREG(file.lstat().st_mode):
                return
            if file.name.endswith(SUFFIX):
                if file not in self._streams:
                    self._streams[file] = _Stream(file, read_header(file))
                self._streams[file].follow()
                return
            with file.open("rb") as opened:
                opened.seek(self._read.get(file, 0))
                fresh = opened.read(_AT_ONCE_BYTES)
            fresh = fresh[: fresh.rfind(b"\n") + 1]  # a line may be half written
            self._read[file] = self._read.get(file, 0) + len(fresh)
            for line in fresh.splitlines():
                if line.startswith(_PREFIXES):
                    with suppress(msgspec.MsgspecError):
                        self._take(_DECODER.decode(line))

    def _take(self, row: Any) -> None:
        if isinstance(row, _Writer):
            self._az[row.writer] = row.az or NO_AZ
            self._names[row.writer] = row.name or str(row.writer)
        elif isinstance(row, _Done):
            self._outcomes.setdefault(row.writer, _Outcomes()).count(row.outcome)
            if row.outcome == "ok":
                self._done[row.writer, row.done_ns // _TENTH_NS] += 1
        else:
            if isinstance(row, _View) and row.source.startswith("broker"):
                self._note(row)
            self._rows[row.__struct_config__.tag].append(msgspec.structs.asdict(row))
            self._start_ns = row.ns if self._start_ns is None else min(self._start_ns, row.ns)
            self._last_ns = max(self._last_ns, row.ns)

    def _time_zero(self, start_ns: int) -> TimeZero:
        """What times count from; the rows of the first fault may be among those that are no longer kept."""
        zero = time_zero(self._rows["faults"], self._rows["processes"], start_ns)
        if zero.fault:
            self._fault = zero if self._fault is None else min(self._fault, zero)
        return self._fault or zero

    def _note(self, view: _View) -> None:
        if view.subject == "reachable":
            self._answers[view.source] = view.error is None
        elif view.subject == "partition" and view.topic is not None and view.partition is not None:
            self._stated[TopicPartition(view.topic, view.partition), view.source] = view

    def _acknowledged(self, zero_ns: int) -> Mapping[str, Mapping[int, int]]:
        by_az: dict[str, Counter[int]] = {az: Counter() for az in self._az.values()}
        for (writer, tenth), count in self._done.items():
            by_az.setdefault(self._az.get(writer, NO_AZ), Counter())[_second(tenth, zero_ns)] += count
        for stream in self._streams.values():
            by_az.setdefault(self._az.get(stream.writer, NO_AZ), Counter()).update(stream.per_second(zero_ns))
        return by_az


@dataclass
class _Outcomes:
    """How many messages of a producer have which outcome."""

    ok: int = 0
    fail: int = 0
    info: int = 0

    def count(self, outcome: str) -> None:
        """One more; what is no outcome is not counted."""
        if outcome in ("ok", "fail", "info"):
            setattr(self, outcome, getattr(self, outcome) + 1)

    def add(self, counters: Counters) -> None:
        """Those of a stream."""
        self.ok, self.fail, self.info = (
            self.ok + counters.ok,
            self.fail + counters.fail,
            self.info + counters.info,
        )


class _Stream:
    """Acknowledgements of a stream's journal; messages without an outcome are looked at again."""

    def __init__(self, file: Path, header: StreamHeader) -> None:
        self.writer = header.writer
        self._file, self._header = file, header
        self._first = 0
        self._counters = Counters()
        self._settled: Counter[int] = Counter()
        self._later: np.ndarray = np.empty(0, np.int64)

    def follow(self) -> None:
        """Read the rows that had no outcome, and new ones. Raises OSError."""
        self._first, settled, self._later = acknowledged_ns(self._file, self._header, self._first)
        self._settled.update(_by_tenth(settled))

    def counters(self) -> Counters:
        """Its messages so far; the last known when the file has been collected."""
        with suppress(OSError):
            self._counters = read_counters(self._file)
        return self._counters

    def per_second(self, zero_ns: int) -> Mapping[int, int]:
        """Acknowledgements by second from a time."""
        counts: Counter[int] = Counter()
        for tenth, count in (self._settled + Counter(_by_tenth(self._later))).items():
            counts[_second(tenth, zero_ns)] += count
        return counts


_TENTH_NS = 10**8


def _second(tenth: int, zero_ns: int) -> int:
    return (tenth * _TENTH_NS - zero_ns) // 10**9


def _by_tenth(times_ns: np.ndarray) -> Mapping[int, int]:
    tenths, counts = np.unique(times_ns // _TENTH_NS, return_counts=True)
    return dict(zip(tenths.tolist(), counts.tolist(), strict=True))


def _entries(folder: Path) -> Sequence[Path]:
    """The entries of a folder that is no link, by name."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(folder).st_mode):
            return sorted(folder.iterdir())
    return ()
