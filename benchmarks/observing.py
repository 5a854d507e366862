"""What a run itself costs per message, beyond brokers and clients: observer, final logs, tables.

    .venv/bin/python -m benchmarks.observing --messages 100000 --rate 10000

One stream of the Java client writes to a topic of one partition with three replicas, which the observer
follows. All times are processor time of the harness's process and of its decoder: while the stream lasts and
until its last record was seen on every replica; for the final logs and the reader that reads all partitions;
and for the tables of the history. A round without messages of the same length is subtracted from the first.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.alone import run_alone
from benchmarks.memory import command_of, pids
from benchmarks.recording import AZ, KAFKA, seconds_of
from harness.cluster.setup import Setup
from harness.errors import LabError
from harness.history.assemble import assemble
from harness.history.tables import read_table
from harness.kafka.model import Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Scenario
from run.stage import Stage
from workloads.protocol.spec import StreamLoad

_TOPIC = Topic("observed", (1, 2, 3))
_KEY = TopicPartition(_TOPIC.name, 0)
_LIMIT_S = 300.0
_SAMPLED_S = 0.05


class Clock:
    """Processor time of this process and of the decoders that it has started, also of those that ended."""

    def __init__(self) -> None:
        """Begin to look at decoders."""
        self._decoders: dict[int, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ending.wait(_SAMPLED_S):
            for pid in pids():
                if command_of(pid).rstrip().endswith(" BatchDecoder"):
                    self._decoders[pid] = seconds_of([pid])

    def seconds(self) -> float:
        """Seconds so far; those of a decoder may lack the last twentieth of a second."""
        return time.process_time() + sum(self._decoders.values())

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        self._thread.join()


@dataclass(kw_only=True)
class Observing:
    """The scenario's body, and what it measured: processor seconds by what they were spent for."""

    messages: int
    rate: int
    size_bytes: int
    batch_bytes: int
    clock: Clock
    spent: dict[str, float] = field(default_factory=dict)
    rate_seen: float = 0.0
    ended_s: float = 0.0

    def body(self, stage: Stage) -> None:
        """Write, then do nothing for as long."""
        settings: dict[str, str | int | float | bool] = {
            **{"acks": -1, "enable.idempotence": True, "batch.size": self.batch_bytes},
            **{"linger.ms": 20, "buffer.memory": 1 << 26},
        }
        load = StreamLoad(
            topic=_TOPIC.name,
            rate=self.rate,
            size_bytes=self.size_bytes,
            max_count=self.messages,
            max_in_flight=200_000,
        )
        spec = stage.stream_spec(_TOPIC.name, self.rate, settings)
        began, before = time.monotonic(), self.clock.seconds()
        stream = stage.clients[AZ].start_stream(spec, load)
        wait_until(
            stream.counts,
            within_s=_LIMIT_S,
            awaiting="the stream to end",
            accept=lambda counts: not counts.running,
        )
        self.rate_seen = self.messages / (time.monotonic() - began)
        counts = stream.counts()
        if counts.ok != self.messages:
            raise LabError(f"The stream ended with {counts}; choose a rate that the machine carries.")
        wait_until(
            lambda: min(stage.observer.recorded_end(broker, _KEY) or 0 for broker in (1, 2, 3)),
            within_s=_LIMIT_S,
            awaiting="the observer to have seen all records",
            accept=lambda end: end >= self.messages,
        )
        took = time.monotonic() - began
        loaded, before = self.clock.seconds() - before, self.clock.seconds()
        idle = threading.Event()
        idle.wait(took)  # the same length without messages
        self.spent["observer, beyond an idle cluster"] = loaded - (self.clock.seconds() - before)
        self.ended_s = self.clock.seconds()


def _report(observing: Observing, run: Path) -> None:
    clock, spent = observing.clock, observing.spent
    before = clock.seconds()
    assemble(run)
    again = clock.seconds() - before
    spent["final logs, reader, end of the run"] = before - observing.ended_s - again
    spent["tables of the history"] = again
    print(f"{observing.messages} messages at {observing.rate_seen:.0f}/s; µs of processor time per message")
    for what, seconds in spent.items():
        print(f"{what:<40} {seconds / observing.messages * 1e6:8.2f}")
    print(f"{'together':<40} {sum(spent.values()) / observing.messages * 1e6:8.2f}")
    for name in ("sightings", "copies", "sends", "reads", "unobserved"):
        print(f"{name:<40} {read_table(run, name).num_rows:8d} rows")
    sizes = {kind: sum(file.stat().st_size for file in run.glob(f"journal/*{kind}")) for kind in _KINDS}
    print(
        "bytes per message: "
        + ", ".join(f"{kind} {size / observing.messages:.0f}" for kind, size in sizes.items())
    )
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


_KINDS = (".seen", ".sends", ".jsonl")


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--size-bytes", type=int, default=100)
    parser.add_argument("--batch-bytes", type=int, default=1 << 14)
    options = parser.parse_args()

    def prepare() -> tuple[Scenario, Callable[[Path], None]]:
        clock = Clock()
        observing = Observing(clock=clock, **vars(options))
        scenario = Scenario(
            name="observing",
            title="A stream that the observer follows",
            body=observing.body,
            setup=Setup(topics=(_TOPIC,), stream_rate=0),
            kafka=KAFKA,
            mode="kraft-combined",
        )

        def report(run: Path) -> None:
            _report(observing, run)
            clock.close()

        return scenario, report

    run_alone(prepare, KAFKA)


if __name__ == "__main__":
    main()
