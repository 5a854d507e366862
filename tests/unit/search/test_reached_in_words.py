"""States that a search reached, in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report.words.reached import reached_in_words

STORED = Path(__file__).parents[1] / "cli" / "search.json"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("order 0-L", "a partition with no leader, then a smaller ISR, then another leader"),
        ("order l+", "a partition with a new epoch of the same leader, then a larger ISR"),
        ("order ", "a partition that never changed"),
        ("elections 0", "a partition without an election"),
        ("elections 3 and more", "elections of a partition: 3 and more"),
        ("ISR of 1, no leader", "an ISR of 1 without a leader"),
        ("ISR of 3, led", "an ISR of 3 with a leader"),
        ("fault power_cut hits leader controller", "power cut of the leader and the controller"),
        ("fault kill hits follower", "kill of a follower"),
        ("fault cut hits all leader controller", "cut of all brokers and the controller"),
        ("fault pause hits others", "pause of other hosts"),
        ("fault elect_preferred hits others", "elect preferred"),
        ("error -152 (info, acks -1)", "a message without a known outcome (error -152, acks=all)"),
        ("error 19 (fail, acks 1)", "a message refused (error 19, acks=1)"),
        ("transaction aborted, error 0", "a transaction aborted"),
        ("transaction committed, error 90", "a transaction committed with error 90"),
        ("share answer accept, error 0", "a share group's `accept` that was carried out"),
        ("share answer release, error 6", "a share group's `release` that ended with error 6"),
        ("share delivery 3", "delivery 3 of a record to a share group"),
        ("fate unknown_kept", "a message without a known outcome that was kept"),
        ("fate lost_after_read", "a message that was lost after read"),
        ("finding lost, acks-1-leader", "finding lost (acks-1-leader)"),
        ("log became_follower (broker)", "a broker that logged became follower"),
        ("two controllers lead at once", "two controllers lead at once"),
        ("something of another version", "something of another version"),
    ],
)
def test_a_state_in_words(name: str, words: str) -> None:
    assert reached_in_words(name) == words


def test_every_state_of_a_real_search_has_words() -> None:
    """All but the sentence that is one already."""
    reached = json.loads(STORED.read_text())["reached"]
    assert [name for name in reached if reached_in_words(name) == name] == ["two controllers lead at once"]
