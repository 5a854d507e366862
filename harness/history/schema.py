"""The history schema: the one contract between what a run records and what the checkers read.

A table is one Parquet file (`sends.parquet`) or a folder of Parquet files of that name. Checkers are fast
when every file holds one topic partition; they are right either way. Times are integer nanoseconds of one
monotonic clock (`harness.clock`); `null` means "not known". Only `sends` and `copies` are needed to judge.

`docs/history.md` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import pyarrow as pa

SCHEMA_VERSION = 1

Kind = Literal["int", "long", "text", "flag", "ints", "epochs"]

ARROW: Mapping[Kind, pa.DataType] = MappingProxyType(
    {
        "int": pa.int32(),
        "long": pa.int64(),
        "text": pa.string(),
        "flag": pa.bool_(),
        "ints": pa.list_(pa.int32()),
        "epochs": pa.list_(pa.struct([pa.field("epoch", pa.int32()), pa.field("start_offset", pa.int64())])),
    }
)

SPARK: Mapping[Kind, str] = MappingProxyType(
    {
        "int": "int",
        "long": "bigint",
        "text": "string",
        "flag": "boolean",
        "ints": "array<int>",
        "epochs": "array<struct<epoch:int,start_offset:bigint>>",
    }
)


@dataclass(frozen=True)
class Column:
    """One column: ``required`` ones must exist and be non-null; others may be absent or null."""

    name: str
    kind: Kind
    says: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """One table of the history, in the order in which its columns are written."""

    name: str
    says: str
    columns: tuple[Column, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the columns that every writer of this table must fill."""
        return tuple(column.name for column in self.columns if column.required)

    def arrow(self) -> pa.Schema:
        """The table's Arrow schema; required columns are not nullable."""
        return pa.schema([pa.field(c.name, ARROW[c.kind], nullable=not c.required) for c in self.columns])

    def spark_ddl(self) -> str:
        """The same schema as Spark DDL, for `DataFrameReader.schema`."""
        return ", ".join(f"`{c.name}` {SPARK[c.kind]}" for c in self.columns)


def _need(name: str, kind: Kind, says: str) -> Column:
    return Column(name, kind, says, required=True)


_TOPIC = _need("topic", "text", "topic name")
_PARTITION = _need("partition", "int", "partition number")
_NS = _need("ns", "long", "monotonic time, ns")

OUTCOMES = ("ok", "fail", "info")
"""`ok` acknowledged, `fail` definitely not written, `info` unknown; no outcome at all counts as `info`."""

