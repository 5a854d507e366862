"""Why messages are lost, in plain sentences for somebody who does not know the checker's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from report.model.messages import LOST
from report.model.model import FindingGroup, grouped

MOST = 3
"""So many causes get a sentence."""
_REJOINED = re.compile(r"(broker\d+) acknowledged it(?: while|, then) (broker\d+)")
_ELECTED = re.compile(r"(broker\d+) became leader")
_TRUNCATED = re.compile(r"(broker\d+) truncated")
_FAULT = re.compile(r"`([^`]*)`")
_APART = "the replicas differ"
"""The cause of a message that the leader lacks and a follower has; the checker names none."""


def reasons(groups: Sequence[FindingGroup], acks: Iterable[int | None]) -> tuple[str, ...]:
    """A sentence for each cause of a loss, the most frequent first.

    ``acks`` are those of the producers whose messages are lost.
    """
    levels = set(acks)
    asked = (
        f"acks={ {-1: 'all'}.get(level, level) }"
        if len(levels) == 1 and (level := levels.pop()) is not None
        else ""
    )
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    details: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in groups:
        if one.name in LOST and one.cause:
            name, _, detail = one.cause.partition(": ")
            found = _REJOINED.search(detail)
            key = (name, found.groups() if found else ())
            counts[key] = counts.get(key, 0) + one.count
            details.setdefault(key, []).append(detail)
    apart = sum(one.count for one in groups if one.name == "diverged" and not one.cause)
    if apart:
        counts[_APART, ()], details[_APART, ()] = apart, [""]
    chosen = sorted(counts, key=lambda key: -counts[key])
    said = [_sentence(key[0], details[key], counts[key], asked) for key in chosen[:MOST]]
    if len(chosen) > MOST:
        said.append("The findings below name the other causes.")
    return tuple(said)


def _sentence(name: str, details: Sequence[str], count: int, asked: str) -> str:
    messages = f"{grouped(count)} message{'' if count == 1 else 's'}"
    if name == "not known":
        return f"The history does not show why {messages} {'is' if count == 1 else 'are'} lost."
    make = _SENTENCES.get(name)
    told = make(details, messages, asked) if make else ""
    return told or f"{messages}: {name}{f', {details[0]}' if details[0] else ''}."


def _them(messages: str) -> str:
    return "it" if messages.startswith("1 ") else "them"


def _rejoined(details: Sequence[str], messages: str, asked: str) -> str:
    found = _REJOINED.search(details[0])
    if not found:
        return ""
    old, new = found.groups()
    alone = f" with {asked}" if asked else ""
    later = {"acknowledged it while" in detail for detail in details}
    when = f"although {new} had been elected already" if later == {True} else f"before {new} was elected"
    if len(later) > 1:
        when = f"before and after {new} was elected"
    them = _them(messages)
    return (
        f"{old} acknowledged {messages}{alone} {when}. {new} did not have {them}, so {old} removed {them} "
        f"from its own log when it began to follow {new}."
    )


def _apart(_details: Sequence[str], messages: str, _asked: str) -> str:
    verb = "is" if messages.startswith("1 ") else "are"
    return (
        f"{messages} {verb} on a follower only: the leader's log has another record, or none, at that offset."
    )


def _after_heal(details: Sequence[str], messages: str, asked: str) -> str:
    found = re.search(r"(broker\d+) acknowledged it after .* while (broker\d+) led", details[0])
    if not found:
        return ""
    old, new = found.groups()
    alone = f" with {asked}" if asked else ""
    those = "this one was" if messages.startswith("1 ") else "these were"
    return (
        f"{old} acknowledged {messages}{alone} even after the fault was healed, because it had not yet "
        f"learned that {new} led; {those} removed as well."
    )


def _not_flushed(details: Sequence[str], messages: str, asked: str) -> str:
    fault = _FAULT.search(details[0])
    named = f"The fault “{fault[1]}”" if fault else "A power cut"
    kept = f", with {asked}" if asked else ""
    return (
        f"{named} erased {messages}{kept}: the brokers acknowledged {_them(messages)} as soon as they had "
        f"{_them(messages)} in memory, and had not flushed {_them(messages)} to disk."
    )


def _unclean(details: Sequence[str], messages: str, _asked: str) -> str:
    new = _ELECTED.search(details[0])
    if not new:
        return ""
    verb = "was" if messages.startswith("1 ") else "were"
    return (
        f"{new[1]} became leader although it was not in sync (an unclean leader election): {messages} that "
        f"had been acknowledged {verb} not in its log."
    )


def _high_watermark(details: Sequence[str], messages: str, _asked: str) -> str:
    cut = _TRUNCATED.search(details[0])
    if not cut:
        return ""
    return (
        f"{cut[1]} truncated its log to its own high watermark, which lagged behind, instead of asking its "
        f"leader up to which offset their logs agree; this removed {messages} that had been acknowledged."
    )


def _wiped(details: Sequence[str], messages: str, _asked: str) -> str:
    host = re.search(r"emptied (broker\d+)", details[0])
    if not host:
        return ""
    return (
        f"{host[1]}, the last replica in sync, lost its log and led again with an empty one: {messages} that "
        f"had been acknowledged {'was' if messages.startswith('1 ') else 'were'} in it."
    )


_SENTENCES: dict[str, Callable[[Sequence[str], str, str], str]] = {
    "old leader truncated on rejoin": _rejoined,
    "zombie accepted after heal": _after_heal,
    "un-fsynced data lost": _not_flushed,
    "unclean election": _unclean,
    "high-watermark truncation": _high_watermark,
    "last in-sync replica wiped": _wiped,
    _APART: _apart,
}
"""By the name of the cause: a sentence from its details, the number of messages, and their acks."""
