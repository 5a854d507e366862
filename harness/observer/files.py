"""Following replicas by their `.log` files, for Kafka before 1.1, which shows no follower's own log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.kafka.batches import Parsed, parse
from harness.kafka.segments import high_watermarks, read_folder, segments
from harness.kafka.wire.logs import Fetched

TopicPartition = tuple[str, int]
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3


@dataclass(frozen=True)
class _Place:
    file: Path
    position: int


class FileSource:
    """Reads a broker's logs from its data folder. Reading a file that is being appended to is safe."""

    def __init__(self, data_dir: Path) -> None:
        """``data_dir`` is the broker's `log.dirs`."""
        self._data_dir = data_dir
        self._places: dict[TopicPartition, dict[int, _Place]] = {}
        """Where the last batches read begin, so that the next look need not scan the whole file."""

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """The whole log of each partition from an offset on; files need no limit."""
        return {key: self._read(key, offset) for key, offset in offsets.items()}

    def _read(self, key: TopicPartition, offset: int) -> Fetched:
        files = segments(self._data_dir / f"{key[0]}-{key[1]}")
        if not files:
            return _nothing(UNKNOWN_TOPIC_OR_PARTITION)
        known = self._places.get(key, {}).get(offset)
        if known is not None and known.file in files:
            found = self._from(key, files, known, offset)
            if found.parsed.batches and found.parsed.batches[0].offset == offset:
                return found
        starting = [file for file in files if int(file.stem) <= offset] or files[:1]
        found = self._from(key, files, _Place(starting[-1], 0), offset)
        following = found.parsed.next_offset
        if offset > int(files[0].stem) and (following is None or following < offset):
            return _nothing(OFFSET_OUT_OF_RANGE)
        return found

    def _from(self, key: TopicPartition, files: list[Path], place: _Place, offset: int) -> Fetched:
        whole, size = Parsed([], [], 0), 0
        places: dict[int, _Place] = {}
        for file in files[files.index(place.file) :]:
            position = place.position if file == place.file else 0
            with file.open("rb") as log:
                log.seek(position)
                part = parse(log.read(), offset)
            for batch in part.batches:
                if batch.next_offset > offset:
                    whole.batches.append(batch)
                    places[batch.offset] = _Place(file, position)
                position += batch.size_bytes
            whole.records.extend(part.records)
            size += part.consumed_bytes
        self._places[key] = dict(list(places.items())[-64:])
        return Fetched(whole._replace(consumed_bytes=size), 0, -1, int(files[0].stem), size)

    def close(self) -> None:
        """Nothing is held open."""


def _nothing(error: int) -> Fetched:
    return Fetched(Parsed([], [], 0), error, -1, -1, 0)


def own_log_of(data_dir: Path, topic: str, partition: int) -> Fetched:
    """A replica's own log as its files hold it; its watermark is the one last checkpointed."""
    folder = data_dir / f"{topic}-{partition}"
    files = segments(folder)
    if not files:
        return _nothing(UNKNOWN_TOPIC_OR_PARTITION)
    parsed = read_folder(folder)
    watermark = high_watermarks(data_dir).get((topic, partition), 0)
    return Fetched(parsed, 0, watermark, int(files[0].stem), parsed.consumed_bytes)