MECHANISMS: Mapping[str, str] = MappingProxyType(
    {
        "cut": "packets of the links are dropped or rejected",
        "flap": "the links are cut and restored in turn",
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
        "move_controller": "another controller is elected",
        "other": "none of these",
    }
)
"""What a fault does: the values of `faults.mechanism`, each with its meaning."""

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.name: table
        for table in (
            Table(
                "sends",
                "One row per message that a producer sent: what it was told about it.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("writer", "int", "the producer, unique in the run (see `writers`); not negative"),
                    _need(
                        "seq",
                        "long",
                        "the message's number, unique per writer, rising in send order; not negative",
                    ),
                    _need("sent_ns", "long", "when the application handed it over, before it left"),
                    Column("done_ns", "long", "when the outcome came; null if it never did"),
                    Column("outcome", "text", "`ok`, `fail` or `info`; null: no outcome came (unknown)"),
                    Column(
                        "error", "int", "Kafka's error code, or librdkafka's (negative); 0 or null with ok"
                    ),
                    Column("offset", "long", "offset that was reported (also with some errors); null: none"),
                    Column("attempts", "int", "ProduceRequests that carried it, where the client knows"),
                    Column("broker", "int", "broker that answered, where the client knows"),
                    Column("label", "text", "the article's name for the message, for example `c`"),
                    Column("txn", "long", "number of the writer's transaction it belongs to"),
                ),
            ),
            Table(
                "writers",
                "One row per producer: who it is and how it was configured.",
                (
                    _need("writer", "int", "its number"),
                    _need("name", "text", "its name, for example `az1-stream`"),
                    Column("host", "text", "host it ran in, for example `client1`"),
                    Column("az", "text", "availability zone of that host"),
                    Column("role", "text", "`scripted` (the article's messages) or `stream` (background)"),
                    Column("client", "text", "`raw` (one ProduceRequest per send) or `librdkafka`"),
                    Column("acks", "int", "0, 1 or -1 (all)"),
                    Column("idempotent", "flag", "enable.idempotence"),
                    Column("retries", "int", "retries"),
                    Column("config", "text", "its whole configuration as JSON"),
                ),
            ),
            Table(
                "copies",
                "Every record of every replica's own log at the end: the final log.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker whose replica this is"),
                    _need("offset", "long", "offset of the record"),
                    Column("epoch", "int", "leader epoch in its batch; null before message format 2"),
                    Column("writer", "int", "writer named in the message; null: sent by nobody we know"),
                    Column("seq", "long", "sequence named in the message"),
                    Column("intact", "flag", "the message's own checksum holds; null: not checked"),
                    Column("home", "text", "`topic/partition` named in the message, where it names one"),
                    Column("batch_offset", "long", "base offset of its batch"),
                    Column("crc", "long", "CRC of its batch"),
                    Column("timestamp_ms", "long", "record time stamp (wall clock, ms)"),
                    Column("producer_id", "long", "idempotent producer's id; -1 none"),
                    Column("producer_epoch", "int", "idempotent producer's epoch; -1 none"),
                    Column("sequence", "int", "Kafka's own sequence of the record; -1 none"),
                    Column("control", "flag", "a transaction marker, not a message"),
                    Column("transactional", "flag", "written inside a transaction"),
                ),
            ),
            Table(
                "replicas",
                "One row per replica at the end: where its log began and ended; was it read whole?",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker"),
                    _need("complete", "flag", "the final read reached the log's end"),
                    Column("ns", "long", "when it was read, ns"),
                    Column("leo", "long", "log end offset"),
                    Column("high_watermark", "long", "high watermark"),
                    Column("log_start", "long", "log start offset"),
                    Column("leader", "flag", "this replica led the partition at the end"),
                    Column("in_sync", "flag", "it was in the ISR at the end"),
                    Column("epochs", "epochs", "its leader epoch cache"),
                    Column("cleanup", "text", "`delete`, `compact` or both: gaps that retention explains"),
                    Column("error", "text", "why the read is not complete"),
                ),
            ),
            Table(
                "sightings",
                "Records seen on a replica while the run lasted; `gone_ns` tells that they vanished again.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker whose replica this is"),
                    _need("offset", "long", "offset"),
                    _need("seen_ns", "long", "when it was first seen there, ns"),
                    Column("epoch", "int", "leader epoch in its batch"),
                    Column("writer", "int", "writer named in the message"),
                    Column("seq", "long", "sequence named in the message"),
                    Column("gone_ns", "long", "when it was first seen to be gone (truncated), ns"),
                ),
            ),
            Table(
                "reads",
                "One row per record that a consumer was handed, in the order of delivery.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("reader", "int", "the consumer, unique in the run"),
                    _need("ns", "long", "when it was handed over, ns"),
                    _need("offset", "long", "offset"),
                    Column("epoch", "int", "leader epoch of the batch"),
                    Column("writer", "int", "writer named in the message"),
                    Column("seq", "long", "sequence named in the message"),
                    Column("poll", "long", "number of the poll that returned it"),
                    Column("group", "text", "consumer group; null: assigned by hand"),
                    Column("isolation", "text", "`read_committed` or `read_uncommitted`"),
                    Column("broker", "int", "broker that served it"),
                ),
            ),
            Table(
                "groups",
                "Events of consumer groups, so that a rewind or a rebalance explains a replay.",
                (
                    _NS,
                    _need("group", "text", "consumer group"),
                    _need("reader", "int", "member"),
                    _need("event", "text", "`assigned`, `revoked`, `committed`, `sought`"),
                    Column("topic", "text", "topic"),
                    Column("partition", "int", "partition"),
                    Column("offset", "long", "offset committed or sought"),
                ),
            ),
            Table(
                "transactions",
                "Events of transactional producers.",
                (
                    _NS,
                    _need("writer", "int", "producer"),
                    _need("txn", "long", "number of the transaction"),
                    _need("event", "text", "`begin`, `committed`, `aborted`, `unknown`"),
                    Column("error", "int", "Kafka's error code"),
                ),
            ),
            Table(
                "views",
                "What one observer's subject said, recorded when it changed.",
                (
                    _NS,
                    _need("source", "text", "who said it: `broker1`, `zookeeper2`, `controller3`"),
                    _need("subject", "text", "`partition`, `controller`, `brokers` or `reachable`"),
                    Column("topic", "text", "topic (partition only)"),
                    Column("partition", "int", "partition"),
                    Column("leader", "int", "leader; -1 none"),
                    Column("epoch", "int", "leader epoch; controller epoch for `controller`"),
                    Column("isr", "ints", "in-sync replicas as listed"),
                    Column("replicas", "ints", "assignment as listed"),
                    Column("controller", "int", "node id of the controller; -1 none"),
                    Column("brokers", "ints", "registered (unfenced) brokers"),
                    Column("error", "text", "why nothing was said (for `reachable`: null means it answers)"),
                ),
            ),
            Table(
                "faults",
                "The four moments of every fault, and what proved that it bit.",
                (
                    _NS,
                    _need("fault", "int", "number of the fault in the run"),
                    _need("name", "text", "for example `isolate az1`"),
                    _need("kind", "text", "`link`, `degrade`, `process`, `storage` or `operator`"),
                    _need("moment", "text", "`injecting`, `injected`, `healing`, `healed` or `failed`"),
                    Column(
                        "targets",
                        "text",
                        'JSON object of exact names, for example `{"hosts": ["broker1"], "partitions": '
                        '["t/0"]}`; keys that causes use: `hosts`, `links` (`broker1 -> broker2`, also with '
                        "`:port`), `partitions`",
                    ),
                    Column("evidence", "text", "JSON: probes and counters, for `injected` and `healed`"),
                    Column("mechanism", "text", "what the fault does: one of the [mechanisms](#mechanisms)"),
                ),
            ),
            Table(
                "processes",
                "Life of every process of the lab.",
                (
                    _NS,
                    _need("host", "text", "host"),
                    _need(
                        "event",
                        "text",
                        "`started`, `ready`, `killed`, `stopped`, `exited`, `paused`, `resumed`",
                    ),
                    Column("pid", "long", "process id"),
                    Column("status", "int", "exit status; negative: signal"),
                    Column("detail", "text", "anything worth saying"),
                ),
            ),
            Table(
                "marks",
                "The scenario's own narrative: one row per step.",
                (_NS, _need("name", "text", "short name used by claims"), Column("text", "text", "prose")),
            ),
            Table(
                "log_events",
                "Lines of broker logs that matter, parsed.",
                (
                    _NS,
                    _need("host", "text", "host whose log it is"),
                    _need(
                        "kind",
                        "text",
                        "`truncated`, `truncated_to_hw`, `isr_shrinking`, `isr_expanding`, `isr_updated`, "
                        "`became_leader`, `became_follower`, `unclean_election`, `session_expired`, "
                        "`resigned`, `error`, `fatal`",
                    ),
                    Column("topic", "text", "topic"),
                    Column("partition", "int", "partition"),
                    Column("offset", "long", "offset truncated to"),
                    Column("epoch", "int", "leader epoch"),
                    Column("text", "text", "the line"),
                ),
            ),
            Table(
                "configs",
                "Effective configuration, read back from each broker, and of each topic.",
                (
                    _need("scope", "text", "`broker` or `topic`"),
                    _need("name", "text", "`broker1` or the topic's name"),
                    _need("key", "text", "configuration key"),
                    Column("value", "text", "effective value"),
                    Column("asked", "text", "value that was asked for; null: default"),
                ),
            ),
        )
    }
)

VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "truth": """
            SELECT ns, source, topic, partition, leader, epoch, isr, replicas FROM views
            WHERE subject = 'partition' AND topic IS NOT NULL AND epoch IS NOT NULL
              AND (source LIKE 'zookeeper%'
                   OR NOT EXISTS (SELECT 1 FROM views WHERE source LIKE 'zookeeper%'))""",
        "controllers": """
            SELECT ns, source, controller, epoch FROM views
            WHERE subject = 'controller' AND controller IS NOT NULL
              AND (source LIKE 'zookeeper%' OR (source LIKE 'controller%' AND controller >= 0))""",
    }
)
"""SQL views over the tables, for claims and queries: what the metadata store (not a broker) said."""
