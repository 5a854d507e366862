"""The kinds of faults that schedules and assessments know."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.network.cut import Cut, Flapping
from nemesis.network.loss import Loss
from nemesis.network.queues import Delay, Throttle
from nemesis.operator import Configure, ElectPreferred, ElectUnclean, MoveController, Reassign
from nemesis.processes.killing import Kill, RollingRestart, Stop
from nemesis.processes.pausing import ProcessPause
from nemesis.scheduled import ScheduledFault
from nemesis.storage.power import FullDisk, PowerCut
from nemesis.storage.replicas import Wipe
from nemesis.storage.slow import SlowDisk, StalledDisk

_ALL: tuple[type[ScheduledFault], ...] = (
    *(Cut, Flapping, Loss, Throttle, Kill, Stop, ProcessPause, PowerCut, Wipe, RollingRestart),
    *(ElectPreferred, ElectUnclean, Reassign, Configure, MoveController, Delay, FullDisk),
    *(StalledDisk, SlowDisk),
)
FAULTS: Mapping[str, type[ScheduledFault]] = MappingProxyType({kind.mechanism: kind for kind in _ALL})
"""By name. Another order makes other schedules from the same seeds."""


def random_faults(mode: str, asked: str = "") -> tuple[type[ScheduledFault], ...]:
    """The kinds that random schedules choose from in a metadata mode.

    Those `on_request` are among them only if globs (a,b) that were ``asked`` for begin like their names:
    `disk_*` does, `d*` does not.
    """
    begins = [one.strip() for one in asked.split(",")]
    return tuple(
        kind
        for kind in _ALL
        if kind.weight
        and (not kind.modes or mode in kind.modes)
        and (not kind.on_request or any(one.startswith(_family(kind)) for one in begins))
    )


def _family(kind: type[ScheduledFault]) -> str:
    return kind.mechanism[: kind.mechanism.index("_") + 1]
