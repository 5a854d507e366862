"""From the last message that is sent to the page: a run of millions of messages, phase by phase.

    .venv/bin/python -m benchmarks.ending --messages 3000000
    .venv/bin/python -m benchmarks.ending --messages 10000000

The Java client of each AZ writes a third of the messages, with acks=all, to a topic with three replicas. Then
the run ends as any other does: final logs, the reader that reads all partitions, tables, judgement, page. It
prints how long each phase took, by the clock and of the processors, and the most memory (PSS) in it: of this
process, of the others that acked started, and of Spark's JVM. Brokers are not counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory import command_of, family, pss_mib
from benchmarks.recording import KAFKA, seconds_of
from harness import artifacts
from harness.clock import now_ns
from harness.cluster.setup import Setup
from harness.console import Progress, State
from harness.errors import LabError, as_printed
from harness.history.tables import read_columns
from harness.kafka.model import Topic
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until
from run.client_choice import ClientChoice
from run.folder import RunFolder
from run.runner import RunOptions
from run.scenario import Scenario
from run.session import run_and_judge
from run.stage import Stage
from workloads.protocol.spec import StreamLoad

_LIMIT_S = 600.0
_SAMPLED_S = 0.5
_PHASES = ("scenario", "final logs", "taking down", "history", "judgement", "page")
_KINDS = ("this process", "others", "Spark's JVM")


@dataclass(kw_only=True)
class Measured(Progress):
    """Measures processors and memory beside the clock."""

    phase_now: str = ""
    peak_mib: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    """By phase, of each of `_KINDS`."""
    processor_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    """The same, for seconds of the processors."""
    began_ns: dict[str, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    _seconds: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, text: str, state: State = tuple) -> Iterator[None]:
        """Measure a phase."""
        self._sample()
        self.phase_now, self.began_ns[name] = name, now_ns()
        with super().phase(name, text, state):
            yield
        self._sample()
        self.phase_now = ""

    def watch(self) -> None:
        """Sample until the run has ended."""
        while not self.ended.wait(_SAMPLED_S):
            self._sample()

    def _sample(self) -> None:
        mib = [0.0, 0.0, 0.0]
        for pid in family(os.getpid()):
            command = command_of(pid)
            if "kafka.Kafka" in command:
                continue
            kind = 0 if pid == os.getpid() else 2 if "pyspark-shell" in command else 1
            mib[kind] += pss_mib(pid)
            spent = seconds_of([pid])
            self.processor_s[self.phase_now][kind] += max(0.0, spent - self._seconds.get(pid, 0.0))
            self._seconds[pid] = spent
        self.peak_mib[self.phase_now] = list(map(max, mib, self.peak_mib[self.phase_now]))


@dataclass(frozen=True, kw_only=True)
class Load:
    """The scenario's body."""

    messages: int
    rate: int
    size_bytes: int
    batch_bytes: int
    partitions: int
    topic: Topic

    def body(self, stage: Stage) -> None:
        """Write all messages."""
        settings: dict[str, str | int | float | bool] = {
            **{"acks": -1, "enable.idempotence": True, "batch.size": self.batch_bytes},
            **{"linger.ms": 20, "buffer.memory": 1 << 26},
        }
        streams = []
        for place, (az, client) in enumerate(sorted(stage.clients.items())):
            count = self.messages // len(stage.clients) + (place < self.messages % len(stage.clients))
            load = StreamLoad(
                topic=self.topic.name,
                partitions=tuple(range(self.partitions)),
                rate=self.rate / len(stage.clients),
                size_bytes=self.size_bytes,
                max_count=count,
                max_in_flight=100_000,
            )
            spec = stage.stream_spec(f"{az}-load", load.rate, settings)
            streams.append(client.start_stream(spec, load))
        wait_until(
            lambda: [stream.counts() for stream in streams],
            within_s=_LIMIT_S,
            awaiting="the streams to end",
            accept=lambda counts: not any(one.running for one in counts),
        )
        acknowledged = sum(stream.counts().ok for stream in streams)
        if acknowledged != self.messages:
            raise LabError(f"{acknowledged} of {self.messages} messages were acknowledged.")


def _report(progress: Measured, folder: Path, messages: int, verdict: str, page_s: float) -> None:
    sends = read_columns(folder, "sends", ("sent_ns",))
    sent = sends["sent_ns"].to_numpy()
    ended_ns = now_ns()
    rate = messages / (sent.max() - sent.min()) * 1e9
    print(f"{messages} messages x 3 replicas at {rate:.0f}/s; verdict {verdict}")
    print(f"{'':<14}{'s':>8}" + "".join(f"{kind + ': CPU s, MiB':>28}" for kind in _KINDS))
    for name in _PHASES:
        took = page_s if name == "page" else progress.durations.get(name, 0.0)
        both = zip(progress.processor_s[name], progress.peak_mib[name], strict=True)
        print(f"{name:<14}{took:8.1f}" + "".join(f"{seconds:20.1f}{mib:8.0f}" for seconds, mib in both))
    print(f"last send to page {(ended_ns - sent.max()) / 1e9:.1f} s")
    beside = [sum(progress.peak_mib[name][:2]) for name in _PHASES[1:]]
    print(f"most memory beside Spark's JVM after the last send: {max(beside):.0f} MiB")
    sizes = {part: _size(folder / part) / messages for part in ("journal", "history", "report.html")}
    sizes["life and findings"] = sum(map(_size, folder.glob("*.parquet"))) / messages
    print("bytes a message: " + ", ".join(f"{part} {size:.1f}" for part, size in sizes.items()))


def _size(place: Path) -> int:
    files = [place] if place.is_file() else place.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000_000, help="messages a second; default: no limit")
    parser.add_argument("--size-bytes", type=int, default=100)
    parser.add_argument("--batch-bytes", type=int, default=1 << 19)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--keep", action="store_true", help="keep the run folder, and print its name")
    options = vars(parser.parse_args())
    keep = options.pop("keep")
    version = kafka_version(KAFKA)
    artifacts.resolve(version)
    scratch = Path(tempfile.mkdtemp(prefix="acked-benchmark-"))
    topic = Topic("ending", (1, 2, 3), partitions=options["partitions"], spread=True)
    load = Load(topic=topic, **options)

    def work() -> int:
        progress = Measured()
        threading.Thread(target=progress.watch, daemon=True).start()
        scenario = Scenario(
            name="ending",
            title="A run of millions of messages",
            body=load.body,
            setup=Setup(topics=(topic,), stream_rate=0),
            kafka=KAFKA,
            mode="kraft-combined",
        )
        run = RunOptions(version=version, mode=scenario.mode, client=ClientChoice(name="java"))
        folder = RunFolder.create(scratch, scenario.name)
        outcome = run_and_judge(scenario, run, folder, progress)
        if outcome.judgement is None or outcome.problem is not None:
            sys.stderr.write(as_printed(outcome.problem) if outcome.problem else "There is no judgement.\n")
            return 1
        from report.page.write import write_page

        began = time.monotonic()
        with progress.phase("page", "writing the page"):
            write_page(folder.path)
        page_s = time.monotonic() - began
        progress.ended.set()
        _report(progress, folder.path, load.messages, outcome.judgement.verdict, page_s)
        sys.stdout.flush()
        return 0

    status = run_inside(work)
    if keep:
        sys.stderr.write(f"{scratch}\n")
    else:
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
