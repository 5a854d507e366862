"""Messages by the life table: sends over time, availability and latency of each AZ, labels and fates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.fate import LOSSES
from report.model.latency import NO_LATENCY, Latency, Place
from report.model.logs import MessageFacts, Meta
from report.model.model import NO_AZ, Availability, Fault, SendBin
from report.model.tables import Coded, by_az_and_acks, of_streams

LOST = LOSSES
COLUMNS = (
    *("topic", "partition", "writer", "seq", "label", "az", "role", "acks", "sent_ns", "done_ns", "outcome"),
    *("offset", "fate", "acked_by", "copies"),
)
BINS = 180


def numbers(table: pa.Table, name: str, null: int = -1) -> np.ndarray:
    """An integer column as a numpy array; ``null`` stands for nulls."""
    return np.asarray(pc.fill_null(table[name].cast(pa.int64()), null).to_numpy(zero_copy_only=False))


def send_bins(life: pa.Table, zero_ns: int, from_s: float, to_s: float) -> dict[str, tuple[SendBin, ...]]:
    """What each AZ sent, in bins of the time that is drawn."""
    if not life.num_rows:
        return {}
    az, outcome, fate = (Coded.of(life, name) for name in ("az", "outcome", "fate"))
    is_ok, failed, is_lost = outcome.among("ok"), outcome.among("fail"), fate.among(*LOST)
    sent = (numbers(life, "sent_ns") - zero_ns) / 1e9
    width = max(to_s - from_s, 0.001) / BINS
    number = np.clip(((sent - from_s) / width).astype(np.int64), 0, BINS - 1)
    bins = {}
    for one in az.present():
        here = az.among(one)

        def counted(condition: np.ndarray, here: np.ndarray = here) -> np.ndarray:
            return np.bincount(number[here & condition], minlength=BINS)

        ok, fail, lost = counted(is_ok), counted(failed), counted(is_ok & is_lost)
        info = counted(~(is_ok | failed))
        bins[one or NO_AZ] = tuple(
            SendBin(
                s=from_s + n * width,
                width_s=width,
                ok=int(ok[n]),
                info=int(info[n]),
                fail=int(fail[n]),
                lost=int(lost[n]),
            )
            for n in np.flatnonzero(ok + fail + info)
        )
    return bins


def availability(
    life: pa.Table,
    zero_ns: int,
    in_force: Callable[[float, float], str],
    latencies: Mapping[Place, Latency],
) -> tuple[Availability, ...]:
    """Availability by AZ and acks, from background streams alone if there are any, else from all producers.

    Of an AZ, the acks of the first producer come first: an assessment starts the described one before the one
    for comparison. The longest gap is that of any one partition. ``in_force`` names the fault that was in
    force between two times.
    """
    if not life.num_rows:
        return ()
    life = of_streams(life)
    outcome = Coded.of(life, "outcome")
    is_ok, is_failed = outcome.among("ok"), outcome.among("fail")
    all_sent, all_done = numbers(life, "sent_ns"), numbers(life, "done_ns")
    writers, all_places = numbers(life, "writer"), _places(life)
    groups = [(az, int(writers[of].min()), level, of) for (az, level), of in by_az_and_acks(life).items()]
    rows = []
    for one, _, level, of in sorted(groups, key=lambda group: group[:2]):
        sent, done, ended_well, failed = all_sent[of], all_done[of], is_ok[of], is_failed[of]
        unknown = ~ended_well & ~failed
        good = ended_well & (done >= 0)
        acked = (done[good] - zero_ns) / 1e9
        begin, end = (sent.min() - zero_ns) / 1e9, (sent.max() - zero_ns) / 1e9
        end = max(end, acked.max() if acked.size else end)
        of_all = all_places[of]
        of_acked = of_all[good]
        gap_from, gap_to = max(
            (_widest(begin, acked[of_acked == place], end) for place in np.flatnonzero(np.bincount(of_all))),
            key=lambda gap: (gap[1] - gap[0], -gap[0]),
        )
        seconds, counts = _per_second(acked)
        latency = latencies.get((one, level), NO_LATENCY)
        rows.append(
            Availability(
                az=one or NO_AZ,
                acks="" if level is None else f"acks={'all' if level == -1 else level}",
                sent=len(of),
                acknowledged=int(good.sum()),
                failed=int(failed.sum()),
                unknown=int(unknown.sum()),
                longest_gap_s=round(gap_to - gap_from, 2),
                gap_from_s=round(gap_from, 2),
                gap_to_s=round(gap_to, 2),
                p50_ms=latency.p50_ms,
                p99_ms=latency.p99_ms,
                max_ms=latency.max_ms,
                unknown_ms=_longest_ms(sent, done, unknown),
                failed_ms=_longest_ms(sent, done, failed),
                per_second=tuple((float(s), int(n)) for s, n in zip(seconds, counts, strict=True)),
                lasting_beyond=in_force(gap_from, gap_to),
            )
        )
    return tuple(rows)


def _per_second(acked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The seconds in which something was acknowledged, and how much."""
    if not acked.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    seconds = np.floor(acked).astype(np.int64)
    first = seconds.min()
    counts = np.bincount(seconds - first)
    present = np.flatnonzero(counts)
    return present + first, counts[present]


def _places(life: pa.Table) -> np.ndarray:
    """A number for the topic partition of each message."""
    topics = Coded.of(life, "topic").codes.astype(np.int64)
    partitions = numbers(life, "partition")
    return np.asarray(topics * (int(partitions.max()) + 1) + partitions)


def _widest(begin: float, acked: np.ndarray, end: float) -> tuple[float, float]:
    """The longest time between two of some moments, the first of the longest ones."""
    edges = np.concatenate([[begin], np.sort(acked, kind="stable"), [end]])  # they are nearly in order
    widest = int(np.diff(edges).argmax())
    return float(edges[widest]), float(edges[widest + 1])


def _longest_ms(sent: np.ndarray, done: np.ndarray, which: np.ndarray) -> float | None:
    """The longest time from a send to its outcome, of messages that have one."""
    ended = which & (done >= 0)
    return round(float((done[ended] - sent[ended]).max()) / 1e6, 1) if ended.any() else None


def meta_of(life: pa.Table) -> Meta:
    """Label, acknowledged, lost of messages of a partition."""

    def known(records: pa.Table) -> MessageFacts:
        named = life
        if life.num_rows > 5000:
            named = life.filter(pc.is_in(life["seq"], pc.unique(records["seq"].cast(life["seq"].type))))
        names = ["writer", "seq", "label", "outcome", "fate"]
        return {
            (row["writer"], row["seq"]): (row["label"] or "", row["outcome"] == "ok", row["fate"] in LOST)
            for row in named.select(names).to_pylist()
        }

    return known


def fault_in_force(faults: Sequence[Fault]) -> Callable[[float, float], str]:
    """The name of the fault that overlaps a period most."""

    def named(from_s: float, to_s: float) -> str:
        overlap: Mapping[str, float] = {
            fault.name: min(to_s, fault.to_s if fault.to_s is not None else to_s) - max(from_s, fault.from_s)
            for fault in faults
            if fault.lasting
        }
        best = max(overlap, key=overlap.__getitem__, default="")
        return best if best and overlap[best] > 0 else ""

    return named
