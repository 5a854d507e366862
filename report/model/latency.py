"""Latencies of acknowledged messages as HdrHistograms, corrected for coordinated omission.

A producer that waits sends nothing meanwhile, so that the messages which would have taken longest are missing
from what was measured (coordinated omission). For each pause of a producer, the messages that were due in it
count as well: sent when they were due, and acknowledged when the next one was. They were due at the interval
at which the stream was asked to send, not at that of its sends: the messages of a transaction leave together.
A pause is a time without a send of more than `_PAUSE_NS`, and more than `_PAUSE_MESSAGES` intervals.

https://hdrhistogram.github.io/HdrHistogram/ describes the histogram.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from harness.history.sends import ROW
from harness.history.stream_journal import ACKNOWLEDGED, SUFFIX, read_header
from report.model.tables import Coded, by_az_and_acks, of_streams

FILE = "latency.hlog"
"""In a run folder: a histogram for each AZ and acks, in HdrHistogram's log format."""
_DIGITS = 3
_LONGEST_US = 3_600_000_000
_PAUSE_NS = 100_000_000
_PAUSE_MESSAGES = 20
_SECOND_NS = 1_000_000_000
_AT_ONCE = 1 << 18
"""Messages that are counted together."""
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Times from the send to the acknowledgement, in ms; None if nothing was acknowledged."""

    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None

    @classmethod
    def of(cls, histogram: HdrHistogram) -> Latency:
        """That of a histogram in µs."""
        if not histogram.get_total_count():
            return NO_LATENCY
        p50, p99 = (histogram.get_value_at_percentile(share) for share in (50, 99))
        return cls(p50_ms=_ms(p50), p99_ms=_ms(p99), max_ms=_ms(histogram.get_max_value()))


def _ms(us: int) -> float:
    return round(us / 1000, 1)


NO_LATENCY = Latency(p50_ms=None, p99_ms=None, max_ms=None)


def histogram(
    writer: Numbers, sent_ns: Numbers, done_ns: Numbers, ok: Flags, interval_ns: Mapping[int, int]
) -> HdrHistogram:
    """The histogram, in µs, of some messages of one or several producers.

    ``done_ns`` counts where ``ok``. ``interval_ns``: by producer, the time between two of these messages as
    it was asked for; of others it is estimated.
    """
    measured = _Measured()
    order = np.lexsort((sent_ns, writer))
    edges = np.flatnonzero(np.diff(writer[order], prepend=-1, append=-1)).tolist()
    for first, end in pairwise(edges):
        ours = order[first:end]
        sent, done, acknowledged = sent_ns[ours], done_ns[ours], ok[ours]
        asked_ns = interval_ns.get(int(writer[ours[0]]))
        pace = _Pace.seen(sent) if asked_ns is None else _Pace.asked(asked_ns)
        measured.add_stream(sent, done, acknowledged, pace)
    return measured.histogram()


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """When messages of a stream are due, and how long a time without a send is a pause; both in ns."""

    interval_ns: int
    pause_ns: float

    @classmethod
    def asked(cls, interval_ns: int) -> _Pace:
        """That of a stream that was asked to send at an interval."""
        return cls(interval_ns=interval_ns, pause_ns=max(_PAUSE_NS, _PAUSE_MESSAGES * interval_ns))

    @classmethod
    def seen(cls, sent_ns: Numbers) -> _Pace:
        """That of a stream by its sends, in their order, if nobody knows what it was asked to send.

        Its interval is the usual step between sends, but no shorter than in its busiest second: the steps
        within a burst say nothing of when the next one is due.
        """
        steps = np.diff(sent_ns)
        if len(steps) < _PAUSE_MESSAGES:
            return cls(interval_ns=_SECOND_NS, pause_ns=math.inf)
        pause_ns = max(_PAUSE_NS, _PAUSE_MESSAGES * float(steps.mean()))
        _, each_second = np.unique((sent_ns - sent_ns[0]) // _SECOND_NS, return_counts=True)
        usual_ns = float(steps[steps <= pause_ns].mean())
        interval_ns = max(1, round(usual_ns), _SECOND_NS // int(each_second.max()))
        return cls(interval_ns=interval_ns, pause_ns=pause_ns)


@cache
def _buckets_ns() -> Numbers:
    """The lowest value of each bucket of a histogram."""
    empty = HdrHistogram(1, _LONGEST_US, _DIGITS)
    lowest_us = np.array([empty.get_value_from_index(place) for place in range(empty.counts_len)], np.int64)
    return lowest_us[lowest_us <= _LONGEST_US] * 1000


class _Measured:
    """How many latencies are in each bucket of a histogram, which takes single values far more slowly."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(_buckets_ns()), dtype=np.int64)
        self._from_ns, self._to_ns = math.inf, -math.inf

    def add_stream(
        self, sent_ns: Numbers, done_ns: Numbers, ok: Flags, pace: _Pace, *, counted: int = 0
    ) -> None:
        """Add messages of one stream in the order of sends; of the first ``counted``, only the pauses."""
        for first in range(counted, len(sent_ns), _AT_ONCE):
            here = slice(first, first + _AT_ONCE)
            self._from_ns = min(self._from_ns, int(sent_ns[here].min()))
            sent, done = sent_ns[here][ok[here]], done_ns[here][ok[here]]
            if len(done):
                self._to_ns = max(self._to_ns, int(done.max()))
                latency_ns = np.sort(np.clip(done - sent, 1000, _LONGEST_US * 1000))
                self._add(len(latency_ns) - np.searchsorted(latency_ns, _buckets_ns()))
        steps = np.diff(sent_ns)
        for place in np.flatnonzero((steps > pace.pause_ns) & ok[1:]).tolist():
            due = max(0, int(steps[place]) // pace.interval_ns - 1)
            self._add_due(int(done_ns[place + 1] - sent_ns[place]), pace.interval_ns, due)

    def _add_due(self, longest_ns: int, interval_ns: int, count: int) -> None:
        """Add so many latencies, each shorter by an interval than the one before, below the longest."""
        at_least = np.minimum(np.maximum(longest_ns - _buckets_ns(), 0) // interval_ns, count)
        at_least[:2] = count  # what is shorter than 1 µs counts as 1 µs
        self._add(at_least)

    def _add(self, at_least: Numbers) -> None:
        """Add latencies, of which so many are at least the lowest value of each bucket."""
        self._counts += at_least - np.append(at_least[1:], 0)

    def histogram(self) -> HdrHistogram:
        """What was added; without a time if nothing was acknowledged."""
        found = HdrHistogram(1, _LONGEST_US, _DIGITS)
        if self._counts.any():
            found.set_start_time_stamp(self._from_ns / 1e6)
            found.set_end_time_stamp(self._to_ns / 1e6)
        for place in np.flatnonzero(self._counts).tolist():
            found.record_value(int(_buckets_ns()[place]) // 1000, int(self._counts[place]))
        return found


def intervals(writers: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By number, the intervals in ns of the streams for which rows of `writers` say one."""
    return {row["writer"]: row["interval_ns"] for row in writers if (row.get("interval_ns") or 0) > 0}


Place = tuple[str, int | None]
"""AZ and acks; -1 stands for all."""


def histograms(
    life: pa.Table, writers: Sequence[Mapping[str, Any]], journals: Path
) -> dict[Place, HdrHistogram]:
    """By AZ and acks, the histogram of background streams, or of all producers if there are none.

    ``life`` has few of a soak's messages; what its streams sent is in their ``journals``, a folder, and
    ``writers`` names them. Raises BadDataError for a damaged journal.
    """
    interval_ns = intervals(writers)
    files = {read_header(file).writer: file for file in sorted(journals.glob(f"*{SUFFIX}"))}
    if files:
        measured: dict[Place, _Measured] = {}
        for row in writers:
            if row["writer"] in files:
                place = measured.setdefault((row["az"] or "", row["acks"]), _Measured())
                _add_journal(place, files[row["writer"]], interval_ns.get(row["writer"]))
        return {place: one.histogram() for place, one in measured.items()}
    life = of_streams(life)
    writer, sent = life["writer"].to_numpy(), life["sent_ns"].to_numpy()
    done = life["done_ns"].fill_null(-1).to_numpy()
    ok = Coded.of(life, "outcome").among("ok") & (done >= 0)
    return {
        place: histogram(writer[rows], sent[rows], done[rows], ok[rows], interval_ns)
        for place, rows in by_az_and_acks(life).items()
    }


def _add_journal(measured: _Measured, file: Path, interval_ns: int | None) -> None:
    """Add a stream's journal, whose rows are in the order of their sends, a block at a time."""
    header = read_header(file)
    count = max(0, file.stat().st_size - header.header_bytes) // ROW.itemsize
    if not count:
        return
    mapped = np.memmap(file, ROW, mode="r", offset=header.header_bytes, shape=(count,))
    if interval_ns is None:
        pace = _Pace.seen(mapped["sent_ns"][mapped["state"] > 0])
    else:
        pace = _Pace.asked(interval_ns)
    before = np.empty(0, ROW)
    for first in range(0, count, _AT_ONCE):
        block = np.array(mapped[first : first + _AT_ONCE])
        rows = np.concatenate([before, block[block["state"] > 0]])
        ok = rows["state"] == ACKNOWLEDGED
        measured.add_stream(rows["sent_ns"], rows["done_ns"], ok, pace, counted=len(before))
        before = rows[-1:]


def as_log(found: Mapping[Place, HdrHistogram]) -> str:
    """The text of `FILE`."""
    text = StringIO()
    log = HistogramLogWriter(text)
    log.output_log_format_version()
    log.output_comment("[latencies in microseconds; the tag is AZ and acks]")
    log.output_legend()
    for (az, acks), one in found.items():
        if one.get_total_count():
            text.write(f"Tag={az or 'no-AZ'}-acks={'all' if acks == -1 else acks},")
            log.output_interval_histogram(one, max_value_unit_ratio=1000.0)
    return text.getvalue()
