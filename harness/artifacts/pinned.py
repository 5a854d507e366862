"""The jars of the known Kafka versions, with their checksums, so that nothing has to be looked up.

A list is a text file in `pinned_jars`: a line `# organisation:name:revision` for each module that was asked
for, then a line `SHA-256  bytes  organisation:name:revision` for each jar. `harness.artifacts.pin` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.kafka.versions import Coordinates

FOLDER = Path(__file__).parent / "pinned_jars"


@dataclass(frozen=True)
class PinnedJar:
    """A jar that is known before it is downloaded."""

    coordinates: Coordinates
    size: int
    """In bytes."""
    sha256: str

    @property
    def name(self) -> str:
        """Its file name."""
        return f"{self.coordinates.name}-{self.coordinates.revision}.jar"


def pinned_jars(name: str, coordinates: Sequence[Coordinates]) -> tuple[PinnedJar, ...]:
    """The jars of these modules and of all that they need, by the list ``name``.

    Empty if there is no such list, or if it was made for other modules.
    """
    file = FOLDER / f"{name}.txt"
    if not file.is_file():
        return ()
    lines = file.read_text(encoding="utf-8").splitlines()
    if [line for line in lines if line.startswith("#")] != [f"# {entry}" for entry in coordinates]:
        return ()
    return tuple(_jar(line) for line in lines if not line.startswith("#"))


def _jar(line: str) -> PinnedJar:
    sha256, size, module = line.split()
    return PinnedJar(Coordinates(*module.split(":")), int(size), sha256)


def write(name: str, coordinates: Sequence[Coordinates], jars: Sequence[PinnedJar]) -> Path:
    """Write a list; returns its file."""
    lines = [f"# {entry}" for entry in coordinates]
    lines += [f"{jar.sha256}  {jar.size:>9}  {jar.coordinates}" for jar in jars]
    file = FOLDER / f"{name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file
