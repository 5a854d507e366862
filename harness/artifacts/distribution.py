"""From a Kafka version to its jars: resolved once into the cache, and verified at every use."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.artifacts import class_data, ivy, stored_build
from harness.artifacts.cache import cache_dir, locked, writable
from harness.artifacts.java import Java, find_java
from harness.artifacts.manifest import Manifest, sha256
from harness.errors import UnfitError
from harness.kafka.versions import DEFAULT, KafkaVersion, kafka_version

Say = Callable[[str], None]
_RECIPE = "coordinates.txt"
SIDE_BY_SIDE = 4
"""Versions that are resolved at a time: look-ups mostly wait for answers."""
STILL_S = 15.0
"""With several versions, how often each is reported to go on."""


def _silent(_text: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class KafkaDistribution:
    """A resolved Kafka version: its verified jars, and its class-data archives for this Java."""

    spec: KafkaVersion
    root: Path
    jars: tuple[Path, ...]
    java: Java
    sums: Mapping[str, str]
    """SHA-256 of every jar, by file name."""
    archives: Mapping[str, Path] = field(default_factory=dict)
    """Class-data archive by main class."""
    without_archives: str = ""
    """Why there are none, if creating them failed."""

    @property
    def version(self) -> str:
        """Kafka version, with the build if it is not the release."""
        return self.spec.name

    @property
    def zookeeper(self) -> str | None:
        """Version of the ZooKeeper that belongs to it, if any."""
        return self.spec.zookeeper

    def class_path(self, folder: str | None = None) -> str:
        """Class path, identical for every process, because the archives depend on it.

        ``folder`` is the place at which `root / "lib"` is mounted, if it is not its own.
        """
        return ":".join(f"{folder}/{jar.name}" if folder else str(jar) for jar in self.jars)

    def archive(self, main_class: str) -> Path | None:
        """Class-data archive for a main class, if there is one."""
        return self.archives.get(main_class)


def resolve(
    version: str | KafkaVersion = DEFAULT,
    *,
    say: Say = _silent,
    force: bool = False,
    with_archives: bool = True,
    retry_archives: bool = False,
) -> KafkaDistribution:
    """The distribution of ``version``. Downloads what the cache lacks.

    Call it before entering a lab's namespaces, from which nothing can be downloaded. ``say`` is called with a
    line before each step that takes time, and during downloads. ``retry_archives`` creates class-data
    archives again if that failed before.

    Raises UsageError for an unknown version (unless ``force``) and for a build that the cache lacks, and
    UnfitError if Java is missing or too old, the cache cannot be written, or a download fails.
    """
    spec = version if isinstance(version, KafkaVersion) else kafka_version(version, force=force)
    java = find_java(max(spec.min_java, 17))
    if spec.build:
        root, manifest = stored_build.folder_of(spec), stored_build.manifest_of(spec)
    else:
        root = cache_dir() / f"kafka-{spec.version}"
        found = _stored(root, spec)
        manifest = _download(root, spec, java, say) if found is None or found.damaged(root) else found
    jars = tuple(sorted(root / "lib" / name for name in manifest.sums))
    plain = KafkaDistribution(spec=spec, root=root, jars=jars, java=java, sums=manifest.sums)
    if not with_archives:
        return plain
    archives = class_data.archives(spec, root, plain.class_path(), java, say, retry=retry_archives)
    return replace(plain, archives=archives.files, without_archives=archives.problem)


def resolve_all(versions: Iterable[str | KafkaVersion], *, say: Say = _silent, force: bool = False) -> None:
    """Resolve several versions side by side, so that each is in the cache afterwards.

    Lines of ``say`` begin with the version; that a step goes on is said less often than for one version.
    Raises the first error, and then downloads nothing more.
    """
    wanted = list(dict.fromkeys(versions))
    if len(wanted) < 2:
        for version in wanted:
            resolve(version, say=say, force=force)
        return
    stop = threading.Event()

    def one(version: str | KafkaVersion) -> None:
        name = version if isinstance(version, str) else version.name
        said = time.monotonic()

        def about(text: str) -> None:
            nonlocal said
            if stop.is_set():
                raise InterruptedError(name)  # ends the download, which reports every few seconds
            if not text.startswith(ivy.STILL) or time.monotonic() - said >= STILL_S:
                said = time.monotonic()
                say(f"{name}: {text}")

        resolve(version, say=about, force=force)

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="resolve") as pool:
        tasks = [pool.submit(one, version) for version in wanted]
        try:
            for task in as_completed(tasks):
                task.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


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
    with locked(cache, say, f"kafka-{spec.version}"):
        manifest = _stored(root, spec)  # another process may have downloaded it meanwhile
        bad = manifest.damaged(root) if manifest else ()
        if manifest and not bad:
            return manifest
        for name in bad:
            say(f"{root / 'lib' / name} is damaged or missing; downloading it again")
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
            f"Resolving {spec.coordinates[0]} did not bring {wanted}; remove {root.parent} and try again."
        )
    manifest.write(new)
    for name in ivy.FILES:
        (new / name).unlink(missing_ok=True)
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
                f"{name} was damaged, and the file downloaded in its place differs from its checksum in "
                f"{root / 'SHA256SUMS'}; remove {root} and try again."
            )
        fetched.replace(root / "lib" / name)
    manifest.write(root)
    return manifest


def _forget(home: Path, name: str) -> None:
    """Remove a jar from Ivy's own cache, which may be damaged too."""
    for copy in home.glob(f"cache/*/*/*/{name}"):
        copy.unlink()
