"""Transactions that are reduced while they go on are judged as all of them are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.judging.transactions import conclude
from checkers.partition.messages import FAIL
from checkers.partition.rolling import RollingPartition
from checkers.tables.output import FINDING
from checkers.tables.source import open_source
from checkers.tables.transactions import producer_records
from harness.history.read_journal import ReadJournal, ReceivedRecord
from harness.history.reads import ROW, parse_read_header, reads_table
from harness.history.schema import OUTCOMES, TABLES
from harness.history.stream_journal import StreamJournal
from harness.history.tables import write_table
from harness.host_files import Folder
from harness.kafka.model import TopicPartition
from run.soak import checkpoint
from run.soak.deliveries import Deliveries
from run.soak.judge import rows_of_copies, sends_of_rest
from run.soak.replicas import copies_of
from run.soak.streams import Streams
from run.soak.transactions import Transactions
from tests.transactions import rows

KEYS = (TopicPartition("t", 0), TopicPartition("t", 1))
BROKERS = (1, 2, 3)
PLAIN = 3
"""A writer without transactions."""
COPIES = TABLES["copies"].arrow()


class World:
    """Two transactional writers, a plain one, two partitions, and readers of both kinds."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.calm = self.random.choice((1, 2, 8))
        self.folder = folder
        self.clock = 10**6
        self.logs: dict[TopicPartition, list[dict[str, Any]]] = {key: [] for key in KEYS}
        self.floor = dict.fromkeys(KEYS, 0)
        self.size = {1: self.random.randrange(1, 5), 2: self.random.randrange(1, 5), PLAIN: 0}
        self.next = dict.fromkeys(self.size, 0)
        self.sends: dict[tuple[int, int], tuple[TopicPartition, str, int | None]] = {}
        self.epochs = {1: 0, 2: 0}
        self.touched: dict[int, set[TopicPartition]] = {1: set(), 2: set()}
        self.owed: list[tuple[int, TopicPartition, str, int]] = []
        self.events: list[dict[str, Any]] = []
        self.open = {
            writer: StreamJournal(folder / f"c.{writer}.sends", writer, KEYS, size)
            for writer, size in self.size.items()
        }
        self.ended = set[tuple[int, int]]()
        self.readers = [
            Reader(self, 10 + number, key, isolation)
            for number, (key, isolation) in enumerate(
                (key, isolation) for key in KEYS for isolation in ("read_committed", "read_uncommitted")
            )
        ]

    def tick(self) -> int:
        self.clock += 1000
        return self.clock

    def one_in(self, count: int) -> bool:
        return self.random.random() < 1 / count

    def odd(self, count: int) -> bool:
        """Whether something goes wrong: once in so many times, and more rarely in a calm world."""
        return self.random.random() < 1 / (count * self.calm)

    def append(self, key: TopicPartition, **record: Any) -> int:
        log = self.logs[key]
        log.append({"offset": len(log), "epoch": 0, **record})
        return len(log) - 1

    def record(self, key: TopicPartition, writer: int, seq: int) -> int:
        producer: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1, "transactional": False}
        if writer in self.epochs:
            epoch = self.epochs[writer]
            if self.odd(40):  # a zombie
                epoch = max(0, epoch - 1)
            producer = {"producer_id": 6 + writer, "producer_epoch": epoch, "transactional": True}
        return self.append(key, writer=writer, seq=seq, home=str(key), intact=True, control=False, **producer)

    def marker(self, writer: int, key: TopicPartition, kind: str, epoch: int) -> None:
        producer = {"producer_id": 6 + writer, "producer_epoch": epoch, "transactional": True}
        coordinator = self.random.choice((0, 0, 0, 1, -1))
        self.append(key, control=True, marker=kind, coordinator_epoch=coordinator, **producer)

    def tell(self, writer: int, txn: int, event: str) -> None:
        row = {"ns": self.tick(), "writer": writer, "txn": txn, "event": event, "error": 0}
        self.events.append(row)
        with (self.folder / "c.jsonl").open("a") as file:
            file.write(json.dumps({"table": "transactions", **row}, separators=(",", ":")) + "\n")

    def step(self) -> None:
        writer = self.random.choice((1, 1, 2, 2, PLAIN))
        size, seq = self.size[writer], self.next[writer]
        if size and seq % size == 0 and not self.odd(40):
            self.tell(writer, seq // size, "begin")
        self.message(writer, seq)
        if size and self.next[writer] % size == 0:
            self.end(writer, seq // size)
        if self.odd(25) and self.sends:  # it is appended again
            who, number = self.random.choice(sorted(self.sends))
            self.record(self.sends[who, number][0], who, number)
        if self.odd(40):  # nobody knows why
            some = self.random.choice((1, 2))
            self.marker(some, self.random.choice(KEYS), self.random.choice(("commit", "abort")), 0)
        while self.owed and not self.one_in(3):
            who, key, kind, epoch = self.owed.pop(0)
            self.marker(who, key, kind, epoch)

    def message(self, writer: int, seq: int) -> None:
        key, self.next[writer] = self.random.choice(KEYS), seq + 1
        kind = "ok"
        if self.odd(8):
            kind = self.random.choice(("fail", "info", "unseen", "phantom", "lost", "moved"))
        offset = None
        if kind not in ("fail", "info", "lost"):
            offset = self.record(key, writer, seq)
            if writer in self.touched:
                self.touched[writer].add(key)
        if kind == "lost":
            offset = len(self.logs[key])
        outcome = {"fail": "fail", "phantom": "fail", "info": "info", "unseen": "info"}.get(kind, "ok")
        told = offset if outcome == "ok" else None
        if kind == "moved" and told is not None:
            told += 1
        self.sends[writer, seq] = (key, outcome, told)

    def end(self, writer: int, txn: int) -> None:
        commit = not self.one_in(4)
        if not self.odd(25):
            self.tell(writer, txn, "committing" if commit else "aborting")
        told = "committed" if commit else "aborted"
        if self.odd(15):
            told = self.random.choice(("unknown", "committed", "aborted"))
        kind = "commit" if commit else "abort"
        for key in sorted(self.touched[writer]):
            if self.odd(20):
                continue
            wrong = self.odd(20)
            marker = {"commit": "abort", "abort": "commit"}[kind] if wrong else kind
            for _ in range(1 + self.odd(12)):
                self.owed.append((writer, key, marker, self.epochs[writer]))
        self.touched[writer] = set()
        if not self.odd(25):
            self.tell(writer, txn, told)
        if self.one_in(4):
            self.epochs[writer] += 1

    def grow(self, *, everything: bool = False) -> None:
        """Journals get what was sent, and outcomes of some of it."""
        for (writer, seq), (key, outcome, offset) in sorted(self.sends.items()):
            journal = self.open[writer]
            if seq >= journal.counters().begun:
                journal.begin(seq, KEYS.index(key), 1000 + seq)
            if (writer, seq) not in self.ended and (everything or self.one_in(2)):
                journal.complete(seq, done_ns=2000 + seq, outcome=outcome, offset=offset)
                self.ended.add((writer, seq))

    def decided(self, key: TopicPartition, offset: int) -> str | None:
        """What a broker would say of a record now; None: nothing yet."""
        record = self.logs[key][offset]
        if not record["transactional"]:
            return "commit"
        later = (one for one in self.logs[key][offset:] if one["control"])
        kinds = (one["marker"] for one in later if one["producer_id"] == record["producer_id"])
        return next(kinds, None)

    def truncate(self, key: TopicPartition) -> int:
        log = self.logs[key]
        at = self.random.randrange(max(self.floor[key], len(log) - 8), len(log) + 1)
        del log[at:]
        return at

    def table(self, key: TopicPartition, low: int = 0, high: int = 1 << 40) -> pa.Table:
        chosen = [record for record in self.logs[key] if low <= record["offset"] < high]
        return pa.Table.from_pylist([{**key._asdict(), "broker": 1, **one} for one in chosen], schema=COPIES)


class Reader:
    """Reads a partition in order, and makes few mistakes."""

    def __init__(self, world: World, number: int, key: TopicPartition, isolation: str) -> None:
        self.world, self.key, self.isolation = world, key, isolation
        self.lines = world.folder / f"r{number}.jsonl"
        self.journal = ReadJournal(self.lines, number, group=None, isolation=isolation, topics=["t"])
        self.position = 0

    def poll(self) -> None:
        world, records = self.world, []
        log = world.logs[self.key]
        for _ in range(world.random.randrange(1, 12)):
            if self.position >= len(log):
                break
            offset, record = self.position, log[self.position]
            if not record["control"]:
                kind = world.decided(self.key, offset)
                committed = self.isolation == "read_committed"
                if committed and kind is None:
                    break
                wanted = not committed or kind == "commit"
                if wanted != world.odd(60):
                    records.append(self.received(offset, record))
            self.position += 1
        self.journal.append(records)

    def received(self, offset: int, record: dict[str, Any]) -> ReceivedRecord:
        return ReceivedRecord(
            topic=self.key.topic,
            partition=self.key.partition,
            ns=self.world.tick(),
            offset=offset,
            epoch=0,
            writer=record["writer"],
            seq=record["seq"],
            poll=0,
        )

    def everything(self) -> pa.Table:
        file = next(iter(self.lines.parent.glob(f"{self.lines.stem}.*.reads")), None)
        if file is None:
            return TABLES["reads"].arrow().empty_table()
        content = file.read_bytes()
        header = parse_read_header(content[: content.index(b"\n") + 1], str(file))
        assert header is not None
        return reads_table(header, np.frombuffer(content[header.header_bytes :], dtype=ROW))


class Judge:
    """What judges the world while it goes on."""

    def __init__(self, world: World) -> None:
        self.world, self.random = world, world.random
        files = [Folder(world.folder)]
        self.streams = Streams(files)
        self.transactions = Transactions(files, self.streams)
        self.deliveries = Deliveries(files, self.streams, self.transactions)
        self.streams.look()
        self.parts = {key: RollingPartition(sent=self.streams.of(key)) for key in KEYS}

    def take(self, *, everything: bool = False) -> bool:
        self.streams.look()
        found = self.streams.take(all_of_it=everything)
        for key, part in self.parts.items():
            part.take(found.get(key, ()), self.streams.taken)
        self.transactions.take()
        self.deliveries.take(all_of_it=everything)
        return bool(found)

    def close(self, key: TopicPartition, high: int) -> None:
        part = self.parts[key]
        table = self.world.table(key, part.judged, high)
        part.close(high, 1, {1: copies_of(table, key)}, (2, 3), producers=producer_records(table))

    def advance(self) -> None:
        key = self.random.choice(KEYS)
        low, end = self.parts[key].judged, len(self.world.logs[key])
        if end > low:
            self.close(key, self.random.randrange(low, end) + 1)

    def merge(self) -> None:
        key = self.random.choice(KEYS)
        part = self.parts[key]
        below = max(0, min(part.judged - 3, part.undecided))
        part.merge(below)
        ends = [window.high for window in part.windows if window.high <= below]
        self.world.floor[key] = max(self.world.floor[key], max(ends, default=0))

    def restore(self) -> None:
        """It is killed, and goes on from what it has stored."""
        checkpoint.save(self.world.folder, self.parts, self.streams.taken)
        stored = checkpoint.load(self.world.folder)
        assert stored is not None
        states, taken = stored
        for key, state in states.items():
            self.parts[key] = RollingPartition(sent=self.streams.of(key))
            self.parts[key].restore(state, taken)

    def finish(self) -> None:
        while self.take(everything=True):
            pass
        for key, part in self.parts.items():
            while part.judged < (end := len(self.world.logs[key])):
                self.close(key, min(end, part.judged + self.random.randrange(1, 9)))
            part.keep_ends()
        while self.deliveries.take(all_of_it=True):
            pass
        self.transactions.single_out(self.parts)
        self.deliveries.single_out(self.parts)
        self.transactions.single_out(self.parts)

    def copies(self) -> pa.Table:
        tables = [COPIES.empty_table()]
        for key, part in self.parts.items():
            for broker, log in sorted(part.rest(BROKERS).copies.items()):
                tables.append(rows_of_copies(key, broker, log, part))
        return pa.concat_tables(tables)


def judged(folder: Path, world: World, tables: dict[str, pa.Table]) -> tuple[Counter[Any], set[str]]:
    """Messages by writer, outcome and fate, and findings."""
    writers = [
        {"writer": writer, "name": "p", "client": "librdkafka", "transactional_id": f"x{writer}"}
        for writer in world.size
    ]
    replicas = [
        {**key._asdict(), "broker": broker, "complete": True, "leader": broker == 1, "in_sync": True}
        | {"leo": len(world.logs[key]), "log_start": 0, "ns": 10**12, "cleanup": "delete"}
        for key in KEYS
        for broker in BROKERS
    ]
    rest = {"writers": writers, "replicas": replicas, "transactions": world.events}
    for name, table in tables.items():
        write_table(folder, name, table)
    for name, some in rest.items():
        write_table(folder, name, pa.Table.from_pylist(some, schema=TABLES[name].arrow()))
    source = open_source(folder / "history")
    evidence = gather(source)
    places = {name: folder / "out" / name for name in ("findings", "transactions")}
    for place in (*places.values(), places["transactions"] / "parts", places["transactions"] / "records"):
        place.mkdir(parents=True)
    job = JudgingContext(
        source=source, evidence=evidence, life=None, **{name: str(place) for name, place in places.items()}
    )
    tallies = judge_all(run_here, job)
    conclude(source, evidence, places["transactions"], places["findings"], tallies)
    counts = Counter[Any]()
    for row in tallies.to_pylist():
        if row["kind"] == "fate":
            counts[row["writer"], row["outcome"], row["name"]] += row["count"]
    columns = (
        *("class", "partition", "offset", "writer", "seq", "txn", "count", "cause", "cause_facts", "detail"),
    )
    found = rows(places["findings"].glob("*.parquet"), FINDING)
    return counts, {str([row[name] for name in columns]) for row in found}


def sends(world: World) -> pa.Table:
    found = [
        {
            **key._asdict(),
            "writer": writer,
            "seq": seq,
            "sent_ns": 1000 + seq,
            "done_ns": 2000 + seq,
            "outcome": outcome,
            "error": 0,
            "offset": offset,
            "txn": seq // world.size[writer] if world.size[writer] else None,
        }
        for (writer, seq), (key, outcome, offset) in sorted(world.sends.items())
    ]
    return pa.Table.from_pylist(found, schema=TABLES["sends"].arrow())


def whole(world: World) -> dict[str, pa.Table]:
    logs = [
        pa.Table.from_pylist(
            [{**row, "broker": broker} for row in world.table(key).to_pylist()], schema=COPIES
        )
        for key in KEYS
        for broker in BROKERS
    ]
    return {
        "sends": sends(world),
        "copies": pa.concat_tables(logs),
        "reads": pa.concat_tables([reader.everything() for reader in world.readers]),
    }


def simulate(seed: int, folder: Path) -> tuple[World, Judge]:
    folder.mkdir()
    world = World(seed, folder)
    judge, random = Judge(world), world.random
    for _ in range(random.randrange(5, 90)):
        world.step()
        for action, often in ((world.grow, 3), (judge.take, 3), (judge.advance, 4), (judge.merge, 12)):
            if world.one_in(often):
                action()
        if world.one_in(4):
            random.choice(world.readers).poll()
        if world.odd(40):
            key = random.choice(KEYS)
            judge.parts[key].rewind(world.truncate(key))
        if world.one_in(30):
            judge.restore()
    for writer, key, kind, epoch in world.owed:
        world.marker(writer, key, kind, epoch)
    for _ in range(6):
        for reader in world.readers:
            reader.poll()
    world.grow(everything=True)
    for journal in world.open.values():
        journal.close()
    judge.finish()
    return world, judge


def compared(seed: int, folder: Path) -> Counter[str]:
    """One history, judged in both ways; what there was."""
    world, judge = simulate(seed, folder)
    expected, findings = judged(folder / "whole", world, whole(world))
    rest = {
        "sends": sends_of_rest(judge.streams, judge.parts.values()),
        "copies": judge.copies(),
        "reads": judge.deliveries.table(judge.parts),
    }
    counts, found = judged(folder / "rest", world, rest)
    for part in judge.parts.values():
        for writer, count in part.settled.items():
            counts[writer, "ok", "kept"] += count
        for (writer, outcome), count in part.absent.items():
            fate = "failed" if outcome == FAIL else "unknown_dropped"
            counts[writer, OUTCOMES[outcome], fate] += count
    assert +counts == +expected, f"seed {seed}"
    assert found == findings, f"seed {seed}"
    seen = Counter({"messages": len(world.sends), "kept": rest["sends"].num_rows})
    seen.update(json.dumps(one.split("'")[1]) for one in found)
    return seen


def of_seeds(seeds: Sequence[int], folder: Path) -> Counter[str]:
    total = Counter[str]()
    for seed in seeds:
        total += compared(seed, folder / str(seed))
    return total


FINDINGS = (
    *("torn_transaction", "lost_transaction", "aborted_read", "hanging_transaction"),
    *("duplicated", "lost"),
)


def test_reduced_transactions_are_judged_as_all(tmp_path: Path) -> None:
    seen = of_seeds(range(12), tmp_path)
    assert {f'"{name}"' for name in FINDINGS} <= set(seen), seen
    assert seen["kept"] < 0.95 * seen["messages"], seen


def test_streams_whose_messages_end_in_the_same_look(tmp_path: Path) -> None:
    """A late message of one uncovers a record of the other, whose message came once more after it."""
    assert compared(299, tmp_path / "299")["messages"] > 0


if __name__ == "__main__":  # a long campaign: first seed, and how many
    import shutil
    import sys
    import tempfile

    first, many = int(sys.argv[1]), int(sys.argv[2])
    for block in range(first, first + many, 20):
        place = Path(tempfile.mkdtemp())
        print(block, dict(of_seeds(range(block, min(block + 20, first + many)), place)), flush=True)
        shutil.rmtree(place)
