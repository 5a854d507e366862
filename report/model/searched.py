"""What pages of a search and of a comparison of searches begin with.

Works on the documents that `search.json` and `compare.json` hold (`report.model.shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from report.model.model import Tone, counted
from report.model.opening import Opening, worst
from report.words.found import finding_in_words
from report.words.lists import listed

SearchDocument = Mapping[str, Any]
WEIGHT_TONES: Mapping[str, Tone] = {
    "new": "broken",
    "unknown": "undecided",
    "known": "cost",
    "not promised": "cost",
}
"""By the weight of a finding."""


def search_opening(document: SearchDocument) -> Opening:
    """What random schedules have found."""
    plan, groups = document["plan"], document["groups"]
    left = "".join(f", {count} {verdict}" for verdict, count in document["not_judged"].items())
    weights = {group["finding"]["weight"] for group in groups}
    return Opening(
        kind="search",
        tone=worst(
            [WEIGHT_TONES[weight] for weight in weights], none="kept" if document["judged"] else "void"
        ),
        word="findings" if groups else "no findings" if document["judged"] else "no result",
        answer=_headline(document),
        asked=f"Do random schedules of faults make Kafka {plan['version']}, {plan['mode']}, break a promise? "
        f"Seed {plan['seed']}.",
        sure=f"{counted(document['schedules'], 'schedule')}, {document['judged']} judged{left}. Each ran "
        f"once: `acked replay` says how often a finding comes back. "
        f"{counted(len(document['not_exercised']), 'promise')} not put to the test.",
        more=[
            ("findings", "#findings"),
            *([("schedules", "#schedules")] if groups else []),
            ("what was explored", "#explored"),
            ("as data", "search.json"),
        ],
    )


def _headline(document: SearchDocument) -> str:
    judged, groups = document["judged"], document["groups"]
    broken = sum(group["finding"]["promise"] == "broken" for group in groups)
    unexplained = sum(group["finding"]["weight"] == "new" for group in groups) - broken
    runs = f"{judged} random schedule{'' if judged == 1 else 's'} of faults"
    if not judged:
        return "No schedule was judged, so the search says nothing about Kafka."
    if broken:
        promises = "a promise" if broken == 1 else f"promises in {broken} ways"
        return f"In {runs}, Kafka broke {promises}."
    if unexplained > 0:
        kinds = "one kind of finding is" if unexplained == 1 else f"{unexplained} kinds of findings are"
        return f"In {runs}, Kafka broke no promise; {kinds} unexplained."
    return f"In {runs}, Kafka broke no promise."


def comparison_opening(document: SearchDocument) -> Opening:
    """What the same schedules show on each side, and whether the sides differ by more than chance."""
    sides, groups, plans = document["sides"], document["groups"], document["plans"]
    first = plans[sides[0]]
    judged, apart = document["judged"], [group for group in groups if group["apart"]]
    versions = list(dict.fromkeys(plan["version"] for plan in plans.values()))
    names = f"Kafka {listed(sides)}" if len(versions) > 1 else f"{listed(sides)} on Kafka {versions[0]}"
    return Opening(
        kind="comparison of searches",
        tone=worst([WEIGHT_TONES[group["weight"]] for group in groups], none="kept" if judged else "void"),
        word="no result" if not judged else "they differ" if apart else "no difference",
        answer=" ".join(_compared(document, apart)),
        asked=f"Do the same random schedules of faults show the same with {names}? "
        f"{first['mode']}, seed {first['seed']}.",
        sure=f"{counted(document['schedules'], 'schedule')} ran once with each, {judged} judged with all. "
        "Rates differ if their 95 % intervals do not meet; `acked replay` says how often one schedule shows "
        "a finding.",
        more=[
            ("findings", "#findings"),
            *([("schedules that differ", "#schedules")] if document["differences"] else []),
            *((f"the search with {side}", f"{at}/index.html") for at, side in enumerate(sides, start=1)),
            ("as data", "compare.json"),
        ],
    )


def _compared(document: SearchDocument, apart: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which sides broke promises, and the finding that tells them apart most."""
    sides, groups = document["sides"], document["groups"]
    if not document["judged"]:
        yield "No schedule was judged with all of them, so there is nothing to compare."
        return
    broke = [
        side
        for at, side in enumerate(sides)
        if any(group["promise"] == "broken" and group["sides"][at]["runs"] for group in groups)
    ]
    kept = [side for side in sides if side not in broke]
    if broke:
        rest = f", and none with {listed(kept)}" if kept else ""
        yield f"Kafka broke a promise with {listed(broke)}{rest}."
    else:
        yield f"Kafka broke no promise with {listed(sides)}."
    if apart:
        rates = (f"{rate['runs']} of {rate['of']} runs with {rate['side']}" for rate in apart[0]["sides"])
        others = f" {counted(len(apart) - 1, 'other kind')} of findings differ, too." if apart[1:] else ""
        yield f"They differ: “{finding_in_words(apart[0]['finding'])}” came in {listed(list(rates))}.{others}"
    elif groups:
        yield "No finding is more frequent with one than chance explains."
    else:
        yield "Nothing was found with any."
