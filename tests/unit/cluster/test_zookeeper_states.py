"""The states of partitions by their znodes."""

from __future__ import annotations

from typing import Any

from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.kafka.model import TopicPartition
from harness.lab.layout import three_azs
from harness.zookeeper.session import NoZooKeeperAnswerError

KEYS = [TopicPartition("t", number) for number in range(4)]


class Session:
    """It has no state of partition 1, and does not answer the first question about partition 2."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read_json(self, path: str) -> Any:
        """A znode."""
        self.asked.append(path)
        if path.endswith("/topics/t"):
            return {"partitions": {str(key.partition): [1, 2] for key in KEYS}}
        if "/2/" in path and self.asked.count(path) == 1:
            raise NoZooKeeperAnswerError("silent")
        return None if "/1/" in path else {"leader": 1, "leader_epoch": 0, "isr": [1, 2]}


def test_what_was_answered_before_a_silence_counts() -> None:
    cluster = ZooKeeperCluster(three_azs("zookeeper").role("zookeeper"))
    session: Any = Session()
    cluster._session = session
    assert list(cluster.partitions(KEYS)) == KEYS[:1]
    assert list(cluster.partitions(KEYS)) == [KEYS[0], *KEYS[2:]]
    assert sum(path.endswith("/topics/t") for path in session.asked) == 2, "once for a topic"
    state = cluster.partition("t", 3)
    assert state is not None
    assert (state.leader, state.replicas) == (1, (1, 2))
