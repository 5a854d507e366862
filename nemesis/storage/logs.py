"""Files of replicas: wipes and damages them, and truncates them to what was flushed; file work only."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import InvalidRunError, UsageError
from harness.host_files import Folder
from harness.kafka.batches import parse
from harness.kafka.model import TopicPartition
from harness.kafka.segments import checkpoint_lines, segments
from harness.kafka.wire.quorum import METADATA_TOPIC

_FLUSH_INTERVAL = "log.flush.interval.messages"


def _segments(folder: Path) -> list[Path]:
    return [folder / name for name in segments(Folder(folder))]


def replica_folder(data: Path, topic: str, partition: int) -> Path:
    """Folder of one replica. Raises UsageError when this broker has none."""
    folder = data / TopicPartition(topic, partition).folder
    if not folder.is_dir():
        there = ", ".join(sorted(path.name for path in data.glob("*-[0-9]*"))) or "none"
        raise UsageError(f"There is no replica of {topic}/{partition} in {data}; there are: {there}.")
    return folder


def replicas(data: Path) -> dict[TopicPartition, Path]:
    """All replicas' folders."""
    folders = {}
    for folder in sorted(data.glob("*-[0-9]*")):
        topic, _, number = folder.name.rpartition("-")
        if folder.is_dir() and number.isdigit():
            folders[TopicPartition(topic, int(number))] = folder
    return folders


def log_bytes(data: Path) -> dict[str, int]:
    """Bytes of complete batches per replica, by `topic/partition`: what Kafka would find there."""
    return {
        str(key): sum(parse(file.read_bytes()).consumed_bytes for file in _segments(folder))
        for key, folder in replicas(data).items()
    }


def wipe(folder: Path) -> int:
    """Remove a replica's folder with all its files; returns the bytes of log that it held."""
    size_bytes = sum(file.stat().st_size for file in _segments(folder))
    shutil.rmtree(folder)
    return size_bytes


def corrupt(folder: Path, offset: int) -> tuple[Path, int, int]:
    """Flip the last byte of the batch that holds ``offset``.

    Returns the file, the position in it, and the first offset of the batch.
    """
    for file in _segments(folder):
        data = file.read_bytes()
        position = 0
        for batch in parse(data).batches:
            position += batch.size_bytes
            if batch.offset <= offset < batch.next_offset:
                if not batch.crc_ok:
                    raise InvalidRunError(f"The batch of offset {offset} in {file} is damaged already.")
                with file.open("r+b") as log:
                    log.seek(position - 1)
                    log.write(bytes([data[position - 1] ^ 0xFF]))
                return file, position - 1, batch.offset
    raise UsageError(f"No batch in {folder} holds offset {offset}; is it written yet, and not deleted?")


def intact(folder: Path, offset: int) -> bool:
    """Whether the checksum of the batch that holds ``offset`` is right."""
    for file in _segments(folder):
        for batch in parse(file.read_bytes()).batches:
            if batch.offset <= offset < batch.next_offset:
                return batch.crc_ok
    return False


def truncate_to_flushed(
    data: Path,
    flushed: Mapping[TopicPartition, int] | None = None,
    *,
    flushes: Callable[[str], bool] = lambda topic: False,
) -> dict[str, int]:
    """Truncate every log to the last batch below its flushed offset; returns the bytes lost per replica.

        ``flushed`` maps partitions to the offset up to which the log is on the disk. By default the broker's
        `recovery-point-offset-checkpoint` states it; a replica that is not listed there loses everything.

    Topics for which ``flushes`` is true flush every message and stay whole; before the first checkpoint
    nothing else shows that. The log of KRaft's metadata stays whole, too: a voter flushes it before its copy
    counts (KIP-595; `KafkaRaftClient.appendAsFollower`), and no recovery point shows that.
    """
    offsets = dict(flushed) if flushed is not None else recovery_points(data)
    return {
        str(key): _truncate(folder, offsets.get(key, 0))
        for key, folder in replicas(data).items()
        if key.topic != METADATA_TOPIC and not flushes(key.topic)
    }


def flushes_every_message(properties: Path) -> bool:
    """Whether the broker's configuration asks for a flush after each message.

    Its recovery points do not show that: Kafka first writes them 30 s after the start.
    """
    if not properties.exists():
        return False
    lines = (line.partition("=") for line in properties.read_text().splitlines())
    return any(key.strip() == _FLUSH_INTERVAL and value.strip() == "1" for key, _, value in lines)


def recovery_points(data: Path) -> dict[TopicPartition, int]:
    """Offsets below which the broker knows that its logs are flushed."""
    entries = checkpoint_lines(Folder(data), "recovery-point-offset-checkpoint")
    return {TopicPartition(entry[0], int(entry[1])): int(entry[2]) for entry in entries if len(entry) == 3}


def _truncate(folder: Path, offset: int) -> int:
    lost = 0
    for number, file in enumerate(_segments(folder)):
        data = file.read_bytes()
        keep = 0
        whole = parse(data)
        for batch in whole.batches:
            if batch.next_offset > offset:
                break
            keep += batch.size_bytes
        lost += whole.consumed_bytes - keep
        if keep == 0 and number > 0:
            for sibling in folder.glob(f"{file.stem}.*"):
                sibling.unlink()
        elif keep < len(data):
            with file.open("r+b") as log:
                log.truncate(keep)
    return lost
