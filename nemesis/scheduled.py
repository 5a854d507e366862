"""What a kind of fault states about itself, so that schedules and assessments can carry it out.

A kind of fault is a class. It acts and proves its effect (`nemesis.fault.Fault`), and its class attributes
say everything else: what it acts on, its strengths, where it exists, and how an assessment places it. Its
mechanism is its name, everywhere. `nemesis.catalogue` lists the classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.cluster.model import StartedCluster
from harness.history.mechanisms import MECHANISMS, Kind
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.lab.model import Host
from nemesis.fault import Fault, Targets
from nemesis.network.links import Link
from nemesis.registry import FaultRegistry

Takes = Literal["hosts", "links", "partition", "cluster"]
Shape = Literal[
    "isolated AZ",
    "AZ",
    "all AZs",
    "two AZs",
    "one way",
    "half of the quorum",
    "node",
    "both leaders",
    "cluster",
]
"""Where a placement is: an AZ that is cut off from everything; the processes of an AZ, or of all; between two
AZs, or from one to the other; half of the metadata quorum or more; one node of each kind; the controller and
the leader of ZooKeeper; the whole cluster, while two AZs are cut from each other."""
SERVERS: tuple[str, ...] = ("broker", "zookeeper", "controller")
Preparation = Literal["disks", "clocks", "log directories", "dynamic quorum"]
"""What a cluster must be started with: a disk of its own for each broker that is hit, wall clocks of their
own, a second directory in `log.dirs` of each broker, or a KRaft quorum whose voters can change."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A way in which an assessment places a fault."""

    at: Shape
    rank: int
    """Its place among all placements, from 1; the most telling first."""
    says: str
    """A clause about the fault, with `{}` for each name, and `{value:g}`: `{} slow ({value:g} kbit/s)`."""
    subject: str
    """The fault as the subject of a sentence: `Isolating {}`."""
    name: str = ""
    """Of the cases, before the names of what is hit; empty: the fault's name."""
    roles: tuple[str, ...] = SERVERS
    """Each of its places needs a host of one of these roles; none: it needs no host."""
    value: float = 0.0
    """The fault's strength, if it has one."""
    parts_sessions: bool = False
    """It may end ZooKeeper sessions or not, by where they are: both are cases."""
    varies: str = ""
    """What its times depend on, if they differ from run to run by more than a quarter."""
    at_least_s: float = 0.0
    """How long it must last for its effect, whatever the time-outs of the cluster are."""
    broker_config: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers without which its effect would come later; those of the user go first."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What one fault of a schedule acts on. A fault uses what it takes."""

    title: str = ""
    """The links by the names of the schedule: `leader <-> other-azs`."""
    ends: tuple[Targets, ...] = ()
    """The same as data: `from`, `to`, and whether `both` ways."""
    isolated: str = ""
    """Of links: one side by its name, if everything else is the other side."""
    hosts: tuple[Host, ...] = ()
    links: tuple[Link, ...] = ()
    topic: Topic
    partition: TopicPartition
    """The partition that the step is about; of ``topic``."""
    value: float = 0.0
    """The strength, in the unit of the fault."""
    cluster: StartedCluster
    dialect: Dialect = MODERN


class ScheduledFault(ABC):
    """A fault of acked's own, which schedules and assessments know."""

    mechanism: str
    """Its name: a key of `harness.history.mechanisms.MECHANISMS`, which says what it does."""
    kind: Kind
    """That of its mechanism."""
    ends_processes: bool = False
    """It is over as soon as the processes that it ended run again, whoever starts them."""
    takes: Takes
    """What it acts on."""
    lasts: bool = False
    """It has an end: healing ends it, or the start of the processes that it has ended, or `reverse`."""
    reverses: bool = False
    """`reverse` ends it."""
    roles: tuple[str, ...] = SERVERS
    """Roles of the hosts that it acts on."""
    random_roles: tuple[str, ...] = ()
    """Roles of the hosts that random schedules choose for it; none: all of ``roles``."""
    others: str = ""
    """The fault that hits hosts of other roles in its place; empty: none."""
    processes: Literal["any", "running", "ended"] = "any"
    """The state that it needs its hosts' processes in; those that must have ended are killed first."""
    one_host: bool = False
    """It acts on one host: of several, each gets one of its own."""
    orderly: bool = False
    """It waits for processes to end by themselves, and may time out."""
    about_partition: bool = False
    """It acts on a partition in addition to its hosts."""
    values: tuple[float, ...] = ()
    """Strengths that random schedules choose from, in ascending order; files may have any between the ends.
    The nearest to 0 is the mildest."""
    unit: str = ""
    modes: tuple[str, ...] = ()
    """Metadata modes that have it; none: all."""
    safe: bool = True
    """Messages that should survive the failure of one AZ should survive it."""
    preparation: Preparation | None = None
    """What assessments start the cluster with, and schedules if it is `on_request`."""
    on_request: bool = False
    """Random schedules choose it only if it is asked for by name."""
    capability: str = ""
    """What the Kafka version must have: a field of `harness.kafka.versions.KafkaVersion`; empty: nothing."""
    needs: str = ""
    """What the machine must have, as a check of `acked doctor`; empty: nothing special."""
    weight: int = 0
    """How often random schedules choose it; 0: never."""
    placements: tuple[Placement, ...] = ()
    """How assessments place it; none: they do not have it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "mechanism" in cls.__dict__:
            cls.kind = MECHANISMS[cls.mechanism].kind

    @classmethod
    @abstractmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """The fault that a schedule asks for. Raises InvalidRunError if it is not possible now."""

    @classmethod
    def reverse(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """The fault that ends it, for one that `reverses`."""
        raise NotImplementedError
