"""A replica's folder on disk: its log segments and its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.host_files import HostFiles, text_of_file
from harness.kafka.batches import positions
from harness.kafka.model import UNKNOWN_TOPIC_OR_PARTITION, TopicPartition
from harness.kafka.wire.logs import FetchResult

CHUNK_BYTES = 8 << 20
_SEGMENT = re.compile(r"\d+\.log")


def segments(replica: HostFiles) -> list[str]:
    """Names of the log segments in one replica's folder (`<topic>-<partition>`), in order of offset."""
    return [name for name in replica.names() if _SEGMENT.fullmatch(name)]


def first_offset(segment: str) -> int:
    """The offset at which a segment begins, by its name."""
    return int(segment.removesuffix(".log"))


def raw_log(replica: HostFiles, at_most: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The complete batches of one replica's folder, a chunk at a time, none across two segments.

    A chunk has ``at_most`` bytes, or one batch. What follows a segment's last complete batch is left out.
    """
    for name in segments(replica):
        start, size = 0, at_most
        while data := replica.read(name, start, size):
            end = positions(data)[-1]
            if end:
                yield data[:end]
                start, size = start + end, at_most
            elif len(data) < size:
                break
            else:
                size *= 2


def read_own_log(data: HostFiles, key: TopicPartition) -> FetchResult:
    """A replica's own log as the files of its broker hold it (``data`` is `log.dirs`).

    Its high watermark is the one last checkpointed.
    """
    replica = data.below(key.folder)
    names = segments(replica)
    if not names:
        return FetchResult(error=UNKNOWN_TOPIC_OR_PARTITION)
    raw = b"".join(raw_log(replica))
    return FetchResult(
        raw=raw,
        high_watermark=high_watermarks(data).get(key, 0),
        log_start=first_offset(names[0]),
        size_bytes=len(raw),
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
