"""The official Java client as a program: its source compiled once per version of kafka-clients and of Java.

The cache holds a jar with the classes, and a class-data archive that halves the time to start. Both are made
from `workloads/java/Agent.java` and the jars of the Kafka version, which the cache holds anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.cache import cache_dir, locked, writable
from harness.artifacts.distribution import resolve
from harness.artifacts.java import Java
from harness.errors import LabError, UnfitError, UsageError
from harness.kafka.versions import KafkaVersion, version_key

SOURCE = Path(__file__).parents[2] / "workloads" / "java" / "Agent.java"
OLDEST = "2.4"
"""The oldest kafka-clients that the source compiles against."""
_LIBRARIES = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
_COMPILE_S = 120.0
_TRAINING_S = 60.0
_JDK = "sudo apt-get install -y openjdk-17-jdk-headless"
_OPTIONS = (
    "-Xmx64m",
    "-Xms16m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:CICompilerCount=1",
    "-XX:ReservedCodeCacheSize=24m",
    "-XX:-UsePerfData",
    "-Xshare:auto",
)
_UNREACHABLE = "127.0.0.1:1"


@dataclass(frozen=True)
class JavaClient:
    """The compiled program."""

    version: str
    """Version of kafka-clients."""
    argv: tuple[str, ...]
    """Command line; the paths are those of the artifact cache, which every host sees."""


def java_client(version: KafkaVersion, *, say: Callable[[str], None] = lambda text: None) -> JavaClient:
    """The Java client of a Kafka version. Compiles it where the cache lacks it, and may download Kafka.

    Raises UsageError for a version that is too old, and UnfitError where there is no compiler.
    """
    if version_key(version.version) < version_key(OLDEST):
        raise UsageError(
            f"The Java client of Kafka {version.version} is too old for the harness; name one from {OLDEST} "
            f"on with --client-version."
        )
    kafka = resolve(version, say=say, with_archives=False)
    jars = libraries_among(kafka.jars)
    key = hashlib.sha256(SOURCE.read_bytes() + repr((_OPTIONS, list(map(str, jars)))).encode()).hexdigest()[
        :12
    ]
    folder = cache_dir() / f"java-client-{version.version}" / f"{kafka.java.build}-{key}"
    if not (folder / "agent.jar").is_file():
        with locked(writable(folder.parent), say):
            if not (folder / "agent.jar").is_file():
                say(f"compiling the Java client of Kafka {version.version}, once for this Java")
                _make(folder, jars, kafka.java)
    return JavaClient(version.version, _argv(folder, jars, kafka.java))


def libraries_among(jars: Iterable[Path]) -> list[Path]:
    """The jars that a client needs, whatever follows the version in their names."""
    return [jar for jar in jars if jar.name.startswith(tuple(f"{name}-" for name in _LIBRARIES))]


def _argv(folder: Path, jars: list[Path], java: Java, *more: str) -> tuple[str, ...]:
    archive = folder / "agent.jsa"
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    class_path = ":".join(map(str, (folder / "agent.jar", *jars)))
    return (java.path, *_OPTIONS, *shared, *more, "-cp", class_path, "Agent")


def _make(folder: Path, jars: list[Path], java: Java) -> None:
    compiler = Path(java.path).resolve().with_name("javac")
    if not compiler.is_file():
        raise UnfitError(
            f"There is no Java compiler beside {java.path}, and the Java client has to be compiled; install "
            f"one with `{_JDK}`."
        )
    new = folder.with_name(f".new-{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    (new / "classes").mkdir(parents=True)
    try:
        command = [str(compiler), "-nowarn", "--release", "11", "-d", str(new / "classes")]
        command += ["-cp", ":".join(map(str, jars)), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"Compiling {SOURCE} did not end within {_COMPILE_S:.0f} s.") from None
        if done.returncode != 0:
            raise LabError(f"{SOURCE} does not compile against {jars[0].name}.", detail=done.stderr[-2000:])
        with zipfile.ZipFile(new / "agent.jar", "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted((new / "classes").iterdir()):
                jar.write(file, file.name)
        shutil.rmtree(new / "classes")
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    _train(folder, jars, java)  # in its final place: the archive holds the class path


def _train(folder: Path, jars: list[Path], java: Java) -> None:
    """Leave a class-data archive of the classes that a run with a producer and a consumer loads.

    Without one the program only starts more slowly.
    """
    archive = folder / "agent.jsa"
    new = folder / "new.jsa"
    lines = "".join(json.dumps(line) + "\n" for line in _training_lines())
    try:
        subprocess.run(
            _argv(folder, jars, java, f"-XX:ArchiveClassesAtExit={new}"),
            input=lines,
            capture_output=True,
            text=True,
            timeout=_TRAINING_S,
            check=False,
        )
        if new.is_file():
            new.rename(archive)
    except subprocess.TimeoutExpired:
        new.unlink(missing_ok=True)


def _training_lines() -> list[dict[str, object]]:
    servers = {"bootstrap.servers": _UNREACHABLE, "reconnect.backoff.ms": "50"}
    producer = {**servers, "acks": "all", "enable.idempotence": "true", "max.block.ms": "300"}
    consumer = {**servers, "group.id": "training", "enable.auto.commit": "false"}
    message = {"seq": 0, "topic": "training", "partition": 0, "value": "training"}
    return [
        {"id": 1, "op": "create_producer", "producer": 1, "properties": producer},
        {"op": "send", "producer": 1, "messages": [message]},
        {
            "id": 2,
            "op": "create_consumer",
            "consumer": 2,
            "properties": consumer,
            "subscribe": ["training"],
            "commit": True,
        },
        {"id": 3, "op": "flush", "producer": 1, "within_ms": 1000},
        {"id": 4, "op": "close_consumer", "consumer": 2, "within_ms": 1000},
        {"id": 5, "op": "quit", "within_ms": 1000},
    ]
