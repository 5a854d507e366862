"""Raw probes of single brokers and controllers: each goes to exactly the address it is given."""

from harness.kafka.wire.admin import (
    NewTopic,
    Outcome,
    alter_partition_reassignments,
    create_topics,
    describe_configs,
    elect_leaders,
)
from harness.kafka.wire.connection import Address, Connection, NoAnswerError, NotSentError, Target
from harness.kafka.wire.dialect import MODERN, Dialect, dialect
from harness.kafka.wire.logs import Fetched, fetch_as_consumer, fetch_own_log, fetch_own_logs
from harness.kafka.wire.metadata import (
    BrokerView,
    PartitionView,
    api_versions,
    describe_topic_partitions,
    metadata,
)
from harness.kafka.wire.offsets import (
    CONSUMER,
    DEBUGGER,
    EARLIEST,
    LATEST,
    Offset,
    end_offsets,
    offsets_for_leader_epoch,
)
from harness.kafka.wire.produce import Produced, one_record_batch, produce_once
from harness.kafka.wire.quorum import (
    ControllerView,
    QuorumView,
    controller_fetch_probe,
    describe_quorum,
)

__all__ = [
    "CONSUMER",
    "DEBUGGER",
    "EARLIEST",
    "LATEST",
    "MODERN",
    "Address",
    "BrokerView",
    "Connection",
    "ControllerView",
    "Dialect",
    "Fetched",
    "NewTopic",
    "NoAnswerError",
    "NotSentError",
    "Offset",
    "Outcome",
    "PartitionView",
    "Produced",
    "QuorumView",
    "Target",
    "alter_partition_reassignments",
    "api_versions",
    "controller_fetch_probe",
    "create_topics",
    "describe_configs",
    "describe_quorum",
    "describe_topic_partitions",
    "dialect",
    "elect_leaders",
    "end_offsets",
    "fetch_as_consumer",
    "fetch_own_log",
    "fetch_own_logs",
    "metadata",
    "offsets_for_leader_epoch",
    "one_record_batch",
    "produce_once",
]
