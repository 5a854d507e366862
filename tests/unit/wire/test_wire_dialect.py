"""Which requests each Kafka version understands."""

from __future__ import annotations

import pytest

from harness.errors import UnfitError, UsageError
from harness.kafka.model import Endpoint, TopicPartition
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.logs import fetch_own_log
from harness.kafka.wire.offsets import end_offsets

NOWHERE = Endpoint("127.0.0.1", 9)


@pytest.mark.parametrize(
    ("version", "produce", "magic", "own_log"),
    [
        ("0.10.2.2", 2, 1, False),
        ("0.11.0.3", 3, 2, False),
        ("1.0.2", 5, 2, False),
        ("1.1.1", 5, 2, True),
        ("2.2.2", 7, 2, True),
        ("2.4.1", 7, 2, True),
        ("2.7.1", 7, 2, True),
        ("4.3.1", 7, 2, True),
    ],
)
def test_versions(version: str, produce: int, magic: int, own_log: bool) -> None:
    known = dialect(version)
    assert (known.produce, known.magic, known.own_log_by_fetch) == (produce, magic, own_log)


@pytest.mark.parametrize("version", ["0.9.0.1", "trunk", ""])
def test_unknown_versions_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match="0.10.2.2"):
        dialect(version)


def test_a_request_that_a_version_lacks_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UnfitError, match="files"):
        fetch_own_log(NOWHERE, "t", 0, dialect=dialect("0.11.0.3"))


def test_posing_as_a_follower_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        end_offsets(NOWHERE, [TopicPartition("t", 0)], replica_id=1)
