"""A small model of an application of Kafka Streams, written from the document alone: planted findings.

The model has a source with one or two partitions, an application that reads, counts and writes, in
transactions or without, and no code of the checker. It fails now and then, and goes back to what it had
committed. What its topics hold at the end becomes rows of the history; what was planted becomes the expected
findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

S = 10**9
Row = dict[str, Any]
CLASSES = ("not_counted", "counted_twice", "store_differs")
PLANTS = (
    "drop from output",
    "drop from changelog",
    "repeat in output",
    "repeat in changelog",
    "store less",
    "store more",
)
SOURCE, OUTPUT, CHANGELOG, APP = "in", "out", "app-counts-changelog", "app"
PROGRESS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
UNCLEAN, POWER = "unclean_election", "unflushed_data_lost"


@dataclass
class Topic:
    """The log of one partition: each entry is a row of `copies` without its place."""

    name: str
    partition: int
    rows: list[Row] = field(default_factory=list)

    def append(self, **columns: object) -> int:
        """Add a record; returns its offset."""
        self.rows.append({"offset": len(self.rows), "control": False, "transactional": False, **columns})
        return len(self.rows) - 1


@dataclass
class World:
    """A history in the making, and what the checker must find: class, topic, partition, and how many."""

    exactly: bool
    words: int
    tables: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    expected: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    """By class, topic in which it shows, partition of the source, and cause."""


def make(seed: int) -> World:
    """The history with this number."""
    return _Application(Random(f"application {seed}")).run()


class _Application:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.world = World(exactly=random.random() < 0.7, words=random.choice((1, 2, 3)))
        self.partitions = random.choice((1, 2))
        self.logs = {
            (name, number): Topic(name, number)
            for name in (SOURCE, OUTPUT, CHANGELOG)
            for number in range(self.partitions)
        }
        self.producer = 100
        self.plant = random.choice(("nothing", *PLANTS))
        self.done_reading: dict[int, int] = {}
        self.counts: dict[int, Counter[str]] = {number: Counter() for number in range(self.partitions)}
        self.times: dict[str, Counter[tuple[int, int]]] = {name: Counter() for name in (OUTPUT, CHANGELOG)}
        self.lossy: dict[tuple[str, int], str] = {}
        """What takes records from a topic partition, and so explains what is missing."""

    def run(self) -> World:
        for number in range(self.partitions):
            self._send(number)
        for number in range(self.partitions):
            self._process(number)
        self._plant()
        self._lose()
        self._report()
        return self.world

    def _lose(self) -> None:
        """A broker from outside the ISR leads a partition, or one whose power was cut leads it next.

        A power cut of a broker that leads nothing any more explains nothing.
        """
        topic = self.random.choice((OUTPUT, CHANGELOG, PROGRESS, TRANSACTIONS))
        number = 0 if topic == PROGRESS else self.random.randrange(self.partitions)
        how = self.random.choice(("nothing", "nothing", UNCLEAN, POWER, "spared"))
        led = [(1, 1, 0, [1] if how == UNCLEAN else [1, 2])]
        if how != "nothing":
            leader = 2 if how != POWER else self.random.choice((1, 2))
            led.append((4, leader, 1, [leader]))
        for second, leader, epoch, isr in led:
            place = {"source": "controller1", "subject": "partition", "topic": topic, "partition": number}
            self.world.tables["views"].append(
                {**place, "ns": second * S, "leader": leader, "epoch": epoch, "isr": isr}
            )
        if how == "nothing":
            return
        if how != UNCLEAN:
            hit = leader if how == POWER else 3
            fault = {"fault": 1, "name": "lights out", "kind": "storage", "mechanism": "power_cut"}
            self.world.tables["faults"].append(
                {**fault, "ns": 3 * S, "moment": "injected", "targets": f'{{"hosts": ["broker{hit}"]}}'}
            )
        if how != "spared":
            self.lossy[topic, number] = how

    def _send(self, number: int) -> None:
        """Messages of one writer for each partition; some come twice, some never."""
        log = self.logs[SOURCE, number]
        for seq in range(self.random.randint(3, 14)):
            fate = self.random.choices(("ok", "twice", "info", "lost"), (20, 1, 2, 1))[0]
            copies = {"ok": 1, "twice": 2, "info": self.random.randint(0, 1), "lost": 0}[fate]
            places = [log.append(writer=number, seq=seq) for _ in range(copies)]
            self.world.tables["sends"].append(
                {
                    "topic": SOURCE,
                    "partition": number,
                    "writer": number,
                    "seq": seq,
                    "sent_ns": S + seq,
                    "done_ns": 2 * S + seq if fate != "info" else None,
                    "outcome": "info" if fate == "info" else "ok",
                    "offset": places[0] if places and fate != "info" else None,
                }
            )

    def _process(self, number: int) -> None:
        """Read to an offset in units; a unit may fail, and is then aborted, or simply done again."""
        log = self.logs[SOURCE, number]
        end = self.random.choice((len(log.rows), len(log.rows), self.random.randint(0, len(log.rows))))
        at = 0
        while at < end:
            unit = log.rows[at : min(end, at + self.random.randint(1, 5))]
            fails = self.random.random() < 0.25
            self._write(number, unit, committed=not fails)
            if not fails:
                at += len(unit)
        if self.random.random() < 0.3 and end < len(log.rows):  # what nobody decides
            self._write(number, log.rows[end : end + 1], committed=None)
        self.done_reading[number] = end

    def _write(self, number: int, unit: list[Row], committed: bool | None) -> None:
        self.producer += 1
        touched = set()
        seen = bool(committed) or not self.world.exactly
        for row in unit:
            message = (row["writer"], row["seq"])
            for name in (OUTPUT, CHANGELOG):
                place = self.random.randrange(self.partitions) if name == OUTPUT else number
                self._record(name, place, message)
                touched.add((name, place))
                self.times[name][message] += seen
            self.counts[number][self._word(message)] += seen
        if self.world.exactly and committed is not None:
            for place in touched:
                marker = "commit" if committed else "abort"
                self.logs[place].append(
                    control=True,
                    transactional=True,
                    marker=marker,
                    producer_id=self.producer,
                    coordinator_epoch=0,
                )

    def _record(self, name: str, place: int, message: tuple[int, int]) -> None:
        producer = {"producer_id": self.producer, "transactional": True} if self.world.exactly else {}
        self.logs[name, place].append(writer=message[0], seq=message[1], **producer)

    def _word(self, message: tuple[int, int]) -> str:
        return f"{message[0]}/{message[1] % self.world.words}"

    def _inputs(self, number: int) -> Counter[tuple[int, int]]:
        return Counter((row["writer"], row["seq"]) for row in self.logs[SOURCE, number].rows)

    def _due(self, number: int) -> Counter[tuple[int, int]]:
        rows = self.logs[SOURCE, number].rows[: self.done_reading[number]]
        return Counter((row["writer"], row["seq"]) for row in rows)

    def _plant(self) -> None:
        number = self.random.randrange(self.partitions)
        due = sorted(self._due(number))
        if not due:
            return
        message = self.random.choice(due)
        name = OUTPUT if "output" in self.plant else CHANGELOG
        if self.plant.startswith("drop"):
            for (topic, _), log in self.logs.items():
                for row in log.rows:
                    if topic == name and (row.get("writer"), row.get("seq")) == message:
                        row["writer"], row["seq"] = 999, row["offset"]  # a record of somebody else
            self.times[name][message] = 0
        elif self.plant.startswith("repeat"):
            self.producer += 1
            place = number if name == CHANGELOG else self.random.randrange(self.partitions)
            self._record(name, place, message)
            if self.world.exactly:
                if self._open(name, place):  # behind an open transaction nobody reads
                    self.logs[name, place].append(
                        control=True, transactional=True, marker="abort", producer_id=self.producer
                    )
                    return
                self.logs[name, place].append(
                    control=True,
                    transactional=True,
                    marker="commit",
                    producer_id=self.producer,
                    coordinator_epoch=0,
                )
            self.times[name][message] += 1
        elif self.plant == "store less":
            self.counts[number][self._word(message)] = max(
                0,
                sum(n for one, n in self._due(number).items() if self._word(one) == self._word(message)) - 1,
            )
        elif self.plant == "store more":
            self.counts[number][self._word(message)] += 40

    def _open(self, name: str, place: int) -> bool:
        rows = self.logs[name, place].rows
        ended = {row["producer_id"] for row in rows if row["control"]}
        return any(row["transactional"] and row["producer_id"] not in ended for row in rows)

    def _report(self) -> None:
        tables, world = self.world.tables, self.world
        tables["writers"] = [
            {"writer": number, "name": f"w{number}", "acks": -1} for number in range(self.partitions)
        ]
        for (name, number), log in self.logs.items():
            place = {"topic": name, "partition": number, "broker": 1}
            tables["copies"] += [{**place, "intact": True, "epoch": 0, **row} for row in log.rows]
            end = len(log.rows)
            tables["replicas"].append(
                {
                    **place,
                    "complete": True,
                    "leo": end,
                    "high_watermark": end,
                    "log_start": 0,
                    "leader": True,
                    "in_sync": True,
                }
            )
        base = {"application": APP, "reader": 7, "member": "i"}
        guarantee = "exactly_once_v2" if world.exactly else "at_least_once"
        started = {
            "source": SOURCE,
            "output": OUTPUT,
            "changelog": CHANGELOG,
            "guarantee": guarantee,
            "words": world.words,
        }
        tables["applications"].append({"ns": S, "event": "started", **base, **started})
        for number in range(self.partitions):
            group = {"group": APP, "reader": 8, "topic": SOURCE, "partition": number}
            tables["groups"].append(
                {"ns": 5 * S, "event": "fetched", "offset": self.done_reading[number], **group}
            )
            stored = {"ns": 6 * S, "event": "stored", "partition": number, **base}
            tables["applications"].append(dict(stored))
            for word, count in self.counts[number].items():
                tables["applications"].append({**stored, "word": word, "count": count})
            self._expect(number)
        if self.random.random() < 0.3:
            self._add_former_owner()

    def _add_former_owner(self) -> None:
        """An instance that was cut off, whose store is as old as the cut and is asked all the same."""
        rows, every = self.world.tables["applications"], list(range(self.partitions))
        for reader, second in ((6, 2), (7, 3)):
            base = {"application": APP, "reader": reader, "member": f"i{reader}"}
            rows.append({"ns": second * S, "event": "state", "state": "RUNNING", "partitions": every, **base})
        old = {"application": APP, "reader": 6, "member": "i6", "ns": 6 * S, "event": "stored"}
        for number in every:
            rows.append({**old, "partition": number})
            rows.append(
                {**old, "partition": number, "word": f"{number}/0", "count": self.random.randint(0, 99)}
            )

    def _cause(self, *topics: tuple[str, int | None]) -> str:
        """Why records are missing in topics; a partition of None stands for all of them."""
        for topic, number in topics:
            for place in sorted(self.lossy):
                if place[0] == topic and number in (None, place[1]):
                    return self.lossy[place]
        return "unexplained"

    def _expect(self, number: int) -> None:
        world, inputs, due = self.world, self._inputs(number), self._due(number)
        again = self._cause((PROGRESS, 0), (TRANSACTIONS, None))
        often = again if world.exactly else "at_least_once"
        sent = {row["seq"] for row in world.tables["sends"] if row["partition"] == number}
        for name in (OUTPUT, CHANGELOG):
            for seq in sent:
                message = (number, seq)
                n = self.times[name][message]
                if n < due[message]:
                    why = self._cause((name, None if name == OUTPUT else number))
                    world.expected["not_counted", name, number, why] += 1
                if n > max(inputs[message], 1 if not inputs[message] else 0):
                    world.expected["counted_twice", name, number, often] += 1
        missing = [(number, seq) for seq in sent if not inputs[number, seq]]
        words = {self._word((number, seq)) for seq in sent} | set(self.counts[number])
        for word in words:
            least = sum(n for one, n in due.items() if self._word(one) == word)
            most = sum(n for one, n in inputs.items() if self._word(one) == word)
            most += sum(self._word(one) == word for one in missing)
            count = self.counts[number][word]
            if count < least:
                world.expected["store_differs", CHANGELOG, number, self._cause((CHANGELOG, number))] += 1
            elif count > most:
                world.expected["store_differs", CHANGELOG, number, often] += 1
