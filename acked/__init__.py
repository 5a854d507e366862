"""The public API: everything that a scenario of your own may use.

This package re-exports it from the other packages, and alone says what is public. Names that are not listed
here may change at any time. Listed names change only with an entry in the changelog. Scenarios declare
themselves with `acked`, write claims with `acked.claims`, use the steps of `acked.steps`, and make faults of
their own with `acked.faults`.
Runs in the harness's process. Imports the modules whose names it re-exports.
"""

from __future__ import annotations

from harness.cluster.model import Cluster, StartedCluster
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.errors import AckedError, InvalidRunError, UsageError, WaitTimeoutError
from harness.kafka.model import Endpoint, PartitionState, Topic, TopicPartition
from harness.waiting import wait_until
from run.group_offsets import GroupOffsets
from run.producer import OngoingWrites, Producer
from run.scenario import Claim, Either, Erratum, Expected, Scenario
from run.stage import Stage
from run.transactional import DelayedRequest, TransactionalProducer
from workloads.client.client import BackgroundConsumer, Stream
from workloads.protocol.results import (
    Delivered,
    OffsetAnswer,
    PinnedWritesResult,
    ReadResult,
    SendResult,
    TransactionEnd,
)
from workloads.protocol.spec import StreamLoad

__all__ = [
    "Scenario",
    "Setup",
    "Topic",
    "Claim",
    "Erratum",
    "Either",
    "Expected",
    "Stage",
    "Timings",
    "Cluster",
    "StartedCluster",
    "Endpoint",
    "Producer",
    "OngoingWrites",
    "TransactionalProducer",
    "DelayedRequest",
    "GroupOffsets",
    "Stream",
    "StreamLoad",
    "BackgroundConsumer",
    "SendResult",
    "PinnedWritesResult",
    "ReadResult",
    "TransactionEnd",
    "Delivered",
    "OffsetAnswer",
    "PartitionState",
    "TopicPartition",
    "wait_until",
    "AckedError",
    "InvalidRunError",
    "UsageError",
    "WaitTimeoutError",
]
