"""The words of a page: causes with their counts, and captions in lines."""

from __future__ import annotations

import json

import pytest

from harness.kafka.model import PartitionState
from report.model.facts import causes_in_words, meaning, names_in
from report.model.faults import faults
from report.model.model import FindingGroup
from report.page.svg import wrapped


def group(cause: str, count: int) -> FindingGroup:
    return FindingGroup(name="lost", cause=cause, expected=True, count=count, promises={}, shown=())


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ((), ""),
        ((group("", 3),), ""),
        ((group("power cut", 3),), " Cause: power cut."),
        ((group("truncated: broker1 cut its log", 3),), " Cause: truncated. Broker1 cut its log."),
        (
            (group("b: x", 2), group("a: y", 4), group("b: z", 3)),
            " Cause: b (5), a (4). In the largest group, y.",
        ),
    ],
)
def test_causes_in_words(groups: tuple[FindingGroup, ...], words: str) -> None:
    """Several causes have counts, the most frequent one first; the largest group gives the example."""
    assert causes_in_words(groups) == words


def test_captions_are_wrapped_and_cut_at_the_last_line() -> None:
    assert wrapped("", 100) == [""]
    assert wrapped("what broker2 had not flushed is gone", 120) == [
        "what broker2 had",
        "not flushed is",
        "gone",
    ]
    lines = wrapped("one two three four five six seven eight nine ten", 80, most=2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")


@pytest.mark.parametrize(
    ("verdict", "fates", "counts", "said"),
    [
        ("as declared", {"kept": 9}, (), "and no acknowledged message was lost."),
        ("as declared", {"kept": 9, "duplicated": 2}, (2,), "2 other findings were expected."),
        ("as declared", {"lost": 2, "overwritten": 1}, (3,), "includes the loss of 3 acknowledged messages."),
        ("violated", {"lost": 2}, (2,), "that the scenario does not declare."),
        ("something else", {}, (), ""),
    ],
)
def test_a_verdict_says_what_it_means(
    verdict: str, fates: dict[str, int], counts: tuple[int, ...], said: str
) -> None:
    """An expected loss is named where the verdict stands, so that nobody takes it for no loss."""
    found = meaning(verdict, fates, [group("", count) for count in counts])
    assert found.endswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The old leader goes on.", {}),
        ("broker-0 follows replica-2.", {"broker-0": "broker1", "replica-2": "broker3"}),
        ("A has m2 and B has m3.", {"A": "broker1", "B": "controller3"}),
        ("A topic is asked for through B.", {"B": "controller3"}),
    ],
)
def test_names_of_the_article_are_explained(text: str, names: dict[str, str]) -> None:
    assert names_in(text, {"A": "broker1", "B": "controller3"}) == names


def test_states_of_an_operator_action_are_in_words() -> None:
    state = PartitionState(leader=1, leader_epoch=3, isr=(2, 1), replicas=None)
    none = PartitionState(leader=-1, leader_epoch=4, isr=(2,), replicas=(1, 2))
    rows = [
        {
            "fault": 1,
            "moment": "injected",
            "ns": 0,
            "kind": "operator",
            "name": "elect",
            "mechanism": "",
            "targets": "{}",
            "evidence": json.dumps({"seen": {"old/0": str(state), "new/0": str(none)}}),
        }
    ]
    ((proof,),) = [one.proofs for one in faults(rows, lambda ns: ns / 1e9)]
    assert proof.seen == ("old/0: leader broker1, epoch 3, ISR 2, 1, new/0: no leader, epoch 4, ISR 2")
