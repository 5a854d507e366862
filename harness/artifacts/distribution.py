"""From a Kafka version to its jars: resolved once into the cache, and verified at every use."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.artifacts import class_data, ivy, modules, stored_build
from harness.artifacts.cache import cache_dir
from harness.artifacts.java import Java, find_java
from harness.artifacts.modules import Say
from harness.kafka.versions import DEFAULT, KafkaVersion, kafka_version

SIDE_BY_SIDE = 4
"""How many versions are resolved at the same time; look-ups mostly wait for answers."""
STILL_S = 15.0
"""With several versions, seconds between two reports that a step of one is still running."""


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

        ``folder`` is the place at which `root / "lib"` is mounted, if that is elsewhere.
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
    make_archives: bool = True,
    retry_archives: bool = False,
) -> KafkaDistribution:
    """The distribution of ``version``. Downloads what the cache lacks.

    Call it before entering a lab's namespaces, from which nothing can be downloaded. ``say`` is called with a
    line before each step that takes time, and during downloads. Without ``make_archives``, those class-data
    archives are used that there are; ``retry_archives`` creates them again if that failed before.

    Raises UsageError for an unknown version (unless ``force``) and for a build that the cache lacks, and
    UnfitError if Java is missing or too old, the cache cannot be written, or a download fails.
    """
    spec = version if isinstance(version, KafkaVersion) else kafka_version(version, force=force)
    java = find_java(max(spec.min_java, 17))
    if spec.build:
        root, manifest = stored_build.folder_of(spec), stored_build.manifest_of(spec)
    else:
        root = cache_dir() / f"kafka-{spec.version}"
        manifest = modules.fetched(_modules(spec), root, java, say)
    jars = tuple(sorted(root / "lib" / name for name in manifest.sums))
    plain = KafkaDistribution(spec=spec, root=root, jars=jars, java=java, sums=manifest.sums)
    if make_archives:
        archives = class_data.archives(spec, root, plain.class_path(), java, say, retry=retry_archives)
    else:
        archives = class_data.stored(root, java)
    return replace(plain, archives=archives.files, without_archives=archives.problem)


def resolve_all(
    versions: Iterable[str | KafkaVersion],
    *,
    say: Say = _silent,
    force: bool = False,
    make_archives: bool = True,
) -> None:
    """Resolve several versions side by side, so that each is in the cache afterwards.

    Lines of ``say`` begin with the version. Steps that are still running are reported less often than for a
    single version. Raises the first error, and then downloads nothing more.
    """
    distinct = list(dict.fromkeys(versions))
    if len(distinct) < 2:
        for version in distinct:
            resolve(version, say=say, force=force, make_archives=make_archives)
        return
    stop = threading.Event()

    def one(version: str | KafkaVersion) -> None:
        name = version if isinstance(version, str) else version.name
        reported_s = time.monotonic()

        def about(text: str) -> None:
            nonlocal reported_s
            if stop.is_set():
                raise InterruptedError(name)  # ends the download, which reports every few seconds
            if not text.startswith(ivy.STILL) or time.monotonic() - reported_s >= STILL_S:
                reported_s = time.monotonic()
                say(f"{name}: {text}")

        resolve(version, say=about, force=force, make_archives=make_archives)

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="resolve") as pool:
        tasks = [pool.submit(one, version) for version in distinct]
        try:
            for task in as_completed(tasks):
                task.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _modules(spec: KafkaVersion) -> modules.Modules:
    return modules.Modules(
        label=f"Kafka {spec.version}",
        coordinates=spec.coordinates,
        jar=f"kafka_{spec.scala}-{spec.version}.jar",
    )
