"""How a soak stands: lines for a terminal, and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

from harness.console import Console
from harness.openmetrics import Family, Sample, exposition


class Standing(Protocol):
    """What is known of a soak (`run.soak.judge.Live`)."""

    @property
    def ended(self) -> int: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def judged(self) -> int: ...
    @property
    def lost(self) -> Mapping[int, int]: ...
    @property
    def duplicated(self) -> Mapping[int, int]: ...
    @property
    def rest(self) -> int: ...
    @property
    def lag_s(self) -> float: ...
    @property
    def longest_gap_s(self) -> float: ...
    @property
    def windows(self) -> int: ...
    @property
    def reopened(self) -> int: ...
    @property
    def compared(self) -> int: ...
    @property
    def deleted(self) -> int: ...
    @property
    def transactions(self) -> Mapping[str, int]: ...


def live_lines(live: Standing) -> list[str]:
    """How things stand, a line each."""
    return [
        f"{live.ended:,} messages have ended, {live.acknowledged:,} of them acknowledged; "
        f"{live.judged:,} judged, {live.lag_s:.1f} s behind",
        f"lost {sum(live.lost.values()):,}, duplicated {sum(live.duplicated.values()):,}; longest time "
        f"without an acknowledgement {live.longest_gap_s:.1f} s",
        *([f"transactions: {_ends(live)}"] if live.transactions else ()),
    ]


def _ends(live: Standing) -> str:
    """How many transactions have ended in which way."""
    return ", ".join(f"{count:,} {end}" for end, count in sorted(live.transactions.items()))


def show(live: Standing) -> None:
    """Print how the judgement was made."""
    Console(highlight=False).paragraph(
        f"Rolling judgement: {live.windows:,} windows at the end, {live.reopened:,} opened again, "
        f"{live.compared:,} compared again; {live.rest:,} messages judged one by one, the others settled; "
        f"{live.deleted:,} records deleted after they were judged. Longest time without an acknowledgement: "
        f"{live.longest_gap_s:.1f} s." + (f" Transactions: {_ends(live)}." if live.transactions else "")
    )


def openmetrics(live: Standing) -> str:
    """The same as OpenMetrics."""
    return exposition((_family(*one), samples) for one, samples in _metrics(live))


def _family(name: str, kind: Literal["counter", "gauge"], says: str) -> Family:
    return Family(f"acked_soak_{name}", kind, says)


def _metrics(live: Standing) -> Iterator[tuple[tuple[str, Literal["counter", "gauge"], str], list[Sample]]]:
    counters = {
        "ended": (live.ended, "Messages that have ended."),
        "acknowledged": (live.acknowledged, "Messages that were acknowledged."),
        "received": (live.received, "Records that consumers have received."),
        "windows_reopened": (live.reopened, "Windows opened again, as a replica had changed."),
        "windows_compared": (live.compared, "Windows compared again with a replica."),
        "records_deleted": (live.deleted, "Records deleted after they were judged."),
    }
    gauges = {
        "judged": (live.judged, "Messages that are judged at present."),
        "rest": (live.rest, "Messages that memory holds to judge one by one."),
        "lag_seconds": (round(live.lag_s, 3), "Age of the oldest acknowledged message that is not judged."),
        "longest_gap_seconds": (round(live.longest_gap_s, 3), "Longest time without an acknowledgement."),
    }
    for name, (count, says) in counters.items():
        yield (name, "counter", says), [({}, count)]
    for name, (number, says) in gauges.items():
        yield (name, "gauge", says), [({}, number)]
    if live.transactions:
        ends: list[Sample] = [({"reported": end}, count) for end, count in sorted(live.transactions.items())]
        says = "Transactions that have ended, by what their applications were told."
        yield ("transactions", "counter", says), ends
    for name, counts, says in (
        ("lost", live.lost, "Acknowledged messages that are lost at present, by writer."),
        ("duplicated", live.duplicated, "Messages that are in the log several times at present, by writer."),
    ):
        yield (name, "gauge", says), [({"writer": writer}, count) for writer, count in sorted(counts.items())]
