"""Kafka's own client as a program of the client protocol.

It is made from the source files in `workloads/java` and the jars of a Kafka version in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.cache import cache_dir
from harness.artifacts.distribution import resolve
from harness.artifacts.java import Java
from harness.artifacts.java_program import JavaProgram
from harness.artifacts.modules import Modules, Say, fetched
from harness.errors import UsageError
from harness.kafka.versions import Coordinates, KafkaVersion, version_key

SOURCES = Path(__file__).parents[2] / "workloads" / "java"
OLDEST = "2.4"
"""The oldest kafka-clients that the Java client compiles against."""
OF_SHARES, SHARES_SINCE = "ShareReader.java", "4.2"
"""The source file that needs share consumers, and the version from which on kafka-clients has all of them."""
OF_APPLICATIONS, APPLICATIONS_SINCE = "StreamsInstance.java", "3.9"
"""The source file that needs Kafka Streams, and the oldest version that it compiles against."""
_LIBRARIES_OF_STREAMS = ("kafka-streams", "rocksdbjni")
_LIBRARIES = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni", "jackson", "jose4j")
"""Jackson and jose4j read the tokens of OAUTHBEARER."""
_HEAP_MIB = (16, 256)
"""Room for the buffers of several producers by default, and for what a stream has in flight."""
_STREAMS_HEAP_MIB = (32, 384)
"""The same with Kafka Streams; its stores are outside of the heap."""
_UNREACHABLE = "127.0.0.1:1"


@dataclass(frozen=True)
class JavaClient:
    """A program that can be started."""

    version: str
    """Version of kafka-clients."""
    argv: tuple[str, ...]
    """Command line; the paths are those of the artifact cache, which every host sees."""


def java_client(version: KafkaVersion, *, streams: bool = False, say: Say = lambda text: None) -> JavaClient:
    """The Java client of a Kafka version. Compiles it where the cache lacks it, and may download Kafka.

    With ``streams``, it runs applications of Kafka Streams too, whose library is downloaded then. Raises
    UsageError for a version that is too old, and UnfitError if there is no compiler.
    """
    if version_key(version.version) < version_key(OLDEST):
        raise UsageError(
            f"The Java client of Kafka {version.version} is too old for the harness; name one from "
            f"{OLDEST} on with --client-version."
        )
    if streams and not has_applications(version):
        raise UsageError(
            f"The applications of the harness need Kafka Streams {APPLICATIONS_SINCE} or newer, not "
            f"{version.version}; choose another version."
        )
    kafka = resolve(version, say=say, make_archives=False)
    of_streams = _streams_jars(version, kafka.java, say) if streams else ()
    program = JavaProgram(
        sources=_sources(version, streams=streams),
        about=f"the Java client of Kafka {version.version}",
        java=kafka.java,
        jars=(*libraries_among(kafka.jars), *of_streams),
        main="Agent",
        heap_mib=_STREAMS_HEAP_MIB if streams else _HEAP_MIB,
        training_input="".join(json.dumps(line) + "\n" for line in _training_lines()),
    )
    shelf = cache_dir() / f"java-client-{version.version}"
    return JavaClient(version.version, (*program.argv(shelf, say), program.main))


def has_applications(version: KafkaVersion) -> bool:
    """Whether the harness has applications of Kafka Streams for a version."""
    return version_key(version.version) >= version_key(APPLICATIONS_SINCE)


def streams_modules(version: KafkaVersion) -> Modules:
    """Kafka Streams of a version, with what it needs."""
    return Modules(
        label=f"Kafka Streams {version.version}",
        coordinates=(Coordinates("org.apache.kafka", "kafka-streams", version.version),),
        jar=f"kafka-streams-{version.version}.jar",
    )


def _streams_jars(version: KafkaVersion, java: Java, say: Say) -> list[Path]:
    """The jars of Kafka Streams that the clients' libraries lack. Downloads what the cache lacks."""
    root = cache_dir() / f"streams-{version.version}"
    manifest = fetched(streams_modules(version), root, java, say)
    return _named((root / "lib" / name for name in sorted(manifest.sums)), _LIBRARIES_OF_STREAMS)


def _sources(version: KafkaVersion, *, streams: bool) -> tuple[Path, ...]:
    """The source files that compile against a version, and against Kafka Streams if that is there."""
    sharing = version_key(version.version) >= version_key(SHARES_SINCE)
    left_out = {name for name, fits in ((OF_SHARES, sharing), (OF_APPLICATIONS, streams)) if not fits}
    return tuple(file for file in sorted(SOURCES.glob("*.java")) if file.name not in left_out)


def libraries_among(jars: Iterable[Path]) -> list[Path]:
    """The jars that a client needs, whatever their names have after the version."""
    return _named(jars, _LIBRARIES)


def _named(jars: Iterable[Path], names: Iterable[str]) -> list[Path]:
    return [jar for jar in jars if jar.name.startswith(tuple(f"{name}-" for name in names))]


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
