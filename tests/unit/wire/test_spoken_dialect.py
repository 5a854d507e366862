"""The dialect that follows from the request versions that a broker states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import UnfitError
from harness.kafka.model import Endpoint
from harness.kafka.wire.connection import Connection, only
from harness.kafka.wire.dialect import common, dialect, spoken

KAFKA_2_7 = {0: (0, 8), 1: (0, 12), 2: (0, 5), 3: (0, 9), 19: (0, 6), 20: (0, 5), 21: (0, 2)} | {
    32: (0, 3),
    43: (0, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    34: (0, 2),
    35: (0, 2),
    37: (0, 3),
}
KAFKA_4_3 = {0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 19: (2, 7), 20: (1, 6), 21: (0, 2)} | {
    32: (1, 4),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    55: (0, 2),
    61: (0, 0),
    65: (0, 0),
    66: (0, 2),
    34: (1, 2),
    35: (1, 4),
    37: (0, 3),
    75: (0, 0),
    80: (0, 1),
    81: (0, 0),
}


def test_a_broker_of_a_known_version_gets_that_versions_dialect() -> None:
    assert spoken(KAFKA_2_7) == replace(dialect("2.7.1"), fetch=12)
    assert spoken(KAFKA_4_3) == replace(dialect("4.3.1"), fetch=18)


def test_while_a_cluster_is_upgraded_only_common_versions_are_sent() -> None:
    both = common([KAFKA_2_7, KAFKA_4_3])
    assert both[1] == (4, 12)
    assert 55 not in both
    assert spoken(both).fetch == 12
    assert common([KAFKA_2_7]) == KAFKA_2_7


def test_requests_that_a_broker_does_not_state_are_not_sent() -> None:
    without = {key: versions for key, versions in KAFKA_4_3.items() if key not in (32, 65)}
    assert spoken(without).describe_configs is None
    assert spoken(without).describe_transactions is None


def test_an_old_fetch_shows_no_replicas_log() -> None:
    assert not spoken({**KAFKA_2_7, 1: (0, 6)}).own_log_by_fetch
    assert spoken({**KAFKA_2_7, 1: (0, 7)}).own_log_by_fetch


def test_a_broker_without_a_common_version_is_refused() -> None:
    with pytest.raises(UnfitError, match="versions 19 to 20 of the request fetch"):
        spoken({**KAFKA_4_3, 1: (19, 20)})


def test_other_requests_than_those_allowed_are_not_sent() -> None:
    from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

    connection = Connection(Endpoint("127.0.0.1", 9))
    with only([ApiVersionsRequest]), pytest.raises(ValueError, match="MetadataRequest must not be sent"):
        connection.send_only(MetadataRequest(topics=[], allow_auto_topic_creation=False), 8)
    with pytest.raises(ConnectionError):
        connection.send_only(MetadataRequest(topics=[], allow_auto_topic_creation=False), 8)
