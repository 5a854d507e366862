"""Latencies of acknowledged messages as HdrHistograms, corrected for coordinated omission.

A producer that waits sends nothing meanwhile, so that the messages which would have taken longest are missing
from what was measured (coordinated omission). For each pause of a producer, the messages that were due in it
count as well: sent when they were due, and acknowledged when the next one was. A pause is a time without a
send of more than `_PAUSE_NS`, and more than `_PAUSE_MESSAGES` messages of this producer take.

https://hdrhistogram.github.io/HdrHistogram/ describes the histogram.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from harness.history.sends import ROW
from harness.history.stream_journal import ACKNOWLEDGED, SUFFIX, read_header
from report.model.tables import Coded, of_streams

FILE = "latency.hlog"
"""In a run folder: a histogram for each AZ and acks, in HdrHistogram's log format."""
_DIGITS = 3
_LONGEST_US = 3_600_000_000
_PAUSE_NS = 100_000_000
_PAUSE_MESSAGES = 20
UNKNOWN_ACKS = -2
"""In place of acks that are not recorded."""
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


def histogram(writer: Numbers, sent_ns: Numbers, done_ns: Numbers, ok: Flags) -> HdrHistogram:
    """The histogram, in µs, of some messages of one or several producers.

    ``done_ns`` counts where ``ok``.
    """
    found = HdrHistogram(1, _LONGEST_US, _DIGITS)
    if not ok.any():
        return found
    found.set_start_time_stamp(int(sent_ns.min()) / 1e6)
    found.set_end_time_stamp(int(done_ns[ok].max()) / 1e6)
    _add(found, done_ns[ok] - sent_ns[ok])
    for one in pc.unique(pa.array(writer)).to_pylist():
        ours = writer == one
        _add(found, _omitted(sent_ns[ours], done_ns[ours], ok[ours]))
    return found


def _add(histogram: HdrHistogram, latency_ns: Numbers) -> None:
    counted = pa.array(np.clip(latency_ns // 1000, 1, _LONGEST_US)).value_counts()
    us, times = (counted.field(number).to_numpy() for number in (0, 1))
    step = 10 ** np.maximum(np.floor(np.log10(us)).astype(np.int64) - _DIGITS, 0)
    values, groups = np.unique(us // step * step, return_inverse=True)
    counts = np.bincount(groups, weights=times)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(int(value), int(count))


def _omitted(sent_ns: Numbers, done_ns: Numbers, ok: Flags) -> Numbers:
    """Latencies of the messages that were due while one producer paused."""
    order = np.argsort(sent_ns, kind="stable")
    sent, done, ok = sent_ns[order], done_ns[order], ok[order]
    gaps = np.diff(sent)
    if len(gaps) < _PAUSE_MESSAGES:
        return np.zeros(0, dtype=np.int64)
    pauses = gaps > max(_PAUSE_NS, _PAUSE_MESSAGES * float(gaps.mean()))
    every_ns = max(1.0, float(gaps[~pauses].mean()))
    found = []
    for place in np.flatnonzero(pauses & ok[1:]).tolist():
        due = sent[place] + (np.arange(1, int(gaps[place] / every_ns)) * every_ns).astype(np.int64)
        found.append(done[place + 1] - due)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


Place = tuple[str, int | None]
"""AZ and acks; -1 stands for all."""


def histograms(
    life: pa.Table, writers: Sequence[Mapping[str, Any]], journals: Path
) -> dict[Place, HdrHistogram]:
    """By AZ and acks, the histogram of background streams, or of all producers if there are none.

    ``life`` has few of a soak's messages; what its streams sent is in their ``journals``, a folder, and
    ``writers`` names them. Raises BadDataError for a damaged journal.
    """
    files = {read_header(file).writer: file for file in sorted(journals.glob(f"*{SUFFIX}"))}
    if files:
        found: dict[Place, HdrHistogram] = {}
        for row in writers:
            if row["writer"] in files:
                place = row["az"] or "", row["acks"]
                one = _of_journal(files[row["writer"]], row["writer"])
                if place in found:
                    found[place].add(one)
                else:
                    found[place] = one
        return found
    life = of_streams(life)
    writer, sent = life["writer"].to_numpy(), life["sent_ns"].to_numpy()
    done = life["done_ns"].fill_null(-1).to_numpy()
    ok = Coded.of(life, "outcome").among("ok") & (done >= 0)
    az, acks = Coded.of(life, "az"), life["acks"].fill_null(UNKNOWN_ACKS).to_numpy()
    places = life.group_by(["az", "acks"], use_threads=False).aggregate([]).to_pylist()
    found = {}
    for row in places:
        here = az.among(row["az"] or "") & (acks == (UNKNOWN_ACKS if row["acks"] is None else row["acks"]))
        found[row["az"] or "", row["acks"]] = histogram(writer[here], sent[here], done[here], ok[here])
    return found


def _of_journal(file: Path, writer: int) -> HdrHistogram:
    header = read_header(file)
    count = max(0, file.stat().st_size - header.header_bytes) // ROW.itemsize
    if count == 0:
        return HdrHistogram(1, _LONGEST_US, _DIGITS)
    mapped = np.memmap(file, ROW, mode="r", offset=header.header_bytes, shape=(count,))
    rows = mapped[mapped["state"] > 0]
    writers = np.full(len(rows), writer, dtype=np.int64)
    return histogram(writers, rows["sent_ns"], rows["done_ns"], rows["state"] == ACKNOWLEDGED)


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
