"""Why messages are lost, in plain sentences for readers who do not know the checker's terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from report.model.chains import AFTER_HEAL, REJOINED, Chain, most_held
from report.model.messages import LOST
from report.model.model import FindingGroup, counted, grouped, listed
from report.model.other_findings import MOST

_ELECTED = re.compile(r"(broker\d+) became leader")
_TRUNCATED = re.compile(r"(broker\d+) truncated")
_CUT = re.compile(r"; ((?:broker\d+(?:, )?)+) truncated (?:its log|their logs) to offset (\d+)")
_FAULT = re.compile(r"`([^`]*)`")
_APART = "the replicas differ"
"""The cause of a message that the leader lacks and a follower has; the checker names none."""


def reasons(
    groups: Sequence[FindingGroup], acks: Iterable[int | None], chains: Sequence[Chain] = ()
) -> tuple[str, ...]:
    """What happened to the messages of each cause of a loss, the most frequent first.

    ``acks`` are those of the producers whose messages are lost. ``chains`` tell what the history shows of
    each partition; without them the sentences say only what the causes say.
    """
    levels = set(acks)
    asked = (
        f"acks={ {-1: 'all'}.get(level, level) }"
        if len(levels) == 1 and (level := levels.pop()) is not None
        else ""
    )
    sentences = _of_chains(chains, asked) if chains else _of_causes(groups, asked)
    if len(sentences) > MOST:
        return (*sentences[:MOST], "The findings below name the other causes.")
    return tuple(sentences)


def _of_causes(groups: Sequence[FindingGroup], asked: str) -> list[str]:
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    details: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in groups:
        if one.name in LOST and one.cause:
            name, _, detail = one.cause.partition(": ")
            found = REJOINED.search(detail)
            key = (name, found.groups() if found else ())
            counts[key] = counts.get(key, 0) + one.count
            details.setdefault(key, []).append(detail)
    apart = sum(one.count for one in groups if one.name == "diverged" and not one.cause)
    if apart:
        counts[_APART, ()], details[_APART, ()] = apart, [""]
    chosen = sorted(counts, key=lambda key: -counts[key])
    return [_sentence(key[0], details[key], counts[key], asked) for key in chosen]


def _of_chains(chains: Sequence[Chain], asked: str) -> list[str]:
    """A text for each cause: about the partition that lost the most, and where else the same happened."""
    alike: dict[tuple[str, tuple[str, str] | None, bool], list[Chain]] = {}
    for one in chains:
        key = (one.name, one.brokers, one.instead is not None)
        alike.setdefault(key, []).append(one)
    sentences = []
    for members in sorted(alike.values(), key=lambda found: -sum(one.count for one in found)):
        first, *others = sorted(members, key=lambda one: (-one.count, one.place))
        text = _chain(first, asked)
        if others:
            count = sum(one.count for one in others)
            where = listed([one.place for one in others[:3]]) if len(others) <= 3 else f"{len(others)} others"
            text += f" The same happened to {counted(count, 'message')} of {where}."
        sentences.append(f"{first.place}: {text}")
    return sentences


def _chain(one: Chain, asked: str) -> str:
    if one.instead is not None:
        return _apart_at(one)
    if one.name == "un-fsynced data lost" and one.power:
        return _power_cut(one, asked)
    if one.brokers is not None:
        return _deposed(one, asked)
    new = _ELECTED.search(one.details[0]) if one.name == "unclean election" else None
    if new and one.acked_by:
        return _out_of_sync(one, new[1], asked)
    return _sentence(one.name or _APART, one.details, one.count, asked)


def _out_of_sync(one: Chain, new: str, asked: str) -> str:
    """Which broker acknowledged, and which was elected although it was not in sync."""
    old = listed([f"broker{number}" for number in one.acked_by])
    them = "it" if one.count == 1 else "them"
    return (
        f"{old} acknowledged {_which(one)}{_acknowledged(one, asked)}. {new}, which was not in sync, became "
        f"leader without {them} (an unclean leader election)."
    )


def _which(one: Chain) -> str:
    if not one.labels:
        return counted(one.count, "message")
    bare = all("/" in label for label in one.labels)
    noun = f"message{'' if one.count == 1 else 's'} " if bare else ""
    return f"{noun}{listed(one.labels)}"


def _acknowledged(one: Chain, asked: str) -> str:
    """When messages were acknowledged, and with which acks."""
    begin, end = one.acked_from_s, one.acked_to_s
    with_acks = f" with {asked}" if asked else ""
    if begin is None:
        return with_acks
    if end is None or f"{begin:.1f}" == f"{end:.1f}":
        return f"{with_acks} at {begin:.1f} s"
    return f"{with_acks} from {begin:.1f} s to {end:.1f} s"


def _deposed(one: Chain, asked: str) -> str:
    """An old leader acknowledged, another replica was elected, and the old one followed it."""
    assert one.brokers is not None
    old, new = one.brokers
    them = "it" if one.count == 1 else "them"
    sentences = [f"{old} acknowledged {_which(one)}{_acknowledged(one, asked)}."]
    number = int(new.removeprefix("broker"))
    cut_s = one.power.get(number)
    if cut_s is not None:
        sentences.append(f"{new} had {them}, too, and lost {them} in the power cut at {cut_s:.1f} s.")
    if one.gone and one.name != "zombie accepted after heal":
        sentences.append(f"{_capital(one.gone)}.")
    if one.elected_s is not None:
        after = one.acked_from_s is not None and one.acked_from_s > one.elected_s
        had = "had led" if after else "led"
        sentences.append(f"{new} {had} from {one.elected_s:.1f} s" + _lacked(one, number, them) + ".")
    elif cut_s is None:
        sentences.append(f"{new} led{_lacked(one, number, them)}.")
    if one.name == "zombie accepted after heal":
        sentences.append(f"The fault was healed by then, but {old} still took itself for the leader.")
    if one.unaware and one.name != "zombie accepted after heal":
        sentences.append(f"{_capital(one.unaware)}.")
    others = {broker: seen for broker, seen in one.held.items() if broker != number}
    cuts = {found[1] for detail in one.details if (found := _CUT.search(detail))}
    who = listed(sorted(cuts)[0].split(", ")) if len(cuts) == 1 else old
    truncated = f"{who} truncated {'their logs' if ' and ' in who else 'its log'} to follow {new}"
    single = one.count == 1 and len(others) == 1
    if others:
        copies = f"{'copy' if single else 'copies'} on {most_held(others, one.count)}"
        sentences.append(f"The {copies} {'was' if single else 'were'} removed when {truncated}.")
    else:
        sentences.append(f"{truncated}, which removed {them}.")
    return " ".join(sentences)


def _lacked(one: Chain, number: int, them: str) -> str:
    if number in one.power:
        return ""
    seen = one.held.get(number, 0)
    if not seen:
        return f" without {them}"
    some = f"{grouped(seen)} of " if seen < one.count else ""
    return f"; it had held {some}{them} only for a time"


def _power_cut(one: Chain, asked: str) -> str:
    they = "it" if one.count == 1 else "they"
    at: dict[str, list[str]] = {}
    for broker, cut_s in sorted(one.power.items()):
        at.setdefault(f"{cut_s:.1f} s", []).append(f"broker{broker}")
    who = "; ".join(f"{listed(brokers)} lost power at {when}" for when, brokers in at.items())
    by = listed([f"broker{broker}" for broker in one.acked_by]) or "the leader"
    verb = "was" if one.count == 1 else "were"
    held = most_held(one.held, one.count)
    seen = f" {'It' if one.count == 1 else 'They'} {verb} seen on {held}." if held else ""
    return (
        f"{by} acknowledged {_which(one)}{_acknowledged(one, asked)}.{seen} {who}, before {they} {verb} "
        f"flushed to disk, so no copy is left."
    )


def _apart_at(one: Chain) -> str:
    """A message that replicas differ about: a follower has another record there, or its log ends earlier."""
    assert one.instead is not None
    (label,) = one.labels or (counted(1, "message"),)
    holders = [f"broker{broker}" for broker, name in one.instead.items() if name == label]
    sentences = []
    by = listed([f"broker{broker}" for broker in one.acked_by])
    if by:
        sentences.append(f"{by} acknowledged {label}{_acknowledged(one, '')}.")
    where = f"offset {one.offset}"
    leads = one.instead.get(one.leader) if one.leader is not None else None
    if leads and leads != label and holders:
        sentences.append(
            f"At the end only {listed(holders)} has it, at {where}; "
            f"broker{one.leader}, which leads, has {leads} there, so readers get {leads} instead."
        )
    elif leads == label:
        sentences.append(f"The leader has it, at {where}; the log of another in-sync replica ended earlier.")
    elif holders:
        sentences.append(f"At the end only {listed(holders)} has it, at {where}; the leader does not.")
    for broker, name in (one.also or {}).items():
        if name != label:
            sentences.append(
                f"broker{broker} had {name}, too, and lost it in the power cut at {one.power[broker]:.1f} s."
            )
    return " ".join(sentences)


def _capital(text: str) -> str:
    return text if text.startswith("broker") else text[:1].upper() + text[1:]


def _sentence(name: str, details: Sequence[str], count: int, asked: str) -> str:
    messages = counted(count, "message")
    if name == "not known":
        return f"The history does not show why {messages} {'is' if count == 1 else 'are'} lost."
    make = _SENTENCES.get(name)
    sentence = make(details, messages, asked) if make else ""
    return sentence or f"{messages}: {name}{f', {details[0]}' if details[0] else ''}."


def _them(messages: str) -> str:
    return "it" if messages.startswith("1 ") else "them"


def _rejoined(details: Sequence[str], messages: str, asked: str) -> str:
    found = REJOINED.search(details[0])
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
        f"{old} acknowledged {messages}{alone} {when}. {new} led without {them}, so {old} removed {them} "
        f"from its own log when it began to follow {new}."
    )


def _apart(_details: Sequence[str], messages: str, _asked: str) -> str:
    verb = "is" if messages.startswith("1 ") else "are"
    return (
        f"{messages} {verb} on a follower only: the leader's log has another record, or none, at that offset."
    )


def _after_heal(details: Sequence[str], messages: str, asked: str) -> str:
    found = AFTER_HEAL.search(details[0])
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
