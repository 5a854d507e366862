"""One task of the fast path: a topic partition, or a piece of one, from files to life and findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.columns import FINDING, TALLY, build
from checkers.compare import differences, out_of_order
from checkers.evidence import Evidence, sightings_of
from checkers.kernel import Context, Replica, Sends, choose_reference, decide, split_logs
from checkers.keys import KeyIndex
from checkers.reading import content_rows, read_arrays, sequence_rows
from checkers.rows import difference_rows, life_table, message_rows, of_messages, stray_rows
from checkers.source import Source, TopicPartition, file_system, numbers, read_rows
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES

SEND_COLUMNS = (
    "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "attempts", "broker", "label", "txn",
)  # fmt: skip
COPY_COLUMNS = ("broker", "offset", "epoch", "writer", "seq", "intact", "home", "control")
SIGHTING_COLUMNS = ("broker", "offset", "seen_ns", "epoch", "writer", "seq", "gone_ns")
READ_COLUMNS = ("reader", "ns", "offset", "writer", "seq", "poll", "group", "isolation")


@dataclass(frozen=True)
class Loaded:
    """Rows of one topic partition, as read."""

    context: Context
    sends: Any
    copies: Mapping[str, Any]
    reads: Any
    sightings: Any


def load(source: Source, evidence: Evidence, holds: TopicPartition) -> Loaded:
    """Read everything about one topic partition and hold its values against the schema."""
    sends = read_rows(source.files["sends"], "sends", SEND_COLUMNS, holds)
    table = read_rows(source.files["copies"], "copies", COPY_COLUMNS, holds)
    reads = read_rows(source.files.get("reads", ()), "reads", READ_COLUMNS, holds)
    seen = read_rows(source.files.get("sightings", ()), "sightings", SIGHTING_COLUMNS, holds)
    name = f"{holds[0]}/{holds[1]}"
    copies = copy_arrays(table, name)
    return Loaded(context_of(source, evidence, holds, copies), sends, copies, reads, seen)


def copy_arrays(table: Any, name: str) -> dict[str, Any]:
    """Columns of `copies` as arrays; refuses values that cannot be."""
    copies = {c: numbers(table, c) for c in ("broker", "offset", "epoch", "writer", "seq")}
    copies["intact"] = numbers(table, "intact", 1).astype(bool)
    copies["control"] = numbers(table, "control", 0).astype(bool)
    copies["home"] = at_home(table["home"], name)
    for column in ("broker", "offset"):
        refuse(copies[column] < 0, copies[column], column, f"copies of {name}")
    return copies


def at_home(column: Any, name: str) -> Any:
    """Whether each message names this partition as its home, or none."""
    if column.null_count == len(column):
        return np.ones(len(column), dtype=bool)
    parts = []
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        fits = np.append(pc.equal(coded.dictionary, name).to_numpy(zero_copy_only=False), True)
        codes = coded.indices.fill_null(len(fits) - 1).to_numpy(zero_copy_only=False)
        parts.append(fits[codes])
    return np.concatenate(parts).astype(bool)


def refuse(bad: Any, values: Any, column: str, where: str) -> None:
    """Raise BadDataError naming the first impossible value."""
    if np.any(bad):
        row = int(np.argmax(bad))
        raise BadDataError(f"{where} hold {column} {int(values[row])} in row {row}, which cannot be.")


def context_of(
    source: Source, evidence: Evidence, holds: TopicPartition, copies: Mapping[str, Any]
) -> Context:
    """Replicas of a partition, and which of them is the reference."""
    ends: dict[int, tuple[int, int]] = {}
    broker, offset, epoch = copies["broker"], copies["offset"], copies["epoch"]
    for number in np.flatnonzero(np.bincount(broker)) if len(broker) else ():
        rows = np.flatnonzero(broker == number)
        last = rows[np.argmax(offset[rows])]
        ends[int(number)] = (int(epoch[last]), int(offset[last]))
    return make_context(source, evidence, holds, ends)


def make_context(
    source: Source, evidence: Evidence, holds: TopicPartition, ends: Mapping[int, tuple[int, int]]
) -> Context:
    """The same from the last epoch and offset of each replica."""
    replicas = {}
    for row in evidence.rows("replicas"):
        if (row["topic"], row["partition"]) == holds:
            replicas[int(row["broker"])] = Replica(
                int(row["broker"]),
                bool(row["complete"]),
                -1 if row["log_start"] is None else int(row["log_start"]),
                -1 if row["leo"] is None else int(row["leo"]),
                bool(row["leader"]),
                row["in_sync"],
                "compact" in (row["cleanup"] or ""),
            )
    reference, conclusive = choose_reference(replicas, ends, source.rows("replicas") > 0)
    compacted = any(replica.compacted for replica in replicas.values())
    return Context(holds[0], holds[1], replicas, reference, conclusive, compacted)


def send_arrays(table: Any, name: str) -> Sends:
    """Columns of `sends` that decide a fate; refuses values that cannot be."""
    outcome = outcome_codes(table["outcome"], name)
    sends = Sends(numbers(table, "writer"), numbers(table, "seq"), outcome, numbers(table, "offset"))
    refuse(sends.writer < 0, sends.writer, "writer", f"sends of {name}")
    refuse(sends.seq < 0, sends.seq, "seq", f"sends of {name}")
    refuse(sends.offset < -1, sends.offset, "offset", f"sends of {name}")
    sent, done = numbers(table, "sent_ns"), numbers(table, "done_ns")
    refuse((done >= 0) & (done < sent), done, "done_ns (before it was sent)", f"sends of {name}")
    return sends


def outcome_codes(column: Any, name: str) -> Any:
    """`ok`, `fail`, `info` as 0, 1, 2; null is 2."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    parts = []
    for chunk in coded.chunks:
        known = []
        for text in chunk.dictionary.to_pylist():
            if text not in OUTCOMES:
                raise BadDataError(
                    f"sends of {name} hold outcome {text!r}; it must be one of {', '.join(OUTCOMES)} or null."
                )
            known.append(OUTCOMES.index(text))
        codes = chunk.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        parts.append(np.array([*known, 2], dtype=np.int8)[codes])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)


