"""The kinds of faults that schedules and assessments know."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from types import MappingProxyType

from harness.kafka.versions import KafkaVersion
from nemesis.network.cut import Cut, Flapping
from nemesis.network.loss import Loss
from nemesis.network.queues import Delay, Throttle
from nemesis.operator import (
    Configure,
    ElectPreferred,
    ElectUnclean,
    MoveController,
    MoveReplica,
    Reassign,
    ReassignToOthers,
    RemoveVoter,
)
from nemesis.processes.clock import ClockShift
from nemesis.processes.killing import Kill, RollingRestart, Stop
from nemesis.processes.pausing import ProcessPause
from nemesis.scheduled import ScheduledFault
from nemesis.storage.power import FullDisk, PowerCut
from nemesis.storage.replicas import Wipe
from nemesis.storage.slow import SlowDisk, StalledDisk

_ALL: tuple[type[ScheduledFault], ...] = (
    *(Cut, Flapping, Loss, Throttle, Kill, Stop, ProcessPause, PowerCut, Wipe, RollingRestart),
    *(ElectPreferred, ElectUnclean, Reassign, Configure, MoveController, Delay, FullDisk),
    *(StalledDisk, SlowDisk, ClockShift, ReassignToOthers, MoveReplica, RemoveVoter),
)
FAULTS: Mapping[str, type[ScheduledFault]] = MappingProxyType({kind.mechanism: kind for kind in _ALL})
"""By name. Another order makes other schedules from the same seeds."""


def possible(kind: type[ScheduledFault], version: KafkaVersion, mode: str) -> bool:
    """Whether a version has what a kind of fault needs, in a metadata mode."""
    return (not kind.modes or mode in kind.modes) and (
        not kind.capability or getattr(version, kind.capability)
    )


def random_faults(version: KafkaVersion, mode: str, asked: str = "") -> tuple[type[ScheduledFault], ...]:
    """The kinds that random schedules choose from on a version, in a metadata mode.

    Those `on_request` are among them only if a glob that was ``asked`` for (a,b) matches no other kinds:
    `disk_*` does, `d*` does not.
    """
    kinds = [kind for kind in _ALL if kind.weight and possible(kind, version, mode)]
    always = {kind.mechanism for kind in kinds if not kind.on_request}
    asking = [glob for glob in map(str.strip, asked.split(",")) if not fnmatch.filter(always, glob)]
    return tuple(
        kind
        for kind in kinds
        if not kind.on_request or any(fnmatch.fnmatchcase(kind.mechanism, glob) for glob in asking)
    )
