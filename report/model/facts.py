"""Sentences about a run, made from its history and its stored judgement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.history.mechanisms import MECHANISMS
from harness.history.time_zero import in_seconds
from report.model.beliefs import ToSeconds, Zombie
from report.model.messages import LOST
from report.model.model import (
    NO_AZ,
    Availability,
    Claim,
    Fault,
    FindingGroup,
    PartitionStory,
    Promise,
    counted,
    grouped,
)
from report.words.faults import clause

WORTH_A_SENTENCE_S = 1.0
SHORT_S = 0.3
"""A fault that lasts at most this long is said to happen at one moment."""


def sentences(
    *,
    verdict: str,
    faults: Sequence[Fault],
    zombies: Iterable[tuple[str, Zombie]],
    fates: Mapping[str, int],
    groups: Sequence[FindingGroup],
    promises: Sequence[Promise],
    availability: Sequence[Availability],
    claims: Sequence[Claim],
    partitions: Sequence[PartitionStory],
    consequences: Mapping[int, str] | None = None,
    by_promises: bool = False,
    imported: bool = False,
    recorded: bool = False,
) -> tuple[str, ...]:
    """What happened, in the order in which a reader asks: faults, beliefs, losses, gaps, claims.

    If the run proves nothing, claims are left out. An ``imported`` history expects nothing. That it records
    no fault does not mean that there was none, and of a cluster that acked ``recorded`` only stated faults
    are known. ``consequences`` say, by the number of a fault, what it did to the lost messages.
    """
    void = verdict in ("invalid", "crashed")
    sentences: list[str] = []
    if faults or not (imported or recorded):
        sentences += _of_faults(faults, consequences or {})
    sentences += _of_zombies(list(zombies), partitions)
    sentences += _of_losses(fates, () if void or by_promises or imported else groups)
    sentences += _of_promises(promises)
    sentences += _of_gaps(availability)
    sentences += [] if void else _of_claims(claims)
    return tuple(sentences)


def lost_messages(fates: Mapping[str, int]) -> int:
    """How many acknowledged messages are lost."""
    return sum(fates.get(name, 0) for name in LOST)


_MOST_FAULTS = 5
"""At most this many faults get a sentence. The limit is high because often the last fault matters."""


def _of_faults(faults: Sequence[Fault], consequences: Mapping[int, str]) -> list[str]:
    if not faults:
        return ["No fault was injected."]
    doubtful = [fault for fault in faults if not fault.proven]
    proven = [fault for fault in faults if fault.proven and fault.kind != "operator"]
    chosen = [*doubtful, *proven][:_MOST_FAULTS] or list(faults)[:1]
    lines = [f"{fault_in_words(one)} {consequences.get(one.number, '')}".rstrip() for one in chosen]
    left = len([*doubtful, *proven]) - len(chosen)
    if left > 0:
        lines.append(f"{counted(left, 'further fault')} followed.")
    return lines


def fault_in_words(fault: Fault) -> str:
    """A sentence that says what a fault did and when."""
    if fault.stated:
        until = "" if fault.to_s is None else f", and its end at {in_seconds(fault.to_s)}"
        return f"Somebody stated “{fault.name}” at {in_seconds(fault.from_s)}{until}."
    if not fault.injected:
        return f"“{fault.name}” did not take effect at {in_seconds(fault.from_s)}."
    if not fault.proven:
        begun = f"“{fault.name}” was injected at {in_seconds(fault.from_s)}"
        return f"{begun}, and did not last until it was healed; its proof says why."
    times = f"at {in_seconds(fault.from_s)}"
    if fault.to_s is not None:
        times = f"from {in_seconds(fault.from_s)} to {in_seconds(fault.to_s)}"
    hit = {**fault.details, "hosts": fault.hosts, "partitions": fault.partitions, "links": fault.links}
    said = clause(fault.mechanism, hit)
    if not said:
        return f"“{fault.name}” {'happened' if fault.to_s is None else 'was in force'} {times}."
    mechanism = MECHANISMS.get(fault.mechanism)
    if fault.to_s is None or mechanism is None or not mechanism.starts_again:
        return f"{said} {times}."
    started = "were started" if len(fault.hosts) > 1 else "was started"
    late = fault.to_s - fault.from_s > SHORT_S
    back = f" and {started} again at {in_seconds(fault.to_s)}" if late else ""
    return f"{said} at {in_seconds(fault.from_s)}{back}."


def _of_zombies(zombies: Sequence[tuple[str, Zombie]], partitions: Sequence[PartitionStory]) -> list[str]:
    lines = []
    for role, one in sorted(zombies, key=lambda pair: pair[1].from_s - pair[1].to_s)[:2]:
        lasted = one.to_s - one.from_s
        what = "it was the active controller" if role == "controller" else f"it led {role}"
        flat = next((text for story in partitions if story.name == role and (text := _flat(story, one))), "")
        lines.append(
            f"{one.source} went on believing that {what} for {lasted:.1f} s "
            f"after {one.elected} had been elected{flat}."
        )
    return lines


def _flat(story: PartitionStory, zombie: Zombie) -> str:
    """A clause about a zombie's log that grew while its high watermark stood still; empty if it did not."""
    offsets = [one for one in story.offsets.get(zombie.node, ()) if one.s <= zombie.to_s]
    steps = [offset for offset in offsets if offset.s < zombie.to_s - SHORT_S]
    if not steps or steps[-1].high_watermark is None:
        return ""
    still = steps[-1].high_watermark
    for one in offsets[len(steps) :]:
        if one.high_watermark != still or (one.leo or 0) < (steps[-1].leo or 0):
            break
        steps.append(one)
    moved = [number for number, one in enumerate(steps) if one.high_watermark != still]
    begin = steps[moved[-1] + 1 if moved else 0]
    if (
        steps[-1].leo is None
        or begin.leo is None
        or steps[-1].leo <= begin.leo
        or steps[-1].s < zombie.from_s
    ):
        return ""
    return (
        f"; its log end offset grew to {steps[-1].leo} while its high watermark stood still at {still}, so "
        f"that nothing of this was committed"
    )