@dataclass(frozen=True)
class Outcome:
    """What a task found: life and findings as tables, and its tallies."""

    life: Any
    findings: Any
    tallies: Any


def judge_partition(loaded: Loaded, evidence: Evidence) -> Outcome:
    """Life and findings of one topic partition that fits into memory."""
    context, name = loaded.context, loaded.context.name
    sends = send_arrays(loaded.sends, name)
    index = KeyIndex(sends.writer, sends.seq, name)
    logs = split_logs(context, index, loaded.copies)
    read_row = index.find(numbers(loaded.reads, "writer"), numbers(loaded.reads, "seq"))
    read = np.bincount(read_row[read_row >= 0], minlength=len(sends))
    fates = decide(context, sends, logs, read)
    reads = read_arrays(loaded.reads, read_row)
    seen_row = index.find(numbers(loaded.sightings, "writer"), numbers(loaded.sightings, "seq"))
    seen = sightings_of(len(sends), seen_row, loaded.sightings)
    life = life_table(context, evidence, loaded.sends, sends, logs, fates, read, seen)
    late, _ = out_of_order(sends, fates, {})
    strays, told = stray_rows(context, sends, fates, logs)
    parts = [
        message_rows(context, life, fates, logs),
        of_messages(life, late, fates, "out_of_order"),
        strays,
        difference_rows(context, differences(context, logs), told),
        content_rows(context, evidence, sends, numbers(loaded.sends, "txn"), fates, logs, reads),
        sequence_rows(context, evidence, fates, logs, reads),
    ]
    findings = pa.concat_tables([part for part in parts if part.num_rows] or [FINDING.empty_table()])
    return Outcome(life, findings, tallies(context, life, findings))


def tallies(context: Context, life: Any, findings: Any) -> Any:
    """Fates by writer and outcome, and findings by class, counted."""
    fates = life.group_by(["writer", "outcome", "fate"]).aggregate([([], "count_all")])
    classes = findings.group_by(["class"]).aggregate([([], "count_all")])
    fate_rows = build(
        TALLY,
        {
            "kind": "fate",
            "topic": context.topic,
            "partition": context.partition,
            "writer": fates["writer"],
            "outcome": fates["outcome"],
            "name": fates["fate"],
            "count": fates["count_all"],
        },
        fates.num_rows,
    )
    class_rows = build(
        TALLY,
        {
            "kind": "finding",
            "topic": context.topic,
            "partition": context.partition,
            "name": classes["class"],
            "count": classes["count_all"],
        },
        classes.num_rows,
    )
    return pa.concat_tables([fate_rows, class_rows])


def write(folder: str, part: str, table: Any) -> None:
    """Write one part of an output table; a repeated task replaces what its first attempt wrote."""
    system, inner = file_system(f"{folder}/{part}.parquet")
    with system.open_output_stream(inner) as stream:
        pq.write_table(table, stream, compression="zstd" if table.num_rows > 100_000 else "snappy")
