"""A replica's folder on disk: its log segments and its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.host_files import HostFiles, text_of_file
from harness.kafka.batches import ParsedBatches, parse
from harness.kafka.model import UNKNOWN_TOPIC_OR_PARTITION, TopicPartition
from harness.kafka.wire.logs import FetchResult

_SEGMENT = re.compile(r"\d+\.log")


def segments(replica: HostFiles) -> list[str]:
    """Names of the log segments in one replica's folder (`<topic>-<partition>`), in order of offset."""
    return [name for name in replica.names() if _SEGMENT.fullmatch(name)]


def first_offset(segment: str) -> int:
    """The offset at which a segment begins, by its name."""
    return int(segment.removesuffix(".log"))


def read_folder(replica: HostFiles, from_offset: int = 0) -> ParsedBatches:
    """All records of one replica's folder. ``consumed_bytes`` counts over all its segments."""
    names = segments(replica)
    starts = [first_offset(name) for name in names]
    whole = ParsedBatches([], [], 0)
    for number, name in enumerate(names):
        if number + 1 < len(names) and starts[number + 1] <= from_offset:
            continue
        part = parse(replica.read(name), from_offset)
        whole.records.extend(part.records)
        whole.batches.extend(part.batches)
        whole = whole._replace(consumed_bytes=whole.consumed_bytes + part.consumed_bytes)
    return whole


def read_own_log(data: HostFiles, key: TopicPartition) -> FetchResult:
    """A replica's own log as the files of its broker hold it (``data`` is `log.dirs`).

    Its high watermark is the one last checkpointed.
    """
    replica = data.below(key.folder)
    names = segments(replica)
    if not names:
        return FetchResult(error=UNKNOWN_TOPIC_OR_PARTITION)
    parsed = read_folder(replica)
    return FetchResult(
        parsed=parsed,
        high_watermark=high_watermarks(data).get(key, 0),
        log_start=first_offset(names[0]),
        size_bytes=parsed.consumed_bytes,
    )


def checkpoint_lines(files: HostFiles, name: str) -> Iterator[tuple[str, ...]]:
    """The entries of one of Kafka's checkpoint files; none if the file is absent or half-written."""
    try:
        lines = text_of_file(files, name).splitlines()
        count = int(lines[1])
    except (OSError, IndexError, ValueError):
        return
    yield from (tuple(line.split()) for line in lines[2 : 2 + count])


def leader_epochs(replica: HostFiles) -> list[tuple[int, int]] | None:
    """(epoch, start offset) pairs of a replica's leader epoch cache; None if it keeps none."""
    name = "leader-epoch-checkpoint"
    if replica.size(name) is None:
        return None
    return [(int(entry[0]), int(entry[1])) for entry in checkpoint_lines(replica, name) if len(entry) == 2]


def high_watermarks(data: HostFiles) -> dict[TopicPartition, int]:
    """High watermarks as last checkpointed in a broker's `log.dirs`."""
    entries = checkpoint_lines(data, "replication-offset-checkpoint")
    return {TopicPartition(entry[0], int(entry[1])): int(entry[2]) for entry in entries if len(entry) == 3}
