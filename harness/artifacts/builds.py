"""The user's own builds of Kafka: the folder of an unpacked build, or jars in front of a release.

A build is copied into the cache, under the first 12 digits of the SHA-256 of its jars' checksums. Its label,
`3.9.1+0f3a52c91be4`, is accepted wherever a Kafka version is, also later, when the folder has changed.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256 as new_sha256
from pathlib import Path

from harness.artifacts.cache import UNFINISHED, locked, writable
from harness.artifacts.distribution import resolve
from harness.artifacts.manifest import Checksums, sha256
from harness.artifacts.stored_build import SOURCES, folder_of
from harness.errors import UsageError
from harness.held_folders import held_folder
from harness.kafka.versions import KafkaVersion, kafka_version

_KAFKA_JAR = re.compile(r"kafka_(\d+\.\d+)-(\d+\.\d+\.\d+(?:\.\d+)?)[^/]*\.jar")
_NOT_KAFKA = re.compile(r"-(?:sources|javadoc|test|test-sources|scaladoc)\.jar$")
_LOGGING = {
    "log4j1": "slf4j-log4j12 or slf4j-reload4j",
    "log4j2": "log4j-slf4j-impl or log4j-slf4j2-impl",
}
_LIBRARIES = ("kafka-clients", "scala-library", "metrics-core")
"""Jars without which no broker of any version starts, without their versions."""


def take_in(
    *,
    home: Path | None = None,
    jars: Sequence[Path] = (),
    base: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> str:
    """Copy a build into the cache and return its label, for use as a Kafka version.

    ``home`` is a folder with Kafka's jars in `libs` or `lib`. ``jars`` are jars, or folders of jars, whose
    classes take precedence: over those of ``home``, or over those of the release ``base``.

    Raises UsageError for a folder with no Kafka or with two versions, and for a file that is no jar.
    """
    patches = [jar for path in jars for jar in _jars_at(path)]
    names = [jar.name for jar in patches]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--kafka-jars names two files called {name}; give one of them another name.")
    if home is not None:
        version, own = read_home(home)
        if base and base != version:
            raise UsageError(
                f"--kafka {base} and --kafka-home {home}, which is Kafka {version}: leave out one."
            )
    else:
        version = base
        own = list(resolve(kafka_version(base, force=True), say=say, make_archives=False).jars)
    # Jars are on the class path in the order of their names: digits come before letters.
    sources = {f"0-{number:02}-{jar.name}": jar for number, jar in enumerate(patches)}
    sources |= {jar.name: jar for jar in own}
    sums = {name: sha256(jar) for name, jar in sorted(sources.items())}
    digest = new_sha256("".join(f"{sums[name]}  {name}\n" for name in sums).encode()).hexdigest()[:12]
    spec = kafka_version(f"{version}+{digest}", force=True)
    _copy(spec, sources, sums, home=home, patches=patches, say=say)
    return spec.label


def _jars_at(path: Path) -> list[Path]:
    if path.is_dir():
        jars = sorted(path.glob("*.jar"))
        if not jars:
            raise UsageError(f"--kafka-jars {path}: the folder holds no jar.")
        _require_archives(jars)
        return jars
    if path.suffix != ".jar" or not path.is_file():
        problem = "is no jar" if path.exists() else "does not exist"
        raise UsageError(
            f"--kafka-jars {path} {problem}; name jars, or folders of jars, separated by commas."
        )
    _require_archives([path])
    return [path]


def _require_archives(jars: Sequence[Path]) -> None:
    """Java ignores a damaged jar on its class path; the classes that it should hold are missed much later."""
    for jar in jars:
        if not zipfile.is_zipfile(jar):
            raise UsageError(f"{jar} is no jar, or a damaged one; copy or build it again.")


def read_home(home: Path) -> tuple[str, list[Path]]:
    """The Kafka version and the jars of an unpacked release. Raises UsageError that says what it lacks."""
    if not home.is_dir():
        problem = "is no folder" if home.exists() else "does not exist"
        raise UsageError(f"--kafka-home {home} {problem}; name the folder of an unpacked Kafka release.")
    folder = next((home / name for name in ("libs", "lib") if (home / name).is_dir()), None)
    if folder is None:
        raise UsageError(
            f"--kafka-home {home} has no folder `libs`; name the folder that a Kafka release unpacks to, or "
            f"build one with `./gradlew releaseTarGz` and unpack it."
        )
    jars = [jar for jar in sorted(folder.glob("*.jar")) if not _NOT_KAFKA.search(jar.name)]
    kafka = {match[2]: jar for jar in jars if (match := _KAFKA_JAR.fullmatch(jar.name))}
    if not kafka:
        raise UsageError(
            f"{folder} has no jar like kafka_2.13-3.9.1.jar, which holds the broker; it has {len(jars)} "
            f"other jars."
        )
    if len(kafka) > 1:
        raise UsageError(f"{folder} holds several versions of Kafka ({', '.join(kafka)}); keep one of them.")
    (version,) = kafka
    spec = kafka_version(version, force=True)
    if not any(name in jar.name for jar in jars for name in _LOGGING[spec.log_syntax].split(" or ")):
        raise UsageError(
            f"{folder} has no jar of {_LOGGING[spec.log_syntax]}; without it Kafka {version} writes no "
            f"log, and claims cannot be judged; add one."
        )
    required = (*_LIBRARIES, "zookeeper") if spec.zookeeper else _LIBRARIES
    lacking = [name for name in required if not any(jar.name.startswith(f"{name}-") for jar in jars)]
    if lacking:
        raise UsageError(
            f"{folder} lacks {', '.join(f'{name}-*.jar' for name in lacking)}, without which Kafka {version} "
            f"does not start; unpack the whole release."
        )
    _require_archives(jars)
    return version, jars


def _copy(
    spec: KafkaVersion,
    sources: Mapping[str, Path],
    sums: Mapping[str, str],
    *,
    home: Path | None,
    patches: Sequence[Path],
    say: Callable[[str], None],
) -> None:
    root = folder_of(spec)
    with locked(writable(root.parent), say):
        stored_sums = Checksums.read(root)
        if stored_sums is not None and stored_sums.sums == sums and not stored_sums.damaged(root):
            return
        with held_folder(root.parent, f"{UNFINISHED}{spec.build}-") as new:
            say(f"copying {len(sources)} jars of Kafka {spec.label} into {root}")
            (new / "lib").mkdir()
            for name, jar in sources.items():
                shutil.copyfile(jar, new / "lib" / name)
            changed = [name for name in sums if sha256(new / "lib" / name) != sums[name]]
            if changed:
                raise UsageError(
                    f"{sources[changed[0]]} changed while it was copied; try again after the build."
                )
            Checksums(sums).write(new)
            about = {
                "home": str(home.absolute()) if home else None,
                "jars": [str(jar.absolute()) for jar in patches],
            }
            (new / SOURCES).write_text(json.dumps(about))
            shutil.rmtree(root, ignore_errors=True)
            new.rename(root)
