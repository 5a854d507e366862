"""From Arrow tables to arrays: columns checked, nulls replaced, replicas put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.evidence import Evidence
from checkers.partition.fates import Context, Replica, Sends, choose_reference
from checkers.tables.source import Source, TopicPartition, file_system, numbers
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES


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


def write(folder: str, part: str, table: Any) -> None:
    """Write one part of an output table; a repeated task replaces what its first attempt wrote."""
    system, inner = file_system(f"{folder}/{part}.parquet")
    with system.open_output_stream(inner) as stream:
        pq.write_table(table, stream, compression="snappy", use_dictionary=_texts(table.schema))


def _texts(schema: Any) -> list[str]:
    """Columns in which values recur; numbers are not worth a dictionary."""
    return [field.name for field in schema if pa.types.is_string(field.type)]
