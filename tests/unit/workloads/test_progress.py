"""A consumer's progress by the records that it received."""

from __future__ import annotations

import pytest

from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.spec import ConsumerSpec

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("group", "self_assigned", "recorded"), [("", False, None), ("g", False, "g"), ("g", True, None)]
)
def test_only_members_have_a_group(group: str, self_assigned: bool, recorded: str | None) -> None:
    """A consumer that assigns its partitions itself names a group, but commits nothing in it."""
    spec = ConsumerSpec(
        reader=1,
        name="x",
        brokers=("a:1",),
        partitions=(PARTITION,),
        group=group,
        self_assigned=self_assigned,
    )
    assert ReadProgress(spec).row(PARTITION, offset=3, epoch=0, value=b"")["group"] == recorded
