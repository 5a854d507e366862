"""Imports a recording and judges it without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.history.imports.format import GivenFile
from harness.history.imports.formats import FORMATS
from harness.history.imports.recording import Recording
from tests.runs.stored import derive


@dataclass(frozen=True)
class Judged:
    """What an import holds, and what the checker finds in it."""

    recording: Recording
    life: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    @property
    def fates(self) -> Mapping[str, int]:
        return Counter(row["fate"] for row in self.life)

    @property
    def found(self) -> list[tuple[str, int | None, int | None]]:
        """Class, writer and number of each finding."""
        return sorted((row["class"], row["writer"], row["seq"]) for row in self.findings)


def judged(form: str, files: Iterable[str | Path], folder: Path) -> Judged:
    """Import files (as the command takes them) into a new folder, and judge it."""
    recording = FORMATS[form]().read([GivenFile.parse(str(file)) for file in files])
    recording.write(folder)
    derived = derive(folder)
    return Judged(recording, derived.life.to_pylist(), derived.findings.to_pylist())


def dump(
    folder: Path,
    logs: Mapping[int, Iterable[tuple[int, int, str | None, str]]],
    where: str = "orders-0",
) -> list[str]:
    """Texts as kafka-dump-log 4.x prints them: a batch for each (offset, epoch, key, value), by broker."""
    arguments = []
    for broker, records in logs.items():
        lines = [f"Dumping /data/{where}/00000000000000000000.log", "Log starting offset: 0"]
        for offset, epoch, key, value in records:
            marker = value in ("COMMIT", "ABORT")
            lines.append(
                f"baseOffset: {offset} lastOffset: {offset} count: 1 baseSequence: -1 lastSequence: -1 "
                f"producerId: -1 producerEpoch: -1 partitionLeaderEpoch: {epoch} "
                f"isTransactional: {str(marker).lower()} isControl: {str(marker).lower()} "
                f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 5 size: 72 magic: 2 "
                f"compresscodec: none crc: {offset} isvalid: true"
            )
            size = -1 if key is None else len(key.encode())
            data = (
                f"endTxnMarker: {value} coordinatorEpoch: 0"
                if marker
                else f"{'' if key is None else f'key: {key} '}payload: {value}"
            )
            lines.append(
                f"| offset: {offset} CreateTime: 5 keySize: {size} valueSize: {len(value)} sequence: -1 "
                f"headerKeys: [] {data}"
            )
        file = folder / f"broker{broker}-{where}.txt"
        file.write_text("\n".join(lines) + "\n")
        arguments.append(f"{broker}={file}")
    return arguments
