"""A small model of a share group, written from the document alone: histories with known findings.

The model has one partition, a broker and a few members, and no code of the checker. Unless damage is
planted, the broker does what KIP-932 says. What members and the log of states saw becomes rows of the
history; what the model did becomes the expected findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

S = 10**9
MS = 10**6
Row = dict[str, Any]
CLASSES = ("accept_lost", "not_delivered", "over_delivered", "held_twice", "lock_outlived", "archived")
PLANTS = (
    *("nothing", "forget accept", "forget at the end", "no limit", "hand to two"),
    *("late accept", "drop", "keep back", "keep back again"),
)


@dataclass
class Record:
    """One record at the broker."""

    offset: int
    sent_ns: int
    state: str = "available"
    count: int = 0
    holder: int = 0
    until_ns: int = 0
    plant: str = "nothing"
    handed: int = 0
    """How many deliveries reached a member."""
    settled: bool = False
    """A member accepted or rejected it, and no refusal says that this changed nothing."""
    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    """When the lock of each delivery has ended at the latest, by reader and count."""
    accepted: tuple[int, int] | None = None
    """When the first accept was answered as carried out, and the delivery count that it had."""


@dataclass
class World:
    """A history in the making, and the classes of findings with their offsets."""

    limit: int
    lock: int
    rows: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    kept: list[tuple[int, int]] = field(default_factory=list)
    """Offset and time of the acknowledgement of each message."""
    expected: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def note(self, ns: int, reader: int, event: str, **columns: object) -> None:
        """A row of `shares`."""
        member = {"group": "g", "reader": reader, "member": f"m{reader}"}
        self.rows.append({"ns": ns, **member, "event": event, **columns})


def make(seed: int) -> World:
    """The history with this number."""
    random = Random(f"share {seed}")
    world = World(limit=random.choice((2, 3, 5)), lock=random.choice((4, 5, 15)) * S)
    readers = list(range(1, 1 + random.choice((2, 3))))
    for reader in readers:
        world.note(1, reader, "started")
    records = [Record(offset, (1 + offset) * 50 * MS) for offset in range(random.randint(4, 14))]
    world.kept = [(one.offset, one.sent_ns) for one in records]
    if random.random() < 0.75:
        for one in random.sample(records, random.choice((1, 1, 2))):
            one.plant = random.choice(PLANTS)
    _Broker(world, random, readers, records).run()
    return world


class _Broker:
    """Does one thing after the other, in the order of time."""

    def __init__(self, world: World, random: Random, readers: list[int], records: list[Record]) -> None:
        self.world, self.random, self.readers, self.records = world, random, readers, records
        self.queue: list[tuple[int, int, Callable[[int], None]]] = []
        self.number = 0
        self.waits = dict.fromkeys(readers, True)
        """Whether each member has acknowledged all that it was handed last."""
        self.busy = dict.fromkeys(readers, 0)

    def at(self, ns: int, action: Callable[[int], None]) -> None:
        """Do something later."""
        self.number += 1
        heappush(self.queue, (ns, self.number, action))

    def later(self, low_ms: int, high_ms: int) -> int:
        return self.random.randint(low_ms, high_ms) * MS

    def run(self) -> None:
        """Until every record is done and nothing is left to do; then the state is stored."""
        now = 0
        for reader in self.readers:
            self.at(S + self.later(0, 500), partial(self.poll, reader))
        while self.queue:
            now, _, action = heappop(self.queue)
            self.expire(now)
            action(now)
        end = now + self.world.lock + 120 * S
        self.expire(end)
        self.store(end)

    def expire(self, now: int) -> None:
        """Take back what members have had for the time of the lock."""
        for one in self.records:
            if one.state == "acquired" and one.until_ns <= now and one.plant != "late accept":
                self.give_back(one)

    def give_back(self, one: Record) -> None:
        """A record is available again, or archived at the limit."""
        at_limit = one.count >= self.world.limit and one.plant != "no limit"
        one.state, one.holder = ("archived" if at_limit else "available"), 0
        if one.plant == "keep back again":
            one.plant = "keep back"

    def poll(self, reader: int, now: int) -> None:
        """A member asks for records, if it has acknowledged those before."""
        if now < self.busy[reader]:
            self.at(self.busy[reader], partial(self.poll, reader))
            return
        open_ones = [
            one for one in self.records if one.state in ("available", "acquired") and one.plant != "keep back"
        ]
        if not open_ones:
            return
        found = [one for one in open_ones if one.state == "available" and one.sent_ns < now]
        found = found[: self.random.randint(1, 5)]
        for one in found:
            one.state, one.holder, one.count = "acquired", reader, one.count + 1
            one.until_ns = now + self.world.lock
        received = now + self.later(1, 60)
        if not found or self.random.random() < 0.06:  # Or the answer is lost.
            for one in found:
                one.plant = "nothing" if one.plant == "late accept" else one.plant
            self.at(received + self.later(100, 900), partial(self.poll, reader))
            return
        free = received
        self.at(received, lambda ns: self.waits.__setitem__(reader, True))
        for one in found:
            self.at(received, partial(self.hand, one, reader, one.count))
            free = max(free, self.plan(one, reader, one.count, received, free))
        self.busy[reader] = free + self.later(1, 300)
        self.at(self.busy[reader], partial(self.poll, reader))

    def hand(self, one: Record, reader: int, count: int, ns: int) -> None:
        """A member receives a record."""
        place = {"topic": "t", "partition": 0, "offset": one.offset}
        lock_ms = self.world.lock // MS
        self.world.note(ns, reader, "acquired", **place, delivery_count=count, lock_ms=lock_ms)
        one.handed += 1
        one.ends[reader, count] = ns + self.world.lock
        if one.accepted is not None and ns > one.accepted[0] and count >= one.accepted[1]:
            self.world.expected["accept_lost"].add(one.offset)
        if one.handed > self.world.limit or count > self.world.limit:
            self.world.expected["over_delivered"].add(one.offset)

    def plan(self, one: Record, reader: int, count: int, received: int, free: int) -> int:
        """What a member does with a record; returns when it is free again."""
        if one.plant == "hand to two":
            one.plant = "nothing"
            other = self.random.choice([key for key in self.readers if key != reader])
            self.at(received + self.later(200, 1500), partial(self.hand_to, one, other))
            ask = received + self.later(1800, 2200)
            self.at(ask, partial(self.acknowledge, one, reader, count, "accept", True))
            return ask
        if one.plant == "late accept":
            ask = received + self.world.lock + self.later(1100, 4000)
            self.at(ask, partial(self.acknowledge, one, reader, count, "accept", True))
            return ask
        luck = self.random.random()
        if luck < 0.08:  # It forgets the record, and goes on.
            self.at(received + 1, lambda ns: self.waits.__setitem__(reader, False))
            return free
        ask = free + self.later(1, 40)
        if luck < 0.16:
            ask = received + self.world.lock + self.later(200, 3000)
            self.at(ask, partial(self.acknowledge, one, reader, count, "accept", True))
            return ask
        if luck < 0.26:
            self.at(ask, partial(self.acknowledge, one, reader, count, "renew", True))
            ask += self.later(1, self.world.lock // MS - 1500)
        answer = self.random.choices(("accept", "release", "reject"), (8, 2, 1))[0]
        if one.plant in ("no limit", "keep back again"):
            answer = (
                "release" if one.plant == "keep back again" or one.handed < self.world.limit else "accept"
            )
        self.at(ask, partial(self.acknowledge, one, reader, count, answer, self.random.random() > 0.05))
        return ask

    def hand_to(self, one: Record, other: int, ns: int) -> None:
        """The broker hands a record to another member although it is not available."""
        one.state, one.holder, one.count = "acquired", other, one.count + 1
        one.until_ns = ns + self.world.lock
        self.world.expected["held_twice"].add(one.offset)
        self.hand(one, other, one.count, ns)
        self.at(ns + 2500 * MS, partial(self.acknowledge, one, other, one.count, "accept", True))

    def acknowledge(self, one: Record, reader: int, count: int, answer: str, answered: bool, ns: int) -> None:
        """A member acknowledges a record, and the broker answers, unless the answer is lost."""
        held = one.state == "acquired" and (one.holder, one.count) == (reader, count)
        done = all(each.state in ("acknowledged", "archived") for each in self.records[: one.offset + 1])
        confirmed = held or (done and self.random.random() < 0.9)  # The start offset may move later.
        place = {"topic": "t", "partition": 0, "offset": one.offset, "answer": answer}
        self.world.note(ns, reader, "acknowledged", **place)
        after = ns + self.later(2, 70)
        if answered:
            error = 0 if confirmed else 121
            self.world.note(after, reader, "answered", **place, asked_ns=ns, error=error)
            if confirmed and ns > one.ends[reader, count] + S:
                self.world.expected["lock_outlived"].add(one.offset)
            if held and answer == "renew":
                one.ends[reader, count] = max(one.ends[reader, count], after + self.world.lock)
        if answer in ("accept", "reject") and (confirmed or not answered):
            one.settled = True
        if answer == "accept" and answered and confirmed:
            self.at(after, partial(self.told, one, count))
        if not held:
            return
        if answer == "renew":
            one.until_ns = ns + self.world.lock
        elif answer == "release":
            self.give_back(one)
        else:
            one.state = "acknowledged" if answer == "accept" else "archived"

    def told(self, one: Record, count: int, ns: int) -> None:
        """A member learns that its accept was carried out."""
        if one.accepted is None:
            one.accepted = ns, count
        if one.plant == "forget accept":
            one.plant, one.state = "nothing", "available"
            for reader in self.readers:  # Some of them may have found that everything was done.
                self.at(ns + self.later(1, 400), partial(self.poll, reader))

    def store(self, end: int) -> None:
        """The log of states: a snapshot of the beginning, and updates."""
        for one in self.records:
            if one.plant == "forget at the end" and one.accepted is not None:
                one.state = "available"
                self.world.expected["accept_lost"].add(one.offset)
            if one.plant == "drop" and not one.settled:
                one.state = "archived"
            done = one.state in ("acknowledged", "archived")
            if done and not one.settled:
                self.world.expected["archived"].add(one.offset)
            if not done and not one.settled and any(self.waits.values()):
                self.world.expected["not_delivered"].add(one.offset)
        first = next((one.offset for one in self.records if one.state == "available"), len(self.records))
        base = {"ns": end, "group": "g", "topic": "t", "partition": 0, "timestamp_ms": 1, "leader_epoch": 0}
        snapshot = {"snapshot": True, "snapshot_epoch": 0, "state_epoch": 1}
        self.world.states.append({**base, **snapshot, "log_offset": 0, "start_offset": 0})
        update = {**base, "snapshot": False, "snapshot_epoch": 0}
        for number, one in enumerate(self.records[first:], 1):
            if one.state != "available" or self.random.random() < 0.5:
                batch = {"first_offset": one.offset, "last_offset": one.offset, "state": one.state}
                counted = {**batch, "delivery_count": one.count}
                self.world.states.append({**update, **counted, "log_offset": number, "start_offset": -1})
        self.world.states.append({**update, "log_offset": 1000, "start_offset": first})
