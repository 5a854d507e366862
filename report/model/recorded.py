"""A recording's availability, as operators read it: by AZ and producer setting, and how long recoveries took.

All clients run on one machine, so the AZ is that of a partition's first leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from harness.errors import BadDataError, json_file, json_object
from harness.history.tables import read_columns, read_table
from report.model.latency import Latency, histogram, intervals


@dataclass(frozen=True, kw_only=True)
class AzAvailability:
    """What one producer setting achieved in the partitions that an AZ led at first."""

    az: str
    setting: str
    acknowledged: int
    per_s: float
    """Acknowledged messages per second."""
    longest_gap_s: float
    """Longest time without an acknowledgement in any one of the partitions."""
    p50_ms: float
    p99_ms: float
    max_ms: float
    """Time from the send to the acknowledgement."""


@dataclass(frozen=True, kw_only=True)
class RecordedAvailability:
    """The availability of one recording."""

    by_az: tuple[AzAvailability, ...]
    failover_s: tuple[float, ...]
    """Of each election after a leader fell silent: from its silence to the new leader, by time."""
    full_isr_s: tuple[float, ...]
    """Of each ISR that shrank: how long until it was complete again, by time."""


def recorded_availability(run_dir: Path) -> RecordedAvailability | None:
    """The availability of a run folder; None if it is no recording, or has no acknowledged message.

    Raises BadDataError for damaged files.
    """
    manifest = json_file(run_dir / "run.json")
    recording = manifest.get("recording")
    if not isinstance(recording, Mapping):
        return None
    sends = read_columns(run_dir, "sends", ("partition", "writer", "sent_ns", "done_ns", "outcome"))
    sends = sends.filter(pc.equal(sends["outcome"], "ok"))
    if not sends.num_rows:
        return None
    azs = _azs(recording, manifest.get("azs"))
    writers = read_table(run_dir, "writers")
    asked_ns = intervals(writers.to_pylist())
    names = dict(zip(writers["writer"].to_pylist(), writers["name"].to_pylist(), strict=True))
    partition, writer = sends["partition"].to_numpy(), sends["writer"].to_numpy()
    sent, done = sends["sent_ns"].to_numpy(), sends["done_ns"].to_numpy()
    first, last = int(done.min()), int(done.max())
    settings = {number: str(name).removeprefix("acked-") for number, name in names.items()}
    rows = []
    for az in dict.fromkeys(azs.values()):
        led = [number for number, its in azs.items() if its == az]
        for setting in dict.fromkeys(settings.values()):
            ours = [number for number, its in settings.items() if its == setting]
            chosen = np.isin(partition, led) & np.isin(writer, ours)
            if not chosen.any():
                continue
            latency = Latency.of(
                histogram(
                    writer[chosen],
                    sent[chosen],
                    done[chosen],
                    np.ones(int(chosen.sum()), bool),
                    # messages come to all partitions in turn
                    {number: one * len(azs) // len(led) for number, one in asked_ns.items()},
                )
            )
            rows.append(
                AzAvailability(
                    az=az,
                    setting=setting,
                    acknowledged=int(chosen.sum()),
                    per_s=round(float(chosen.sum()) / max((last - first) / 1e9, 1e-9), 1),
                    longest_gap_s=max(
                        _longest_gap_s(done[chosen & (partition == number)], first, last) for number in led
                    ),
                    p50_ms=latency.p50_ms or 0.0,
                    p99_ms=latency.p99_ms or 0.0,
                    max_ms=latency.max_ms or 0.0,
                )
            )
    marks = read_columns(run_dir, "marks", ("ns", "name", "facts")).to_pylist()
    return RecordedAvailability(by_az=tuple(rows), failover_s=_failovers(marks), full_isr_s=_full_isrs(marks))


def _azs(recording: Mapping[str, Any], names: object) -> dict[int, str]:
    """The name of the AZ that leads each partition at first."""
    try:
        zones = {int(broker): str(az) for broker, az in recording["brokers"].items()}
        shown = names if isinstance(names, Mapping) else {}
        return {
            number: str(shown.get(zones[int(replicas[0])], zones[int(replicas[0])]))
            for number, replicas in enumerate(recording["plan"]["assignment"])
        }
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadDataError(
            f"run.json of the recording does not say which AZ leads which partition ({type(error).__name__})."
        ) from None


def _longest_gap_s(done: Any, first: int, last: int) -> float:
    moments = np.sort(np.concatenate([done, [first, last]]))
    return round(float(np.diff(moments).max()) / 1e9, 2)


def _failovers(marks: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    silent: dict[int, int] = {}
    times = []
    for row, facts in _with_facts(marks):
        if row["name"] == "broker-silent":
            silent[facts.get("broker", -1)] = row["ns"]
        elif row["name"] == "broker-answers":
            silent.pop(facts.get("broker", -1), None)
        elif row["name"] == "leader-changed" and (since := silent.get(facts.get("before", -1))):
            times.append(round((row["ns"] - since) / 1e9, 2))
    return tuple(times)


def _full_isrs(marks: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    shrunk: dict[object, int] = {}
    times = []
    for row, facts in _with_facts(marks):
        place = (facts.get("topic"), facts.get("partition"))
        if row["name"] == "isr-shrunk":
            shrunk.setdefault(place, row["ns"])
        elif row["name"] == "isr-full" and place in shrunk:
            times.append(round((row["ns"] - shrunk.pop(place)) / 1e9, 2))
    return tuple(times)


def _with_facts(marks: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    ordered = sorted(marks, key=lambda row: int(row["ns"]))
    return [(row, json_object(row["facts"] or "{}", "facts of marks")) for row in ordered]
