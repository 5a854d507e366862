"""A group member that ends by an error says so to whoever asks for its progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, TopicPartition
from workloads.agent.consumers.group_member import GroupMember
from workloads.protocol.spec import ConsumerSpec


class _Failing(GroupMember):
    def _poll(self) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "gone"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_member_that_has_ended_by_itself_has_no_progress(tmp_path: Path) -> None:
    spec = ConsumerSpec(
        reader=1,
        name="r",
        brokers=(Endpoint("127.0.0.1", 1),),
        partitions=(TopicPartition("t", 0),),
        group="g",
    )
    member = _Failing(Journal(tmp_path / "journal.jsonl"), spec)
    member.start()
    with pytest.raises(InvalidRunError, match="The consumer r ended by itself: KafkaException.*gone"):
        member.stop(20.0)
