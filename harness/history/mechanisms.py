"""What faults do: the values of the column `mechanism` of the table `faults`. Imports no PyArrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Kind = Literal["link", "degrade", "process", "storage", "operator"]
"""Families of faults: the column `kind` of the table `faults`."""


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """What everybody who reads a history must know of a kind of fault."""

    says: str
    """What it does, as a clause."""
    kind: Kind = "operator"
    """Its family."""
    loses_data: bool = False
    """It takes data from a replica's disk."""
    hinders_replication: bool = False
    """While it is in force, replicas may be unable to follow, although their processes run."""
    clause: str = ""
    """What it did, for a sentence that goes on with the time: `{hosts} was killed`, also with `{partitions}`.

    Of a fault without a clause, a sentence says its name."""
    starts_again: bool = False
    """The sentence also says when the hosts were started again."""


MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {
        "cut": Mechanism(
            kind="link", hinders_replication=True, says="packets of the links are dropped or rejected"
        ),
        "flap": Mechanism(
            kind="link", hinders_replication=True, says="the links are cut and restored in turn"
        ),
        "hold": Mechanism(
            kind="link",
            hinders_replication=True,
            says="packets of single connections over the links are dropped, and new connections work",
        ),
        "disconnect": Mechanism(
            kind="link",
            hinders_replication=True,
            says="the hosts lose their network interface",
            clause="{hosts} had no network",
        ),
        "loss": Mechanism(
            kind="degrade", hinders_replication=True, says="a share of the packets of the links is lost"
        ),
        "delay": Mechanism(
            kind="degrade", hinders_replication=True, says="packets of the hosts or links arrive late"
        ),
        "throttle": Mechanism(
            kind="degrade",
            hinders_replication=True,
            says="packets of the hosts or links pass at a limited rate",
        ),
        "kill": Mechanism(
            kind="process",
            says="the hosts' processes end by SIGKILL",
            clause="{hosts} was killed",
            starts_again=True,
        ),
        "stop": Mechanism(
            kind="process",
            says="the hosts' processes end by SIGTERM",
            clause="{hosts} was stopped",
            starts_again=True,
        ),
        "restart": Mechanism(
            kind="process",
            says="the hosts' processes are stopped and started again, one host after the other",
        ),
        "pause": Mechanism(kind="process", says="the hosts' processes hang (SIGSTOP)", clause="{hosts} hung"),
        "clock_shift": Mechanism(
            kind="process",
            says="the wall clocks of the hosts' processes are ahead or behind by `by_s`",
            clause="The clock of {hosts} was wrong",
        ),
        "address_change": Mechanism(
            kind="process",
            says="the names of the hosts, whose processes have ended, mean other addresses",
            clause="{hosts} got another address",
        ),
        "power_cut": Mechanism(
            kind="storage",
            says="the hosts lose their power: their processes end, and data that was not fsynced is gone",
            loses_data=True,
            clause="{hosts} had no power",
        ),
        "wipe": Mechanism(
            kind="storage",
            says="replicas (or, without `partitions`, all data) of the hosts are removed",
            loses_data=True,
            clause="The log of {partitions} on {hosts} was erased",
        ),
        "truncate": Mechanism(
            kind="storage",
            says="the end of replicas' logs on the hosts is removed",
            loses_data=True,
        ),
        "damage": Mechanism(
            kind="storage",
            says="bytes in replicas' logs on the hosts are changed",
            loses_data=True,
        ),
        "disk_full": Mechanism(
            kind="storage",
            hinders_replication=True,
            says="no byte can be added to the hosts' disks",
            clause="The disk of {hosts} was full",
        ),
        "disk_stalled": Mechanism(
            kind="storage",
            hinders_replication=True,
            says="reads, writes or fsyncs on the hosts' disks wait until healed",
            clause="The disk of {hosts} stalled",
        ),
        "disk_slow": Mechanism(
            kind="storage",
            hinders_replication=True,
            says="each read, write or fsync on the hosts' disks takes longer",
            clause="The disk of {hosts} was slow",
        ),
        "elect_preferred": Mechanism(says="the preferred leaders of the partitions are elected"),
        "elect_unclean": Mechanism(says="leaders of the partitions are elected, in sync or not"),
        "reassign": Mechanism(says="the partitions get other replicas, or the same in another order"),
        "reassign_to_others": Mechanism(
            says="the last replicas of the partitions move to other brokers, or away if every broker has one"
        ),
        "configure": Mechanism(says="the configuration of topics changes"),
        "set_feature": Mechanism(says="the cluster finalizes another level of a feature (KIP-584)"),
        "delete_records": Mechanism(
            says="the partitions' records before an offset are deleted (DeleteRecords)"
        ),
        "delete_topic": Mechanism(says="topics are deleted with all their partitions"),
        "create_topic": Mechanism(says="topics are created"),
        "add_partitions": Mechanism(says="the partitions are added to their topics (CreatePartitions)"),
        "move_replica": Mechanism(
            says="replicas move to another of their brokers' log directories (KIP-113)"
        ),
        "add_voter": Mechanism(says="the hosts become voters of the KRaft quorum (AddRaftVoter, KIP-853)"),
        "remove_voter": Mechanism(
            says="the hosts are no voters of the KRaft quorum any more (RemoveRaftVoter, KIP-853)"
        ),
        "alter_offsets": Mechanism(says="the offset that a group has committed is set by an operator"),
        "move_controller": Mechanism(says="another controller is elected"),
        "other": Mechanism(says="none of these"),
    }
)
"""By name, which is that of the kind of fault everywhere: in histories, schedules and assessments."""
