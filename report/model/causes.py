"""Why messages are lost, in plain sentences for readers who do not know the checker's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness.history.time_zero import in_seconds
from harness.kafka.model import broker_name
from report.model.chains import CAUSE_UNKNOWN, Chain, kind_of, leaders_of, most_held
from report.model.messages import LOST
from report.model.model import FindingGroup, counted, grouped
from report.model.other_findings import MOST
from report.words.causes import CauseFacts, cause_in_words
from report.words.lists import listed

_AFTER_HEAL = "zombie_after_heal"
_APART = ""
"""The kind of cause of a message that the leader lacks and a follower has; the checker names none."""


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
    counts: dict[tuple[str, tuple[int, ...]], int] = {}
    facts: dict[tuple[str, tuple[int, ...]], list[CauseFacts]] = {}
    for group in groups:
        kind = kind_of(group.cause_kind)
        if group.name in LOST and (kind or group.name == "diverged"):
            key = (kind, leaders_of(kind, group.cause_facts) or ())
            counts[key] = counts.get(key, 0) + group.count
            facts.setdefault(key, []).append(group.cause_facts)
    chosen = sorted(counts, key=lambda key: -counts[key])
    return [_sentence(key[0], facts[key], counts[key], asked) for key in chosen]


def _of_chains(chains: Sequence[Chain], asked: str) -> list[str]:
    """A text for each cause: about the partition that lost the most, and where else the same happened."""
    alike: dict[tuple[str, tuple[int, int] | None, bool], list[Chain]] = {}
    for one in chains:
        key = (one.kind, one.brokers, one.instead is not None)
        alike.setdefault(key, []).append(one)
    sentences = []
    for members in sorted(alike.values(), key=lambda same: -sum(one.count for one in same)):
        first, *others = sorted(members, key=lambda one: (-one.count, one.place))
        text = _chain(first, asked)
        if others:
            count = sum(other.count for other in others)
            where = (
                listed([other.place for other in others[:3]]) if len(others) <= 3 else f"{len(others)} others"
            )
            text += f" The same happened to {counted(count, 'message')} of {where}."
        sentences.append(f"{first.place}: {text}")
    return sentences


def _chain(one: Chain, asked: str) -> str:
    if one.instead is not None:
        return _apart_at(one)
    if one.kind == "unflushed_data_lost" and one.power:
        return _power_cut(one, asked)
    if one.brokers is not None:
        return _deposed(one, asked)
    if one.kind == "unclean_election" and one.acked_by:
        return _out_of_sync(one, one.facts[0]["broker"], asked)
    return _sentence(one.kind, one.facts, one.count, asked)


def _out_of_sync(one: Chain, new: int, asked: str) -> str:
    """Which broker acknowledged, and which was elected although it was not in sync."""
    old = listed([f"broker{number}" for number in one.acked_by])
    them = "it" if one.count == 1 else "them"
    return (
        f"{old} acknowledged {_which(one)}{_acknowledged(one, asked)}. broker{new}, which was not in sync, "
        f"became leader without {them} (an unclean leader election)."
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
        return f"{with_acks} at {in_seconds(begin)}"
    return f"{with_acks} from {in_seconds(begin)} to {in_seconds(end)}"


def _deposed(one: Chain, asked: str) -> str:
    """An old leader acknowledged, another replica was elected, and the old one followed it."""
    assert one.brokers is not None
    number = one.brokers[1]
    old, new = map(broker_name, one.brokers)
    them = "it" if one.count == 1 else "them"
    sentences = [f"{old} acknowledged {_which(one)}{_acknowledged(one, asked)}."]
    cut_s = one.power.get(number)
    if cut_s is not None:
        sentences.append(f"{new} had {them}, too, and lost {them} in the power cut at {in_seconds(cut_s)}.")
    if one.gone and one.kind != _AFTER_HEAL:
        sentences.append(f"{_capital(one.gone)}.")
    if one.elected_s is not None:
        after = one.acked_from_s is not None and one.acked_from_s > one.elected_s
        had = "had led" if after else "led"
        sentences.append(f"{new} {had} from {in_seconds(one.elected_s)}" + _lacked(one, number, them) + ".")
    elif cut_s is None:
        sentences.append(f"{new} led{_lacked(one, number, them)}.")
    if one.kind == _AFTER_HEAL:
        sentences.append(f"The fault was healed by then, but {old} still took itself for the leader.")
    if one.unaware and one.kind != _AFTER_HEAL:
        sentences.append(f"{_capital(one.unaware)}.")
    others = {broker: seen for broker, seen in one.held.items() if broker != number}
    truncating = {tuple(facts["truncated"]) for facts in one.facts if facts.get("truncated")}
    brokers = [broker_name(broker) for broker in truncating.pop()] if len(truncating) == 1 else [old]
    logs = "their logs" if len(brokers) > 1 else "its log"
    truncated = f"{listed(brokers)} truncated {logs} to follow {new}"
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
        at.setdefault(in_seconds(cut_s), []).append(f"broker{broker}")
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
                f"broker{broker} had {name}, too, and lost it in the power cut at "
                f"{in_seconds(one.power[broker])}."
            )
    return " ".join(sentences)


def _capital(text: str) -> str:
    return text if text.startswith("broker") else text[:1].upper() + text[1:]


def _sentence(kind: str, facts: Sequence[CauseFacts], count: int, asked: str) -> str:
    """What a cause did to a number of messages; ``facts`` are those of all of them, the first at least."""
    if kind == CAUSE_UNKNOWN:
        messages = counted(count, "message")
        return f"The history does not show why {messages} {'is' if count == 1 else 'are'} lost."
    make = _SENTENCES.get(kind)
    if make is None:
        return f"{counted(count, 'message')}: {cause_in_words(kind, facts[0])}."
    return make(facts, count, f" with {asked}" if asked else "")


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _rejoined(facts: Sequence[CauseFacts], count: int, asked: str) -> str:
    old, new = broker_name(facts[0]["broker"]), broker_name(facts[0]["leader"])
    elected = {fact["elected"] for fact in facts}
    when = (
        f"although {new} had been elected already" if elected == {"before"} else f"before {new} was elected"
    )
    if len(elected) > 1:
        when = f"before and after {new} was elected"
    them = _them(count)
    return (
        f"{old} acknowledged {counted(count, 'message')}{asked} {when}. {new} led without {them}, so {old} "
        f"removed {them} from its own log when it began to follow {new}."
    )


def _apart(_facts: Sequence[CauseFacts], count: int, _asked: str) -> str:
    verb = "is" if count == 1 else "are"
    return (
        f"{counted(count, 'message')} {verb} on a follower only: the leader's log has another record, or "
        f"none, at that offset."
    )


def _after_heal(facts: Sequence[CauseFacts], count: int, asked: str) -> str:
    old, new = broker_name(facts[0]["broker"]), broker_name(facts[0]["leader"])
    those = "this one was" if count == 1 else "these were"
    return (
        f"{old} acknowledged {counted(count, 'message')}{asked} even after the fault was healed, because it "
        f"had not yet learned that {new} led; {those} removed as well."
    )


def _not_flushed(facts: Sequence[CauseFacts], count: int, asked: str) -> str:
    kept = f",{asked}" if asked else ""
    them = _them(count)
    return (
        f"The fault “{facts[0]['fault_name']}” erased {counted(count, 'message')}{kept}: the brokers "
        f"acknowledged {them} as soon as they had {them} in memory, and had not flushed {them} to disk."
    )


def _unclean(facts: Sequence[CauseFacts], count: int, _asked: str) -> str:
    return (
        f"broker{facts[0]['broker']} became leader although it was not in sync (an unclean leader election): "
        f"{counted(count, 'message')} that had been acknowledged {_were(count)} not in its log."
    )


def _high_watermark(facts: Sequence[CauseFacts], count: int, _asked: str) -> str:
    return (
        f"broker{facts[0]['broker']} truncated its log to its own high watermark, which lagged behind, "
        f"instead of asking its leader up to which offset their logs agree; this removed "
        f"{counted(count, 'message')} that had been acknowledged."
    )


def _wiped(facts: Sequence[CauseFacts], count: int, _asked: str) -> str:
    return (
        f"broker{facts[0]['broker']}, the last replica in sync, lost its log and led again with an empty one"
        f": {counted(count, 'message')} that had been acknowledged {_were(count)} in it."
    )


_SENTENCES: dict[str, Callable[[Sequence[CauseFacts], int, str], str]] = {
    "deposed_leader": _rejoined,
    _AFTER_HEAL: _after_heal,
    "unflushed_data_lost": _not_flushed,
    "unclean_election": _unclean,
    "high_watermark_truncation": _high_watermark,
    "last_replica_wiped": _wiped,
    _APART: _apart,
}
"""By the kind of the cause: a sentence from its facts, the number of messages, and their acks."""
