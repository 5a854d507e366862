"""One run on a cluster of others in a process of its own, which forks its clients while it has one thread.

`python -m studies.attached.process ORDER` reads an order (JSON) and records into the order's run folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from harness.cluster.attached import guarded
from harness.cluster.hosts_file import read_hosts_file
from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, AckedError
from harness.kafka.model import broker_name
from nemesis.network.queues import Throttle
from run.attached.hosts import AttachedHosts
from run.folder import RunFolder
from run.recording.disk import require_room
from run.recording.record import WARM_S
from run.recording.stored import working_on
from studies.attached.steps import TOPIC, Aims
from studies.steps.step import Step


class HostsOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    hosts: str
    """Path of the hosts file."""
    cluster_id: str
    """What the cluster's must be."""
    folder: str
    """The run folder, which exists."""
    rate: float
    title: str
    steps: tuple[Step, ...]
    lasting_s: float | None = None
    """Of a case: how long its steps last. None: they have times of their own, and may be left out."""
    inside: tuple[str, ...] = ()
    """Of a case: the brokers that it hits."""


def carry_out(order: HostsOrder) -> None:
    """Record a run; what goes wrong is in its folder."""
    folder = RunFolder.open(Path(order.folder))
    try:
        with guarded():
            _recorded(order, folder)
    except AckedError as error:
        sys.stderr.write(f"{error.message}\n{error.detail}\n")
        folder.ended("crashed", error)


def _recorded(order: HostsOrder, folder: RunFolder) -> None:
    file = read_hosts_file(Path(order.hosts))
    hosts = AttachedHosts.of(file, order.cluster_id, rate=order.rate, progress=Progress(quiet=True))
    aims = Aims(file=hosts.file, cluster=hosts.cluster, topic="")
    breaking = hosts.breaking([*aims.acts(order.steps, order.lasting_s)], skips=order.lasting_s is None)
    plan = hosts.recording_plan(breaking)
    aims = Aims(file=hosts.file, cluster=hosts.cluster, topic=plan.topic)
    breaking.acts = [*aims.acts(order.steps, order.lasting_s)]
    if order.lasting_s is not None:
        breaking.guard.require_room_for([act.aim() for act in breaking.acts if act.lasts_s])
        for number, replicas in enumerate(plan.assignment):
            led = "inside" if broker_name(replicas[0]) in order.inside else "outside"
            facts = {"led": led, "topic": plan.topic, "partition": number, "described": TOPIC}
            breaking.facts[f"led-{led}"] = [*breaking.facts.get(f"led-{led}", []), facts]
        breaking.facts["reader-here"] = [{"reader": 1, "az": "here"}]
    require_room(folder.path, plan)
    try:
        hosts.lab.up()
        throttles = any(step.fault == Throttle.mechanism for step in order.steps)
        with hosts.locked(WARM_S + breaking.lasts_s, throttles=throttles), working_on(folder):
            hosts.recording(folder, breaking, order.title).begin(plan, hosts.file.bootstrap)
    finally:
        hosts.lab.down()


def main(argv: list[str]) -> int:
    """Carry out one order, whatever becomes of who gave it. Returns the exit code."""
    carry_out(msgspec.json.decode(Path(argv[0]).read_bytes(), type=HostsOrder))
    return EXIT_AS_DECLARED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