def said_by_meaning(fates: Mapping[str, int], groups: Sequence[FindingGroup]) -> str:
    """The sentence on losses, if it adds nothing to the meaning of the verdict: all are expected."""
    lost = [group for group in groups if group.name in LOST]
    said = _of_losses(fates, groups) if lost_messages(fates) and all(one.expected for one in lost) else []
    return said[0] if said and groups else ""


def _of_losses(fates: Mapping[str, int], groups: Sequence[FindingGroup]) -> list[str]:
    """Sentences on losses; without ``groups`` they do not say what the scenario expects."""
    total = sum(fates.values())
    if not total:
        return []
    lost = lost_messages(fates)
    kept = fates.get("kept", 0)
    if not lost:
        return [
            f"No acknowledged message was lost; {grouped(kept)} of {counted(total, 'message')} were kept."
        ]
    of = [group for group in groups if group.name in LOST]
    surprising = sum(one.count for one in of if not one.expected)
    ending = (
        f"; the scenario does not expect {'them' if surprising == lost else f'{surprising} of them'}"
        if surprising
        else ", as the scenario expects"
    )
    verb = "is" if lost == 1 else "are"
    return [f"{counted(lost, 'acknowledged message')} {verb} lost{ending if groups else ''}."]


def promises_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Promise, ...]:
    """What the judgement says about promises, with the findings of all classes together."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for row in rows:
        name, bug, why = (str(row.get(key) or "") for key in ("row", "known_bug", "why"))
        key = (str(row["promise"]), name, bug, why)
        counts[key] = counts.get(key, 0) + int(row["count"])
    return tuple(
        Promise(promise=promise, row=row, known_bug=bug, why=why, count=count)
        for (promise, row, bug, why), count in counts.items()
    )


def _of_promises(promises: Sequence[Promise]) -> list[str]:
    broken = [one for one in promises if one.promise == "broken"]
    if broken:
        number = sum(one.count for one in broken)
        bugs = list(dict.fromkeys(one.known_bug for one in broken if one.known_bug))
        cause = f" The cause is known: {', '.join(bugs)}." if bugs else ""
        verb = "breaks" if number == 1 else "break"
        why = broken[0].why.rstrip(".")
        return [f"{counted(number, 'finding')} {verb} a promise of Kafka, namely that {why}.{cause}"]
    free = [one for one in promises if one.promise == "not promised"]
    if not free:
        return []
    largest = max(free, key=lambda one: one.count)
    return [f"Kafka does not promise to prevent this ({largest.why.rstrip('.')})."]


def _of_gaps(availability: Sequence[Availability]) -> list[str]:
    gaps = [one for one in availability if one.longest_gap_s >= WORTH_A_SENTENCE_S]
    if not gaps:
        return []
    differ = len({one.acks for one in availability}) > 1
    gaps_text = ", ".join(
        " ".join(
            [
                *([] if gap.az == NO_AZ else [gap.az]),
                *([gap.acks] if differ and gap.acks else []),
                f"{gap.longest_gap_s:.1f} s",
            ]
        )
        for gap in gaps
    )
    return [f"Background producers were without an acknowledgement for at most: {gaps_text}."]


def _of_claims(claims: Sequence[Claim]) -> list[str]:
    real = [claim for claim in claims if not claim.precondition]
    if not real:
        return []
    good = sum(one.as_declared for one in real)
    errata = sum(one.as_declared and one.instead_kind == "erratum" for one in real)
    verb, noun = ("contradicts", "an erratum") if errata == 1 else ("contradict", "errata")
    errata_text = f"; {errata} of them {verb} the article ({noun})" if errata else ""
    return [f"{good} of {counted(len(real), 'claim')} came out as declared{errata_text}."]


_NUMBERED = re.compile(r"\b(?:broker|replica)-(\d+)\b")

_NOUNS = r"(?:broker|client|follower|high|leader|producer|topic|write)\b"
"""After these, `A` is the indefinite article."""


def names_in(text: str, aliases: Mapping[str, str]) -> dict[str, str]:
    """The hosts that an article's text names differently from acked; articles count from 0."""
    hosts = {match[0]: f"broker{int(match[1]) + 1}" for match in _NUMBERED.finditer(text)}
    for name, host in aliases.items():
        if re.search(rf"\b{re.escape(name)}\b(?! {_NOUNS})", text):
            hosts[name] = host
    return dict(sorted(hosts.items()))


