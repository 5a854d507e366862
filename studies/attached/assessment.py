"""An assessment of a cluster that acked did not set up: the battery of faults, as far as its owner allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from harness.cluster.attached import AttachedCluster
from harness.errors import AckedError, UnfitError
from harness.kafka.broker_properties import likeliest_version
from harness.lab.model import Host, Topology
from run.attached.cases import controller_of, in_force_together, require_fit
from run.attached.guard import Guard
from run.attached.hosts import AttachedHosts
from run.attached.starting import untried
from run.recording.plan import settings_of
from studies.assess.battery import Case, battery
from studies.assess.series import Assessment, AssessmentPlan
from studies.attached.fleet import HostsFleet
from studies.attached.process import HostsOrder
from studies.attached.steps import ROLLING, TOPIC, Aims, ability_of
from studies.series import planned
from studies.series.job import Job
from studies.series.summary import RunSummary

_MODES = {"zookeeper": "zookeeper", "kraft": "kraft-combined"}


def mode_of(topology: Topology, mode: str) -> str:
    """The metadata mode by whether controllers are hosts of their own."""
    return "kraft" if mode == "kraft" and topology.role("controller") else _MODES[mode]


def version_of(cluster: AttachedCluster) -> str:
    """The likeliest version by the properties of a broker. Raises UnfitError if they are not told."""
    broker = cluster.brokers[0]
    try:
        config = cluster.broker_config(broker)
    except (LookupError, OSError) as error:
        raise UnfitError(
            f"The configuration of {broker.name} is not told ({error}), so its version is not known; grant "
            "DESCRIBE_CONFIGS on the cluster."
        ) from None
    return likeliest_version(set(config))


def cases_of(hosts: AttachedHosts) -> tuple[Case, ...]:
    """The cases whose faults a hosts file could allow."""
    topology = hosts.file.topology
    every = battery(topology, mode_of(topology, hosts.cluster.mode))
    return tuple(case for case in every if all(ability_of(step) for step in case.steps))


def unfit(hosts: AttachedHosts, cases: Sequence[Case]) -> dict[str, str]:
    """Cases that are not possible, by name, and why. The cluster must answer."""
    guard = Guard(hosts.cluster)
    aims = Aims(file=hosts.file, cluster=hosts.cluster, topic="")
    lacking: dict[str, str] = {}
    for case in cases:
        try:
            if len(case.steps) > 1 and any(step.fault == ROLLING for step in case.steps):
                raise UnfitError("nodes are restarted during a cut only by rolling-restart-during-cut")
            together = in_force_together([*aims.acts(case.steps, hosts.fault_s())])
            for faults in together:
                require_fit("it", hosts.file, faults)
                guard.require_room_for(faults)
            for why in (hosts.lacking.get(aim.ability) for aim in chain(*together)):
                if why:
                    raise UnfitError(why)
            ending = sorted({host.name for aim in chain(*together) if aim.ends for host in aim.hosts})
            if names := untried(hosts.file, ending):
                lacking[case.name] = f"the start command of {', '.join(names)} was not tried"
        except AckedError as error:
            lacking[case.name] = error.message.rstrip(".")
    return lacking


def holds(case: Case, controller: Host) -> bool:
    """Whether the controller is where the case has it: in the same part of the fault, or outside of it."""
    placed = case.parts.get(controller.name, case.parts.get(controller.az, ""))
    return bool(placed) is case.controller_inside


@dataclass(frozen=True, kw_only=True)
class HostsAssessment(Assessment):
    """An assessment whose runs break hosts of others."""

    hosts: AttachedHosts

    @classmethod
    def begin(cls, runs: Path, plan: AssessmentPlan, hosts: AttachedHosts) -> HostsAssessment:
        """Make the folder `<runs>/assess/<UTC time>`. Raises UsageError if it cannot be made."""
        return cls(planned.create(runs, "assess", plan, None), plan, hosts=hosts)

    def topology(self) -> Topology:
        """The cluster's hosts, and this machine with the clients."""
        known = self.hosts.cluster.topology
        clients = tuple(host for host in known.hosts if host.role == "client")
        return replace(
            self.hosts.file.topology,
            hosts=(*self.hosts.file.topology.hosts, *clients),
            az_names=known.az_names,
        )

    def cases(self) -> dict[str, Case]:
        """All cases by name."""
        return {case.name: case for case in cases_of(self.hosts)}

    def order(self, job: Job, folder: Path) -> HostsOrder | None:
        """The order of a case, if the controller is where it should be."""
        case, hosts = self.cases()[job.scenario], self.hosts
        if not holds(case, controller_of(hosts.file.topology, hosts.cluster)):
            return None
        return HostsOrder(
            hosts=str(hosts.file.path.absolute()),
            cluster_id=hosts.cluster.cluster_id,
            folder=str(folder),
            rate=hosts.rate,
            title=case.says,
            steps=case.steps,
            lasting_s=hosts.fault_s(),
            inside=case.inside,
        )

    def run(
        self,
        parallel: int,
        ended: Callable[[RunSummary], None],
        may_start: Callable[[Job], bool] = lambda job: True,
    ) -> bool:
        """Run and judge what is left, one after the other. Returns whether Ctrl-C ended it early.

        What has no place of its own for the controller as the cluster moves it stays not run. Raises
        UnfitError if the cluster does not become whole.
        """
        fleet: HostsFleet[Any] = HostsFleet(
            hosts=self.hosts, runs=self.series.path / "runs", order=self.order, may_start=may_start
        )
        try:
            with planned.alone(self.series.path), fleet:
                fleet.submit(*self.left())
                for run in fleet.judged_runs():
                    self.series.add(run.summary)
                    ended(run.summary)
        except KeyboardInterrupt:
            return True
        return False

    def document(self, parallel: int) -> dict[str, Any]:
        """What `assessment.json` holds."""
        producers = [setting.name for setting in settings_of(self.hosts.user)]
        return {
            **super().document(parallel),
            "topics": [{"name": TOPIC, "alike": [], "described": 0, "partitions": 0}],
            "producers": producers,
            "hold_s": self.hosts.fault_s(),
        }


def header_of(hosts: AttachedHosts, version: str, mode: str, left_out: Mapping[str, str]) -> dict[str, str]:
    """What is assessed, for people."""
    topology = hosts.file.topology
    by_az = {
        topology.az_name(az): [host.name for host in topology.hosts if host.az == az] for az in topology.azs
    }
    first, second = (setting.name for setting in settings_of(hosts.user))
    return {
        "cluster": f"{hosts.cluster.cluster_id}, likely Kafka {version}, {mode}; "
        + "; ".join(f"{az}: {', '.join(names)}" for az, names in by_az.items()),
        "topic": "one of acked's own, with the cluster's settings, led in every AZ",
        "producers": f"{first} (described), {second} (for comparison); on this machine, "
        f"{hosts.rate:g} messages/s in all",
        "settings": f"those of the cluster; {hosts.file.path}",
        "fault": f"{hosts.fault_s():g} s each; allowed: {', '.join(hosts.file.allow)}; the controller stays "
        "where it is found",
        **({"unfit": "; ".join(_by_reason(left_out))} if left_out else {}),
    }


def _by_reason(unfit_cases: Mapping[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(unfit_cases.values()):
        names = [name for name, why in unfit_cases.items() if why == reason]
        yield f"{', '.join(names)} ({reason})"
