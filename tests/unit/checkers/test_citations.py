"""What a claim cites: the window, the hosts, the partitions and the offsets that its query names."""

from __future__ import annotations

import pytest

from checkers.claims.builders import both, broker, messages, partition
from checkers.claims.citations import Citation, cite
from checkers.claims.evaluate import queries_of
from checkers.claims.moments import Moments
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
def test_a_query_cites_what_it_names(query: str, cited: dict[str, object]) -> None:
    found = cite([query], MOMENTS)
    assert {name: getattr(found, name) for name in cited} == cited


def test_nothing_asked_cites_nothing() -> None:
    assert cite([], MOMENTS) == Citation()


def test_most_claims_of_the_catalogue_cite_a_place() -> None:
    """A time, a host, a partition or a producer to look at."""
    claims = [claim for one in all_scenarios().values() for claim in one.declared()["claims"]]
    marks = {name: 1 for claim in claims for query in queries_of([claim]).values() for name in _marks(query)}
    vague = []
    for claim in claims:
        found = cite(queries_of([claim]).values(), Moments(marks=marks))
        if not (found.marks or found.sources or found.partitions or found.writers):
            vague.append(claim["name"])
    assert len(vague) < len(claims) / 20, vague


def _marks(query: str) -> tuple[str, ...]:
    return cite([query], Moments()).marks
