"""What consumers received, reduced while they read on, is judged as all of it is."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from checkers.partition.deliveries import GroupRow, aborted_reads, conflicts, missed, suspicious_steps
from checkers.partition.fate import CODE
from checkers.partition.fates import decide, recognise
from checkers.partition.logs import CopyArrays, PartitionReplicas, Replica, logs_of, reference_of
from checkers.partition.messages import FAIL, FOREVER, NO_HOMES, OK, KeyIndex, ReadArrays, SendArrays
from checkers.tables.source import numbers
from harness.history.read_journal import ReadJournal, ReceivedRecord
from harness.history.reads import ROW, parse_read_header, reads_table
from harness.history.schema import OUTCOMES
from harness.history.stream_journal import StreamJournal
from harness.host_files import Folder
from harness.kafka.model import TopicPartition
from run.soak.deliveries import Deliveries
from run.soak.streams import Streams
from run.soak.transactions import Transactions
from tests.property.test_rolling import BROKERS, Follower, Record, Run, copies

KEY = TopicPartition("t", 0)
GROUP = "g"


class Reader:
    """A group member that reads from the leader, and its journals."""

    def __init__(self, run: Run, folder: Path, number: int, clock: list[int]) -> None:
        self.run, self.random, self.number, self.clock = run, run.random, number, clock
        self.lines = folder / f"client{number}.jsonl"
        self.journal = ReadJournal(
            self.lines, number, group=f"{GROUP}{number}", isolation="read_committed", topics=["t"]
        )
        self.position = self.committed = 0
        self.events: list[GroupRow] = []

    def now(self) -> int:
        self.clock[0] += 1
        return self.clock[0]

    def note(self, event: str) -> None:
        row = GroupRow(
            ns=self.now(),
            group=f"{GROUP}{self.number}",
            reader=self.number,
            event=event,
            offset=self.committed,
        )
        with self.lines.open("a") as file:
            columns = {"table": "groups", **asdict(row), **KEY._asdict()}
            file.write(json.dumps(columns, separators=(",", ":")) + "\n")
        self.events.append(row)

    def poll(self) -> None:
        """Read some records, at times not the next ones, or others than those that are there."""
        random, log = self.random, self.run.logs[self.run.leader]
        if random.random() < 0.04:
            self.position = max(0, self.position + random.randrange(-6, 7))  # nobody knows why
        if random.random() < 0.06:
            self.position = self.committed
            self.note("assigned")
        if random.random() < 0.03:
            self.note("sought")
        records = []
        for _ in range(random.randrange(1, 30)):
            held = log.get(self.position)
            if held is None:
                if all(offset < self.position for offset in log):
                    break
            else:
                records.append(self.received(held))
            self.position += 1
        self.journal.append(records)
        if random.random() < 0.4:
            self.committed = self.position
            self.note("committed")

    def received(self, held: Record) -> ReceivedRecord:
        _, writer, seq, _ = held
        if self.random.random() < 0.01:
            writer, seq = self.random.choice(((9, 1), (1, seq), (2, seq), (1, seq + 1)))
        return ReceivedRecord(
            topic="t",
            partition=0,
            ns=self.now(),
            offset=self.position,
            epoch=held[0],
            writer=writer,
            seq=seq,
            poll=0,
        )

    def everything(self) -> pa.Table:
        file = next(iter(self.lines.parent.glob(f"client{self.number}.*.reads")), None)
        if file is None:
            return reads_table(parse_read_header(HEADER, "") or pytest.fail(), np.empty(0, dtype=ROW))
        content = file.read_bytes()
        header = parse_read_header(content[: content.index(b"\n") + 1], str(file))
        assert header is not None
        return reads_table(header, np.frombuffer(content[header.header_bytes :], dtype=ROW))


HEADER = (
    b'{"magic":"ackedrd1","reader":1,"group":null,"isolation":null,"topics":["t"]}'.ljust(
        2 * ROW.itemsize - 1
    )
    + b"\n"
)


class Journals:
    """The journals of the streams: each message is begun at once, and ends at once or at the end."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run = run
        self.open = {writer: StreamJournal(folder / f"c.{writer}.sends", writer, [KEY]) for writer in (1, 2)}
        self.begun = set[tuple[int, int]]()
        self.ended = set[tuple[int, int]]()

    def grow(self, *, all_of_it: bool = False) -> None:
        for (writer, seq), (outcome, offset) in sorted(self.run.sends.items()):
            key = (writer, seq)
            if key not in self.begun:
                self.open[writer].begin(seq, 0, 1000 + seq)
                self.begun.add(key)
            if key not in self.ended and (all_of_it or self.run.random.random() < 0.5):
                self.open[writer].complete(seq, done_ns=1, outcome=OUTCOMES[outcome], offset=offset)
                self.ended.add(key)


def arrays(reads: pa.Table, index: KeyIndex) -> ReadArrays:
    reads = reads.take(pa.array(np.argsort(numbers(reads, "ns"), kind="stable")))
    writer, seq = numbers(reads, "writer"), numbers(reads, "seq")
    names = reads["group"].to_pylist()
    groups = tuple(sorted(set(names)))
    count = len(names)
    return ReadArrays(
        reader=numbers(reads, "reader"),
        ns=numbers(reads, "ns"),
        offset=numbers(reads, "offset"),
        writer=writer,
        seq=seq,
        row=index.find(writer, seq),
        group=np.array([groups.index(name) for name in names], dtype=np.int64),
        groups=groups,
        committed=np.ones(count, dtype=bool),
        uncommitted=np.zeros(count, dtype=bool),
        undone=np.full(count, -1, dtype=np.int64),
        floor=np.full(count, FOREVER, dtype=np.int64),
    )


