"""What schedules are made of: a cluster, its faults, and the settings of its clients."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from harness.cluster.timings import Timings
from harness.errors import UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.lab.model import Topology
from nemesis.catalogue import random_faults
from nemesis.scheduled import ScheduledFault
from studies.search.schedule import COORDINATED, Producer

T = TypeVar("T")
CONSUMER, SHARE = "consumer", "share"
"""Kinds of groups."""
_TRANSACTIONAL = Producer(az="", transactional=True)
_SAFE = (*(Producer(az=""),) * 2, Producer(az="", in_flight=1), _TRANSACTIONAL)
_ANY = (
    *_SAFE,
    Producer(az="", idempotent=False),
    Producer(az="", acks=1, idempotent=False),
    Producer(az="", acks=1, idempotent=False, in_flight=1),
    Producer(az="", acks=0, idempotent=False),
)
"""Settings of producers; what is named twice is chosen twice as often."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """What schedules are made of."""

    kafka: str
    mode: str
    topology: Topology
    timings: Timings
    controller: str
    quorum_leader: str = ""
    faults: tuple[type[ScheduledFault], ...] = ()
    producers: tuple[Producer, ...] = _ANY
    """Settings of producers, one of which is chosen for each."""
    coordinated: bool = True
    """Steps may be about the coordinator of transactions, and wait for transaction markers."""
    grouped: bool = True
    """Schedules may have consumer groups, and steps may be about the coordinator of groups."""
    shared: bool = False
    """Schedules may have share groups, and steps may be about the coordinator of their states."""
    always_grouped: bool = False
    """Every schedule has a group of each kind that it may have."""
    safe: bool = False
    """Only settings that protect every acknowledged message from the failure of one AZ."""

    @property
    def brokers(self) -> int:
        """How many brokers there are."""
        return len(self.topology.role("broker"))


def space_of(
    *,
    kafka: str,
    mode: str,
    topology: Topology,
    timings: Timings,
    faults: str | None = None,
    producers: str | None = None,
    groups: str | None = None,
    safe: bool = False,
    lacks: Collection[str] = (),
) -> Space:
    """The space of a cluster. Raises UsageError.

    ``faults`` are globs of their names (a,b), or `no-fault`; ``producers`` and ``groups`` are globs of kinds
    of producers and of groups (`consumer`, `share`). ``lacks`` has what clients or brokers cannot do:
    `idempotence`, `transactions`, `groups`, `shares`.
    """
    version = kafka_version(kafka, force=True)
    chosen = tuple(fault for fault in random_faults(version, mode, faults or "") if fault.safe or not safe)
    if faults == "no-fault":
        chosen = ()
    elif faults is not None:
        chosen = _matching(
            chosen,
            faults,
            lambda fault: fault.mechanism,
            f"--faults {{!r}} matches no fault of Kafka {version.label} in mode {mode}",
            "no-fault",
        )
    possible = _possible(topology, safe=safe, lacks=lacks)
    if producers is not None:
        possible = _matching(
            possible, producers, kind_of, "--producers {!r} matches no kind of producer of this search"
        )
    kinds = _kinds_of_groups(version, topology, lacks)
    if groups is not None:
        kinds = _matching(kinds, groups, str, "--groups {!r} matches no kind of group of this search")
    number = min(2, len(topology.azs))
    quorum = topology.role({"zookeeper": "zookeeper", "kraft": "controller"}.get(mode, "broker"))
    controllers = topology.role("broker") if mode == "zookeeper" else quorum
    return Space(
        kafka=kafka,
        mode=mode,
        topology=topology,
        timings=timings,
        controller=controllers[min(number, len(controllers)) - 1].name,
        quorum_leader=quorum[min(number, len(quorum)) - 1].name if mode == "zookeeper" else "",
        faults=chosen,
        producers=possible,
        grouped=CONSUMER in kinds,
        shared=SHARE in kinds,
        always_grouped=groups is not None,
        safe=safe,
    )


def kind_of(producer: Producer) -> str:
    """The name of a kind of producers, which `--producers` takes."""
    if producer.transactional:
        return "transactional"
    return "idempotent" if producer.idempotent else f"acks-{'all' if producer.acks == -1 else producer.acks}"


def _kinds_of_groups(version: KafkaVersion, topology: Topology, lacks: Collection[str]) -> tuple[str, ...]:
    """The kinds of groups that clients and brokers can have."""
    if len(topology.role("broker")) < COORDINATED or "groups" in lacks:
        return ()
    shared = version.share_groups and "shares" not in lacks
    return (CONSUMER, SHARE) if shared else (CONSUMER,)


def _possible(topology: Topology, *, safe: bool, lacks: Collection[str]) -> tuple[Producer, ...]:
    """The settings of producers that a cluster and its clients can have. Raises UsageError."""
    few = len(topology.role("broker")) < COORDINATED
    producers = tuple(
        one
        for one in (_SAFE if safe else _ANY)
        if not (one.transactional and (few or "transactions" in lacks))
        and not (one.idempotent and "idempotence" in lacks)
    )
    if not producers:
        raise UsageError(
            "--safe needs idempotent producers, which this client or this version of Kafka lacks."
        )
    return producers


def _matching(
    things: tuple[T, ...], text: str, name: Callable[[T], str], refusal: str, also: str = ""
) -> tuple[T, ...]:
    """The things whose name matches one of the globs of a text. Raises UsageError for one without any."""
    globs = [glob.strip() for glob in text.split(",")]
    for glob in globs:
        if not any(fnmatch.fnmatchcase(name(thing), glob) for thing in things):
            names = ", ".join(dict.fromkeys(map(name, things))) or "none: it has none"
            raise UsageError(f"{refusal.format(glob)}; use {names}{f', or {also}' if also else ''}.")
    return tuple(thing for thing in things if any(fnmatch.fnmatchcase(name(thing), glob) for glob in globs))
