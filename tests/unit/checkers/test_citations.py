"""What a claim cites: the window, the hosts, the partitions and the offsets that its builder states."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from checkers.claims.builders import about, both, broker, messages, opposite, partition
from checkers.claims.citations import Citation, cite, subject_of_claim
from checkers.claims.moments import Moments
from checkers.claims.subject import NO_SUBJECT, subject_of
from run.scenario import Claim
from scenarios.catalogue import all_scenarios

T = partition("t")
MOMENTS = Moments(marks={"seeded": 10, "cut": 20, "split": 30, "healed": 40})


@pytest.mark.parametrize(
    ("query", "cited"),
    [
        (
            T.is_led_by(2, at="split"),
            {"to_ns": 30, "marks": ("split",), "partitions": ("t/0",), "tables": ("views",)},
        ),
        (
            T.stays(since="seeded", until="split"),
            {"from_ns": 10, "to_ns": 30, "partitions": ("t/0",)},
        ),
        (T.becomes(leader=2, after="cut", within_s=8), {"from_ns": 20, "to_ns": 20 + 8_000_000_000}),
        (
            broker(1).believes(T, leader=1, at="split"),
            {"to_ns": 30, "sources": ("broker1",), "partitions": ("t/0",)},
        ),
        (
            broker(1).never_logged("isr_updated", of=T, after="cut", before="split"),
            {"from_ns": 20, "to_ns": 30, "sources": ("broker1",), "tables": ("log_events",)},
        ),
        (
            broker(1).truncated(T, to=2, after="cut"),
            {"from_ns": 20, "sources": ("broker1",), "offsets": (2,)},
        ),
        (T.consumers_see_nothing_from(2, since="cut", until="split"), {"from_ns": 20, "offsets": (2,)}),
        (
            messages(("az1-a", "az2-b"), after="cut", before="healed").acknowledged(),
            {"from_ns": 20, "to_ns": 40, "writers": ("az1-a", "az2-b"), "tables": ("sends",)},
        ),
        (
            both(messages("az1-a", after="split").kept(), broker(3).logged("resigned", before="healed")),
            {"from_ns": 30, "to_ns": 40, "writers": ("az1-a",), "sources": ("broker3",)},
        ),
        (messages("az1-a").not_seen_on(2, until="split"), {"offsets": (), "sources": ("broker2",)}),
        ("SELECT true AS holds, 'x' AS observed", {"from_ns": None, "to_ns": None, "tables": ()}),
        (T.is_led_by(2, at="never"), {"to_ns": None, "marks": ("never",)}),
    ],
)
def test_a_sentence_cites_what_it_is_about(query: str, cited: dict[str, object]) -> None:
    citation = cite(subject_of(query), MOMENTS)
    assert {name: getattr(citation, name) for name in cited} == cited


def test_nothing_asked_cites_nothing() -> None:
    assert cite(NO_SUBJECT, MOMENTS) == Citation()


def test_most_claims_of_the_catalogue_cite_a_place() -> None:
    """A time, a host, a partition or a producer to look at."""
    claims = [claim for one in all_scenarios().values() for claim in one.declared()["claims"]]
    subjects = {claim["name"]: subject_of_claim(claim) for claim in claims}
    vague = [
        name
        for name, one in subjects.items()
        if not (one.since or one.until or one.hosts or one.partitions or one.writers)
    ]
    assert len(vague) < len(claims) / 20, vague
    assert [name for name, one in subjects.items() if not one.tables] == []


def test_a_query_of_ones_own_says_what_it_is_about() -> None:
    query = "SELECT true AS holds, 'x' AS observed"
    of = subject_of(about(query, T, broker(2), since="cut", until="split", tables=("views",)))
    citation = cite(of, MOMENTS)
    assert (citation.from_ns, citation.to_ns, citation.partitions) == (20, 30, ("t/0",))
    assert (citation.sources, citation.tables) == (("broker2",), ("views",))


def test_what_a_sentence_is_about_is_kept_when_claims_are_stored() -> None:
    """`claims.json` has it beside the SQL, for each query of the claim."""
    claim = Claim(
        name="c", says="", holds=opposite(T.has_epoch(1, at="cut")), given=broker(3).resigned(after="a")
    )
    scenario = replace(next(iter(all_scenarios().values())), claims=(claim,), expected=())
    (stored,) = json.loads(json.dumps(scenario.declared()))["claims"]
    assert subject_of_claim(stored).partitions == ("t/0",)
    assert subject_of_claim(stored).hosts == ("broker3",)
    assert stored["holds"] == claim.holds