def judged(
    run: Run, sends: SendArrays, logs: dict[int, CopyArrays], table: pa.Table, events: list[GroupRow]
) -> tuple[Counter[object], set[object]]:
    """Fates, and findings about what was received, as the kernel decides them."""
    replicas = {
        broker: Replica(broker=broker, log_start=0, leo=max(log, default=-1) + 1, leader=broker == run.leader)
        for broker, log in run.logs.items()
    }
    spans = {broker: (min(log), max(log)) for broker, log in run.logs.items() if log}
    partition = PartitionReplicas(
        topic="t", number=0, replicas=replicas, reference=run.leader, spans=spans, producers_recorded=True
    )
    index = KeyIndex(sends.writer, sends.seq, "t/0")
    held = logs_of(partition, index, {b: log for b, log in logs.items() if len(log.offset)}, NO_HOMES)
    reads = arrays(table, index)
    held = recognise(partition, sends, held, reads)
    fates = decide(partition, sends, held, reads)
    counts = Counter[object](
        zip(sends.writer.tolist(), sends.outcome.tolist(), fates.fate.tolist(), strict=True)
    )
    found: set[object] = set()
    for name, rows in (
        ("aborted", aborted_reads(partition, sends, fates, held, reads)),
        ("conflict", conflicts(partition, sends, fates, held, reads)),
    ):
        for row in rows.tolist():
            found.add((name, *(int(getattr(reads, c)[row]) for c in ("reader", "offset", "writer", "seq"))))
    steps = suspicious_steps(reads, events, reference_of(partition, held))
    skipped = missed(steps.take(np.flatnonzero(~steps.back)), reference_of(partition, held), sends, reads)
    ahead = 0
    for row in range(len(steps)):
        reader, offset, ns = (int(getattr(steps, name)[row]) for name in ("reader", "offset", "ns"))
        if steps.back[row]:
            found.add(("back", reader, offset, ns))
            continue
        if skipped.count[ahead]:
            what = (int(getattr(skipped, name)[ahead]) for name in ("count", "offset", "writer", "seq"))
            found.add(("past" if steps.past[row] else "skipped", reader, offset, ns, *what))
        ahead += 1
    after_read = np.flatnonzero(fates.fate == CODE["lost_after_read"])
    found |= {("lost after read", int(sends.writer[r]), int(sends.seq[r])) for r in after_read.tolist()}
    return counts, found


@pytest.mark.parametrize("block", range(2))
def test_reduced_deliveries_are_judged_as_all(block: int, tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(block * 40, block * 40 + 40):
        run, folder, clock = Run(seed), tmp_path / str(seed), [10**6]
        run.random = Random(seed)
        folder.mkdir()
        follower, journals = Follower(run), Journals(run, folder)
        readers = [Reader(run, folder, number, clock) for number in (11, 12)]
        streams = Streams([Folder(folder)])
        deliveries = Deliveries([Folder(folder)], streams, Transactions([Folder(folder)], streams))
        for _ in range(run.random.randrange(2, 20)):
            run.grow(BROKERS)
            journals.grow()
            for reader in readers:
                for _ in range(run.random.randrange(3)):
                    reader.poll()
            for _ in range(run.random.randrange(3)):
                run.random.choice((follower.take, follower.advance))()
            if run.random.random() < 0.5:
                streams.look()
                deliveries.take()
            if run.random.random() < 0.2:
                follower.partition.rewind(run.truncate(follower.merged))
            if run.random.random() < 0.1:
                follower.merge()
        journals.grow(all_of_it=True)
        follower.finish()
        streams.look()
        while deliveries.take(all_of_it=True):
            pass
        deliveries.single_out({KEY: follower.partition})
        reduced = deliveries.table({KEY: follower.partition})
        whole = pa.concat_tables([reader.everything() for reader in readers])
        events = [event for reader in readers for event in reader.events]
        logs = {broker: copies(log) for broker, log in run.logs.items()}
        all_counts, expected = judged(run, run.rows(), logs, whole, events)
        rest = follower.partition.rest(BROKERS)
        counts, found = judged(run, rest.sends, dict(rest.copies), reduced, events)
        for writer, count in follower.partition.settled.items():
            counts[writer, OK, CODE["kept"]] += count
        for (writer, outcome), count in follower.partition.absent.items():
            counts[writer, outcome, CODE["failed" if outcome == FAIL else "unknown_dropped"]] += count
        assert +counts == +all_counts, f"seed {seed}"
        assert found == expected, f"seed {seed}"
        seen.update(str(one[0]) for one in found)  # type: ignore[index]
        seen["received"] += whole.num_rows
        seen["kept"] += reduced.num_rows
    assert {"lost after read", "back", "skipped", "conflict", "aborted"} <= set(seen), seen
    assert seen["kept"] < seen["received"], seen
