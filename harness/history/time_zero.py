"""What times that people read count from: the first fault in force; without a fault, the first event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.errors import BadDataError, json_object

Row = Mapping[str, Any]


class TimeZero(NamedTuple):
    """The moment from which times count."""

    ns: int
    fault: str = ""
    """The name of the fault that began then; empty: the history began then."""


def time_zero(faults: Iterable[Row], processes: Iterable[Row], start_ns: int) -> TimeZero:
    """The first fault in force, or ``start_ns``; ``faults`` and ``processes`` are rows of these tables.

    An operator's action is no fault, nor is a fault that did not take effect. A stated one counts.
    """
    moments: dict[int, dict[str, Row]] = {}
    for row in faults:
        if row["kind"] != "operator":
            moments.setdefault(row["fault"], {})[row["moment"]] = row
    ends = [row for row in processes if row["event"] == "killed"]
    begun = [
        TimeZero(begun_ns(by_moment, _hosts(by_moment["injected"]), ends), str(by_moment["injected"]["name"]))
        for by_moment in moments.values()
        if "injected" in by_moment
    ]
    return min(begun, default=TimeZero(start_ns))


def begun_ns(by_moment: Mapping[str, Row], hosts: Sequence[str], ends: Iterable[Row]) -> int:
    """When a fault that took effect began, by the rows of its moments.

    A power cut or a kill begins with the end of the first process on its hosts, of which ``ends`` are the
    rows, not with the proof that it took effect.
    """
    begun, injecting = by_moment["injected"], by_moment.get("injecting")
    ns = int(begun["ns"])
    if injecting is None or begun["mechanism"] not in ("kill", "power_cut"):
        return ns
    within = (int(row["ns"]) for row in ends if row["host"] in hosts and injecting["ns"] <= row["ns"] <= ns)
    return min(within, default=ns)


def _hosts(fault: Row) -> Sequence[str]:
    try:
        hosts = json_object(fault["targets"] or "{}", "targets of faults").get("hosts")
    except BadDataError:
        return ()
    return [str(host) for host in hosts] if isinstance(hosts, list) else ()


def in_seconds(s: float, digits: int = 1) -> str:
    """A time for people, as in `3.2 s` or, before time zero, `−3.2 s`."""
    return f"{s:z.{digits}f} s".replace("-", "−")
