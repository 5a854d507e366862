"""A healthy cluster on paper: topics, replicas, producers and what they sent, before anything is damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.independent.model import MessageId, TopicPartition

Record = dict[str, Any]
"""What a record says besides its place: epoch, writer, seq, intact, home, control."""

STRANGE_TOPICS = (
    "orders-keys-v2",
    "sync-log",
    "a.b.c",
    "truncate_page.power-broker1",
    "__consumer_offsets",
    "-",
    "...",
    "part-0",
    "0",
    "history.parquet",
    "_SUCCESS",
    ".hidden",
    "null",
    "topic=x",
)
"""Names that Kafka accepts (letters, digits, `.`, `_`, `-`), except the last, for other programs."""


EXTREMES = ("limits", "long name")
"""What `healthy` notes of a world whose ids, offsets, times or names are at their limits."""


@dataclass
class ReplicatedPartition:
    """One topic partition: its producers' sends and the log of each of its replicas."""

    at: TopicPartition
    logs: dict[int, dict[int, Record]]
    """Broker → offset → record."""
    replicas: dict[int, dict[str, Any]]
    """Broker → row of `replicas`."""
    sends: dict[MessageId, dict[str, Any]] = field(default_factory=dict)
    epoch: int = 0
    aborted: list[dict[str, int]] = field(default_factory=list)
    """Aborted transactions, as a correct replica names them in `replicas`."""

    @property
    def leader(self) -> int:
        """The broker that leads, or the first broker if no leader is recorded."""
        return next((broker for broker, row in self.replicas.items() if row["leader"]), min(self.replicas))

    @property
    def followers(self) -> list[int]:
        return [broker for broker in self.replicas if broker != self.leader]

    @property
    def in_sync(self) -> list[int]:
        """Followers in the ISR."""
        return [broker for broker in self.followers if self.replicas[broker]["in_sync"]]

    def end(self) -> int:
        """The offset that the leader assigns next."""
        return int(self.replicas[self.leader]["leo"])

    def put(self, offset: int, record: Record, brokers: list[int] | None = None) -> None:
        """Put a record into some replicas' logs (default: all) and move their ends."""
        for broker in brokers if brokers is not None else list(self.logs):
            self.logs[broker][offset] = dict(record)
            row = self.replicas[broker]
            row["leo"] = max(row["leo"], offset + 1)

    def append(self, record: Record) -> int:
        """Append to every replica's log, after the last record of any."""
        offset = max(int(row["leo"]) for row in self.replicas.values())
        self.put(offset, record)
        return offset

    def remove(self, offset: int, brokers: list[int] | None = None) -> None:
        for broker in brokers if brokers is not None else list(self.logs):
            self.logs[broker].pop(offset, None)

    def cut(self, end: int, brokers: list[int] | None = None) -> None:
        """Truncate some replicas' logs to ``end``."""
        for broker in brokers if brokers is not None else list(self.logs):
            log, row = self.logs[broker], self.replicas[broker]
            for offset in [offset for offset in log if offset >= end]:
                del log[offset]
            row["leo"] = min(row["leo"], max(end, row["log_start"]))

    def offsets(self, suits: Callable[[dict[str, Any]], bool] = lambda send: True) -> list[int]:
        """Offsets of the leader's undamaged records of this partition's messages that ``suits`` accepts."""
        offsets = []
        for offset, record in sorted(self.logs[self.leader].items()):
            send = self.sends.get((record.get("writer"), record.get("seq")))  # type: ignore[arg-type]
            if send is not None and record.get("intact") is not False and suits(send):
                offsets.append(offset)
        return offsets

    def send_at(self, offset: int) -> dict[str, Any]:
        """The send whose record stands at ``offset`` on the leader."""
        record = self.logs[self.leader][offset]
        return self.sends[record["writer"], record["seq"]]


@dataclass
class World:
    """A history in the making."""

    random: Random
    partitions: list[ReplicatedPartition] = field(default_factory=list)
    writers: dict[int, int] = field(default_factory=dict)
    """Writer → its next seq."""
    brokers: list[int] = field(default_factory=list)
    now: int = 0
    next_writer: int = 0
    next_reader: int = 0
    name: str = ""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of every table but sends, copies and replicas."""
    planted: list[str] = field(default_factory=list)

    def tick(self) -> int:
        """A later time, never used twice."""
        self.now += self.random.randint(2, 50)
        return self.now

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.tables.setdefault(table, [])

    def writer(self) -> int:
        """A producer of this history."""
        writer = self.next_writer
        self.next_writer += 1
        self.writers[writer] = 0
        return writer

    def reader(self) -> int:
        self.next_reader += 1
        return self.next_reader - 1

    def send(
        self, partition: ReplicatedPartition, writer: int, outcome: str | None = "ok", **more: Any
    ) -> dict[str, Any]:
        """One send, not in any log yet."""
        seq, self.writers[writer] = (
            self.writers[writer],
            self.writers[writer] + self.random.choice((1, 1, 1, 3)),
        )
        sent = self.tick()
        row = {
            "topic": partition.at[0],
            "partition": partition.at[1],
            "writer": writer,
            "seq": seq,
            "sent_ns": sent,
            "done_ns": None if outcome is None else self.tick(),
            "outcome": outcome,
            "error": {"ok": 0, "info": 7, "fail": 19, None: None}[outcome],
            "offset": None,
        }
        partition.sends[writer, seq] = row | more
        return partition.sends[writer, seq]

    def record(self, send: dict[str, Any], partition: ReplicatedPartition) -> Record:
        """The record of a send as the leader of ``partition`` writes it."""
        home = f"{send['topic']}/{send['partition']}"
        return {
            "epoch": partition.epoch,
            "writer": send["writer"],
            "seq": send["seq"],
            "intact": self.random.choice((True, True, None)),
            "home": home,
            "transactional": send.get("txn") is not None,
        }

    def write(
        self, partition: ReplicatedPartition, writer: int, outcome: str | None = "ok", **more: Any
    ) -> int:
        """One send that reaches every replica's log, and gets its offset if it is acknowledged."""
        send = self.send(partition, writer, outcome, **more)
        offset = partition.append(self.record(send, partition))
        if outcome == "ok":
            send["offset"] = offset
        return offset


