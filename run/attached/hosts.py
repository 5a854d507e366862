"""A cluster of others with its hosts, as runs that break it have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from harness.clock import Anchor
from harness.cluster.attached import AttachedCluster, attach, bootstrap_endpoints
from harness.cluster.hosts_file import ENDING, HostsFile, in_azs_of
from harness.console import Progress
from harness.errors import UnfitError, UsageError, quoted
from harness.lab.hosts.lab import HostsLab
from harness.lab.model import Host
from nemesis.attached.abilities import Abilities, abilities
from nemesis.attached.safety import locked, prove_dead_man
from run.attached.asking import require_voters
from run.attached.breaking import LONGEST_FAULT_S, Breaking, times_to_live_s
from run.attached.cases import Act, Aim, require_fit
from run.attached.guard import Guard
from run.attached.starting import Starter, require_tried
from run.clients import UserClients
from run.folder import RunFolder
from run.recording.plan import RecordingPlan, plan_recording
from run.recording.record import Recording
from run.recording.user import user_clients

RATE = 60.0
"""Messages per second of all producers together, unless the user says otherwise."""
NOTHING = "nothing was broken"
"""What a refusal says that comes before the first fault."""
_CLOSING_S = 60.0
"""How long healing may take, for which a lock outlives a fault."""
T = TypeVar("T")


def require_cluster(place: str, wanted: str, cluster_id: str, nothing: str) -> None:
    """Raise UsageError unless it is the ``wanted`` cluster, if any; ``nothing`` says what was not done."""
    if wanted and wanted != cluster_id:
        raise UsageError(
            f"{place} is {quoted(wanted, 40)}, and the cluster behind kafka.bootstrap is "
            f"{quoted(cluster_id, 40)}; {nothing}."
        )


def lab_of(file: HostsFile, abilities: Collection[str]) -> HostsLab:
    """The hosts of a file as a lab that is not up yet, with the rights that these faults need."""
    targets = {name: target.limited(abilities) for name, target in file.targets.items()}
    return HostsLab(file.topology, Path(), targets, 0.0, file.starts)


def of_each(file: HostsFile, ask: Callable[[Host], T]) -> list[T]:
    """The answers of all hosts, asked at the same time."""
    with ThreadPoolExecutor(len(file.topology.hosts)) as pool:
        return list(pool.map(ask, file.topology.hosts))


def _unfit(one: Abilities, ability: str) -> str:
    """Why a host cannot have a fault, as a sentence without its stop; empty: it can."""
    why = one.problem or one.unfit.get(ability, "")
    return f"{one.host} is unfit for {ability!r}: {why.rstrip('.')}" if why else ""


@dataclass(frozen=True, kw_only=True)
class AttachedHosts:
    """A cluster of others, its hosts, and what its owner allows."""

    file: HostsFile
    cluster: AttachedCluster
    lab: HostsLab
    user: UserClients
    progress: Progress
    rate: float
    """Messages per second of all producers together."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Faults that end by healing and that a host cannot have, with the reason; empty until it was `asked`."""

    @classmethod
    def of(cls, file: HostsFile, cluster_id: str, *, rate: float, progress: Progress) -> AttachedHosts:
        """Ask the cluster behind a hosts file; no login yet. ``cluster_id``: empty, or what it must have.

        Raises UsageError, UnfitError.
        """
        security, user = user_clients(file.client_config, progress.say)
        cluster = attach(bootstrap_endpoints(file.bootstrap, security))
        for place, wanted in (
            (f"{file.given}: kafka.cluster-id", file.cluster_id),
            ("--cluster-id", cluster_id),
        ):
            require_cluster(place, wanted, cluster.cluster_id, NOTHING)
        cluster.topology = in_azs_of(file, cluster.topology)
        lab = lab_of(file, file.allow)
        return cls(file=file, cluster=cluster, lab=lab, user=user, progress=progress, rate=rate)

    def limited(self, aims: Iterable[Aim]) -> AttachedHosts:
        """The same, with no more rights on the hosts than these faults need; not up yet."""
        return replace(self, lab=lab_of(self.file, {aim.ability for aim in aims}))

    def asked(self) -> AttachedHosts:
        """The same, knowing what hosts cannot have: logs in to each, and changes nothing there.

        Raises UnfitError if a host does not answer.
        """
        try:
            self.lab.up()
            each = of_each(self.file, lambda host: abilities(self.lab, host))
        finally:
            self.lab.down()
        if problems := [f"{one.host}: {one.problem}" for one in each if one.problem]:
            raise UnfitError(problems[0])
        healing = [ability for ability in self.file.allow if ability not in ENDING]
        reasons = {
            ability: next(filter(None, (_unfit(one, ability) for one in each)), "") for ability in healing
        }
        return replace(self, lacking={ability: why for ability, why in reasons.items() if why})

    def fault_s(self) -> float:
        """How long a fault lasts. Raises UnfitError outside of the window of the day."""
        self.file.window_left_s(Anchor.take().wall_ns)
        return min(LONGEST_FAULT_S, float(self.file.max_s))

    def times_to_live_s(self) -> tuple[float, float]:
        """As those of any run that the owner allows. Raises UnfitError outside of the window of the day."""
        return times_to_live_s(self.fault_s(), restarts="restart" in self.file.allow)

    def breaking(self, acts: Sequence[Act], *, skips: bool = False) -> Breaking:
        """What breaks the cluster in a run. Raises UnfitError if it is not whole."""
        file, window = self.file, self.file.window
        require_voters(file, self.cluster)
        guard = Guard(self.cluster)
        guard.require_whole()
        breaking = Breaking(
            lab=self.lab,
            guard=guard,
            acts=acts,
            start=Starter(lab=self.lab, cluster=self.cluster),
            say=self.progress.say,
            skips=skips,
            fits=lambda aims: require_fit("The fault", file, aims),
        )
        if window is not None:
            breaking.window_left_s = lambda: window.left_s(Anchor.take().wall_ns)
        self.lab.ttl_s, self.lab.start_ttl_s = breaking.times_to_live_s
        return breaking

    def recording_plan(self, breaking: Breaking, partitions: int = 0) -> RecordingPlan:
        """What is recorded meanwhile. 0 partitions: each AZ leads one."""
        return plan_recording(
            self.cluster, for_s=breaking.lasts_s, rate=self.rate, size_bytes=100, partitions=partitions
        )

    def recording(self, folder: RunFolder, breaking: Breaking, title: str) -> Recording:
        """The recording of a run."""
        return Recording(
            cluster=self.cluster,
            folder=folder,
            progress=self.progress,
            user=self.user,
            disturbance=breaking,
            title=title,
        )

    def require_able(self, aims: Iterable[Aim]) -> None:
        """Raise UnfitError if a host cannot have the faults. The lab must be up."""
        wanted = list(aims)
        for one in of_each(self.file, lambda host: abilities(self.lab, host)):
            for aim in wanted:
                concerned = not aim.ends or one.host in {host.name for host in aim.hosts}
                if concerned and (why := _unfit(one, aim.ability)):
                    raise UnfitError(f"{why}.")
        require_tried(self.file, sorted({host.name for aim in wanted if aim.ends for host in aim.hosts}))

    @contextmanager
    def locked(self, for_s: float, *, throttles: bool) -> Iterator[None]:
        """Meanwhile nobody else may break these hosts, and each has proven its dead man's switch.

        ``throttles``: also that of a limited rate.
        """
        with locked(self.lab, for_s + _CLOSING_S):
            lived = prove_dead_man(self.lab, throttles=throttles)
            self.progress.say(f"a rule of 5 s vanished by itself on {len(lived)} hosts")
            yield
