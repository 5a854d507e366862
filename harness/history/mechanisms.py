"""What faults do: the values of the column `mechanism` of the table `faults`. Imports no PyArrow."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MECHANISMS: Mapping[str, str] = MappingProxyType(
    {
        "cut": "packets of the links are dropped or rejected",
        "flap": "the links are cut and restored in turn",
        "hold": "packets of single connections over the links are dropped, and new connections work",
        "disconnect": "the hosts lose their network interface",
        "loss": "a share of the packets of the links is lost",
        "delay": "packets of the hosts or links arrive late",
        "throttle": "packets of the hosts or links pass at a limited rate",
        "kill": "the hosts' processes end by SIGKILL",
        "stop": "the hosts' processes end by SIGTERM",
        "restart": "the hosts' processes are stopped and started again, one host after the other",
        "pause": "the hosts' processes hang (SIGSTOP)",
        "power_cut": "the hosts lose their power: their processes end, and data that was not fsynced is gone",
        "wipe": "replicas (or, without `partitions`, all data) of the hosts are removed",
        "truncate": "the end of replicas' logs on the hosts is removed",
        "damage": "bytes in replicas' logs on the hosts are changed",
        "disk_full": "no byte can be added to the hosts' disks",
        "elect_preferred": "the preferred leaders of the partitions are elected",
        "elect_unclean": "leaders of the partitions are elected, in sync or not",
        "reassign": "the partitions get other replicas, or the same in another order",
        "configure": "the configuration of topics changes",
        "delete_records": "the partitions' records before an offset are deleted (DeleteRecords)",
        "delete_topic": "topics are deleted with all their partitions",
        "create_topic": "topics are created",
        "move_controller": "another controller is elected",
        "other": "none of these",
    }
)
"""What a fault does: the values of `faults.mechanism`, each with its meaning."""
