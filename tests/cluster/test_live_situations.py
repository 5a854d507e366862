"""What happens to a recording while it lasts never makes a verdict wrong, and is named in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.live_situations import COMPILER
from tests.cluster.test_recorded_faults import ALL_WRITER, carried_out

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a recording says in a situation."""

    verdict: str = "as declared"
    seen: frozenset[str] = frozenset()
    """What it has seen for certain."""
    alone: bool = True
    """It has seen nothing else."""
    reason: str = ""
    """Part of a reason for the verdict."""
    loses: bool = False
    """Messages with acks=1 are lost for certain."""
    unread: bool = False
    """The final logs could not be read, and the topic could not be removed."""


EXPECTED: Mapping[str, Expected] = {
    "quota-throttled": Expected(seen=frozenset({"throttled"})),
    "write-taken": Expected(seen=frozenset({"right-lost"})),
    "read-taken": Expected(seen=frozenset({"right-lost"})),
    "all-taken": Expected(seen=frozenset({"right-lost"})),
    "all-away-resumed": Expected(seen=frozenset({"interrupted"}), alone=False),
    "client-certificate-expires": Expected(
        verdict="unknown",
        seen=frozenset({"broker-silent"}),
        alone=False,
        reason="the final read of 3 partition(s) did not reach the end",
        unread=True,
    ),
    "every-right-gone": Expected(
        verdict="unknown",
        seen=frozenset({"right-lost"}),
        reason="the final read of 3 partition(s) did not reach the end",
        unread=True,
    ),
    "recording-killed": Expected(seen=frozenset({"interrupted", "broker-silent"}), alone=False, loses=True),
    "broker-disk-full": Expected(seen=frozenset({"broker-silent"}), alone=False),
    "clock-ahead": Expected(seen=frozenset({"leader-changed"}), alone=False, loses=True),
    "clock-behind": Expected(seen=frozenset({"leader-changed"}), alone=False, loses=True),
}


_WITH_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.mark.parametrize(
    ("kafka", "situations"),
    [
        ("4.3.1", "quota-throttled write-taken"),
        ("4.3.1", "read-taken all-taken"),
        ("4.3.1", "every-right-gone"),
        ("4.3.1", "all-away-resumed"),
        ("4.3.1", "recording-killed"),
        ("4.3.1", "client-certificate-expires"),
        ("4.3.1", "broker-disk-full"),
        pytest.param("4.3.1", "clock-ahead clock-behind", marks=_WITH_COMPILER),
    ],
)
def test_what_happens_meanwhile_is_named_and_judged_rightly(
    tmp_path: Path, kafka: str, situations: str
) -> None:
    names = situations.split()
    outcomes = list(carried_out("live_situations", tmp_path, kafka, *names))
    assert [one["fault"] for one in outcomes] == names
    for one in outcomes:
        check(one, EXPECTED[one["fault"]])


def check(one: Mapping[str, Any], expected: Expected) -> None:
    """What holds of every recording, and of one in this situation."""
    judgement = one["judgement"]
    assert judgement["verdict"] == expected.verdict, judgement["reasons"]
    assert any(expected.reason in reason for reason in judgement["reasons"] or ("",)), judgement["reasons"]
    assert one["only_by_findings"] == one["only_on_disk"] == [], one
    assert ALL_WRITER not in one["lost_by_writer"], one
    assert one["lost_on_disk"] or not expected.loses, one
    before, after = one["before"], one["after"]
    if expected.unread:
        assert len(after["topics"]) == len(before["topics"]) + 1
    else:
        assert one["different"] == one["dumped_different"] == 0, one
        assert one["records"] == one["dumped"] > 0, one
        assert before == after, one["fault"]
    seen = {event for event, count in judgement["seen"].items() if count}
    assert seen == expected.seen if expected.alone else seen >= expected.seen, seen
