"""`acked record --watch` on brokers that acked did not start: what replicas of others' topics show."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.util import calc_crc32c
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Assigned

from harness.cluster.attached import AttachedCluster, attach
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.metadata import topic_ids
from harness.waiting import wait_until
from tests.cluster.conftest import acked
from tests.cluster.foreign import IDS, ForeignCluster

pytestmark = pytest.mark.cluster

VALUE = b"a-body-that-nobody-else-may-see"
KEY = b"a-key-that-nobody-else-may-see"
LEADER, FOLLOWER, OTHER = IDS
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture(scope="module", params=["3.9.1", pytest.param("2.7.1", marks=pytest.mark.long)])
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ForeignCluster]:
    folder = tmp_path_factory.mktemp(f"watch-{request.param}")
    with ForeignCluster(folder=folder, kafka=request.param, network=12) as cluster:
        yield cluster


class Watcher:
    """`acked record --watch` as a process of its own."""

    def __init__(
        self,
        foreign: ForeignCluster,
        runs: Path,
        topic: str,
        seconds: int,
        *more: str,
        replicas: Sequence[int] = IDS,
    ) -> None:
        self.folder = runs / "record" / "latest"
        self.replicas = set(replicas)
        where = ("--bootstrap", foreign.bootstrap, "--runs", str(runs))
        what = ("--watch", topic, "--for", f"{seconds}s", "--yes", "--json", *more)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "record", *where, *what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(
            self._follows,
            within_s=120,
            awaiting="the logs to be followed",
            abort=self._check,
        )

    def high_watermark(self, broker: int) -> int:
        """What the broker stated last, as the observer has noted it."""
        rows = map(json.loads, watermark_lines(self.folder / "journal" / "harness.jsonl"))
        return [row["high_watermark"] for row in rows if row["broker"] == broker][-1]  # type: ignore[no-any-return]

    def _follows(self) -> bool:
        journal = self.folder / "journal" / "harness.jsonl"
        return (
            journal.exists()
            and {row["broker"] for row in map(json.loads, watermark_lines(journal)) if row["leo"] > 0}
            == self.replicas
        )

    def _check(self) -> None:
        assert self.process.poll() is None, self.process.communicate()

    def end(self) -> dict[str, Any]:
        stdout, stderr = self.process.communicate(timeout=300)
        assert self.process.returncode in (0, 1, 2), stderr
        judgement: dict[str, Any] = json.loads(stdout)
        return judgement


def watermark_lines(journal: Path) -> list[str]:
    """The complete lines about watermarks."""
    lines = journal.read_text().split("\n")[:-1]
    return [line for line in lines if line.startswith('{"table":"watermarks"')]


def make(foreign: ForeignCluster, topic: Topic) -> AttachedCluster:
    cluster = attach([foreign.endpoint(LEADER)])
    controller = cluster.topology.host(cluster.operator_host()).broker_endpoint
    answers = create_topics(controller, [topic], dialect=cluster.dialect)
    assert answers[topic.name].error == 0, answers
    key = TopicPartition(topic.name, 0)
    wait_until(
        lambda: (state := cluster.partition(*key)) is not None and state.isr_is_full,
        within_s=30,
        awaiting="the topic to be in sync",
    )
    return cluster


def produce(foreign: ForeignCluster, topic: str, count: int, **config: object) -> None:
    producer = Producer(
        {"bootstrap.servers": foreign.bootstrap, "batch.num.messages": 1, "acks": "all", **config}
    )
    for _ in range(count):
        producer.produce(topic, VALUE, KEY, partition=0)
    assert producer.flush(60) == 0


@contextmanager
def application(foreign: ForeignCluster, topic: str) -> Iterator[None]:
    """An application that writes all the time."""
    stopping = threading.Event()

    def write() -> None:
        while not stopping.wait(0.02):
            produce(foreign, topic, 5)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def commit(foreign: ForeignCluster, group: str, topic: str, offset: int) -> None:
    """Commit an offset. The first one of a cluster has brokers make the topic of offsets."""
    consumer = Consumer({"bootstrap.servers": foreign.bootstrap, "group.id": group})
    wait_until(
        lambda: consumer.commit(offsets=[Assigned(topic, 0, offset)], asynchronous=False),
        within_s=60,
        poll_s=0.2,
        awaiting=f"the coordinator of {group}",
        ignoring=(KafkaException,),
    )
    consumer.close()


def counts(judgement: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = judgement["findings_by_class"]
    return found


@pytest.mark.long
def test_a_quiet_topic_shows_nothing_and_its_contents_are_not_kept(
    foreign: ForeignCluster, tmp_path: Path
) -> None:
    make(foreign, Topic("orders", IDS))
    produce(foreign, "orders", 300)
    commit(foreign, "shop", "orders", 250)
    before = topic_ids(foreign.endpoint(LEADER))
    with application(foreign, "orders"):
        watcher = Watcher(foreign, tmp_path, "orders", 8, "--last", "100")
        judgement = watcher.end()
    assert (judgement["verdict"], counts(judgement), judgement["reasons"]) == ("as declared", {}, [])
    assert judgement["messages"] == 0
    assert topic_ids(foreign.endpoint(LEADER)) == before
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert written
    for body in (VALUE, KEY):
        assert not any(body in file for file in written)
    manifest = json.loads((watcher.folder / "run.json").read_text())
    assert manifest["recording"]["watched"]["first"]["0"] >= 200
    assert "orders" in (watcher.folder / "report.html").read_text()
    again = acked("check", watcher.folder.resolve(), "--json")
    assert again.json()["verdict"] == "as declared"


def test_a_replica_whose_log_was_changed_is_told(foreign: ForeignCluster, tmp_path: Path) -> None:
    """A batch of one follower gets another body, with a checksum that fits it."""
    make(foreign, Topic("changed", IDS))
    produce(foreign, "changed", 20)
    foreign.signal(OTHER, signal.SIGKILL)
    foreign.wait_registered((LEADER, FOLLOWER))  # with ZooKeeper, its id is taken until its session ends
    change(foreign.data(OTHER) / "changed-0" / "00000000000000000000.log", 7)
    foreign.start(OTHER)
    foreign.wait_registered()
    judgement = Watcher(foreign, tmp_path, "changed", 6).end()
    assert counts(judgement) == {"diverged": 1}
    (finding,) = judgement["findings"]
    assert (finding["offset"], finding["brokers"], finding["seq"]) == (7, [OTHER], None)
    assert judgement["verdict"] == "unknown"
    assert any("whether somebody changed files of the brokers" in why for why in judgement["reasons"])


@pytest.mark.long
def test_what_an_unclean_election_takes_is_told(foreign: ForeignCluster, tmp_path: Path) -> None:
    """The only follower hangs until the leader alone is in sync; then the leader is killed, and it leads.

    The third broker keeps the quorum.
    """
    cluster = make(foreign, Topic("unclean", (LEADER, FOLLOWER), config=UNCLEAN))
    produce(foreign, "unclean", 20)
    commit(foreign, "reader", "unclean", 20)  # the topic of offsets cannot be made without the third broker
    watcher = Watcher(foreign, tmp_path, "unclean", 60, replicas=(LEADER, FOLLOWER))
    foreign.signal(FOLLOWER, signal.SIGSTOP)
    try:
        produce(foreign, "unclean", 10, acks=1)
        wait_until(
            lambda: watcher.high_watermark(LEADER) == 30,
            within_s=60,
            awaiting="the observer to see that the leader is alone in the ISR",
        )
        foreign.signal(LEADER, signal.SIGKILL)
    finally:
        foreign.signal(FOLLOWER, signal.SIGCONT)
    try:
        wait_until(
            lambda: (state := cluster.partition("unclean")) is not None and state.leader == FOLLOWER,
            within_s=60,
            awaiting="the follower to lead",
        )
        produce(foreign, "unclean", 4)
        commit(foreign, "reader", "unclean", 30)
    finally:
        foreign.start(LEADER)
    foreign.wait_registered()
    judgement = watcher.end()
    assert counts(judgement) == {"truncated": 1, "offset_outside": 1}
    gone = next(one for one in judgement["findings"] if one["class"] == "truncated")
    assert (gone["offset"] + gone["count"], gone["epoch"], gone["last_broker"]) == (30, 0, LEADER)
    assert gone["offset"] in (20, 21), "a fetch that was under way may have brought the first batch"
    assert {row["row"] for row in judgement["promises"]} == {"unclean-enabled", "offset-outside-log"}
    assert judgement["verdict"] == "as declared"


def change(segment: Path, offset: int) -> None:
    """Change a byte of the value of a batch in a segment, and its checksum."""
    data = bytearray(segment.read_bytes())
    position = 0
    while struct.unpack_from(">q", data, position)[0] != offset:
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
    data[data.index(VALUE, position, end)] ^= 1
    struct.pack_into(">I", data, position + 17, calc_crc32c(bytes(data[position + 21 : end])))
    segment.write_bytes(data)


@pytest.mark.long
def test_a_compacted_topic_says_what_is_not_compared(foreign: ForeignCluster, tmp_path: Path) -> None:
    make(foreign, Topic("states", IDS, config={"cleanup.policy": "compact"}))
    produce(foreign, "states", 20)
    where = ("--bootstrap", foreign.bootstrap, "--runs", str(tmp_path))
    done = acked("record", *where, "--watch", "states", "--for", "5s", "--yes")
    assert done.status == 2, done.stderr
    assert "its replicas are not compared, because each compacts its log by itself" in done.stderr
    assert "no two replicas of the watched topic could be compared" in done.stdout


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("nowhere", "the cluster has no such topic"),
        pytest.param("__consumer_offsets", "brokers keep and compact", marks=pytest.mark.long),
    ],
)
def test_a_topic_that_cannot_be_watched_is_refused(
    foreign: ForeignCluster, tmp_path: Path, topic: str, said: str
) -> None:
    where = ("--bootstrap", foreign.bootstrap, "--runs", str(tmp_path))
    done = acked("record", *where, "--watch", topic, "--for", "5s", "--yes")
    assert (done.status, list(tmp_path.iterdir())) == (254, [])
    assert said in done.stderr and len(done.stderr.splitlines()) == 1 and len(done.stderr) <= 300
