"""What recording costs: streams of load beside Kafka's own ProducerPerformance, on one cluster, in turn.

    .venv/bin/python -m benchmarks.recording --messages 1000000 --rounds 3

Each round lets ProducerPerformance, a stream of the Java client and one of librdkafka send as fast as they
can to a topic of one partition with three replicas. For each it prints messages a second, and the processor
time of the client's processes and of the brokers per message; the start of a JVM for ProducerPerformance is
counted with it. In the end come the medians, as ratios to ProducerPerformance, and the time that it took to
make the table `sends` of all streams. The topics are not those of a scenario, so nobody reads them meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.alone import run_alone
from benchmarks.memory import command_of, pids
from harness.artifacts.cache import cache_dir
from harness.artifacts.java import Java, find_java
from harness.artifacts.modules import Modules, fetched
from harness.cluster.setup import Setup
from harness.errors import LabError
from harness.history.assemble import assemble
from harness.history.sends import stream_rows
from harness.history.stream_journal import beside, read_header
from harness.kafka.model import Topic
from harness.kafka.versions import Coordinates
from harness.waiting import wait_until
from run.scenario import Scenario
from run.stage import Stage
from workloads.client.agent_process import JOURNAL
from workloads.protocol.spec import StreamLoad, Via

KAFKA = "3.9.1"
HOST, AZ = "client1", "az1"
_TICKS = os.sysconf("SC_CLK_TCK")
_OPTIONS = ("-Xmx512M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""Those of Kafka's own script."""
_SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)
_TIME = re.compile(r"(\d+)m([\d.]+)s")
_LIMIT_S = 300.0
_STREAMS: tuple[Via, ...] = ("java", "librdkafka")
ANCHOR = "ProducerPerformance"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One client in one round; times are microseconds of processor time per message."""

    per_s: float
    client_us: float
    brokers_us: float

    def __str__(self) -> str:
        return f"{self.per_s:8.0f}/s  client {self.client_us:5.1f} µs  brokers {self.brokers_us:5.1f} µs"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """Kafka's tools, which the cache need not have, and a Java that runs them."""

    java: Java
    folder: Path

    @classmethod
    def get(cls) -> Tools:
        """Download them if they are missing."""
        java, folder = find_java(), cache_dir() / f"kafka-tools-{KAFKA}"
        module = Coordinates("org.apache.kafka", "kafka-tools", KAFKA)
        modules = Modules(label="Kafka's tools", coordinates=(module,), jar=f"kafka-tools-{KAFKA}.jar")
        fetched(modules, folder, java, lambda text: None)
        return cls(java=java, folder=folder)


