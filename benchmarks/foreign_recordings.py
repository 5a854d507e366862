"""Compares recordings of a cluster that acked did not start with the segment files of its brokers.

    .venv/bin/python -m benchmarks.foreign_recordings FOLDER --kafka 3.9.1 --runs 20
    .venv/bin/python -m benchmarks.foreign_recordings FOLDER --kafka 2.7.1 --only quiet --within 4

One cluster stays up. Quiet recordings see no fault, and nothing may be found. In planted ones both followers
of a partition hang, its leader acknowledges messages alone and is killed, and the followers go on: what acked
calls lost must be what no segment file holds, and there must be some. In all of them, every record that was
read over the wire must equal that of the segment files.

A recording ends when it has read the final logs. `acked check` judges all of them at the end, because a busy
machine carries few sessions of Spark. ``--within`` begins no more after some minutes; the same command goes
on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.clock import now_ns
from harness.lab.embedded.namespaces import run_inside
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorded_faults import Scene, against_findings, begun, stopped
from tests.cluster.recorder import held_alone, inventory

_QUIET = 300
"""Messages of a quiet recording, about."""
_BEGINS_S = 300.0
"""How long it may take until each has messages."""
TRUTH = "truth.json"


def quiet(scenes: Sequence[Scene]) -> None:
    """Wait until each recording has some messages."""
    for scene in scenes:
        scene.recorder.wait_acknowledged(_QUIET)


def planted(scenes: Sequence[Scene]) -> None:
    """Let the leader of the first partitions acknowledge messages that no follower has when it dies."""
    cluster, first = scenes[0].cluster, scenes[0]
    leader = first.leader
    assert all(scene.leader == leader for scene in scenes)
    held_alone(cluster, [scene.recorder for scene in scenes], leader, first.followers())
    for scene in scenes:
        scene.wait_leader_other_than(leader)
    cluster.start(leader)


KINDS = {"quiet": quiet, "planted": planted}


def problems(kind: str, outcome: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    judgement = outcome["judgement"]
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


def batch(cluster: ForeignLab, folder: Path, kind: str, count: int) -> None:
    """Several recordings at the same time, and what the brokers' files say of each, in `truth.json`."""
    scenes: list[Scene] = []
    try:
        for number in range(count):
            scenes.append(begun(cluster, folder / str(number)))
        for scene in scenes:
            scene.recorder.wait_acknowledged(20, within_s=_BEGINS_S)
        KINDS[kind](scenes)
        for scene in scenes:
            scene.end()
        for recording in stopped(*scenes):
            truth = recording.unjudged()
            (recording.scene.recorder.runs / TRUTH).write_text(json.dumps(truth))
    finally:
        for scene in scenes:
            scene.recorder.close()


def record(folder: Path, options: argparse.Namespace) -> None:
    """Make recordings on one cluster until there are enough, or the time is over."""
    end_ns = now_ns() + options.within * 60e9
    with ForeignLab(folder=folder / f"cluster-{now_ns()}", kafka=options.kafka) as cluster:
        before = inventory(cluster)
        for kind in kinds(options):
            while (lacking := options.runs - len(recorded(folder, kind))) > 0 and now_ns() < end_ns:
                at = f"{kind}-{now_ns()}"
                batch(cluster, folder / at, kind, min(options.at_once, lacking))
                same = "as before" if inventory(cluster) == before else "not as before"
                print(f"{len(recorded(folder, kind))} {kind}; topics, groups and ACLs are {same}", flush=True)


def recorded(folder: Path, kind: str) -> list[dict[str, Any]]:
    """What the brokers' files say of each recording of a kind."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob(f"{kind}-*/*/{TRUTH}"))]


def kinds(options: argparse.Namespace) -> list[str]:
    """Those that are asked for."""
    return [options.only] if options.only else list(KINDS)


def judge(folder: Path, kind: str, kafka: str) -> None:
    """Let `acked check` judge them, and print what was counted. Raises CalledProcessError."""
    totals, truths = Counter[str](), recorded(folder, kind)
    command = [sys.executable, "-m", "cli.main", "check", "--json", *(one["run"] for one in truths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        raise subprocess.CalledProcessError(done.returncode, command[:5])
    said = json.loads(done.stdout)
    judgements = [said] if len(truths) == 1 else said
    for truth, judgement in zip(truths, judgements, strict=True):
        outcome = {**truth, **against_findings(Path(truth["run"]), truth), "judgement": judgement}
        wrong = problems(kind, outcome)
        totals += Counter(runs=1, right=not wrong, messages=judgement["messages"])
        totals += Counter(
            {
                name: outcome[name]
                for name in ("records", "different", "dumped", "dumped_different", "lost_on_disk")
            }
        )
        print(
            f"{kind} {totals['runs']}: {judgement['messages']} messages, {outcome['lost_on_disk']} lost, "
            f"{outcome['records']} records of {outcome['replicas']} replicas"
            + "".join(f"\n  {one}" for one in wrong),
            flush=True,
        )
    print(
        f"{kafka} {kind}: {totals['right']} of {totals['runs']} as they must be; "
        f"{totals['messages']} messages, {totals['lost_on_disk']} lost; {totals['records']} records by "
        f"wire and from files, {totals['different']} different; {totals['dumped']} "
        f"by kafka-dump-log, {totals['dumped_different']} different",
        flush=True,
    )


def main() -> int:
    """Make them, and judge them when there are enough. Exits with 1 if there are not yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="for the recordings of one version")
    parser.add_argument("--kafka", default="3.9.1")
    parser.add_argument("--runs", type=int, default=20, help="recordings of each kind")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--within", type=float, default=24 * 60.0, help="minutes")
    options = parser.parse_args()
    folder = options.folder.resolve()

    def lacking() -> bool:
        return any(len(recorded(folder, kind)) < options.runs for kind in kinds(options))

    def inside() -> int:
        record(folder, options)
        return 0

    if lacking() and (status := run_inside(inside)):
        return status
    if lacking():
        return 1
    for kind in kinds(options):
        judge(folder, kind, options.kafka)
    return 0


if __name__ == "__main__":
    sys.exit(main())
