"""Writes `docs/articles.md` from the sentences and the claims: `python -m scenarios.articles_page [--check]`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from run.scenario import Claim, Erratum, Scenario, speaks_of
from scenarios.articles import KINDS, Article, ArticleSentence, Catalogue, articles, claims_named, faults
from scenarios.catalogue import all_scenarios

FILE = Path(__file__).parent.parent / "docs" / "articles.md"
HOLDS, REFUTED, EITHER, DIFFERS, WAITS = "holds", "refuted", "either", "differs", "waits"
"""The outcome of a sentence that claims judge: the same in all scenarios, or not, or no scenario judges it yet."""
_HEADINGS = {
    HOLDS: "holds",
    REFUTED: "refuted",
    DIFFERS: "differs by scenario",
    EITHER: "either",
    WAITS: "waits for a scenario",
}
_INTRO = """\
# The articles, sentence by sentence

`python -m scenarios.articles_page` generates this page from `scenarios/sentences/` and the claims of the
scenarios. It lists every sentence of the five articles that states a behaviour: the article's own words, an English
translation, and the claims of the [catalogue](catalogue.md) that judge it, or the reason why none does. The outcome
is what a run must show. The articles count brokers from 0 and acked from 1, so their broker-0 is `broker1`.

*Refuted* means that Kafka does something else, which is in italics. *Differs by scenario* means that the
sentence holds in some scenarios and not in others. *Either* means that Kafka may do what the sentence says, or
something else in the same scenario, which is in italics; each run says which of the two it did.

## Counts
"""


def document() -> str:
    """The whole page as Markdown."""
    all_articles, catalogue = articles(), all_scenarios()
    parts = [_INTRO, *_counts(all_articles, catalogue)]
    for article in all_articles:
        parts.append(f"## Article {article.name}: {article.title}\n")
        parts.append(f"Not listed: {article.left_out}.\n")
        for section, title in article.sections.items():
            chosen = [sentence for sentence in article.sentences if sentence.section == section]
            parts.append(f"### {article.name} · {title}\n")
            parts += [*_table(chosen, catalogue), ""]
    return "\n".join(parts).rstrip() + "\n"


def outcome(sentence: ArticleSentence, catalogue: Catalogue) -> str:
    """The outcome of a sentence; empty if no claim judges it.

    If one claim leaves open whether it holds and the others hold, so does the sentence.
    """
    words = {word for word, _ in _judgements(sentence, catalogue)}
    if not words:
        return WAITS if sentence.planned else ""
    if words == {HOLDS, EITHER}:
        return EITHER
    return words.pop() if len(words) == 1 else DIFFERS


def _counts(all_articles: Sequence[Article], catalogue: Catalogue) -> Iterable[str]:
    yield f"| article | sentences | {' | '.join(_HEADINGS.values())} | not judged |"
    yield "|---|" + "---|" * (len(_HEADINGS) + 2)
    total: Counter[str] = Counter()
    for article in all_articles:
        outcomes = Counter(outcome(sentence, catalogue) for sentence in article.sentences)
        total += outcomes
        yield _count_row(article.name, outcomes)
    yield _count_row("all", total)
    yield "\nWhy sentences are not judged:\n"
    yield f"| reason | {' | '.join(article.name for article in all_articles)} |"
    yield "|---|" + "---|" * len(all_articles)
    for kind, meaning in KINDS.items():
        numbers = [sum(sentence.kind == kind for sentence in article.sentences) for article in all_articles]
        yield f"| *{kind}*: it {meaning} | {' | '.join(map(str, numbers))} |"
    waiting = sorted({name for article in all_articles for one in article.sentences for name in one.planned})
    if waiting:
        yield f"\nScenarios that sentences wait for: {', '.join(f'`{name}`' for name in waiting)}."
    yield ""


def _count_row(name: str, outcomes: Counter[str]) -> str:
    numbers = [outcomes.total(), *(outcomes[word] for word in _HEADINGS), outcomes[""]]
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def _table(sentences: Sequence[ArticleSentence], catalogue: Catalogue) -> Iterable[str]:
    yield "| | the article | in English | outcome | judged by |"
    yield "|---|---|---|---|---|"
    for sentence in sentences:
        cells = (
            sentence.id,
            sentence.quote,
            sentence.says or "(as it stands)",
            _HEADINGS.get(outcome(sentence, catalogue), "not judged"),
            "<br>".join(_lines(sentence, catalogue)),
        )
        yield f"| {' | '.join(map(_cell, cells))} |"


def _lines(sentence: ArticleSentence, catalogue: Catalogue) -> Iterable[str]:
    """The lines of the last column: one for each scenario and outcome, or the reason; then the note."""
    if sentence.not_judged:
        yield sentence.not_judged
    grouped: dict[tuple[str, str], list[str]] = {}
    for reference, (_, text) in zip(sentence.references, _judgements(sentence, catalogue), strict=True):
        scenario, _, claim = reference.partition(".")
        grouped.setdefault((scenario, text), []).append(claim)
    for (scenario, text), claims in grouped.items():
        yield f"[{scenario}](catalogue.md#{scenario}), {', '.join(claims)}: {text}"
    yield from (f"waits for `{name}`" for name in sentence.planned)
    if sentence.note:
        yield f"({sentence.note})"


def _judgements(sentence: ArticleSentence, catalogue: Catalogue) -> list[tuple[str, str]]:
    """For each claim that a sentence names, in that order: its outcome in a word, and in full."""
    judged = [_as_said(*_found(reference, catalogue)) for reference in sentence.claims]
    judged += [_instead(*_found(reference, catalogue)) for reference in sentence.instead]
    return judged + [_against(*_found(reference, catalogue)) for reference in sentence.against]


def _found(reference: str, catalogue: Catalogue) -> tuple[Scenario, Claim]:
    """The claim for the scenario's own Kafka version, or for another version if there is none."""
    scenario = catalogue[reference.partition(".")[0]]
    claims = claims_named(reference, catalogue)
    return scenario, next((claim for claim in claims if speaks_of(claim, scenario.kafka)), claims[0])


