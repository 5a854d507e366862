"""Compares recordings of a cluster that acked did not start with the segment files of its brokers.

    .venv/bin/python -m benchmarks.foreign_recordings --kafka 3.9.1 --runs 20
    .venv/bin/python -m benchmarks.foreign_recordings --kafka 2.7.1 --runs 4 --only quiet --at-once 4

One cluster stays up. Quiet recordings see no fault, and nothing may be found. In planted ones both followers
of a partition hang, its leader acknowledges messages alone and is killed, and the followers go on: what acked
calls lost must be what no segment file holds, and there must be some. In all of them, every record that was
read over the wire must equal that of the segment files.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.lab.embedded.namespaces import run_inside
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorded_faults import Scene, begun, stopped
from tests.cluster.recorder import inventory

_ALONE = 15
"""Messages that the leader acknowledges alone in each recording, at least."""
_QUIET = 300
"""Messages of a quiet recording, about."""


def quiet(scenes: Sequence[Scene]) -> None:
    """Wait until each recording has some messages."""
    for scene in scenes:
        scene.recorder.wait_acknowledged(_QUIET)


def planted(scenes: Sequence[Scene]) -> None:
    """Let the leader of the first partitions acknowledge messages that no follower has when it dies."""
    cluster, first = scenes[0].cluster, scenes[0]
    leader = first.leader
    assert all(scene.leader == leader for scene in scenes)
    counts = [scene.recorder.acknowledged() for scene in scenes]
    with first.frozen(*first.followers()):
        for scene, count in zip(scenes, counts, strict=True):
            scene.recorder.wait_acknowledged(count + _ALONE - scene.recorder.acknowledged(), within_s=30)
        cluster.signal(leader, signal.SIGKILL)
    for scene in scenes:
        scene.wait_leader_other_than(leader)
    cluster.start(leader)


KINDS = {"quiet": quiet, "planted": planted}


def problems(kind: str, outcome: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    judgement = outcome["judgement"] or {"verdict": f"status {outcome['status']}", "findings_by_class": {}}
    classes = dict(judgement["findings_by_class"])
    lost = sum(classes.pop(name, 0) for name in ("lost", "lost_after_read"))
    said = []
    if judgement["verdict"] != "as declared":
        said.append(f"verdict {judgement['verdict']}: {'; '.join(judgement.get('reasons', ()))}")
    if kind == "quiet" and (lost or classes):
        said.append(f"found {lost} lost, {classes}")
    if kind == "planted" and not outcome["lost_on_disk"]:
        said.append("nothing was lost")
    if outcome["only_by_findings"] or outcome["only_on_disk"]:
        said.append(f"only findings: {outcome['only_by_findings']}, only files: {outcome['only_on_disk']}")
    if outcome["different"] or outcome["dumped_different"]:
        said.append(f"{outcome['different']} records differ between wire and files")
        said.append(f"{outcome['dumped_different']} records differ between wire and kafka-dump-log")
    return said


def batch(cluster: ForeignLab, folder: Path, kind: str, count: int) -> list[dict[str, Any]]:
    """Several recordings at the same time, and what became of them."""
    scenes: list[Scene] = []
    try:
        for number in range(count):
            scenes.append(begun(cluster, folder / str(number)))
        for scene in scenes:
            scene.recorder.wait_recording()
        KINDS[kind](scenes)
        for scene in scenes:
            scene.end()
        return [recording.outcome() for recording in [stopped(scene) for scene in scenes]]
    finally:
        for scene in scenes:
            scene.recorder.close()


def main() -> int:
    """Run them and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kafka", default="3.9.1")
    parser.add_argument("--runs", type=int, default=20, help="recordings of each kind")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", choices=list(KINDS))
    options = parser.parse_args()

    def inside() -> int:
        with (
            tempfile.TemporaryDirectory(prefix="acked-recordings-") as folder,
            ForeignLab(folder=Path(folder) / "cluster", kafka=options.kafka) as cluster,
        ):
            for kind in [options.only] if options.only else list(KINDS):
                _several(cluster, Path(folder), kind, options.runs, options.at_once)
        return 0

    return run_inside(inside)


def _several(cluster: ForeignLab, folder: Path, kind: str, runs: int, at_once: int) -> None:
    totals: Counter[str] = Counter()
    before = inventory(cluster)
    while totals["runs"] < runs:
        count = min(at_once, runs - totals["runs"])
        for outcome in batch(cluster, folder / f"{kind}-{totals['runs']}", kind, count):
            wrong = problems(kind, outcome)
            messages = (outcome["judgement"] or {}).get("messages", 0)
            totals += Counter(runs=1, right=not wrong, messages=messages)
            totals += Counter(
                {
                    name: outcome[name]
                    for name in ("records", "different", "dumped", "dumped_different", "lost_on_disk")
                }
            )
            print(
                f"{kind} {totals['runs']}: {messages} messages, {outcome['lost_on_disk']} lost, "
                f"{outcome['records']} records of {outcome['replicas']} replicas"
                + "".join(f"\n  {one}" for one in wrong),
                flush=True,
            )
    same = inventory(cluster) == before
    print(
        f"{cluster.kafka} {kind}: {totals['right']} of {totals['runs']} as they must be; "
        f"{totals['messages']} messages, {totals['lost_on_disk']} lost; {totals['records']} records by "
        f"wire and from files, {totals['different']} different; {totals['dumped']} "
        f"by kafka-dump-log, {totals['dumped_different']} different; topics, groups and ACLs "
        f"{'as before' if same else 'not as before'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
