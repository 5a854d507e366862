"""The faults of a run, and what their proofs wanted and saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.errors import BadDataError, json_value
from harness.history.time_zero import begun_ns
from report.model.beliefs import ToSeconds
from report.model.model import Fault, Proof
from report.model.tables import Row
from report.words.faults import is_state, state_in_words

_WORDS: Mapping[str, tuple[str, str]] = {
    "dead": ("probes over the cut links", "no answer"),
    "alive": ("probes over other links", "an answer"),
    "packets": ("packets that the rules dropped", "some on every link"),
    "bytes": ("bytes sent through the slow link", "some"),
    "waited": ("packets that had to wait", "some"),
    "exit_status": ("exit status of the processes", "ended by the signal"),
    "seen": ("state afterwards", "as the operator asked"),
    "flips": ("changes of the links", "at least one"),
    "lost": ("packets that were lost", "the declared share"),
    "round_trips_ms": ("time to connect, ms", "the declared delay"),
    "held": ("connections that were open before", "silent"),
    "disks": ("bytes of the logs on disk, before and after", "what was not flushed is gone"),
}
"""Facts of a proof by their key: what was checked, and what was wanted."""


def faults(rows: Iterable[Row], processes: Iterable[Row], seconds: ToSeconds) -> tuple[Fault, ...]:
    """The faults of a run by the rows of their moments, sorted by time.

    ``processes`` tell when processes ended, and so when power cuts and kills began.
    """
    ends = [row for row in processes if row["event"] == "killed"]
    moments: dict[int, dict[str, Row]] = {}
    for row in rows:
        moments.setdefault(row["fault"], {})[row["moment"]] = row
    return tuple(_fault(number, by_moment, ends, seconds) for number, by_moment in sorted(moments.items()))


def _fault(number: int, by_moment: Mapping[str, Row], ends: Sequence[Row], seconds: ToSeconds) -> Fault:
    begun = by_moment.get("injected") or by_moment.get("injecting") or next(iter(by_moment.values()))
    ended = by_moment.get("healed") or by_moment.get("failed")
    targets = _object(begun["targets"])
    links = _texts(targets.get("links"))
    hosts = _texts(targets.get("hosts"))
    injected = "injected" in by_moment
    lasting = begun["kind"] != "operator" and (
        ended is not None or begun["kind"] != "process" or not injected
    )
    return Fault(
        number=number,
        name=begun["name"],
        kind=begun["kind"],
        mechanism=begun["mechanism"] or "",
        from_s=seconds(begun_ns(by_moment, hosts, ends) if injected else begun["ns"]),
        to_s=seconds(ended["ns"]) if ended else None,
        lasting=lasting,
        injected=injected,
        stated=bool(begun.get("stated")),
        proven=injected and "failed" not in by_moment and not begun.get("stated"),
        hosts=hosts,
        links=links,
        partitions=_texts(targets.get("partitions")),
        details=targets,
        first_offset=_first_offset(begun, targets),
        links_without_effect=_texts(_object(by_moment.get("failed", {}).get("evidence")).get("links")),
        proofs=tuple(_proofs(by_moment)),
    )


def _first_offset(begun: Row, targets: Mapping[str, object]) -> int:
    """That of the damaged batch, or of runs that do not state it, the offset that the fault should hit."""
    for stated in (_object(begun["evidence"]).get("first_offset"), targets.get("offset")):
        if isinstance(stated, int):
            return stated
    return -1


def _proofs(by_moment: Mapping[str, Row]) -> Iterable[Proof]:
    if "failed" in by_moment:
        reason = _object(by_moment["failed"]["evidence"]).get("reason")
        expected = "lasts until it is healed" if "injected" in by_moment else "takes effect"
        yield Proof("the fault itself", expected, str(reason or "it failed"), False)
    if "injected" in by_moment:
        for key, value in _object(by_moment["injected"]["evidence"]).items():
            if key in _WORDS and value not in (None, {}, []):
                what, expected = _WORDS[key]
                seen = _seen(key, value)
                if seen:
                    yield Proof(what, expected, seen, True)
    if "healed" in by_moment:
        healed = _object(by_moment["healed"]["evidence"])
        if "alive" in healed:
            yield Proof("probes after healing", "an answer", f"{healed['alive']} answered", True)


def _in_words(value: object) -> str:
    """What an operator's action observed: states of partitions in words, other values as they are."""
    if is_state(value):
        return state_in_words(value)
    if isinstance(value, list):
        return ", ".join(_in_words(one) for one in value if one is not None)
    return str(value)


def _seen(key: str, value: Any) -> str:
    if key == "dead":
        return f"{value} got no answer"
    if key == "alive":
        return f"{value} answered"
    if key == "disks" and isinstance(value, dict):
        return "; ".join(filter(None, (_disk(host, one) for host, one in value.items())))
    if key == "exit_status" and isinstance(value, dict):
        return ", ".join(f"{name}: {_ended(status)}" for name, status in value.items())
    if key == "flips" and isinstance(value, list):
        return str(len(value))
    if isinstance(value, dict) and not is_state(value):
        return ", ".join(f"{name}: {_in_words(one)}" for name, one in value.items())
    return _in_words(value)


def _disk(host: str, sizes: object) -> str:
    if not isinstance(sizes, dict):
        return ""
    before, after = sizes.get("log_bytes_before"), sizes.get("log_bytes_after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ""
    logs = ", ".join(f"{place} {size} → {after[place]}" for place, size in before.items() if place in after)
    return f"{host}: {logs}" if logs else ""


def _ended(status: object) -> str:
    """As Python states it: below 0 the number of the signal."""
    return f"signal {-status}" if isinstance(status, int) and status < 0 else f"status {status}"


def _texts(items: object) -> tuple[str, ...]:
    return tuple(map(str, items)) if isinstance(items, list) else ()


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json_value(text or "{}", "targets or evidence of faults")
    except BadDataError:
        return {}
    return value if isinstance(value, dict) else {}
