"""What kgo-verifier's producer keeps: `valid_offsets_TOPIC.json`.

It holds ranges of acknowledged offsets by partition. Each message has a key `000000.OFFSET` (unless
kgo-verifier was told to use few keys), which names the offset at which the producer expected it. Only
messages that were acknowledged there are in the ranges; the offsets of transaction markers are, too. See
`pkg/worker/verifier/offset_ranges.go` and `producer_worker.go` of kgo-verifier.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import BadDataError, UsageError
from harness.history.imports.dump_log import Identity, read_logs, split_logs
from harness.history.imports.format import Format, GivenFile, single
from harness.history.imports.lines import MAX_OFFSET
from harness.history.imports.recording import Recording, find_rows, longs
from harness.plain_files import require_file

LARGEST_FILE = 256 << 20
MOST_MESSAGES = 50_000_000

_FILE = re.compile(r"valid_offsets_([a-zA-Z0-9._-]{1,249})\.json")
_KEY = re.compile(r"(?:ABORTED MSG: )?([0-9]{6})\.([0-9]{18})")


class _Range(msgspec.Struct):
    Lower: int
    Upper: int


class _Partition(msgspec.Struct):
    Ranges: list[_Range] | None = None
    TolerateDataLoss: bool = False


class _State(msgspec.Struct):
    PartitionRanges: list[_Partition]


class KgoVerifier(Format):
    """The acknowledged offsets that kgo-verifier's producer keeps."""

    name: ClassVar[str] = "kgo-verifier"
    source: ClassVar[str] = "kgo-verifier's producer (Redpanda's tests)"
    files: ClassVar[str] = (
        "valid_offsets_TOPIC.json of one topic, and a text of kafka-dump-log for each broker (1=FILE ...)"
    )
    gives: ClassVar[str] = "acknowledged messages with their offsets, replicas' logs"
    lacks: ClassVar[str] = (
        "all times, messages without an answer (those in a log count as of unknown outcome), several "
        "producers, reads"
    )

    def read(self, files: Sequence[GivenFile]) -> Recording:
        logs, others = split_logs(files)
        topic, partitions = _read_state(single(others, KgoVerifier, "topic"))
        recording = Recording()
        acked = [
            (number, np.arange(one.Lower, one.Upper))
            for number, partition in enumerate(partitions)
            for one in partition.Ranges or ()
        ]
        offsets = np.concatenate([np.empty(0, np.int64), *(part for _, part in acked)])
        numbers = np.concatenate(
            [np.empty(0, np.int64), *(np.full(len(part), number) for number, part in acked)]
        )
        read_logs(logs, _identify, recording)
        copies = recording.tables["copies"]
        markers = copies.filter(pc.fill_null(copies["control"], False)) if copies.num_rows else copies
        is_marker = (
            find_rows((numbers, offsets), (longs(markers["partition"]), longs(markers["offset"]))) >= 0
        )
        numbers, offsets = numbers[~is_marker], offsets[~is_marker]
        times = np.zeros(len(offsets), np.int64)
        recording.tables["sends"] = pa.table(
            {
                "topic": pa.array([topic], pa.string()).take(pa.array(times)),
                "partition": pa.array(numbers),
                "writer": pa.array(numbers),
                "seq": pa.array(offsets),
                "sent_ns": pa.array(times),
                "done_ns": pa.array(times),
                "outcome": pa.array(["ok"], pa.string()).take(pa.array(times)),
                "offset": pa.array(offsets),
            }
        )
        present = range(len(partitions))
        recording.settle(0, present)
        recording.tables["writers"] = pa.table(
            {
                "writer": pa.array(present, pa.int32()),
                "name": pa.array([f"partition {number}" for number in present], pa.string()),
                "acks": pa.array([-1] * len(partitions), pa.int32()),
            }
        )
        if any(partition.TolerateDataLoss for partition in partitions):
            recording.notes.append(
                "kgo-verifier was told to tolerate losses, and has forgotten the offsets that it saw lost"
            )
        recording.notes.append("A partition's messages stand as those of a writer with its number")
        return recording


def _identify(partition: int, key: str, value: str) -> Identity | None:
    match = _KEY.fullmatch(key)
    return None if match is None else (partition, int(match[2]))


def _read_state(file: Path) -> tuple[str, Sequence[_Partition]]:
    """The topic, and its partitions. Raises UsageError, BadDataError."""
    match = _FILE.fullmatch(file.name)
    if match is None:
        raise UsageError(
            f"{file} is not called valid_offsets_TOPIC.json, and only the name tells the topic; rename it."
        )
    require_file(file, "name a file")
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise BadDataError(f"{file} has more than {LARGEST_FILE >> 20} MiB; is it kgo-verifier's?")
        state = msgspec.json.decode(file.read_bytes(), type=_State)
    except OSError as error:
        raise BadDataError(f"{file} cannot be read ({error.strerror}); name a readable file.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadDataError(
            f"{file} is no state of kgo-verifier: {error}; name valid_offsets_*.json."
        ) from None
    messages = 0
    for number, partition in enumerate(state.PartitionRanges):
        end = 0
        for one in partition.Ranges or ():
            if not end <= one.Lower <= one.Upper <= MAX_OFFSET:
                raise BadDataError(
                    f"{file}: partition {number} has a range from {one.Lower} to {one.Upper} after one up to "
                    f"{end}; ranges rise. Is the file complete?"
                )
            end = one.Upper
            messages += one.Upper - one.Lower
        if messages > MOST_MESSAGES:
            raise BadDataError(f"{file} names more than {MOST_MESSAGES} messages; import fewer partitions.")
    return match[1], state.PartitionRanges
