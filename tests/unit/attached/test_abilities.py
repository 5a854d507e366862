"""What a host can do, by what it says of itself."""

from __future__ import annotations

import pytest

from nemesis.attached.abilities import _why_no_throttle

ABLE = {
    **{"restore": "0", "setsid": "yes", "python": "python3", "tc": "yes", "classify": "0"},
    **{"devices": "eth0", "discipline": ""},
}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, ""),
        ({"restore": "1"}, "iptables-restore refuses a rule with a comment"),
        ({"tc": None}, "no tc that writes JSON"),
        ({"classify": "2"}, "refuses the target CLASSIFY"),
        ({"devices": "eth0 eth1"}, "over eth0 eth1, and a limit needs one interface"),
        ({"devices": "lo"}, "over lo, and"),
        ({"devices": ""}, "over no interface"),
        ({"discipline": "fq 8001:"}, "eth0 has a queueing discipline of its own (fq 8001:)"),
    ],
)
def test_a_rate_can_be_limited_where_nothing_of_others_is_replaced(
    said: dict[str, str | None], why: str
) -> None:
    """Each thing that is lacking is a sentence."""
    facts = {key: text for key, text in (ABLE | said).items() if text is not None}
    found = _why_no_throttle(facts)
    assert why in found and bool(found) == bool(why)
