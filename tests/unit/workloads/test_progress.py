"""A consumer's progress by the records that it received."""

from __future__ import annotations

import pytest

from harness.kafka.model import Endpoint, TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.spec import ConsumerSpec

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize(("group", "recorded"), [("", None), ("g", "g")])
def test_only_members_have_a_group(group: str, recorded: str | None) -> None:
    """librdkafka wants a name for a consumer with assigned partitions, too; it commits nothing under it."""
    spec = ConsumerSpec(reader=1, name="x", brokers=(Endpoint("a", 1),), partitions=(PARTITION,), group=group)
    assert ReadProgress(spec).row(PARTITION, offset=3, epoch=0, value=b"")["group"] == recorded
    assert spec.librdkafka_config()["group.id"] == (recorded or "x")
