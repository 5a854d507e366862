"""A schedule as an ordinary scenario without claims."""

from __future__ import annotations

from functools import partial

from harness.cluster.setup import (
    ONE_OFFSETS_PARTITION,
    ONE_SHARE_PARTITION,
    ONE_TRANSACTION_PARTITION,
    SHARE_LIMITS,
    Setup,
)
from harness.kafka.model import broker_name
from harness.lab.layout import THREE_AZS
from harness.lab.model import Topology
from nemesis.catalogue import FAULTS
from nemesis.scheduled import Preparation
from run.scenario import Scenario
from run.stage import Stage
from studies.assess.described import RATE_PER_PARTITION
from studies.search.crowd import Crowd
from studies.search.schedule import COORDINATED, Schedule, topics_of
from studies.steps.body import Body

NAME = "schedule"
_ONE_COORDINATOR = {**ONE_TRANSACTION_PARTITION, **ONE_OFFSETS_PARTITION}
"""One broker coordinates all transactions, and one all groups."""
_OF_SHARE_GROUPS = {
    **ONE_SHARE_PARTITION,
    **SHARE_LIMITS,
    "group.share.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
}
"""One broker coordinates the states of all share groups, whose members' sessions end as soon as brokers'."""


def scenario_of(
    schedule: Schedule,
    topology: Topology,
    mode: str,
    suffix: str = "",
    *,
    rate: float = RATE_PER_PARTITION,
    share_groups: bool = False,
) -> Scenario:
    """The scenario that carries out a schedule; ``suffix`` makes the names of its topics unique.

    ``rate``: messages per second of each producer to each partition. ``share_groups``: its cluster also
    carries out schedules with share groups.
    """
    return Scenario(
        name=NAME,
        title=f"{len(schedule.steps)} steps ({schedule.made_by or schedule.digest})",
        article="search",
        section="",
        body=partial(perform, schedule=schedule, rate=rate),
        setup=setup_of(schedule, topology, suffix, share_groups=share_groups),
        modes=(mode,),
        judged_by="promises",
    )


def perform(stage: Stage, schedule: Schedule, rate: float = RATE_PER_PARTITION) -> None:
    """Carry out a schedule. ``stage.setup.topics`` are its topics, in their order.

    ``rate``: messages per second of each producer to each partition.

    Raises InvalidRunError if the clients do not work before the first step.
    """
    crowd = Crowd(
        stage=stage,
        plans=schedule.producers,
        partitions=[key for topic in stage.setup.topics for key in topic.topic_partitions],
        rate=rate,
        groups=schedule.groups,
    )
    Body(stage=stage, steps=schedule.steps, clients=crowd, recovery_s=stage.timings.converge_s).go()


def setup_of(
    schedule: Schedule, topology: Topology, suffix: str = "", *, share_groups: bool = False
) -> Setup:
    """What a schedule asks of its cluster; ``share_groups``: others with share groups run there, too."""
    brokers = tuple(host.node_id for host in topology.role("broker"))
    names, prepared = tuple(map(broker_name, brokers)), preparations(schedule)
    coordinates = (*brokers[1:COORDINATED], brokers[0]) if len(brokers) >= COORDINATED else ()
    of_share_groups = _OF_SHARE_GROUPS if coordinates and (share_groups or schedule.shared) else {}
    return Setup(
        topics=topics_of(schedule, brokers, suffix),
        # All schedules of a cluster find the same brokers, whatever clients they have.
        broker_config={**_ONE_COORDINATOR, **of_share_groups} if coordinates else {},
        controller_config=SHARE_LIMITS if of_share_groups else {},
        transaction_log=coordinates if schedule.transactional else (),
        # Every consumer has a group id, and brokers would create the topic when it asks for a coordinator.
        offsets_log=coordinates,
        volatile_disks=names if "disks" in prepared else (),
        own_clocks=names if "clocks" in prepared else (),
        second_log_dirs=names if "log directories" in prepared else (),
        dynamic_quorum="dynamic quorum" in prepared,
        share_log=(*coordinates[1:], *coordinates[:1]) if schedule.shared else (),
        controller=schedule.controller,
        zookeeper_leader=schedule.quorum_leader or "zookeeper2",
        brokers=brokers,
        stream_rate=0.0,
        for_layout=True,
        read_back=False,
    )


def preparations(schedule: Schedule) -> frozenset[Preparation]:
    """What the cluster of a schedule must be started with, because not every cluster has it."""
    kinds = (FAULTS[step.fault] for step in schedule.steps)
    return frozenset(kind.preparation for kind in kinds if kind.preparation and kind.on_request)


def set_up(schedule: Schedule, *, mode: str) -> Setup:
    """The set-up of a scenario that carries out a schedule on three AZs with one broker each."""
    return setup_of(schedule, THREE_AZS.topology(mode))
