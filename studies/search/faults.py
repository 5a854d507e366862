"""What a step of a schedule may do: the faults of the nemesis and the actions of an operator, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Takes = Literal["hosts", "links", "partition", "cluster"]


@dataclass(frozen=True, kw_only=True)
class StepKind:
    """One kind of step."""

    name: str
    says: str
    takes: Takes
    """What it acts on."""
    lasts: bool = False
    """It has an end, at which ended processes are started again."""
    ends_processes: bool = False
    """It ends or halts processes, so that it needs some that run."""
    roles: tuple[str, ...] = ()
    """Roles of the hosts that it may act on; none: all."""
    about_partition: bool = False
    """It needs a partition in addition to its hosts."""
    values: tuple[float, ...] = ()
    """Strengths that the grammar chooses from, the mildest first."""
    unit: str = ""
    modes: tuple[str, ...] = ()
    """Metadata modes that have it; none: all."""
    weight: int = 4
    """How often the grammar chooses it."""


_SERVERS = ("broker", "zookeeper", "controller")

_ALL = (
    StepKind(name="cut", says="links are cut", takes="links", lasts=True, weight=14),
    StepKind(
        name="flap",
        says="links are cut and restored in turn",
        takes="links",
        lasts=True,
        values=(1.0, 2.0, 4.0),
        unit="s",
        weight=3,
    ),
    StepKind(
        name="loss",
        says="links lose a share of their packets",
        takes="links",
        lasts=True,
        values=(10.0, 30.0, 60.0),
        unit="%",
        weight=2,
    ),
    StepKind(
        name="throttle",
        says="hosts send slowly",
        takes="hosts",
        lasts=True,
        roles=("broker",),
        values=(128.0, 512.0),
        unit="kbit/s",
        weight=2,
    ),
    StepKind(
        name="kill",
        says="processes end by SIGKILL",
        takes="hosts",
        lasts=True,
        ends_processes=True,
        roles=_SERVERS,
        weight=8,
    ),
    StepKind(
        name="stop",
        says="processes end in order",
        takes="hosts",
        lasts=True,
        ends_processes=True,
        roles=_SERVERS,
        weight=4,
    ),
    StepKind(
        name="pause",
        says="processes hang",
        takes="hosts",
        lasts=True,
        ends_processes=True,
        roles=_SERVERS,
        weight=8,
    ),
    StepKind(
        name="power-cut",
        says="brokers lose their power, and what they had not flushed",
        takes="hosts",
        lasts=True,
        ends_processes=True,
        roles=("broker",),
        weight=4,
    ),
    StepKind(
        name="wipe",
        says="a broker is killed and loses a replica",
        takes="hosts",
        lasts=True,
        ends_processes=True,
        roles=("broker",),
        about_partition=True,
        weight=2,
    ),
    StepKind(name="rolling-restart", says="brokers restart one by one", takes="cluster", weight=1),
    StepKind(name="elect-preferred", says="the preferred leader is elected", takes="partition", weight=3),
    StepKind(name="elect-unclean", says="any live replica is elected", takes="partition", weight=1),
    StepKind(name="reassign", says="the replicas change their order", takes="partition", weight=3),
    StepKind(
        name="raise-min-insync",
        says="acks=all needs every replica of a topic",
        takes="partition",
        lasts=True,
        weight=2,
    ),
    StepKind(
        name="move-controller",
        says="the controller's znode is deleted",
        takes="cluster",
        modes=("zookeeper",),
        weight=3,
    ),
)

KINDS: Mapping[str, StepKind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""By name."""


def kinds_of(mode: str) -> tuple[StepKind, ...]:
    """The kinds that exist in a metadata mode."""
    return tuple(kind for kind in _ALL if not kind.modes or mode in kind.modes)
