"""What a scenario asks of the cluster before the first fault; the harness arranges and checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.kafka.model import OFFSETS_LOG, SHARE_LOG, TRANSACTION_LOG, Topic
from harness.lab.layout import Role
from harness.lab.model import DATA, SECOND_DATA

Quorum = Literal["every AZ", "one node"]
_COMPACTED = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
ONE_TRANSACTION_PARTITION = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""Only with these do brokers know that the topic has one partition, and look for every id in partition 0."""
ONE_OFFSETS_PARTITION = {"offsets.topic.num.partitions": "1"}
"""The same for groups."""
ONE_SHARE_PARTITION = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""The same for the state of share groups."""
SHARE_LIMITS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
}
"""Brokers let the times of share groups be short. The controllers check the properties of groups by their own
limits, so dedicated controllers need the same."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Topics, roles and configuration that must hold before the first fault, and the background load."""

    topics: tuple[Topic, ...]
    """Topics to create."""
    controller: str = "broker2"
    """Host of the active controller; where controllers are dedicated hosts, the one in this broker's AZ."""
    zookeeper_leader: str = "zookeeper2"
    """Host of ZooKeeper's leader."""
    broker_config: Mapping[str, str] = field(default_factory=dict)
    """Properties of the brokers, on top of the base configuration (`docs/configuration.md`)."""
    brokers: tuple[int, ...] = (1, 2, 3)
    """Node ids of the brokers."""
    quorum: Quorum = "every AZ"
    """Where ZooKeeper nodes or dedicated controllers run. Of `one node`, only the one that leads starts: for
    cases whose faults do not end, isolate or divide these nodes. All those of a cluster file start."""
    zookeeper_pins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The only ZooKeeper nodes that a broker may connect to; keeps healthy brokers off the AZ to be cut."""
    zookeeper_sessions: Mapping[str, str] = field(default_factory=dict)
    """The ZooKeeper node to which a broker is connected at first; unlike a pin, it can go to any other."""
    upgrade_to: str = ""
    """A newer Kafka version with which a scenario starts nodes again (`Stage.restart`); empty: none."""
    upgraded: tuple[str, ...] = ()
    """Hosts that run it when the scenario begins: they are upgraded in this order once the cluster is up."""
    dynamic_quorum: bool = False
    """The voters of the KRaft quorum can be changed (KIP-853): `kraft.version` is 1 after the start."""
    format_features: Mapping[str, str] = field(default_factory=dict)
    """KRaft features that are set when the data folders are formatted, by name and level."""
    volatile_disks: tuple[str, ...] = ()
    """Hosts that get a disk of their own, whose power can be cut (emulated where the machine cannot)."""
    second_log_dirs: tuple[str, ...] = ()
    """Brokers with a second directory in `log.dirs`, `data2`, on a disk of its own that can be filled."""
    own_clocks: tuple[str, ...] = ()
    """Hosts whose process has a wall clock of its own, which `shift_clock` can shift (libfaketime)."""
    named: tuple[str, ...] = ()
    """Brokers that others reach by a name, which `change_address` lets mean another address: embedded lab."""
    stream_rate: float = 10.0
    """Messages per second of the background stream in each AZ; 0 for none."""
    stream_topic: str = "stream"
    """The topic of the background stream."""
    stream_config: Mapping[str, str] = field(default_factory=dict)
    """Its topic configuration."""
    own_topics: tuple[Topic, ...] = ()
    """The user's own topics, in addition to the scenario's."""
    controller_config: Mapping[str, str] = field(default_factory=dict)
    """Properties of dedicated KRaft controllers, in addition to those that they always read."""
    exactly: tuple[Role, ...] = ()
    """Roles of which it needs just the hosts of the default three AZs: claims say which of them takes over,
    or more of them would outvote those that a fault hits, or would have to take part."""
    for_layout: bool = False
    """It names hosts of the layout that it runs on; other set-ups name hosts of the default three AZs."""
    transaction_log: tuple[int, ...] = ()
    """Brokers that hold `__transaction_state`, created beforehand with one partition; the first of them
    coordinates all transactions. Empty: brokers create it when a client asks for a coordinator."""
    offsets_log: tuple[int, ...] = ()
    """Brokers that hold `__consumer_offsets`, created beforehand with one partition; the first of them
    coordinates all groups. Empty: brokers create it when a client asks for a coordinator."""
    offsets_log_config: Mapping[str, str] = field(default_factory=dict)
    """Configuration of `__consumer_offsets`, in addition to its compaction."""
    share_log: tuple[int, ...] = ()
    """Brokers that hold `__share_group_state`, created beforehand with one partition; the first of them
    coordinates the state of all share groups. Empty: brokers create it when a share group needs it."""
    share_log_config: Mapping[str, str] = field(default_factory=dict)
    """Configuration of `__share_group_state`, in addition to min.insync.replicas=2."""
    applications: tuple[str, ...] = ()
    """The applications of Kafka Streams that its body starts, by their application.id."""
    follows: tuple[str, ...] = ()
    """Settings of the brokers that decide the shape of its topics, as in production (`num.partitions`)."""
    without: tuple[Literal["groups", "transactions"], ...] = ()
    """What none of its clients uses."""
    read_back: bool = True
    """At the end, a consumer reads every topic from start to end (rows of `reads`)."""

    def log_dirs(self, host: str) -> tuple[str, ...]:
        """The folders of a broker's `log.dirs`."""
        return (DATA, SECOND_DATA) if host in self.second_log_dirs else (DATA,)

    @property
    def internal_topics(self) -> tuple[Topic, ...]:
        """Internal topics to create before brokers do, so that it is known who coordinates."""
        topics = []
        if self.transaction_log:
            topics.append(Topic(TRANSACTION_LOG, self.transaction_log, config=_COMPACTED))
        if self.offsets_log:
            config = {"cleanup.policy": "compact", **self.offsets_log_config}
            topics.append(Topic(OFFSETS_LOG, self.offsets_log, config=config))
        if self.share_log:
            config = {"cleanup.policy": "delete", "min.insync.replicas": "2", **self.share_log_config}
            topics.append(Topic(SHARE_LOG, self.share_log, config=config))
        return tuple(topics)

    @property
    def internal_config(self) -> Mapping[str, str]:
        """Broker properties that belong to those topics."""
        return {
            **(ONE_TRANSACTION_PARTITION if self.transaction_log else {}),
            **(ONE_OFFSETS_PARTITION if self.offsets_log else {}),
            **(ONE_SHARE_PARTITION if self.share_log else {}),
        }

    @property
    def coordinator_config(self) -> Mapping[str, str]:
        """The broker properties, among those that it sets, by which it chooses coordinators."""
        asked = {**self.broker_config, **self.internal_config}
        coordinator_keys = (*ONE_TRANSACTION_PARTITION, *ONE_OFFSETS_PARTITION, *ONE_SHARE_PARTITION)
        return {key: asked[key] for key in coordinator_keys if key in asked}
