"""A search on a cluster that acked did not set up: random schedules of the faults that its owner allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from harness.cluster.hosts_file import ENDING
from harness.cluster.settings import NO_SETTINGS
from harness.errors import UnfitError
from harness.lab.model import Host
from run.attached.hosts import AttachedHosts
from run.attached.starting import untried
from run.recording.plan import plan_recording
from studies.assess.series import timings
from studies.attached.assessment import mode_of, version_of
from studies.attached.fleet import HostsFleet
from studies.attached.process import HostsOrder
from studies.attached.steps import on_hosts, possible
from studies.search.findings import RunFinding, findings_of
from studies.search.grammar import fresh
from studies.search.hunt import Search, SearchPlan, TriedSchedule
from studies.search.runs import job_of, schedule_of
from studies.search.schedule import Schedule
from studies.search.space import Space, space_of
from studies.series import planned
from studies.series.job import Job


def plan_of(hosts: AttachedHosts, *, seed: int) -> SearchPlan:
    """The plan of a search. Raises UnfitError if the version is not told."""
    mode = mode_of(hosts.file.topology, hosts.cluster.mode)
    return SearchPlan(seed=seed, version=version_of(hosts.cluster), mode=mode, settings=NO_SETTINGS.as_json())


def usable(hosts: AttachedHosts) -> tuple[str, ...]:
    """What the file allows and every host can have.

    What ends processes is left out unless every start command was tried.
    """
    every = [host.name for host in hosts.file.topology.hosts]
    without = ENDING if untried(hosts.file, every) else ()
    return tuple(name for name in hosts.file.allow if name not in (*without, *hosts.lacking))


@dataclass(kw_only=True)
class HostsSearch(Search):
    """A search whose runs break hosts of others."""

    hosts: AttachedHosts

    @classmethod
    def begin(cls, runs: Path, plan: SearchPlan, hosts: AttachedHosts) -> HostsSearch:
        """Make the folder. Raises UsageError if it cannot be made, UnfitError if no fault is possible."""
        if not possible(usable(hosts)):
            why = "; ".join(hosts.lacking.values()) or f"see limits.allow of {hosts.file.given}"
            raise UnfitError(f"No fault is left for a search: {why}.")
        return cls(path=planned.create(runs, "search", plan, None).path, plan=plan, hosts=hosts)

    @classmethod
    def resumed(cls, path: Path, hosts: AttachedHosts) -> HostsSearch:
        """One that has ended or was interrupted. Raises BadDataError if the folder holds none."""
        before = Search.resume(path)
        kept = {each.name: getattr(before, each.name) for each in fields(before) if each.init}
        return cls(**kept, hosts=hosts)

    def space(self) -> Space:
        """What schedules are made of: roles, hosts and AZs of the file, and allowed faults."""
        topology = self.hosts.file.topology
        # The grammar places clients in AZs; those of a recording are elsewhere, and no step names them.
        client = Host(name="here", role="client", az=topology.azs[0], address="", node_id=1)
        space = space_of(
            kafka=self.plan.version,
            mode=self.plan.mode,
            topology=replace(topology, hosts=(*topology.hosts, client)),
            timings=timings(NO_SETTINGS, self.plan.mode),
            lacks=("transactions", "groups"),  # nobody coordinates any here
        )
        return replace(space, faults=possible(usable(self.hosts)))

    def run(
        self,
        parallel: int,
        ended: Callable[[TriedSchedule], None],
        may_start: Callable[[int], bool],
        extra: Sequence[Schedule] = (),
    ) -> bool:
        """Carry out schedules one after the other; see `Search.run`."""
        return super().run(1, ended, may_start, extra)

    def _next(self, space: Space, number: int) -> Job:
        job = super()._next(space, number)
        if (drawn := self._on_hosts(schedule_of(job))).steps:
            return job_of(self.plan, drawn, number, job.parent)
        # Nothing of its parent's is allowed any more: the file may be another than when the search began.
        return job_of(self.plan, self._on_hosts(fresh(space, self.plan.seed, number)), number)

    def _on_hosts(self, schedule: Schedule) -> Schedule:
        plan = plan_recording(self.hosts.cluster, for_s=1.0, rate=1.0, size_bytes=100)
        return on_hosts(
            schedule,
            usable(self.hosts),
            partitions=len(plan.assignment),
            fault_s=self.hosts.fault_s(),
        )

    def _fleet(self, parallel: int) -> Any:
        return HostsFleet[RunFinding](
            hosts=self.hosts,
            runs=self.path / "runs",
            order=self._order,
            findings=lambda job, folder: findings_of(folder, schedule_of(job)),
        )

    def _order(self, job: Job, folder: Path) -> HostsOrder:
        schedule = schedule_of(job)
        return HostsOrder(
            hosts=str(self.hosts.file.path.absolute()),
            cluster_id=self.hosts.cluster.cluster_id,
            folder=str(folder),
            rate=self.hosts.rate,
            title=f"{len(schedule.steps)} steps ({schedule.made_by})",
            steps=schedule.steps,
        )


def described(hosts: AttachedHosts, plan: SearchPlan) -> Iterator[str]:
    """The plan, for people."""
    kinds = ", ".join(kind.mechanism for kind in possible(usable(hosts)))
    yield (
        f"acked will carry out random schedules of faults ({kinds}; seed {plan.seed}) on hosts that it did "
        "not set up:"
    )
    for why in hosts.lacking.values():
        yield f"  {why}, which is left out"
    yield f"  each fault lasts {hosts.fault_s():.0f} s at most, and takes {hosts.file.hosts_at_once} host(s)"
    yield "  between two schedules, every ISR is full again; if it does not become so, the search ends"