def topic_name(random: Random, number: int) -> str:
    """A name that no other history has, odd or plain: it contains ``number``."""
    kind = random.random()
    if kind < 0.4:
        return f"{random.choice(STRANGE_TOPICS)}.{number}"
    return random.choice((f"orders-{number}", f"t{number}", f"Orders.v-{number}", f"{number}"))


def healthy(random: Random, number: int, *, limits: bool = False) -> World:
    """A run without any damage; ``limits`` puts ids, offsets and times at the borders of their types."""
    world = World(random, name=f"{number}")
    world.now = random.choice((0, 10**9, 2**62)) if limits else 10**9
    world.next_writer = 2**31 - 1 - 16 * (number + 1) if limits and random.random() < 0.5 else number * 16
    world.next_reader = 2**31 - 1 - 16 * (number + 1) if limits and random.random() < 0.5 else number * 16
    count = random.choice((1, 2, 2, 3, 3, 3, 4, 5))
    brokers = random.sample(range(1, 13), count)
    if limits:
        brokers[0] = 2**31 - 1 if random.random() < 0.02 else random.choice((0, 13, 1001, 10**6))
    world.brokers = brokers
    world.planted += ["limits"] if limits else []
    name = topic_name(random, number)
    if random.random() < 0.01:
        name = f"{number}".rjust(247, random.choice("x.-_"))
        world.planted.append("long name")
    for topic in [f"{name}{end}" for end in random.choice((("",), ("-1",), ("", "-2")))]:
        first = 2**31 - 4 if limits and random.random() < 0.3 else random.choice((0, 0, 0, 7))
        for number in range(first, first + random.choice((1, 1, 2, 3))):
            world.partitions.append(_empty(world, (topic, number), limits))
    writers = [world.writer() for _ in range(random.choice((1, 2, 3)))]
    if limits:
        for writer in writers:
            world.writers[writer] = random.choice((0, 0, 2**62, 2**63 - 400))
    for partition in world.partitions:
        _fill(world, partition, writers)
    return world


def _empty(world: World, at: TopicPartition, limits: bool) -> ReplicatedPartition:
    random = world.random
    start = random.choice((2**31 - 2, 2**62, 2**63 - 500)) if limits and random.random() < 0.3 else 0
    brokers = random.sample(world.brokers, random.randint(1, len(world.brokers)))
    replicas = {
        broker: {
            "topic": at[0],
            "partition": at[1],
            "broker": broker,
            "complete": True,
            "leo": start,
            "log_start": start,
            "leader": broker == brokers[0],
            "in_sync": True,
            "cleanup": random.choice((None, "delete")),
            "error": None,
        }
        for broker in brokers
    }
    partition = ReplicatedPartition(at, {broker: {} for broker in brokers}, replicas)
    partition.epoch = 2**31 - 30 if limits and random.random() < 0.3 else random.randint(0, 3)
    return partition


def _fill(world: World, partition: ReplicatedPartition, writers: list[int]) -> None:
    """Sends of several writers, some in transactions that end with a marker, under one or more leaders."""
    random = world.random
    left = random.choice((0, 1, 2, 5, 12, 12, 20))
    acks0 = {writer for writer in writers if random.random() < 0.12}
    while left > 0:
        left -= 1
        writer = random.choice(writers)
        kind = random.random()
        if kind < 0.06:
            partition.epoch += random.choice((1, 2))
        elif kind < 0.14:
            transaction(
                world, partition, writer, random.choice(("committed", "committed", "aborted", "unknown"))
            )
        elif kind < 0.2:
            world.write(partition, writer, random.choice(("info", None)))
        elif kind < 0.24:
            offset = world.write(partition, writer, "info")
            partition.send_at(offset)["offset"] = offset
        else:
            offset = world.write(partition, writer)
            if writer in acks0:
                partition.send_at(offset)["offset"] = None


def transaction(world: World, partition: ReplicatedPartition, writer: int, end: str) -> list[int]:
    """A transaction of one to three messages and its marker; offsets of the messages."""
    txn = world.random.choice((0, 1, 2**40)) + len(world.rows("transactions"))
    events = world.rows("transactions")
    events.append({"ns": world.tick(), "writer": writer, "txn": txn, "event": "begin"})
    offsets = [world.write(partition, writer, txn=txn) for _ in range(world.random.randint(1, 3))]
    partition.append({"epoch": partition.epoch, "control": True, "transactional": True})
    if end == "aborted":
        partition.aborted.append({"producer_id": 1000 + writer, "first_offset": offsets[0]})
    if asked := {"committed": "committing", "aborted": "aborting"}.get(end):
        events.append({"ns": world.tick(), "writer": writer, "txn": txn, "event": asked})
    events.append({"ns": world.tick(), "writer": writer, "txn": txn, "event": end})
    return offsets
