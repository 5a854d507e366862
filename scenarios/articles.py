"""The sentences of the articles that state a behaviour, and the claims that judge them.

`scenarios/sentences/NNN.toml` lists the sentences of article NNN in the article's order. Each entry has

* ``id``: article, section and number, as in `000-3.2-4`; the section's title stands under `[sections]`,
* ``quote``: the article's own words, and ``says``: the same in English (left out where the article is English),
* ``claims``: the claims that judge it, as `scenario.claim`,
* ``instead``: claims about another sentence that are refuted; this sentence says what Kafka does instead,
* ``against``: claims that hold and contradict this sentence,
* ``planned``: scenarios that will judge it and do not exist yet, and
* ``not_judged``: why no claim judges it, as `kind: reason` with a kind of `KINDS`.

A claim keeps the words that it judges in `Claim.quote`. They are an excerpt of a sentence that names the
claim: `faults` finds a claim that no sentence names, and a quotation that no sentence contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.texts import parse_toml
from run.scenario import Claim, Scenario, speaks_of

FOLDER = Path(__file__).parent / "sentences"
KINDS = {
    "definition": "names or defines something",
    "premise": "describes the situation that a scenario sets up",
    "internal": "is about what happens inside a broker, which nothing outside shows",
    "repeats": "says the same as other sentences of the article",
    "no case": "could be judged, but no scenario does",
    "opinion": "gives a reason or an opinion",
}
"""Kinds of reasons not to judge a sentence."""
CONTROL = "control"
"""The section of a claim that only shows that the harness works."""
BEYOND = ("beyond", "acked", CONTROL, "configuration matrix")
"""The beginning of a claim's section if the claim judges no sentence of an article."""
_KEYS = {"id", "quote", "says", "claims", "instead", "against", "planned", "not_judged", "note"}
_LISTS = ("claims", "instead", "against", "planned")


@dataclass(frozen=True, kw_only=True)
class ArticleSentence:
    """One sentence of an article; see the module for its fields."""

    id: str
    section: str
    quote: str
    says: str
    claims: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    not_judged: str = ""
    note: str = ""

    @property
    def references(self) -> tuple[str, ...]:
        """All claims that the sentence names."""
        return (*self.claims, *self.instead, *self.against)

    @property
    def kind(self) -> str:
        """The kind of the reason why it is not judged; empty if it is judged."""
        return self.not_judged.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article with its sentences. ``left_out`` says what else the article contains."""

    name: str
    title: str
    left_out: str
    sections: Mapping[str, str]
    sentences: tuple[ArticleSentence, ...]


Catalogue = Mapping[str, Scenario]
"""Scenarios by name."""


def articles() -> list[Article]:
    """All articles, read from `FOLDER`. Raises ValueError for an entry that is not of the form above."""
    return [read(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.toml"))]


def read(text: str) -> Article:
    """An article from its TOML text. Raises ValueError for an entry that is not of the form above."""
    data = parse_toml(text)
    name, sections = data["article"], data["sections"]
    return Article(
        name=name,
        title=data["title"],
        left_out=data["left_out"],
        sections=sections,
        sentences=tuple(_sentence(entry, name, sections) for entry in data["sentence"]),
    )


def _sentence(entry: dict[str, Any], article: str, sections: Mapping[str, str]) -> ArticleSentence:
    where = f"Sentence {entry.get('id')!r}"
    if unknown := sorted(set(entry) - _KEYS):
        raise ValueError(f"{where} has unknown keys: {', '.join(unknown)}.")
    if not entry.get("quote"):
        raise ValueError(f"{where} has no quote.")
    owner, _, rest = entry["id"].partition("-")
    section = rest.rpartition("-")[0]
    if owner != article or section not in sections:
        raise ValueError(f"{where} is of no section of article {article}.")
    lists = {key: tuple(entry.get(key, ())) for key in _LISTS}
    reason = entry.get("not_judged", "")
    if bool(reason) == any(lists.values()):
        raise ValueError(f"{where} needs either claims or a reason in not_judged.")
    if reason and (reason.partition(":")[0] not in KINDS or not reason.partition(":")[2].strip()):
        raise ValueError(
            f"{where} is not judged for {reason!r}; say 'kind: reason' with one of {list(KINDS)}."
        )
    return ArticleSentence(
        id=entry["id"],
        section=section,
        quote=entry["quote"],
        says=entry.get("says", ""),
        not_judged=reason,
        note=entry.get("note", ""),
        **lists,
    )


def claims_named(reference: str, catalogue: Catalogue) -> tuple[Claim, ...]:
    """The claims of that name (several if they are of different versions); none if there is no such claim."""
    scenario, _, name = reference.partition(".")
    claims = catalogue[scenario].claims if scenario in catalogue else ()
    return tuple(claim for claim in claims if claim.name == name)


def judges_a_sentence(claim: Claim) -> bool:
    """Whether a claim says that it judges a sentence of an article."""
    return not claim.section.startswith(BEYOND)


def faults(all_articles: Iterable[Article], catalogue: Catalogue) -> Iterator[str]:
    """Mismatches between the sentences and the scenarios, one line each."""
    sentences = [sentence for article in all_articles for sentence in article.sentences]
    named: dict[str, list[ArticleSentence]] = {}
    seen: set[str] = set()
    for sentence in sentences:
        if sentence.id in seen:
            yield f"two sentences have the id {sentence.id}"
        seen.add(sentence.id)
        for reference in sentence.references:
            named.setdefault(reference, []).append(sentence)
            if not claims_named(reference, catalogue):
                yield f"{sentence.id} names {reference}, which does not exist"
            if any(claim.section == CONTROL for claim in claims_named(reference, catalogue)):
                yield f"{sentence.id} names {reference}, which controls the harness and judges no sentence"
        for reference in sentence.instead:
            if not any(claim.erratum for claim in claims_named(reference, catalogue)):
                yield f"{sentence.id} names {reference} under 'instead', but it has no erratum"
        for reference in sentence.against:
            if any(_is_refuted(claim, reference, catalogue) for claim in claims_named(reference, catalogue)):
                yield f"{sentence.id} names {reference} under 'against', but it has an erratum, so it is refuted"
        for scenario in sentence.planned:
            if scenario in catalogue:
                yield f"{sentence.id} waits for {scenario}, which exists: name its claims"
    for owner in catalogue.values():
        for claim in owner.claims:
            reference = f"{owner.name}.{claim.name}"
            yield from _faults_of(claim, reference, named.get(reference, []))


def _is_refuted(claim: Claim, reference: str, catalogue: Catalogue) -> bool:
    """Whether its erratum applies to the Kafka version of its scenario."""
    version = catalogue[reference.partition(".")[0]].kafka
    return claim.erratum is not None and speaks_of(claim.erratum, version)


def _faults_of(claim: Claim, reference: str, sentences: list[ArticleSentence]) -> Iterator[str]:
    if claim.quote and not judges_a_sentence(claim):
        yield f"{reference} quotes an article, but its section is {claim.section!r}"
    if not judges_a_sentence(claim):
        return
    if not claim.quote:
        yield f"{reference} quotes no article; if there is no such sentence, begin its section with 'beyond'"
    elif not sentences:
        yield f"no sentence names {reference}, which quotes {claim.quote!r}"
    else:
        texts = [sentence.quote for sentence in sentences]
        for part in map(str.strip, claim.quote.split("…")):
            if not any(part in text for text in texts):
                yield f"{reference} quotes {part!r}, which no sentence that names it contains"
