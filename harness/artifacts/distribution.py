"""From a Kafka version to its jars: resolved once into the cache, verified at each use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.artifacts import class_data, ivy
from harness.artifacts.cache import cache_dir, locked, writable
from harness.artifacts.java import Java, find_java
from harness.artifacts.manifest import Manifest, sha256
from harness.errors import UnfitError
from harness.kafka.versions import DEFAULT, KafkaVersion, kafka_version

Say = Callable[[str], None]
_RECIPE = "coordinates.txt"


def _silent(_text: str) -> None: ...


@dataclass(frozen=True)
class KafkaDistribution:
    """A resolved Kafka version: verified jars, and the class-data archives made for this Java."""

    spec: KafkaVersion
    root: Path
    jars: tuple[Path, ...]
    java: Java
    archives: Mapping[str, Path] = field(default_factory=dict)
    """Class-data archive by main class."""
    without_archives: str = ""
    """Why there are none, where making them failed."""

    @property
    def version(self) -> str:
        """Kafka version."""
        return self.spec.version

    @property
    def zookeeper(self) -> str | None:
        """Version of the ZooKeeper that comes with it."""
        return self.spec.zookeeper

    def class_path(self, folder: str | None = None) -> str:
        """Class path, identical for every process and for the archives.

        ``folder`` is where `root / "lib"` is mounted, where that is not its own place.
        """
        return ":".join(f"{folder}/{jar.name}" if folder else str(jar) for jar in self.jars)

    def archive(self, main_class: str) -> Path | None:
        """Class-data archive for a main class, where there is one."""
        return self.archives.get(main_class)


def resolve(
    version: str | KafkaVersion = DEFAULT,
    *,
    say: Say = _silent,
    force: bool = False,
    with_archives: bool = True,
    retry_archives: bool = False,
) -> KafkaDistribution:
    """The distribution of ``version``, downloaded and completed where the cache lacks something.

    To be called before a lab's namespaces are entered: they have no way out. ``say`` is told each step that
    takes time; ``retry_archives`` makes class-data archives again where that failed
    before. Raises UsageError for an unknown version (unless ``force``), UnfitError where Java is missing or
    too old, the cache cannot be written or a download fails.
    """
    spec = version if isinstance(version, KafkaVersion) else kafka_version(version, force=force)
    java = find_java(max(spec.min_java, 17))
    root = cache_dir() / f"kafka-{spec.version}"
    manifest = _stored(root, spec)
    if manifest is None or manifest.damaged(root):
        manifest = _download(root, spec, java, say)
    jars = tuple(sorted(root / "lib" / name for name in manifest.sums))
    plain = KafkaDistribution(spec, root, jars, java)
    if not with_archives:
        return plain
    made = class_data.archives(spec, root, plain.class_path(), java, say, retry=retry_archives)
    return KafkaDistribution(spec, root, jars, java, made.files, made.problem)


def _stored(root: Path, spec: KafkaVersion) -> Manifest | None:
    try:
        recipe = (root / _RECIPE).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return Manifest.read(root) if recipe == _recipe(spec) else None


def _recipe(spec: KafkaVersion) -> str:
    return "".join(f"{entry}\n" for entry in spec.coordinates)


def _download(root: Path, spec: KafkaVersion, java: Java, say: Say) -> Manifest:
    cache = writable(root.parent)
    with locked(cache, say):
        manifest = _stored(root, spec)  # another process may just have done it
        bad = manifest.damaged(root) if manifest else ()
        if manifest and not bad:
            return manifest
        for name in bad:
            say(f"{root / 'lib' / name} is damaged or missing, fetching it again")
            _forget(cache / "ivy", name)
        new = cache / f".new-{spec.version}-{os.getpid()}"
        try:
            say(f"resolving Kafka {spec.version} from Maven Central")
            ivy.fetch(spec.coordinates, new / "lib", cache / "ivy", java, say)
            if manifest:
                return _repair(root, new, manifest, bad)
            return _install(root, new, spec)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _install(root: Path, new: Path, spec: KafkaVersion) -> Manifest:
    manifest = Manifest.of(new / "lib")
    wanted = f"kafka_{spec.scala}-{spec.version}.jar"
    if wanted not in manifest.sums:
        raise UnfitError(
            f"Resolving {spec.coordinates[0]} brought no {wanted}; remove {root.parent} and retry."
        )
    manifest.write(new)
    (new / _RECIPE).write_text(_recipe(spec))
    if root.exists():
        shutil.rmtree(root)
    new.rename(root)
    return manifest


def _repair(root: Path, new: Path, manifest: Manifest, bad: tuple[str, ...]) -> Manifest:
    for name in bad:
        fetched = new / "lib" / name
        if not fetched.is_file() or sha256(fetched) != manifest.sums[name]:
            raise UnfitError(
                f"{name} was damaged, and what was downloaded in its place differs from what "
                f"{root / 'SHA256SUMS'} says; remove {root} to start afresh."
            )
        fetched.replace(root / "lib" / name)
    manifest.write(root)
    return manifest


def _forget(home: Path, name: str) -> None:
    """Remove a jar from Ivy's own cache, which may hold the same damage."""
    for copy in home.glob(f"cache/*/*/*/{name}"):
        copy.unlink()
