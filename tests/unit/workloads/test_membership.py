"""The metadata of a group as librdkafka writes it."""

from __future__ import annotations

import sys

import pytest

from workloads.agent.consumers.group_member import Membership, is_newer, membership


def written(generation: int, member_id: bytes, *, name: bytes = b"CGMDv2:") -> bytes:
    number = generation.to_bytes(4, sys.byteorder, signed=True)
    return name + number + b"group\0" + member_id + b"\0" + b"\1"


def test_it_names_generation_and_member() -> None:
    assert membership(written(7, b"rdkafka-1")) == Membership(7, "rdkafka-1")


@pytest.mark.parametrize(
    "metadata",
    [
        written(-1, b""),
        written(-1, b"rdkafka-1"),
        written(0, b"rdkafka-1"),
        written(7, b""),
        written(7, b"rdkafka-1", name=b"CGMDv3:"),
        written(7, b"rdkafka-1")[:14],
        None,
    ],
)
def test_nothing_is_made_of_it_outside_a_group_or_in_another_format(metadata: object) -> None:
    assert membership(metadata) is None


def test_a_new_member_id_alone_is_no_new_generation() -> None:
    """As in cooperative-rebalance-during-cut: the id of the second session, the generation of the first."""
    first = Membership(1, "rdkafka-1")
    assert is_newer(first, None)
    assert not is_newer(Membership(1, "rdkafka-2"), first)
    assert is_newer(Membership(3, "rdkafka-2"), first)
