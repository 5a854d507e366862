"""What a run says about Kafka and the reader's producers, for readers who wrote none of its claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.partition.fate import LOSSES
from checkers.verdict import NOT_JUDGED, VERDICTS
from report.model.model import Tone, acks_in_words, grouped
from report.words.lists import listed

_BEHAVED = "Kafka behaved as documented."
_DECLARED = "Everything happened as the scenario declares."
"""Where the promises were not judged."""
_NOT_DECLARED = "Kafka broke no promise, but did not do what the scenario declares."
_UNDECIDED = "The history does not decide whether Kafka behaved as documented."
_VOID = {
    "crashed": "The run ended early, so it says nothing about Kafka.",
    "invalid": "A precondition does not hold or a fault had no effect, so the run says nothing about Kafka.",
    "unfit": "This machine cannot carry out the run, so it says nothing about Kafka.",
}


@dataclass(frozen=True)
class Headline:
    """One or two sentences, and how bad it is for the reader."""

    tone: Tone
    text: str


@dataclass
class _Writes:
    acknowledged: int = 0
    lost: int = 0


def headline(judgement: Mapping[str, Any], *, imported: bool = False) -> Headline:
    """The headline of a judgement (`judgement.json`).

    Where the run has a ``described`` producer, its losses alone decide between *kept* and *cost*; the
    others are there for comparison.
    """
    verdict = str(judgement.get("verdict") or "")
    if verdict in NOT_JUDGED:
        return Headline("void", _VOID[verdict])
    if verdict not in VERDICTS:
        return Headline("undecided", "")
    described = str(judgement.get("described") or "")
    writes = dict(_by_setting(judgement.get("fates_by_writer") or (), described))
    losses = "; ".join(_losses(writes))
    tone, behaviour = _behaviour(verdict, judgement.get("promises") or (), imported)
    if tone == "kept" and judgement.get("findings_by_class") and not judgement.get("promises"):
        tone, behaviour = "cost", _DECLARED
    if tone == "kept" and any(one.lost for (own, _), one in writes.items() if own or not described):
        tone = "cost"
    return Headline(tone, f"{behaviour} W{losses[1:]}." if losses else behaviour)


def _behaviour(verdict: str, promises: Sequence[Mapping[str, Any]], imported: bool) -> tuple[Tone, str]:
    broken = [row for row in promises if row.get("promise") == "broken"]
    if broken:
        bugs = sorted({str(row["known_bug"]) for row in broken if row.get("known_bug")})
        every = bugs and all(row.get("known_bug") for row in broken)
        return "broken", f"Kafka broke a promise{f' ({listed(bugs)})' if every else ''}."
    if verdict == "unknown" or any(row.get("promise") == "unknown" for row in promises):
        return "undecided", _UNDECIDED
    if verdict == "violated":
        return "undecided", _UNDECIDED if imported else _NOT_DECLARED
    return "kept", _BEHAVED


def _by_setting(
    rows: Iterable[Mapping[str, Any]], described: str
) -> Iterator[tuple[tuple[bool, int | None], _Writes]]:
    """Acknowledged writes by whether they are the described producer's, and by acks; its own come first."""
    writes: dict[tuple[bool, int | None], _Writes] = {}
    for row in rows:
        if row.get("outcome") != "ok":
            continue
        own = bool(described) and str(row.get("writer_name") or "").endswith(described)
        one = writes.setdefault((own, row.get("acks")), _Writes())
        one.acknowledged += row["count"]
        one.lost += row["count"] if row["fate"] in LOSSES else 0
    order = sorted(writes, key=lambda key: (not key[0], -writes[key].lost, key[1] is None, key[1] or 0))
    yield from ((key, writes[key]) for key in order)


def _losses(writes: Mapping[tuple[bool, int | None], _Writes]) -> Iterator[str]:
    """A clause for each setting; only the first says what is counted."""
    for number, ((own, acks), one) in enumerate(writes.items()):
        setting = "where acks is not known" if acks is None else f"with acks={acks_in_words(acks)}"
        whose = f"{setting}{' (your setting)' if own else ''}"
        lost = f"{grouped(one.lost) if one.lost else 'none'} of {grouped(one.acknowledged)}"
        were = "was" if one.lost <= 1 else "were"
        yield f"{whose}, {lost}" if number else f"{whose}, {lost} acknowledged writes {were} lost"
