"""The training run for class-data archives: a small cluster that records the classes that it loads.

`harness.artifacts.class_data` runs it as
`python -m harness.artifacts.training_run FOLDER CLASS_PATH JAVA MODE LOG_SYNTAX`. The cluster runs for some
seconds on loopback, in namespaces of its own, and leaves a `<main class>.jsa` per kind of process in FOLDER.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.errors import AckedError, ProcessDiedError
from harness.kafka.config import BASE_BROKER, BASE_ZOOKEEPER
from harness.kafka.java import (
    BROKER,
    CLUSTER_ID,
    FORMAT,
    ZOOKEEPER,
    JavaProcess,
    log_config_text,
    properties_text,
)
from harness.kafka.versions import LogSyntax
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until

START_S = 60.0
_INTERNAL = {"offsets.topic.replication.factor": "1", "min.insync.replicas": "1"}


@dataclass(kw_only=True)
class TrainingCluster:
    """The processes of the small cluster."""

    folder: Path
    class_path: str
    java: str
    log_syntax: LogSyntax
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def process(self, name: str, main_class: str, properties: Mapping[str, str], *, record: bool) -> None:
        """Start a process. With ``record`` it writes an archive when SIGTERM ends it."""
        folder = self.folder / "run" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(properties_text(properties))
        self.running[name] = self._popen(name, main_class, (str(folder / "server.properties"),), record)

    def tool(self, name: str, main_class: str, *arguments: str) -> None:
        """Run a tool to its end. It writes an archive."""
        process = self._popen(name, main_class, arguments, True)
        try:
            status = process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ProcessDiedError(f"{main_class} did not end within {START_S:g} s.") from None
        if status != 0:
            raise ProcessDiedError(f"{main_class} ended with status {status}.")

    def _popen(
        self, name: str, main_class: str, arguments: tuple[str, ...], record: bool
    ) -> subprocess.Popen[bytes]:
        folder = self.folder / "run" / name
        log_config = folder / "log.properties"
        log_config.write_text(log_config_text(str(folder / "server.log"), self.log_syntax))
        argv = JavaProcess(
            main_class=main_class,
            class_path=self.class_path,
            arguments=arguments,
            log_config=str(log_config),
            log_syntax=self.log_syntax,
            java=self.java,
        ).argv()
        dump = (f"-XX:ArchiveClassesAtExit={self.folder / main_class}.jsa",) if record else ()
        with (folder / "out.log").open("ab") as out:
            return subprocess.Popen(
                [argv[0], *dump, *argv[1:]], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def wait_logged(self, name: str, text: str) -> None:
        """Wait until a process has logged ``text``."""
        log = self.folder / "run" / name / "server.log"
        wait_until(
            lambda: log.is_file() and text in log.read_text(errors="replace"),
            within_s=START_S,
            awaiting=f"{text!r} in the log of {name}",
            abort=self._check,
        )

    def _check(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                raise ProcessDiedError(f"{name} of the training run ended with status {process.returncode}.")

    def end(self, *names: str) -> None:
        """End processes with SIGTERM, in this order, and wait for each, which writes its archive now."""
        for name in names:
            process = self.running.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise ProcessDiedError(
                    f"{name} of the training run did not end within {START_S:.0f} s."
                ) from None

    def kill(self) -> None:
        """Kill the other processes, and wait until they have ended."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()


def _broker(node_id: int) -> dict[str, str]:
    listener = f"PLAINTEXT://127.0.0.1:{9092 + 10 * node_id}"
    return {**BASE_BROKER, **_INTERNAL, "listeners": listener, "advertised.listeners": listener}


# Both functions return the names of the processes that write archives.


def _zookeeper_mode(cluster: TrainingCluster) -> tuple[str, ...]:
    servers = {f"server.{n}": f"127.0.0.1:{2880 + n}:{3880 + n}" for n in (1, 2, 3)}
    for n in (3, 2, 1):
        data = cluster.folder / "run" / f"zookeeper{n}" / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(n))
        properties = {**BASE_ZOOKEEPER, **servers, "dataDir": str(data), "clientPort": str(2180 + n)}
        cluster.process(f"zookeeper{n}", ZOOKEEPER, properties, record=n == 2)
    connect = ",".join(f"127.0.0.1:{2180 + n}" for n in (1, 2, 3))
    for n in (1, 2):
        own = {
            "broker.id": str(n),
            "zookeeper.connect": connect,
            "log.dirs": f"{cluster.folder}/run/broker{n}/data",
        }
        cluster.process(f"broker{n}", BROKER, {**_broker(n), **own}, record=n == 1)
    for n in (1, 2):
        cluster.wait_logged(f"broker{n}", "started (KafkaServer)")
    return ("broker1", "zookeeper2")


def _kraft_mode(cluster: TrainingCluster) -> tuple[str, ...]:
    voters = ",".join(f"{n}@127.0.0.1:{9093 + 10 * n}" for n in (1, 2))
    for n in (1, 2):
        data = cluster.folder / "run" / f"broker{n}" / "data"
        properties = {
            **_broker(n),
            "listeners": f"PLAINTEXT://127.0.0.1:{9092 + 10 * n},CONTROLLER://127.0.0.1:{9093 + 10 * n}",
            "process.roles": "broker,controller",
            "node.id": str(n),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(data),
        }
        (data.parent).mkdir(parents=True)
        config = data.parent / "server.properties"
        config.write_text(properties_text(properties))
        cluster.tool(f"broker{n}", FORMAT, "format", "-t", CLUSTER_ID, "-c", str(config))
        cluster.process(f"broker{n}", BROKER, properties, record=n == 1)
    for n in (1, 2):
        cluster.wait_logged(f"broker{n}", "Kafka Server started")
    return ("broker1",)


def _traffic() -> None:
    """Create a replicated topic and send some messages, so that their classes are recorded too."""
    servers = {"bootstrap.servers": "127.0.0.1:9102,127.0.0.1:9112", "log_level": 0}
    with contextlib.suppress(KafkaException):
        topic = NewTopic("training", 2, replica_assignment=[[1, 2], [2, 1]])
        admin = AdminClient(servers)  # must exist until the answer has come
        admin.create_topics([topic])["training"].result(10)
        producer = Producer({**servers, "acks": "all", "message.timeout.ms": 5000})
        for number in range(20):
            producer.produce("training", str(number), partition=number % 2)
        producer.flush(6)


def _run(cluster: TrainingCluster, mode: str) -> int:
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
        order = _zookeeper_mode(cluster) if mode == "zookeeper" else _kraft_mode(cluster)
        _traffic()
        cluster.end(*order)
    except (AckedError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        cluster.kill()
    return 0


def main(argv: list[str]) -> int:
    """Takes the arguments in the module's docstring."""
    folder, class_path, java, mode, log_syntax = argv
    syntax: LogSyntax = "log4j2" if log_syntax == "log4j2" else "log4j1"
    cluster = TrainingCluster(folder=Path(folder), class_path=class_path, java=java, log_syntax=syntax)
    try:
        return run_inside(lambda: _run(cluster, mode))
    except AckedError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
