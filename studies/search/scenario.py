"""A schedule as an ordinary scenario without claims."""

from __future__ import annotations

from functools import partial

from harness.cluster.setup import ONE_OFFSETS_PARTITION, ONE_TRANSACTION_PARTITION, Setup
from harness.lab.layout import THREE_AZS
from harness.lab.model import Topology
from run.scenario import Scenario
from run.stage import Stage
from studies.assess.described import RATE_PER_PARTITION
from studies.search.crowd import Crowd
from studies.search.schedule import COORDINATED, Schedule, topics_of
from studies.steps.body import Body

NAME = "schedule"
_ONE_COORDINATOR = {**ONE_TRANSACTION_PARTITION, **ONE_OFFSETS_PARTITION}
"""One broker coordinates all transactions, and one all groups."""


def scenario_of(
    schedule: Schedule, topology: Topology, mode: str, suffix: str = "", *, rate: float = RATE_PER_PARTITION
) -> Scenario:
    """The scenario that carries out a schedule; ``suffix`` makes the names of its topics unique.

    ``rate``: messages per second of each producer to each partition.
    """
    return Scenario(
        name=NAME,
        title=f"{len(schedule.steps)} steps ({schedule.made_by or schedule.digest})",
        article="search",
        section="",
        body=partial(perform, schedule=schedule, rate=rate),
        setup=setup_of(schedule, topology, suffix),
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


def setup_of(schedule: Schedule, topology: Topology, suffix: str = "") -> Setup:
    """What a schedule asks of its cluster."""
    brokers = tuple(host.node_id for host in topology.role("broker"))
    coordinates = (*brokers[1:COORDINATED], brokers[0]) if len(brokers) >= COORDINATED else ()
    return Setup(
        topics=topics_of(schedule, brokers, suffix),
        # All schedules of a cluster find the same brokers, whether they have transactions or not.
        broker_config=_ONE_COORDINATOR if coordinates else {},
        transaction_log=coordinates if schedule.transactional else (),
        # Every consumer has a group id, and brokers would create the topic when it asks for a coordinator.
        offsets_log=coordinates,
        controller=schedule.controller,
        zookeeper_leader=schedule.quorum_leader or "zookeeper2",
        brokers=brokers,
        stream_rate=0.0,
        for_layout=True,
        read_back=False,
    )


def set_up(schedule: Schedule, *, mode: str) -> Setup:
    """The set-up of a scenario that carries out a schedule on three AZs with one broker each."""
    return setup_of(schedule, THREE_AZS.topology(mode))
