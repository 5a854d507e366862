"""What a host can do, by what it says of itself."""

from __future__ import annotations

import json

import pytest

from harness.errors import LabError
from harness.lab.model import Host
from nemesis.attached.abilities import _why_no_throttle

ABLE = {
    **{"restore": "0", "setsid": "yes", "python": "python3", "classify": "0"},
    **{"routes": "10.0.1.12 dev eth0 src 10.0.1.11 uid 0", "disciplines": ""},
}


def disciplines(*entries: tuple[str, str, str]) -> str:
    """What `tc -j qdisc show` tells, of interface, kind and handle."""
    return json.dumps([{"kind": kind, "handle": handle, "dev": dev} for dev, kind, handle in entries])


HOST = Host(name="broker1", az="az1", address="10.0.1.11", role="broker", node_id=1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, ""),
        ({"restore": "1"}, "iptables-restore refuses a rule with a comment"),
        ({"disciplines": None}, "no tc that writes JSON"),
        ({"classify": "2"}, "refuses the target CLASSIFY"),
        (
            {"routes": "10.0.1.12 dev eth0 10.0.1.13 dev eth1"},
            "over eth0, eth1, and a limit needs one interface",
        ),
        ({"routes": "10.0.1.12 dev lo"}, "over lo, and"),
        ({"routes": ""}, "over no interface"),
        ({"disciplines": disciplines(("eth0", "mq", "0:"), ("eth0", "clsact", "ffff:"))}, ""),
        ({"disciplines": disciplines(("eth1", "fq", "8001:"))}, ""),
        (
            {"disciplines": disciplines(("eth0", "fq_codel", "0:"), ("eth0", "fq", "8001:"))},
            "eth0 has a queueing discipline of its own (fq 8001:)",
        ),
    ],
)
def test_a_rate_can_be_limited_where_nothing_of_others_is_replaced(
    said: dict[str, str | None], why: str
) -> None:
    """Each thing that is lacking is a sentence."""
    facts = {key: text for key, text in (ABLE | said).items() if text is not None}
    told = _why_no_throttle(HOST, facts)
    assert why in told and bool(told) == bool(why)


@pytest.mark.parametrize("told", ["[", "{}", "[1]", "Usage: tc"])
def test_a_tc_that_tells_something_else_is_named(told: str) -> None:
    with pytest.raises(LabError, match="tells no list of queueing disciplines"):
        _why_no_throttle(HOST, ABLE | {"disciplines": told})
