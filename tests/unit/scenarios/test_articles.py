"""The sentences of the articles and the claims that judge them fit together, and the page says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from run.scenario import Claim, Either, Erratum, Scenario
from scenarios import articles_page
from scenarios.articles import KINDS, Article, ArticleSentence, articles, faults, read
from scenarios.beyond.no_fault import SCENARIO as SOME_SCENARIO
from scenarios.catalogue import all_scenarios

HEAD = 'article = "000"\ntitle = "T"\nleft_out = "nothing"\n[sections]\n"1" = "One"\n'
ENTRY = '[[sentence]]\nid = "000-1-1"\nquote = "leader 不变"\nsays = "The leader stays."\n'
SENTENCE = ArticleSentence(
    id="000-1-1", section="1", quote="leader 不变", says="The leader stays.", claims=("case.stays",)
)
STAYS = Claim(name="stays", section="000 §1", quote="不变", says="It stays.", holds="SELECT")
MOVES = Erratum(says="It moves.", because="it does", holds="SELECT")
RACE = Either("It moves.", "a race", "SELECT")


def _article(*sentences: ArticleSentence) -> list[Article]:
    return [Article(name="000", title="T", left_out="nothing", sections={"1": "One"}, sentences=sentences)]


def _case(*claims: Claim) -> dict[str, Scenario]:
    return {"case": replace(SOME_SCENARIO, name="case", claims=claims)}


def test_sentences_and_claims_fit_together() -> None:
    """Every claim that quotes an article is named by a sentence that contains the quotation, and so on."""
    assert list(faults(articles(), all_scenarios())) == []


def test_the_page_is_up_to_date() -> None:
    """`docs/articles.md` agrees with the sentences and the claims."""
    wanted = articles_page.document()
    assert articles_page.FILE.read_text(encoding="utf-8") == wanted, "run `python -m scenarios.articles_page`"


def test_every_sentence_stands_on_the_page() -> None:
    """Each with its own words, and with an outcome or a reason."""
    page = articles_page.document()
    for article in articles():
        assert {sentence.section for sentence in article.sentences} == set(article.sections)
        for sentence in article.sentences:
            assert f"| {sentence.id} | {sentence.quote} |" in page
            assert articles_page.outcome(sentence, all_scenarios()) or sentence.not_judged


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ENTRY, "needs either claims or a reason"),
        (
            ENTRY + 'claims = ["a.b"]\nnot_judged = "opinion: of the author"\n',
            "needs either claims or a reason",
        ),
        (ENTRY + 'not_judged = "boring: indeed"\n', "one of"),
        (ENTRY + 'not_judged = "opinion"\n', "say 'kind: reason'"),
        (ENTRY.replace("000-1-1", "000-2-1") + 'claims = ["a.b"]\n', "of no section"),
        (ENTRY.replace("000-1-1", "001-1-1") + 'claims = ["a.b"]\n', "of no section"),
        (ENTRY + 'claim = ["a.b"]\n', "unknown keys: claim"),
        (ENTRY.replace("leader 不变", "") + 'claims = ["a.b"]\n', "no quote"),
    ],
)
def test_an_entry_of_another_form_is_refused(entry: str, said: str) -> None:
    """The message names the sentence and what is wrong."""
    with pytest.raises(ValueError, match=said):
        read(HEAD + entry)


def test_an_entry_is_read() -> None:
    """The section is part of the id."""
    article = read(HEAD + ENTRY + 'claims = ["case.stays"]\n')
    assert article.sentences == (SENTENCE,)
    reason = f"{next(iter(KINDS))}: of a leader"
    assert read(HEAD + ENTRY + f'not_judged = "{reason}"\n').sentences[0].kind == next(iter(KINDS))


def test_what_fits_has_no_faults() -> None:
    """The control of the faults below."""
    assert list(faults(_article(SENTENCE), _case(STAYS))) == []


@pytest.mark.parametrize(
    ("sentences", "claims", "said"),
    [
        ((SENTENCE, SENTENCE), (STAYS,), "two sentences have the id 000-1-1"),
        ((SENTENCE,), (), "names case.stays, which does not exist"),
        ((replace(SENTENCE, claims=(), planned=("soon",)),), (STAYS,), "no sentence names case.stays"),
        ((SENTENCE,), (replace(STAYS, quote="controller"),), "quotes 'controller', which no sentence"),
        ((SENTENCE,), (replace(STAYS, quote="不变…controller"),), "quotes 'controller', which no sentence"),
        ((SENTENCE,), (replace(STAYS, quote=""),), "begin its section with 'beyond'"),
        ((SENTENCE,), (replace(STAYS, section="beyond 000"),), "quotes an article, but its section"),
        ((SENTENCE,), (replace(STAYS, quote="", section="control"),), "which controls the harness"),
        ((replace(SENTENCE, planned=("case",)),), (STAYS,), "waits for case, which exists"),
        ((replace(SENTENCE, instead=("case.stays",)),), (STAYS,), "under 'instead', but it has no erratum"),
        (
            (replace(SENTENCE, against=("case.stays",)),),
            (replace(STAYS, erratum=MOVES),),
            "under 'against', but it has an erratum",
        ),
    ],
)
def test_what_does_not_fit_is_a_fault(
    sentences: tuple[ArticleSentence, ...], claims: tuple[Claim, ...], said: str
) -> None:
    """One line says which sentence or claim, and why."""
    found = list(faults(_article(*sentences), _case(*claims)))
    assert any(said in line for line in found), found


def test_a_claim_beyond_the_articles_needs_no_sentence() -> None:
    """Its section says so."""
    claim = replace(STAYS, name="other", quote="", section="beyond 000 §1")
    assert list(faults(_article(SENTENCE), _case(STAYS, claim))) == []


@pytest.mark.parametrize(
    ("sentence", "claim", "word"),
    [
        (SENTENCE, STAYS, articles_page.HOLDS),
        (SENTENCE, replace(STAYS, erratum=MOVES), articles_page.REFUTED),
        (SENTENCE, replace(STAYS, erratum=replace(MOVES, since="4.0.0")), articles_page.HOLDS),
        (SENTENCE, replace(STAYS, either=RACE), articles_page.EITHER),
        (
            replace(SENTENCE, claims=(), instead=("case.stays",)),
            replace(STAYS, erratum=MOVES),
            articles_page.HOLDS,
        ),
        (replace(SENTENCE, claims=(), against=("case.stays",)), STAYS, articles_page.REFUTED),
        (
            replace(SENTENCE, claims=(), against=("case.stays",)),
            replace(STAYS, either=RACE),
            articles_page.EITHER,
        ),
        (replace(SENTENCE, against=("case.stays",)), STAYS, articles_page.DIFFERS),
        (replace(SENTENCE, claims=(), planned=("soon",)), STAYS, articles_page.WAITS),
        (replace(SENTENCE, claims=(), not_judged="opinion: of the author"), STAYS, ""),
    ],
)
def test_the_outcome_of_a_sentence_is_that_of_its_claims(
    sentence: ArticleSentence, claim: Claim, word: str
) -> None:
    """A refuted claim refutes it, unless what Kafka does instead is what the sentence says."""
    assert articles_page.outcome(sentence, _case(claim)) == word


@pytest.mark.parametrize(
    ("beside", "word"),
    [
        (STAYS, articles_page.EITHER),
        (replace(STAYS, either=RACE), articles_page.EITHER),
        (replace(STAYS, erratum=MOVES), articles_page.DIFFERS),
    ],
)
def test_a_sentence_that_one_claim_leaves_open_is_not_one_that_differs_by_scenario(
    beside: Claim, word: str
) -> None:
    """Unless another claim refutes it."""
    sentence = replace(SENTENCE, claims=("case.stays", "case.beside"))
    catalogue = _case(replace(STAYS, either=RACE), replace(beside, name="beside"))
    assert articles_page.outcome(sentence, catalogue) == word


def test_some_sentences_are_left_open() -> None:
    """The declared races are counted in a column of their own."""
    catalogue = all_scenarios()
    words = [articles_page.outcome(sentence, catalogue) for one in articles() for sentence in one.sentences]
    assert articles_page.EITHER in words
