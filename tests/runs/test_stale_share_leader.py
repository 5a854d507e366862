"""A record that was accepted, and that a deposed leader of the share partition hands out again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.shares.history import NOT_LEADER_OR_FOLLOWER
from harness.kafka.share_state import DONE
from tests.runs.stored import Tables, derive, read_stored, written

RUN = "share-leader-isolated"


def _accepts_lost(tables: Tables) -> list[dict[str, Any]]:
    with written(tables) as folder:
        rows = derive(folder).findings.to_pylist()
    return [row for row in rows if row["class"] == "accept_lost"]


def test_the_cause_is_the_leader_that_does_not_know() -> None:
    (row,) = _accepts_lost(read_stored(RUN).tables)
    assert row["cause"] == "stale_leader"
    assert any("broker1: broker1 leads in epoch 0" in text for text in row["evidence"])


def test_without_its_view_the_answer_to_the_member_explains_it() -> None:
    """The next leader refused what the member acknowledged; nothing else tells who handed it out."""
    tables = read_stored(RUN).tables
    views, shares = tables["views"], tables["shares"]
    others = pc.or_(pc.not_equal(views["source"], "broker1"), pc.is_null(views["epoch"]))
    without = {**tables, "views": views.filter(others)}
    (row,) = _accepts_lost(without)
    assert row["cause"] == "earlier_leader"
    refused = pc.fill_null(pc.equal(shares["error"], NOT_LEADER_OR_FOLLOWER), False)
    (row,) = _accepts_lost({**without, "shares": shares.filter(pc.invert(refused))})
    assert row["cause"] == "unexplained"


def test_an_accept_that_is_not_stored_is_not_excused() -> None:
    tables = read_stored(RUN).tables
    (known,) = _accepts_lost(tables)
    states = tables["share_states"]
    done = pc.is_in(states["state"], pa.array(sorted(DONE)))
    covers = pc.and_(
        pc.less_equal(states["first_offset"], known["offset"]),
        pc.greater_equal(states["last_offset"], known["offset"]),
    )
    kept = states.filter(pc.invert(pc.fill_null(pc.and_(done, covers), False)))
    kept = kept.filter(pc.less_equal(kept["start_offset"], known["offset"]))
    assert [row["cause"] for row in _accepts_lost({**tables, "share_states": kept})] == ["unexplained"]
