"""Truncation below the high watermark, written down by hand: the whole chain from record to story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.judge import judge_import
from tests.histories import History

pytestmark = pytest.mark.spark

PLACE = {"topic": "t", "partition": 0}


def below_the_high_watermark() -> History:
    """Two replicas in sync had message 2; the high watermark had passed it, and a reader was handed it.

    The follower had fetched it and not yet heard of the high watermark: restarted, it truncated to its own,
    and was elected before it could fetch again. The old leader then truncated to what the new one has.
    """
    history = History()
    for seq in range(3):
        history.send(seq, offset=seq, broker=1)
    history.read(2, 2, 2600)
    for broker in (1, 2):
        seen = {"writer": 1, "seq": 2, "broker": broker, "offset": 2, "epoch": 0, "seen_ns": 2400 + broker}
        history.add("sightings", gone_ns=3000 if broker == 2 else 5000, **seen, **PLACE)
    cut = {"host": "broker2", "kind": "truncated_to_hw", "offset": 2, "epoch": 0}
    history.add("log_events", ns=3000, **cut, **PLACE)
    for ns, leader, epoch, isr in ((1, 1, 0, [1, 2]), (4000, 2, 1, [2])):
        said = {"source": f"broker{leader}", "leader": leader, "epoch": epoch, "isr": isr}
        history.add("views", ns=ns, subject="partition", **said, **PLACE)
    rejoined = {"host": "broker1", "kind": "truncated_to_hw", "offset": 2, "epoch": 0}
    history.add("log_events", ns=5000, **rejoined, **PLACE)
    history.add("writers", writer=1, name="one", acks=-1, idempotent=False)
    history.log(1, [(0, 0), (1, 1)])
    history.log(2, [(0, 0), (1, 1)])
    for broker in (1, 2):
        history.replica(broker, leader=broker == 2, leo=2, log_start=0, in_sync=True)
    return history


def test_what_lies_below_the_high_watermark_is_lost_and_the_truncation_named(
    spark: Any, tmp_path: Path
) -> None:
    judgement = judge_import(spark, below_the_high_watermark().write(tmp_path))
    assert judgement.fates == {"kept": 2, "lost_after_read": 1}
    (finding,) = judgement.findings
    assert (finding["class"], finding["offset"], finding["seq"]) == ("lost_after_read", 2, 2)
    assert finding["cause"] == "high_watermark_truncation"
    assert json.loads(finding["cause_facts"]) == {"broker": 1, "offset": 2}


def test_nothing_below_it_was_taken_where_the_follower_had_heard_of_it(spark: Any, tmp_path: Path) -> None:
    """The same history, in which both logs end behind message 2: the truncations took nothing."""
    history = below_the_high_watermark()
    for broker in (1, 2):
        history.log(broker, [(2, 2)])
    for row in history.rows["replicas"]:
        row["leo"] = 3
    judgement = judge_import(spark, history.write(tmp_path))
    assert (judgement.fates, judgement.findings) == ({"kept": 3}, ())
