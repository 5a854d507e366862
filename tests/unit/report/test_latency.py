"""Histograms of latencies: what was measured, and what a pause of the producer kept from being measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

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
    return Latency.of(histogram(np.zeros(len(sent), np.int64), sent, done, good, {}))


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


def bursts() -> tuple[np.ndarray, np.ndarray]:
    """A stream asked for 200/s: 50 messages leave within 0.15 ms, then their transaction waits for 5 s."""
    sent = np.array([start * 5000 * MS + number * 3000 for start in range(20) for number in range(50)])
    return sent, sent + 4 * MS


@pytest.mark.parametrize(
    ("asked", "most"), [({0: 5 * MS}, 20_000), ({}, 6_000)], ids=["asked", "not recorded"]
)
def test_a_burst_is_not_the_interval_of_its_stream(asked: dict[int, int], most: int) -> None:
    """In 95 s at 200/s, 19,000 messages are due; what is not known is no more than the busiest second had."""
    sent, done = bursts()
    found = histogram(np.zeros(1000, np.int64), sent, done, np.ones(1000, bool), asked)
    assert most * 0.9 < found.get_total_count() <= most
    assert Latency.of(found).max_ms == pytest.approx(5000, rel=0.01)


def one_by_one(sent: np.ndarray, done: np.ndarray, ok: np.ndarray, interval_ns: int) -> HdrHistogram:
    """The definition, a value at a time."""
    found = HdrHistogram(1, 3_600_000_000, 3)

    def add(latency_ns: int) -> None:
        found.record_value(min(max(latency_ns // 1000, 1), 3_600_000_000))

    for place in range(len(sent)):
        if ok[place]:
            add(int(done[place] - sent[place]))
            step = int(sent[place] - sent[place - 1]) if place else 0
            if step > max(100 * MS, 20 * interval_ns):
                for due in range(1, step // interval_ns):
                    add(int(done[place] - sent[place - 1]) - due * interval_ns)
    return found


@given(
    steps=st.lists(st.one_of(st.integers(0, 5 * MS), st.integers(0, 900 * MS)), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    longest_ns=st.sampled_from((1, 900, 5 * MS, 10**10, 10**13)),
    interval_ns=st.one_of(st.integers(10**6, 10**8), st.sampled_from((333_333, 10**9, 10**15))),
)
@settings(deadline=None, max_examples=60)
def test_counted_together_and_one_by_one(
    steps: list[int], seed: int, longest_ns: int, interval_ns: int
) -> None:
    sent = np.cumsum(np.array(steps, np.int64)) + 10**12
    random = np.random.default_rng(seed)
    done, ok = sent + random.integers(0, longest_ns, len(sent)), random.random(len(sent)) < 0.8
    shuffled = random.permutation(len(sent))
    writer = np.zeros(len(sent), np.int64)
    if len(set(sent.tolist())) < len(sent):  # then the order of sends is not known
        shuffled = np.arange(len(sent))
    found = histogram(writer, sent[shuffled], done[shuffled], ok[shuffled], {0: interval_ns})
    expected = one_by_one(sent, done, ok, interval_ns)
    assert list(found.counts) == list(expected.counts)
    assert found.get_total_count() == expected.get_total_count()
    assert found.get_max_value() == expected.get_max_value()
    assert found.get_min_value() == expected.get_min_value()


@pytest.mark.parametrize(("asked_ns", "due"), [(MS, 500), (None, 49)])
def test_a_journal_is_counted_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_ns: int | None, due: int
) -> None:
    """A pause between two blocks, and rows that were never completed, count as in one block."""
    journal = StreamJournal(tmp_path / "client1.1.sends", 1, [("t", 0)])
    for seq in range(100):
        sent_ns = (seq + (500 if seq >= 64 else 0)) * MS + 1
        journal.begin(seq, 0, sent_ns)
        if seq % 3:
            journal.complete(seq, done_ns=sent_ns + seq * MS, outcome="ok", offset=seq)
    journal.close()
    writers = [{"writer": 1, "az": "az1", "acks": 1, "interval_ns": asked_ns}]
    texts = []
    for rows in (1 << 18, 64, 7):
        monkeypatch.setattr("report.model.latency._AT_ONCE", rows)
        texts.append(as_log(histograms(life("stream", -1), writers, tmp_path)))
    assert texts == [texts[0]] * 3
    monkeypatch.undo()
    (whole,) = histograms(life("stream", -1), writers, tmp_path).values()
    assert whole.get_total_count() == 66 + due


def test_a_long_pause_costs_no_more_than_a_short_one() -> None:
    """An interval and times that somebody handed over may ask for any number of messages."""
    sent = np.array([0, 3600 * 10**9])
    found = histogram(np.zeros(2, np.int64), sent, sent + MS, np.ones(2, bool), {0: 1})
    assert found.get_total_count() == 3600 * 10**9 - 1 + 2