def claim_of(
    stored: Mapping[str, Any],
    seconds: ToSeconds | None,
    aliases: Mapping[str, str],
    steps: Mapping[str, float] | None = None,
) -> Claim:
    """A claim of `judgement.json`; ``steps`` are the moments of the scenario's marks, in seconds.

    Without ``seconds``, the zero of the run's clock is not known, and the claim has no times.
    """
    erratum, either = stored.get("erratum"), stored.get("either")
    occurred = stored.get("occurred") or ""
    instead = erratum or (either if either and occurred == either["says"] else None) or {}
    evidence = stored.get("evidence") or {}
    begin, end = evidence.get("from_ns"), evidence.get("to_ns")
    counted_from = evidence.get("counts_from") or ()
    return Claim(
        name=stored["name"],
        says=stored["says"],
        quote=stored.get("quote") or "",
        section=stored["section"],
        status=stored["status"],
        as_declared=bool(stored["as_declared"]),
        observed=str(stored.get("observed") or ""),
        counts_from={name: s for name, s in (steps or {}).items() if name in counted_from},
        instead=instead.get("says", ""),
        because=instead.get("because", ""),
        instead_kind="erratum" if erratum else "either" if instead else "",
        precondition=bool(stored.get("precondition")),
        names=names_in(f"{stored['says']} {instead.get('says', '')} {instead.get('because', '')}", aliases),
        from_s=None if begin is None or seconds is None else seconds(begin),
        to_s=None if end is None or seconds is None else seconds(end),
        sources=tuple(evidence.get("sources") or ()),
        partitions=tuple(evidence.get("partitions") or ()),
        offsets=tuple(evidence.get("offsets") or ()),
        tables=tuple(evidence.get("tables") or ()),
    )
