"""Operations of a Jepsen history, from events in order of time, and their text in EDN."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Op = dict[str, Any]


@dataclass
class Exported:
    """What was written, and what Jepsen's form has no words for."""

    operations: int = 0
    sends: int = 0
    polls: int = 0
    foreign: int = 0
    """Records that nobody sent: left out, since a Jepsen history has no value for them."""
    keys: dict[str, int] = field(default_factory=dict)
    """`topic/partition` by its integer key."""


class Processes:
    """Numbers for logical processes: each does one thing at a time, and one that learnt nothing is over."""

    def __init__(self) -> None:
        self._next = 0
        self._idle: dict[Any, list[int]] = {}
        self._busy: dict[Any, list[int]] = {}

    def begin(self, who: Any, what: Any) -> int:
        """An idle process of ``who`` (or a new one) begins ``what``."""
        idle = self._idle.setdefault(who, [])
        if idle:
            number = heapq.heappop(idle)
        else:
            number, self._next = self._next, self._next + 1
        self._busy.setdefault(what, []).append(number)
        return number

    def end(self, who: Any, what: Any, *, known: bool) -> int:
        """The process that began ``what``; it is idle again only if the outcome is ``known``."""
        begun = self._busy[what]
        number = begun.pop()
        if not begun:
            del self._busy[what]
        if known:
            heapq.heappush(self._idle[who], number)
        return number


def operations(events: Iterator[dict[str, Any]], done: Exported) -> Iterator[Op]:
    """Operations of a Jepsen history, from events in order of time; counts what it does in ``done``."""
    processes = Processes()
    origin: int | None = None
    for event in events:
        origin = event["ns"] if origin is None else origin
        what, who = event["what"], (event["what"] in ("sent", "done"), event["writer"])
        base: Op = {"time": event["ns"] - origin}
        message = (event["key"], event["value"])
        if what == "sent":
            done.sends += 1
            mop = ["send", *message]
            yield {
                "type": "invoke",
                "f": "send",
                "value": [mop],
                **base,
                "process": processes.begin(who, message),
            }
        elif what == "done":
            process = processes.end(who, message, known=event["type"] != "info")
            mop = (
                ["send", *message]
                if event["type"] == "fail"
                else ["send", event["key"], [event["offset"], event["value"]]]
            )
            op = {"type": event["type"], "f": "send", "value": [mop], **base, "process": process}
            yield op | ({"error": event["error"]} if event["type"] != "ok" and event["error"] else {})
        elif what == "assign":
            op = {"f": "assign", "value": sorted(done.keys.values()), "seek-to-beginning?": True, **base}
            process = processes.begin("final", what)
            yield from ({"type": kind, **op, "process": process} for kind in ("invoke", "ok"))
            processes.end("final", what, known=True)
        else:
            done.polls += 1
            owner = "final" if what == "final" else who
            process = processes.begin(owner, "poll")
            processes.end(owner, "poll", known=True)
            polled: dict[int, list[list[int]]] = {}
            for record in event["records"]:
                if record["value"] is None:
                    done.foreign += 1
                else:
                    polled.setdefault(record["key"], []).append([record["offset"], record["value"]])
            yield {"type": "invoke", "f": "poll", "value": [["poll"]], **base, "process": process}
            yield {"type": "ok", "f": "poll", "value": [["poll", polled]], **base, "process": process}


_WORDS = ("type", "f")


def edn(op: Op) -> str:
    """An operation as EDN: keywords for its fields, kinds and micro-operations."""
    parts = [f":{name} {f':{value}' if name in _WORDS else _edn(value)}" for name, value in op.items()]
    return "{" + ", ".join(parts) + "}"


def _edn(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f":{value}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_edn(key)} {_edn(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(_edn(item) for item in value) + "]"
    return str(value)
