"""`acked record --transactions` on brokers that acked did not start: transactions and a group are judged."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.kafka.model import TopicPartition
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.group_offsets import list_groups
from harness.kafka.wire.metadata import metadata
from tests.cluster.foreign import IDS, ForeignCluster
from tests.cluster.test_record import Recorder, topics

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module", params=["4.4.0", "2.7.1"])
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ForeignCluster]:
    folder = tmp_path_factory.mktemp(f"transactions-{request.param}")
    settings = {"transaction.state.log.num.partitions": "1"}
    with ForeignCluster(folder=folder, kafka=request.param, network=13, settings=settings) as cluster:
        yield cluster


def groups(cluster: ForeignCluster) -> set[str]:
    return {group for broker in IDS for group in list_groups(cluster.endpoint(broker), 5.0)[1]}


@pytest.mark.parametrize("fault", ["none", "the leader is killed"])
def test_transactions_and_a_group_are_recorded_and_removed(
    foreign: ForeignCluster, tmp_path: Path, fault: str
) -> None:
    where = ("--bootstrap", foreign.bootstrap, "--for", "25s", "--yes")
    recorder = Recorder(tmp_path, *where, "--transactions")
    topic = recorder.wait_recording()
    assert topics(foreign) == {topic, f"{topic}-copied"}
    if fault != "none":
        key = TopicPartition(topic, 0)
        leader = (
            metadata(foreign.endpoint(IDS[1]), [topic], dialect=dialect(foreign.kafka)).partitions[key].leader
        )
        foreign.signal(leader, signal.SIGKILL)
        foreign.start(leader)
    judgement = recorder.end().json()
    foreign.wait_registered()
    assert judgement["verdict"] == "as declared", judgement["reasons"]
    # Of the messages that are copied in transactions, nothing is lost, written twice, or moved.
    unpromised = {"acks-1-leader", "duplicate-retry", "order-retries"}
    assert {row["row"] for row in judgement["promises"]} <= (set() if fault == "none" else unpromised)
    streams = {row["writer"] for row in judgement["fates_by_writer"] if row["acks"] == 1}
    assert {finding["writer"] for finding in judgement["findings"]} <= streams
    fates = pq.read_table(recorder.folder / "transaction_fates.parquet").to_pylist()
    committed = [one for one in fates if one["reported"] == "committed"]
    assert len(committed) >= 5
    assert all(one["visible"] == "all" for one in committed), committed
    copied = [row for row in judgement["fates_by_writer"] if row["writer_name"] == "acked-processor"]
    assert sum(row["count"] for row in copied if row["fate"] == "kept") > 100
    events = pq.read_table(recorder.folder / "history" / "groups.parquet").to_pylist()
    assert {one["group"] for one in events} == {topic}
    assert {"assigned", "sent"} <= {one["event"] for one in events}
    assert (topics(foreign), groups(foreign)) == (set(), set())