def _as_said(scenario: Scenario, claim: Claim) -> tuple[str, str]:
    if claim.precondition:
        return HOLDS, "checked beforehand"
    if claim.either:
        return EITHER, f"holds, or: *{claim.either.says}*"
    if claim.erratum and speaks_of(claim.erratum, scenario.kafka):
        return REFUTED, f"refuted{_versions(claim.erratum)}: *{claim.erratum.says}*"
    bounds = "" if speaks_of(claim, scenario.kafka) else _versions(claim)
    others = f"; Kafka{_versions(claim.erratum)}: *{claim.erratum.says}*" if claim.erratum else ""
    return HOLDS, f"holds{bounds}{others}"


def _instead(scenario: Scenario, claim: Claim) -> tuple[str, str]:
    assert claim.erratum is not None  # `scenarios.articles.faults` checks it
    return HOLDS, f"holds{_versions(claim.erratum)}: *{claim.erratum.says}*"


def _against(scenario: Scenario, claim: Claim) -> tuple[str, str]:
    if claim.either:
        return EITHER, f"refuted: *{claim.says}*; or: *{claim.either.says}*"
    return REFUTED, f"refuted: *{claim.says}*"


def _versions(entry: Claim | Erratum) -> str:
    since = f" from {entry.since} on" if entry.since else ""
    before = f" before {entry.before}" if entry.before else ""
    client = f" with {entry.client}" if entry.client else ""
    return since + before + client


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(argv: list[str]) -> int:
    """Write the page; with `--check`, only say whether it is up to date. Mismatches are listed first."""
    misfits = list(faults(articles(), all_scenarios()))
    if misfits:
        sys.stderr.write("".join(f"{line}\n" for line in misfits))
        return 1
    text = document()
    if argv == ["--check"]:
        if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{FILE} is out of date; run `python -m scenarios.articles_page`.\n")
            return 1
        return 0
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
