"""A replica's folder on disk: its log segments and its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.kafka.batches import ParsedBatches, parse
from harness.kafka.model import UNKNOWN_TOPIC_OR_PARTITION, TopicPartition
from harness.kafka.wire.logs import FetchResult


def segments(folder: Path) -> list[Path]:
    """The log segments of one replica's folder (`<topic>-<partition>`), in order of offset."""
    return sorted(folder.glob("[0-9]*.log"))


def read_folder(folder: Path, from_offset: int = 0) -> ParsedBatches:
    """All records of one replica's folder. ``consumed_bytes`` counts over all its segments."""
    files = segments(folder)
    starts = [int(file.stem) for file in files]
    whole = ParsedBatches([], [], 0)
    for number, file in enumerate(files):
        if number + 1 < len(files) and starts[number + 1] <= from_offset:
            continue
        part = parse(file.read_bytes(), from_offset)
        whole.records.extend(part.records)
        whole.batches.extend(part.batches)
        whole = whole._replace(consumed_bytes=whole.consumed_bytes + part.consumed_bytes)
    return whole


def read_own_log(data_dir: Path, key: TopicPartition) -> FetchResult:
    """A replica's own log as its files hold it; its high watermark is the one last checkpointed."""
    folder = data_dir / key.folder
    files = segments(folder)
    if not files:
        return FetchResult(error=UNKNOWN_TOPIC_OR_PARTITION)
    parsed = read_folder(folder)
    return FetchResult(
        parsed=parsed,
        high_watermark=high_watermarks(data_dir).get(key, 0),
        log_start=int(files[0].stem),
        size_bytes=parsed.consumed_bytes,
    )


def checkpoint_lines(file: Path) -> Iterator[tuple[str, ...]]:
    """The entries of one of Kafka's checkpoint files; none if the file is absent or half-written."""
    try:
        lines = file.read_text().splitlines()
        count = int(lines[1])
    except (OSError, IndexError, ValueError):
        return
    yield from (tuple(line.split()) for line in lines[2 : 2 + count])


def leader_epochs(folder: Path) -> list[tuple[int, int]] | None:
    """(epoch, start offset) pairs of a replica's leader epoch cache; None if it keeps none."""
    file = folder / "leader-epoch-checkpoint"
    if not file.exists():
        return None
    return [(int(entry[0]), int(entry[1])) for entry in checkpoint_lines(file) if len(entry) == 2]


def high_watermarks(data_dir: Path) -> dict[TopicPartition, int]:
    """High watermarks as last checkpointed in a broker's data folder."""
    entries = checkpoint_lines(data_dir / "replication-offset-checkpoint")
    return {TopicPartition(entry[0], int(entry[1])): int(entry[2]) for entry in entries if len(entry) == 3}
