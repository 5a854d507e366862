"""A long recording of a cluster that acked did not start, with a fault in its middle: memory, disk, time.

    .venv/bin/python -m benchmarks.long_recording FOLDER --kafka 4.3.1 --minutes 60 --rate 300

Every 10 s it measures all processes of the recording, the judgement with Spark included, and its run folder.
A line every 5 minutes; at the end the maxima of each stage, how long the verdict took, and whether the lost
messages are those that no segment file of the brokers holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.memory import command_of, family, pss_mib
from harness.clock import now_ns
from harness.history.identity import decode
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until
from tests.cluster.foreign import IDS
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorded_faults import FAULTS, Scene, begun
from tests.cluster.recorder import Message, acknowledged, lost_by_findings, records_in

_EVERY_S = 10.0
_LINES = 30
"""A line is printed for every 30th sample."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """MiB of all processes of a recording and of its folder, or the maximum of each."""

    rss: float = 0.0
    """Shared pages count in each process that has them."""
    pss: float = 0.0
    """Shared pages count once."""
    spark: float = 0.0
    """Of the PSS, the JVM of Spark."""
    folder: float = 0.0
    """What the files of the run folder occupy on the disk."""

    @classmethod
    def of(cls, pid: int, folder: Path) -> Sample:
        """Measure now."""
        rss = pss = spark = 0.0
        for member in family(pid):
            rss += _rss_mib(member)
            pss += (own := pss_mib(member))
            spark += own if "pyspark-shell" in command_of(member) else 0.0
        return cls(rss, pss, spark, occupied_mib(folder))

    def peak(self, other: Sample) -> Sample:
        """The maximum of each."""
        return Sample(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))

    def __str__(self) -> str:
        return "  ".join(f"{f.name} {getattr(self, f.name):5.0f}" for f in fields(self))


def _rss_mib(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20
    except OSError:
        return 0.0


def occupied_mib(folder: Path) -> float:
    """What the files of a folder occupy on the disk; index files are sparse."""
    blocks = 0
    for file in folder.rglob("*"):
        try:
            blocks += file.lstat().st_blocks
        except FileNotFoundError:  # moved meanwhile
            continue
    return blocks * 512 / 2**20


class Sampler(threading.Thread):
    """Samples a recording until it is told to stop."""

    def __init__(self, scene: Scene, stage: Callable[[], str]) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, Sample] = {}
        self._scene, self._stage, self._over = scene, stage, threading.Event()
        self._began_ns = now_ns()

    def run(self) -> None:
        """Take samples."""
        recorder, number = self._scene.recorder, 0
        while not self._over.wait(_EVERY_S if self._stage() == "recording" else 1.0):
            stage, now = self._stage(), Sample.of(recorder.process.pid, recorder.folder)
            self.peaks[stage] = self.peaks.get(stage, Sample()).peak(now)
            if number % _LINES == 0 and stage == "recording":
                minutes = (now_ns() - self._began_ns) / 60e9
                print(f"{minutes:5.1f} min  {now}  (MiB)  {recorder.acknowledged()} messages", flush=True)
            number += 1

    def stop(self) -> None:
        """Take no more."""
        self._over.set()
        self.join()


def lost_on_disk(cluster: ForeignLab, topic: str, run: Path) -> set[Message]:
    """Acknowledged messages that no segment file holds; the files of one replica at a time are in memory."""
    held = set[tuple[int, int]]()
    for folder in (one for broker in IDS for one in cluster.data(broker).glob(f"{topic}-*")):
        named = (decode(record.value) for record in records_in(folder))
        held |= {(one.writer, one.seq) for one in named if one is not None}
    return {one for one in acknowledged(run) if (one.writer, one.seq) not in held}


def record(cluster: ForeignLab, runs: Path, options: argparse.Namespace) -> int:
    """Record, and print what it took."""
    scene = begun(cluster, runs, "--for", f"{options.minutes}m", "--rate", str(options.rate))
    recorder = scene.recorder
    with ExitStack() as stack:
        stack.callback(recorder.close)
        recorder.wait_recording()
        recording = json.loads((recorder.folder / "run.json").read_text())["recording"]
        began_ns, length_ns = int(recording["began_ns"]), options.minutes * 60_000_000_000
        completed_ns: list[int] = []

        def stage() -> str:
            if now_ns() < began_ns + length_ns:
                return "recording"
            return "judging" if completed_ns else "final logs"

        sampler = Sampler(scene, stage)
        sampler.start()
        stack.callback(sampler.stop)
        wait_until(
            lambda: now_ns() >= began_ns + length_ns // 2,
            within_s=options.minutes * 60,
            poll_s=1.0,
            awaiting="the middle of the recording",
        )
        FAULTS[options.fault](scene)
        print(f"fault: {options.fault}", flush=True)
        scene.wait_whole()
        recorder.wait_final_logs(within_s=options.minutes * 60 + 600)
        completed_ns.append(now_ns())
        done = recorder.end()
        ended_ns = now_ns()
        sampler.stop()
        for name, peak in sampler.peaks.items():
            print(f"{name:10}  at most {peak}  (MiB)")
        kinds = Counter[str]()
        for file in recorder.folder.rglob("*"):
            if file.is_file():
                kinds[file.relative_to(recorder.folder).parts[0]] += file.stat().st_size
        print("folder (MB):", ", ".join(f"{name} {size / 1e6:.1f}" for name, size in kinds.most_common(8)))
        judgement = json.loads(done.stdout) if done.stdout else {}
        print(
            f"{cluster.kafka}, {options.minutes} min at {options.rate} messages/s, {options.fault}: "
            f"{judgement.get('verdict')}, status {done.status}; {judgement.get('messages')} messages; final "
            f"logs and history {(completed_ns[0] - began_ns - length_ns) / 1e9:.1f} s, from the end to the "
            f"verdict and its page {(ended_ns - began_ns - length_ns) / 1e9:.1f} s",
            flush=True,
        )
        disk, found = lost_on_disk(cluster, scene.topic, recorder.folder), lost_by_findings(recorder.folder)
        print(f"lost: {len(found)}; in no segment file: {len(disk)}; the same messages: {found == disk}")
        if done.status not in (0, 1, 2):
            print(done.stderr, file=sys.stderr)
    return 0


def main() -> int:
    """Record once and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="for the cluster and the recording")
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=300, help="messages per second of all producers")
    parser.add_argument("--fault", choices=list(FAULTS), default="leader-cut")
    options = parser.parse_args()

    def inside() -> int:
        with ForeignLab(folder=options.folder / "cluster", kafka=options.kafka) as cluster:
            return record(cluster, options.folder / "runs", options)

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main())
