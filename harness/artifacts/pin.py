"""`python -m harness.artifacts.pin [VERSION...]`: write the lists of jars of `harness.artifacts.pinned`.

Resolves each Kafka version, by default all known ones, and records what Maven Central has. Run it after a
version, or a module that it needs, has changed in `harness.kafka.versions`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.artifacts import ivy, pinned
from harness.artifacts.cache import cache_dir, writable
from harness.artifacts.java import Java, find_java
from harness.artifacts.java_client import has_applications, streams_modules
from harness.artifacts.manifest import sha256
from harness.artifacts.pinned import PinnedJar
from harness.console import Progress
from harness.errors import AckedError, UnfitError, as_printed
from harness.kafka.versions import VERSIONS, Coordinates, kafka_version

_PATTERN = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"


def pin(name: str, asked: Sequence[Coordinates], java: Java, say: Callable[[str], None]) -> Path:
    """Resolve modules and write their list ``name``; returns the file.

    Raises UnfitError if that fails, or if a jar's name says more than the module and its revision.
    """
    cache = writable(cache_dir())
    with TemporaryDirectory(prefix=".new-pin-", dir=cache) as folder:
        into = Path(folder, "lib")
        ivy.fetch(asked, into, cache / "ivy", java, say, pattern=_PATTERN)
        jars = [_jar(file, into) for file in sorted(into.glob("*/*/*/*.jar"))]
    return pinned.write(name, asked, jars)


def _jar(file: Path, folder: Path) -> PinnedJar:
    coordinates = Coordinates(*file.relative_to(folder).parts[:3])
    jar = PinnedJar(coordinates, file.stat().st_size, sha256(file))
    if jar.name != file.name:
        raise UnfitError(f"{coordinates} has a jar {file.name}, and a list has room for {jar.name} only.")
    return jar


def main(argv: list[str]) -> int:
    """Pin the named versions, or all."""
    progress = Progress()
    try:
        java = find_java()
        for version in argv or VERSIONS:
            spec = kafka_version(version)
            lists = {f"kafka-{version}": spec.coordinates}
            if has_applications(spec):
                lists[f"streams-{version}"] = streams_modules(spec).coordinates
            for name, asked in lists.items():
                progress.say(f"{version}: {pin(name, asked, java, progress.say)}")
    except AckedError as error:
        sys.stderr.write(as_printed(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