@dataclass(kw_only=True)
class Rounds:
    """The scenario's body."""

    tools: Tools
    messages: int
    rounds: int
    batch_bytes: int
    size_bytes: int
    figures: dict[str, list[Figures]] = field(default_factory=lambda: defaultdict(list))

    def body(self, stage: Stage) -> None:
        """Let each client send in turn."""
        for number in range(self.rounds):
            self._note(ANCHOR, self._performance(stage, f"anchor{number}"))
            for via in _STREAMS:
                self._note(via, self._stream(stage, via, f"{via}{number}"))

    def _note(self, name: str, figures: Figures) -> None:
        self.figures[name].append(figures)
        sys.stderr.write(f"{name:<20} {figures}\n")

    def _settings(self) -> dict[str, str | int | float | bool]:
        return {
            "acks": -1,
            "enable.idempotence": True,
            "batch.size": self.batch_bytes,
            "linger.ms": 20,
            "buffer.memory": 1 << 26,
            "max.in.flight.requests.per.connection": 5,
        }

    def _performance(self, stage: Stage, topic: str) -> Figures:
        servers = ",".join(map(str, stage.endpoints()))
        settings = [f"{key}={str(value).lower()}" for key, value in self._settings().items()]
        command = [self.tools.java.path, *_OPTIONS, "-cp", f"{self.tools.folder}/lib/*"]
        command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
        command += ["--num-records", str(self.messages), "--record-size", str(self.size_bytes)]
        command += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={servers}", *settings]
        script = ["bash", "-c", '"$@"; times', "bash", *command]
        brokers_before = seconds_of(_brokers())
        done = stage.lab.execute(HOST, script, timeout_s=_LIMIT_S)
        brokers_s = seconds_of(_brokers()) - brokers_before
        sent = _SENT.findall(done.stdout)
        if not sent:
            raise LabError(f"{ANCHOR} failed.", detail=done.stdout + done.stderr)
        client_s = sum(60 * int(minutes) + float(rest) for minutes, rest in _TIME.findall(done.stdout)[-2:])
        return self._figures(float(sent[-1][1]), client_s, brokers_s)

    def _stream(self, stage: Stage, via: Via, topic: str) -> Figures:
        load = StreamLoad(
            topic=topic,
            rate=10_000_000,
            size_bytes=self.size_bytes,
            max_count=self.messages,
            max_in_flight=90_000 if via == "librdkafka" else 200_000,  # librdkafka's queue has 100,000
        )
        spec = replace(stage.stream_spec(topic, load.rate, self._settings()), via=via)
        brokers_before, clients_before = seconds_of(_brokers()), seconds_of(_clients())
        stream = stage.clients[AZ].start_stream(spec, load)
        wait_until(
            stream.counts,
            within_s=_LIMIT_S,
            awaiting=f"the stream of {via} to end",
            accept=lambda counts: not counts.running,
        )
        brokers_s, client_s = seconds_of(_brokers()) - brokers_before, seconds_of(_clients()) - clients_before
        counts = stream.counts()
        if counts.ok != self.messages:
            raise LabError(f"The stream of {via} ended with {counts}.")
        file = beside(stage.lab.data_dir(HOST) / JOURNAL, spec.writer)
        first, last = [], []
        for block in stream_rows(file, read_header(file)):
            first.append(pc.min(block["sent_ns"]).as_py())
            last.append(pc.max(block["done_ns"]).as_py())
        return self._figures(self.messages / (max(last) - min(first)) * 1e9, client_s, brokers_s)

    def _figures(self, per_s: float, client_s: float, brokers_s: float) -> Figures:
        return Figures(
            per_s=per_s, client_us=client_s * 1e6 / self.messages, brokers_us=brokers_s * 1e6 / self.messages
        )


def _brokers() -> list[int]:
    return [pid for pid in pids() if "kafka.Kafka" in command_of(pid) and "/broker" in command_of(pid)]


def _clients() -> list[int]:
    """The processes in the network namespace of the client's host."""
    spaces = {_namespace(pid) for pid in pids() if f"/{HOST}/{JOURNAL}" in command_of(pid)}
    spaces |= {_namespace(pid) for pid in pids() if command_of(pid).rstrip().endswith(" Agent")}
    return [pid for pid in pids() if _namespace(pid) in spaces - {None}]


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - it leads to no file
    except OSError:
        return None


def seconds_of(processes: list[int]) -> float:
    """Processor time so far of processes that go on."""
    ticks = 0
    for pid in processes:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _report(rounds: Rounds, journals: Path) -> None:
    anchor = rounds.figures[ANCHOR]
    for name, found in rounds.figures.items():
        ratios = [one.per_s / other.per_s for one, other in zip(found, anchor, strict=True)]
        more = [one.client_us - other.client_us for one, other in zip(found, anchor, strict=True)]
        print(
            f"{name:<20} {statistics.median(one.per_s for one in found):8.0f}/s  "
            f"{statistics.median(ratios):5.2f} of {ANCHOR}'s rate, "
            f"{statistics.median(more):+5.1f} µs a message"
        )
    began = time.process_time()
    rows = assemble(journals)["sends"]
    spent = time.process_time() - began
    print(f"assembly             {rows / spent:8.0f}/s of processor time, {rows} messages")
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MiB")


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-bytes", type=int, default=1 << 19)
    parser.add_argument("--size-bytes", type=int, default=100)
    options = parser.parse_args()
    rounds = Rounds(tools=Tools.get(), **vars(options))
    created = {"auto.create.topics.enable": "true", "default.replication.factor": "3", "num.partitions": "1"}
    scenario = Scenario(
        name="recording",
        title="Streams beside ProducerPerformance",
        body=rounds.body,
        setup=Setup(topics=(Topic("t", (1, 2, 3)),), broker_config=created, stream_rate=0),
        kafka=KAFKA,
        mode="kraft-combined",
    )
    run_alone(lambda: (scenario, lambda run: _report(rounds, run)), KAFKA)


if __name__ == "__main__":
    main()
