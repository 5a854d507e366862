"""The identity in a record's value."""

from __future__ import annotations

import pytest

from harness.history.identity import MessageIdentity, decode, encode


def test_a_message_is_recognised_by_its_value() -> None:
    assert decode(encode(0, 7, "t", 1, "a label")) == MessageIdentity(
        writer=0, seq=7, home="t/1", label="a_label", intact=True
    )


@pytest.mark.parametrize(("writer", "seq"), [(-1, 7), (0, -7)])
def test_a_value_with_a_negative_number_names_no_message(writer: int, seq: int) -> None:
    """Histories hold none, and damage can turn a digit into a minus."""
    assert decode(encode(writer, seq, "t", 1)) is None
