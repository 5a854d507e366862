"""Kafka's own clients as programs of the client protocol: the Java client, and the verifiable tools.

Both are made from a source file in `workloads/java` and the jars of a Kafka version, which the cache holds
anyway; the tools need two jars more.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import modules
from harness.artifacts.cache import cache_dir, writable
from harness.artifacts.distribution import KafkaDistribution, resolve
from harness.artifacts.java_program import JavaProgram
from harness.artifacts.modules import Say
from harness.errors import UsageError
from harness.kafka.versions import Coordinates, KafkaVersion, version_key

SOURCES = Path(__file__).parents[2] / "workloads" / "java"
OLDEST = "2.4"
"""The oldest kafka-clients that the Java client compiles against."""
OLDEST_TOOLS = "2.7"
"""The oldest verifiable tools that were tried."""
_LIBRARIES = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
_OF_TOOLS = ("kafka-tools-", "kafka-server-common", "argparse4j", "jackson-")
_ARGPARSE4J = Coordinates("net.sourceforge.argparse4j", "argparse4j", "0.7.0")
_UNREACHABLE = "127.0.0.1:1"


@dataclass(frozen=True)
class JavaClient:
    """A program that can be started."""

    version: str
    """Version of kafka-clients, or of kafka-tools."""
    argv: tuple[str, ...]
    """Command line; the paths are those of the artifact cache, which every host sees."""


def java_client(version: KafkaVersion, *, say: Say = lambda text: None) -> JavaClient:
    """The Java client of a Kafka version. Compiles it where the cache lacks it, and may download Kafka.

    Raises UsageError for a version that is too old, and UnfitError if there is no compiler.
    """
    _require(version, OLDEST, "The Java client")
    kafka = resolve(version, say=say, with_archives=False)
    program = JavaProgram(
        source=SOURCES / "Agent.java",
        about=f"the Java client of Kafka {version.version}",
        java=kafka.java,
        jars=tuple(libraries_among(kafka.jars)),
        main="Agent",
        training_input="".join(json.dumps(line) + "\n" for line in _training_lines()),
    )
    shelf = cache_dir() / f"java-client-{version.version}"
    return JavaClient(version.version, (*program.argv(shelf, say), program.main))


def verifiable_tools(version: KafkaVersion, *, say: Say = lambda text: None) -> JavaClient:
    """VerifiableProducer and VerifiableConsumer of a Kafka version. Raises what `java_client` does.

    May download kafka-tools, unless the user's own build contains it.
    """
    _require(version, OLDEST_TOOLS, "VerifiableProducer")
    kafka = resolve(version, say=say, with_archives=False)
    shelf = cache_dir() / f"kafka-tools-{version.version}"
    program = JavaProgram(
        source=SOURCES / "Feeder.java",
        about=f"a plug-in for VerifiableProducer of Kafka {version.version}",
        java=kafka.java,
        jars=(*libraries_among(kafka.jars), *_jars_of_tools(kafka, shelf, say)),
        main="org.apache.kafka.tools.VerifiableProducer",
        training=(
            *("--topic", "training", "--bootstrap-server", _UNREACHABLE, "--producer.config"),
            str(_training_properties(shelf)),
        ),
        training_input=f"training 0 {base64.b64encode(b'training').decode()}\n",
    )
    argv = program.argv(shelf / "programs", say)
    return JavaClient(
        version.version, (sys.executable, str(SOURCES / "verifiable.py"), version.version, *argv)
    )


def libraries_among(jars: Iterable[Path]) -> list[Path]:
    """The jars that a client needs, whatever their names have after the version."""
    return [jar for jar in jars if jar.name.startswith(tuple(f"{name}-" for name in _LIBRARIES))]


def _require(version: KafkaVersion, oldest: str, what: str) -> None:
    if version_key(version.version) < version_key(oldest):
        raise UsageError(
            f"{what} of Kafka {version.version} is too old for the harness; name one from {oldest} on with "
            f"--client-version."
        )


def _jars_of_tools(kafka: KafkaDistribution, shelf: Path, say: Say) -> list[Path]:
    """kafka-tools and what it needs: from the distribution, else from Maven Central."""
    own = [jar for jar in kafka.jars if jar.name.startswith(_OF_TOOLS)]
    names = [jar.name for jar in own]
    tools = f"kafka-tools-{kafka.spec.version}"
    if any(name.startswith(tools) for name in names):
        return own
    wanted = modules.Modules(
        label=f"the tools of Kafka {kafka.spec.version}",
        coordinates=(Coordinates("org.apache.kafka", "kafka-tools", kafka.spec.version), _ARGPARSE4J),
        jar=f"{tools}.jar",
        dependencies=False,
    )
    manifest = modules.fetched(wanted, shelf, kafka.java, say)
    return [*own, *(shelf / "lib" / name for name in manifest.sums if name not in names)]


def _training_properties(shelf: Path) -> Path:
    file = writable(shelf) / "training.properties"
    file.write_text(
        "interceptor.classes=Feeder\npartitioner.class=Feeder$Leaders\n"
        "max.block.ms=300\nreconnect.backoff.ms=50\nenable.idempotence=true\nretries=10\n"
    )
    return file


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
