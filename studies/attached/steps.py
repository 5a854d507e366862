"""What the steps of cases and schedules mean on a cluster of others.

A step becomes a fault that the hosts file may allow, aimed by what the cluster states when it begins. Of a
schedule, only faults and their times are carried out: clients and topic are those of a recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import HostsFile
from harness.errors import InvalidRunError
from harness.kafka.model import broker_name
from harness.lab.model import Topology
from nemesis.catalogue import FAULTS
from nemesis.network.queues import Throttle
from nemesis.processes.killing import Kill, Stop
from nemesis.scheduled import ScheduledFault
from run.attached.cases import BETWEEN_RESTARTS_S, Act, Aim, controller_of, ended
from studies.search.schedule import Producer, Schedule, TopicPlan
from studies.steps.aims import hosts_named, links_between, sides_of
from studies.steps.step import OTHERS, Arrow, Moment, Step, described, link_title

ROLLING = "restart"
"""The mechanism of a rolling restart."""
_ABILITY = {"pause": "pause", "throttle": "throttle", "kill": "kill", "stop": "restart"}
"""What the file must allow, by mechanism; for a cut, that depends on its direction."""
ABILITIES = {"cut": ("cut", "one-way"), **{name: (ability,) for name, ability in _ABILITY.items()}}
"""What the file must allow, one of them at least, by the mechanisms that schedules may have there."""
TOPIC = "recorded"
"""What the topic of a recording is called in schedules and in the table of an assessment."""
_LONGEST_WAIT_S, _SHORTEST_S = 15.0, 3.0


def possible(allow: Iterable[str]) -> tuple[type[ScheduledFault], ...]:
    """The kinds of faults that random schedules may have, by what a file allows."""
    allowed = set(allow)
    return tuple(FAULTS[name] for name, abilities in ABILITIES.items() if allowed & set(abilities))


def ability_of(step: Step) -> str:
    """What the file must allow for a step; empty for what no file allows."""
    if step.fault == "cut":
        return "cut" if step.arrow == "<->" else "one-way"
    return {**_ABILITY, ROLLING: "restart"}.get(step.fault, "")


def on_hosts(schedule: Schedule, allow: Iterable[str], *, partitions: int, fault_s: float) -> Schedule:
    """The schedule as it is carried out there: allowed faults at times, and the clients of a recording.

    A cut in a direction that is not allowed becomes one that is, if there is one.
    """
    allowed = set(allow)
    return replace(
        schedule,
        topics=(TopicPlan(name=TOPIC, partitions=partitions, replicas=3),),
        producers=(Producer(az="here"), Producer(az="here", acks=1, idempotent=False)),
        groups=(),
        steps=tuple(
            replace(
                step,
                arrow=_allowed_arrow(step, allowed),
                partition=step.partition % partitions,
                when=Moment(after_s=min(step.when.after_s, _LONGEST_WAIT_S)),
                until=Moment(after_s=min(max(step.until.after_s, _SHORTEST_S), fault_s)),
            )
            for step in schedule.steps
            if allowed & set(ABILITIES.get(step.fault, ()))
        ),
    )


def _allowed_arrow(step: Step, allowed: set[str]) -> Arrow:
    if step.fault != "cut" or ability_of(step) in allowed:
        return step.arrow
    return "<->" if "cut" in allowed else "->"


@dataclass(frozen=True, kw_only=True)
class Aims:
    """Finds out what steps are aimed at."""

    file: HostsFile
    cluster: AttachedCluster
    topic: str
    """That of the recording."""

    def acts(self, steps: Sequence[Step], lasting_s: float | None = None) -> Iterator[Act]:
        """What steps do: at their own times, or (in a case) together, each for so long."""
        for number, step in enumerate(steps):
            if step.fault == ROLLING:
                yield from self._rolling(alone=len(steps) == 1)
                continue
            lasts_s = step.until.after_s if lasting_s is None else lasting_s
            yield Act(
                aim=partial(self.aim, step),
                says=described(step),
                lasts_s=lasts_s,
                after_s=step.when.after_s if lasting_s is None or number else 0.0,
            )

    def aim(self, step: Step) -> Aim:
        """What a step means now. Raises UnfitError, InvalidRunError."""
        topology, holder = self.file.topology, partial(self._holder, step)
        if step.fault == "cut":
            one, other = sides_of(topology, step, holder)
            links = links_between(one, other, step)
            named = replace(
                step, targets=_named(topology, step.targets), toward=_named(topology, step.toward)
            )
            isolated = " + ".join(named.targets) if (step.arrow, step.toward) == ("<->", (OTHERS,)) else ""
            title = f"isolate {isolated}" if isolated else f"cut {link_title(named)}"
            asked = {"isolated": isolated} if isolated else {"ends": [_ends(named)]}
            fewer, more = sorted((one, other), key=len)
            return Aim(
                title=title,
                ability=ability_of(step),
                make=lambda nemesis, _: nemesis.cut_links(title, links, asked=asked),
                links=links,
                hosts=fewer,
                others=more if len(more) == len(fewer) else (),
            )
        hosts = hosts_named(topology, step.targets, holder)
        names = [host.name for host in hosts]
        if step.fault == "pause":
            return Aim(
                title=f"pause {', '.join(names)}",
                ability="pause",
                make=lambda nemesis, _: nemesis.pause(*names),
                hosts=hosts,
            )
        if step.fault == Throttle.mechanism:
            return Aim(
                title=f"throttle {', '.join(names)} to {step.value:g} kbit/s",
                ability="throttle",
                make=lambda nemesis, _: nemesis.make(Throttle, ", ".join(names), hosts, step.value),
                hosts=hosts,
                value=step.value,
            )
        kind = {"kill": Kill, "stop": Stop}.get(step.fault)
        if kind is None:
            raise InvalidRunError(f"{step.fault} is not possible on hosts that acked did not set up")
        return ended(hosts, kind)

    def _rolling(self, *, alone: bool) -> Iterator[Act]:
        for number, host in enumerate(self.file.topology.role("broker")):
            yield Act(
                aim=partial(ended, (host,), Stop),
                says=f"restart {host.name}",
                lasts_s=0.0,
                after_s=BETWEEN_RESTARTS_S,
                waits=("whole" if alone else "over") if number or not alone else "",
            )

    def _holder(self, step: Step, role: str) -> str:
        """The host that has a role now. Raises InvalidRunError if nobody is known to."""
        if role == "controller":
            return controller_of(self.file.topology, self.cluster).name
        if role not in ("leader", "follower"):
            raise InvalidRunError(f"who is the {role} is not known here")
        state = self.cluster.partition(self.topic, step.partition)
        if state is None or state.leader < 0:
            raise InvalidRunError(f"{self.topic}/{step.partition} has no leader")
        if role == "leader":
            return broker_name(state.leader)
        others = [one for one in state.replicas or state.isr if one != state.leader]
        if not others:
            raise InvalidRunError(f"{self.topic}/{step.partition} has no follower")
        return broker_name(others[0])


def _ends(step: Step) -> dict[str, object]:
    one, other = " + ".join(step.targets), " + ".join(step.toward)
    start, end = (other, one) if step.arrow == "<-" else (one, other)
    return {"from": start, "to": end, "both": step.arrow == "<->"}


def _named(topology: Topology, names: Iterable[str]) -> tuple[str, ...]:
    """AZs by the names that they have for their owner."""
    return tuple(topology.az_names.get(name, name) for name in names)
