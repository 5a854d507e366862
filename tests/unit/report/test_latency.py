"""Histograms of latencies: what was measured, and what a pause of the producer kept from being measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.history.stream_journal import StreamJournal
from report.model.latency import Latency, as_log, histogram, histograms

MS = 1_000_000


def steady(count: int = 2000, every_ms: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Times of sends, and of acknowledgements 5 ms later."""
    sent = np.arange(count, dtype=np.int64) * every_ms * MS
    return sent, sent + 5 * MS


def of(sent: np.ndarray, done: np.ndarray, ok: np.ndarray | None = None) -> Latency:
    """The latency of one producer."""
    good = np.ones(len(sent), dtype=bool) if ok is None else ok
    return Latency.of(histogram(np.zeros(len(sent), np.int64), sent, done, good))


def test_a_steady_producer() -> None:
    assert of(*steady()) == Latency(p50_ms=5.0, p99_ms=5.0, max_ms=5.0)


def test_messages_that_were_due_in_a_pause_count() -> None:
    """For 500 ms nothing is sent: a message that was due at the begin would have waited so long."""
    sent, done = steady()
    late = np.arange(2000) >= 1000
    sent[late] += 500 * MS
    done[late] += 500 * MS
    assert of(sent, done) == Latency(
        p50_ms=5.0, p99_ms=pytest.approx(480, abs=2), max_ms=pytest.approx(505, abs=1)
    )
    done[1000] += 100 * MS  # the first message after the pause is acknowledged later, and so would they be
    assert of(sent, done).max_ms == pytest.approx(605, abs=1)


def test_slow_acknowledgements_are_no_pause() -> None:
    sent, done = steady()
    done[1000:1100] += 300 * MS
    assert of(sent, done) == Latency(
        p50_ms=5.0, p99_ms=pytest.approx(305, abs=1), max_ms=pytest.approx(305, abs=1)
    )


def test_a_slow_producer_does_not_pause() -> None:
    assert of(*steady(count=100, every_ms=200)).max_ms == 5.0


def test_only_acknowledged_messages_have_a_latency() -> None:
    sent, done = steady()
    done[:5] += 9000 * MS
    assert of(sent, done, np.arange(2000) >= 5).max_ms == 5.0
    assert of(sent, done, np.zeros(2000, bool)) == Latency(p50_ms=None, p99_ms=None, max_ms=None)


def life(role: str, acks: int | None) -> pa.Table:
    """Two acknowledged messages of a producer."""
    return pa.table(
        {
            "writer": pa.array([1, 1], pa.int32()),
            "role": [role, role],
            "az": ["az1", "az1"],
            "acks": pa.array([acks, acks], pa.int32()),
            "outcome": ["ok", "ok"],
            "sent_ns": [0, MS],
            "done_ns": [2 * MS, 3 * MS],
        }
    )


def test_streams_come_before_other_producers(tmp_path: Path) -> None:
    both = pa.concat_tables([life("stream", -1), life("scripted", None)])
    found = histograms(both, (), tmp_path)
    assert [*found] == [("az1", -1)]
    assert [*histograms(life("scripted", None), (), tmp_path)] == [("az1", None)]
    log = as_log(found)
    assert "\nTag=az1-acks=all,0.000000,0.003000,2.000000,HISTF" in log


def test_journals_of_a_soak_take_the_place_of_the_table(tmp_path: Path) -> None:
    for writer in (1, 2):
        journal = StreamJournal(tmp_path / f"client1.{writer}.sends", writer, [("t", 0)])
        for seq in range(3):
            journal.begin(seq, 0, seq * MS + 1)
            if seq:
                journal.complete(seq, done_ns=(seq + 10 * writer) * MS + 1, outcome="ok", offset=seq)
        journal.close()
    writers = [{"writer": writer, "az": "az1", "acks": 1} for writer in (1, 2)]
    (one,) = histograms(life("stream", -1), writers, tmp_path).values()
    assert one.get_total_count() == 4
    assert Latency.of(one) == Latency(p50_ms=10.0, p99_ms=20.0, max_ms=20.0)
