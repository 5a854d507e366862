"""The history schema: the contract between what a run records and what the checkers read.

A table is one Parquet file (`sends.parquet`) or a folder of Parquet files of that name. Checkers are fastest
if every file holds one topic partition, and correct in any case. Times are integer nanoseconds of one
monotonic clock (`harness.clock`). `null` means "not known". Checkers need only `sends` and `copies`.

`harness.history.document` generates `docs/history.md` from this module. It imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import pyarrow as pa

SCHEMA_VERSION = 1


def readable(version: object) -> bool:
    """Whether the `schema_version` of a `run.json` is this one; an absent one (None) counts as this one."""
    return version is None or (version == SCHEMA_VERSION and not isinstance(version, bool))


Kind = Literal["int", "long", "text", "flag", "ints", "epochs", "aborted"]

ARROW: Mapping[Kind, pa.DataType] = MappingProxyType(
    {
        "int": pa.int32(),
        "long": pa.int64(),
        "text": pa.string(),
        "flag": pa.bool_(),
        "ints": pa.list_(pa.int32()),
        "epochs": pa.list_(pa.struct([pa.field("epoch", pa.int32()), pa.field("start_offset", pa.int64())])),
        "aborted": pa.list_(
            pa.struct([pa.field("producer_id", pa.int64()), pa.field("first_offset", pa.int64())])
        ),
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
        "aborted": "array<struct<producer_id:bigint,first_offset:bigint>>",
    }
)


@dataclass(frozen=True)
class Column:
    """One column. A ``required`` column must be present and hold no null; others may be absent or null."""

    name: str
    kind: Kind
    description: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """One table of the history, with its columns in the order in which they are written."""

    name: str
    description: str
    columns: tuple[Column, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the columns that must be present and hold no null."""
        return tuple(column.name for column in self.columns if column.required)

    def arrow(self) -> pa.Schema:
        """The table's Arrow schema; required columns are not nullable."""
        return pa.schema([pa.field(c.name, ARROW[c.kind], nullable=not c.required) for c in self.columns])

    def spark_ddl(self) -> str:
        """The same schema as Spark DDL, for `DataFrameReader.schema`."""
        return ", ".join(f"`{c.name}` {SPARK[c.kind]}" for c in self.columns)


def _need(name: str, kind: Kind, description: str) -> Column:
    return Column(name, kind, description, required=True)


_TOPIC = _need("topic", "text", "topic name")
_PARTITION = _need("partition", "int", "partition number")
_NS = _need("ns", "long", "monotonic time")

NEEDED = ("sends", "copies")
"""Tables without which a history cannot be judged."""

BY_PARTITION = ("sends", "copies", "batches", "reads", "sightings")
"""Tables that grow with the number of messages; each may be a folder with a file per topic partition."""

OUTCOMES = ("ok", "fail", "info")
"""`ok`: acknowledged; `fail`: definitely not written; `info`: unknown. A missing outcome counts as `info`."""

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.name: table
        for table in (
            Table(
                "sends",
                "One row per message that a producer sent, with its outcome.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("writer", "int", "the producer's number, unique in the run (see `writers`)"),
                    _need(
                        "seq",
                        "long",
                        "the message's number, unique per writer and rising in the order of sending",
                    ),
                    _need(
                        "sent_ns", "long", "when the application handed the message over, before it was sent"
                    ),
                    Column("done_ns", "long", "when the outcome was known; null: never"),
                    Column(
                        "outcome",
                        "text",
                        "`ok`, `fail` or `info`; null: there was none, which counts as `info`",
                    ),
                    Column(
                        "error",
                        "int",
                        "Kafka's error code, or librdkafka's for the same cause (negative); 0 or null: none",
                    ),
                    Column("offset", "long", "offset in the answer, which some errors have too; null: none"),
                    Column(
                        "attempts",
                        "int",
                        "ProduceRequests that carried the message; null: the client does not know",
                    ),
                    Column("broker", "int", "broker that answered; null: none, or the client does not know"),
                    Column("label", "text", "the scenario's name for the message, for example `c`"),
                    Column("txn", "long", "number of the writer's transaction; null: in none"),
                ),
            ),
            Table(
                "writers",
                "One row per producer, with its configuration.",
                (
                    _need("writer", "int", "the producer's number, unique in the run"),
                    _need("name", "text", "name, for example `az1-stream`"),
                    Column("host", "text", "host it ran on, for example `client1`"),
                    Column("az", "text", "availability zone of that host"),
                    Column(
                        "role",
                        "text",
                        "`scripted` (messages of the scenario's steps) or `stream` (background)",
                    ),
                    Column(
                        "client",
                        "text",
                        "`raw` (one ProduceRequest per message, no retries), `librdkafka`, `java` (the "
                        "official Java client) or `program` (the user's own; `run.json` names it)",
                    ),
                    Column("acks", "int", "0, 1 or -1 (all)"),
                    Column("idempotent", "flag", "enable.idempotence"),
                    Column("retries", "int", "configured number of retries"),
                    Column("transactional_id", "text", "transactional.id; null: none"),
                    Column(
                        "event_age_ms",
                        "long",
                        "by how much the timestamps of its records are older than the time of sending; below "
                        "0: newer; null: the client chose them",
                    ),
                    Column("config", "text", "complete configuration as JSON"),
                    Column(
                        "interval_ns",
                        "long",
                        "time between two messages that its stream was asked to send; null: it is no stream, "
                        "or this is not recorded",
                    ),
                ),
            ),
            Table(
                "copies",
                "The final logs: one row per record in each replica's own log at the end of the run.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker that holds the replica"),
                    _need("offset", "long", "offset of the record"),
                    Column("epoch", "int", "leader epoch of its batch; null: message format 0 or 1"),
                    Column("writer", "int", "writer that the message names; null: it names none"),
                    Column("seq", "long", "sequence named in the message"),
                    Column("intact", "flag", "the message's own checksum is right; null: not checked"),
                    Column("home", "text", "`topic/partition` that the message names; null: it names none"),
                    Column("batch_offset", "long", "base offset of its batch"),
                    Column("crc", "long", "CRC of its batch"),
                    Column("timestamp_ms", "long", "record timestamp (wall clock, ms)"),
                    Column("producer_id", "long", "Kafka's producer id; -1: none"),
                    Column("producer_epoch", "int", "Kafka's producer epoch; -1: none"),
                    Column("sequence", "int", "Kafka's sequence number of the record (not `seq`); -1: none"),
                    Column("control", "flag", "a control record (transaction marker), not a message"),
                    Column("transactional", "flag", "written in a transaction"),
                    Column("marker", "text", "of a transaction marker: `commit` or `abort`; else null"),
                    Column(
                        "coordinator_epoch",
                        "int",
                        "of a marker: epoch of the coordinator that wrote it; -1: an operator's tool",
                    ),
                ),
            ),
            Table(
                "batches",
                "The batches of the final logs: one row per record batch in each replica's own log at the "
                "end of the run. A message of format 0 or 1, with the messages that it holds compressed, "
                "counts as a batch.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker that holds the replica"),
                    _need("offset", "long", "base offset"),
                    Column("last_offset", "long", "offset of the last record with which it was written"),
                    Column("epoch", "int", "leader epoch; null: message format 0 or 1"),
                    Column("format", "int", "message format: 0, 1 or 2"),
                    Column("crc", "long", "CRC"),
                    Column("intact", "flag", "the CRC is right, and the records can be read"),
                    Column("codec", "text", "`none`, `gzip`, `snappy`, `lz4` or `zstd`; null: unknown"),
                    Column("producer_id", "long", "Kafka's producer id; -1: none"),
                    Column("producer_epoch", "int", "Kafka's producer epoch; -1: none"),
                    Column("sequence", "int", "Kafka's sequence number of its first record; -1: none"),
                    Column("control", "flag", "a control batch (transaction marker)"),
                    Column("transactional", "flag", "written in a transaction"),
                    Column("records", "int", "number of its records in `copies`"),
                    Column("size_bytes", "int", "size, with the header"),
                ),
            ),
            Table(
                "replicas",
                "One row per replica at the end of the run: its log's bounds, and whether it was read fully.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker that holds the replica"),
                    _need("complete", "flag", "the log was read to its end"),
                    Column("ns", "long", "when the log was read"),
                    Column("leo", "long", "log end offset"),
                    Column("high_watermark", "long", "high watermark"),
                    Column("last_stable_offset", "long", "LSO: the offset before which all is decided"),
                    Column("log_start", "long", "log start offset"),
                    Column(
                        "watched_from",
                        "long",
                        "of a topic of others that was only watched: the offset from which on its batches "
                        "were read. Then a row of `copies` is a batch, and nobody knows who sent its "
                        "records; null: a topic of the run",
                    ),
                    Column("size_bytes", "long", "size of the log's batches, from the log start offset on"),
                    Column("leader", "flag", "this replica was the leader"),
                    Column("in_sync", "flag", "this replica was in the ISR"),
                    Column("epochs", "epochs", "the replica's leader epoch cache"),
                    Column(
                        "aborted",
                        "aborted",
                        "the aborted transactions below the LSO that the replica names to readers of "
                        "committed records, who leave out their records; null: not known",
                    ),
                    Column(
                        "cleanup",
                        "text",
                        "cleanup.policy at the end (`delete`, `compact` or both), which explains gaps in the "
                        "log",
                    ),
                    Column(
                        "error", "text", "why the log was not read to its end, or which batches are damaged"
                    ),
                ),
            ),
            Table(
                "sightings",
                "Records seen on a replica during the run, and when they disappeared from it.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker that holds the replica"),
                    _need("offset", "long", "offset of the record"),
                    _need("seen_ns", "long", "when the record was first seen on this replica"),
                    Column("epoch", "int", "leader epoch of its batch"),
                    Column("writer", "int", "writer named in the message"),
                    Column("seq", "long", "sequence named in the message"),
                    Column(
                        "gone_ns",
                        "long",
                        "when it was seen to be missing (truncated or before the log start); null: never",
                    ),
                ),
            ),
            Table(
                "unobserved",
                "Records that the run should have observed and did not, or observed late: one row per range "
                "of offsets. What `sightings`, `watermarks` and `reads` lack there proves nothing.",
                (
                    _need("ns", "long", "when they were observed after all, or when observation ended"),
                    _need(
                        "source",
                        "text",
                        "`tail`: a replica's log during the run (`sightings`, `watermarks`); `reader`: the "
                        "consumer that reads all the time (`reads`); `read_back`: the consumer that reads "
                        "all partitions at the end (`reads`); `share_states`: what share coordinators have "
                        "stored (`share_states`)",
                    ),
                    _TOPIC,
                    _PARTITION,
                    Column("broker", "int", "with `tail`: broker that holds the replica"),
                    Column("since_ns", "long", "until when nothing was missed; null: not known"),
                    Column("from_offset", "long", "first offset that was missed; null: not known"),
                    Column("to_offset", "long", "offset after the last one; null: not known"),
                    Column(
                        "late",
                        "flag",
                        "they were observed in the end, at `ns`; what vanished before was not observed. Null "
                        "or false: never",
                    ),
                    Column(
                        "error",
                        "int",
                        "error code of Kafka or of the client that the reader met; null: none, or too slow",
                    ),
                ),
            ),
            Table(
                "watermarks",
                "The offsets of each replica during the run, recorded when they changed.",
                (
                    _NS,
                    _TOPIC,
                    _PARTITION,
                    _need("broker", "int", "broker that holds the replica"),
                    Column(
                        "high_watermark",
                        "long",
                        "the replica's own high watermark; null: not known, as with Kafka before 1.1",
                    ),
                    Column("leo", "long", "log end offset"),
                    Column("log_start", "long", "log start offset"),
                    Column("last_stable_offset", "long", "the replica's own LSO; null: not known"),
                ),
            ),
            Table(
                "reads",
                "One row per record that a consumer received, in the order of delivery.",
                (
                    _TOPIC,
                    _PARTITION,
                    _need("reader", "int", "the consumer's number, unique in the run"),
                    _need("ns", "long", "when the consumer received it"),
                    _need("offset", "long", "offset of the record"),
                    Column("epoch", "int", "leader epoch of its batch"),
                    Column("writer", "int", "writer named in the message"),
                    Column("seq", "long", "sequence named in the message"),
                    Column("poll", "long", "number of the poll that returned it"),
                    Column("group", "text", "consumer group; null: none, the partitions were assigned"),
                    Column("isolation", "text", "isolation level: `read_committed` or `read_uncommitted`"),
                    Column("broker", "int", "broker it was fetched from"),
                    Column(
                        "txn_writer",
                        "int",
                        "producer in whose transaction the application polled; null: in none",
                    ),
                    Column("txn", "long", "number of that transaction; null: in none"),
                ),
            ),
            Table(
                "groups",
                "Events of consumer groups. A rebalance or a seek can explain why records were read again.",
                (
                    _NS,
                    _need("group", "text", "consumer group"),
                    _need("reader", "int", "the group member's number, as in `reads`"),
                    Column("member", "text", "the member's name (client.id); null: not known, or no member"),
                    _need(
                        "event",
                        "text",
                        "`joined`: the member learnt that it is part of a new generation of the group; "
                        "`assigned`; `revoked`: given up; `lost`: the member learnt that it no longer owns "
                        "the partition; `sent`: the offset was handed to a transaction, which commits it or "
                        "not; `committed`: acknowledged; `commit_failed`: not acknowledged, although the "
                        "offset may have been written; `fetched`: a broker answered with the committed "
                        "offset; `sought`",
                    ),
                    Column("topic", "text", "topic name"),
                    Column("partition", "int", "partition number"),
                    Column(
                        "offset",
                        "long",
                        "offset that was committed, fetched or sought, or that was committed when the "
                        "partition was assigned; with `fetched` and `assigned` null: none is committed, or "
                        "the answer was an error",
                    ),
                    Column(
                        "broker",
                        "int",
                        "broker that the client asked, if it asked exactly one; null: not known",
                    ),
                    Column(
                        "error",
                        "int",
                        "Kafka's error code, negative where the connection failed; 0 or null: none",
                    ),
                    Column(
                        "asked_ns",
                        "long",
                        "when the commit, or the question for the committed offset, was sent; null: not "
                        "known, and then the answer proves nothing about commits",
                    ),
                    Column(
                        "txn_writer",
                        "int",
                        "producer in whose transaction it was sent; null: in none",
                    ),
                    Column("txn", "long", "number of that transaction; null: in none"),
                    Column(
                        "generation",
                        "int",
                        "with `joined`: generation of the group, or with KIP-848 the member's epoch; null: "
                        "the client does not tell",
                    ),
                    Column(
                        "member_id",
                        "text",
                        "with `joined`: the id under which the group's coordinator knows the member; null: "
                        "the client does not tell",
                    ),
                    Column(
                        "protocol",
                        "text",
                        "with `joined`: group.protocol, `classic` or `consumer` (KIP-848); null: not known",
                    ),
                    Column(
                        "session_ms",
                        "int",
                        "with `joined`: the member's session.timeout.ms; null: not known, or the brokers set "
                        "it",
                    ),
                ),
            ),
            Table(
                "shares",
                "What the members of share groups (KIP-932) were handed, how they acknowledged it, and what "
                "brokers answered: a row for each record and event.",
                (
                    _NS,
                    _need("group", "text", "share group"),
                    _need("reader", "int", "the member's number, unique in the run, also among `reads`"),
                    Column("member", "text", "the member's name (client.id)"),
                    _need(
                        "event",
                        "text",
                        "`started` and `stopped`: the member, without a record; `acquired`: a poll returned "
                        "the record; `acknowledged`: the member is about to acknowledge it; `answered`: it "
                        "learnt what came of that",
                    ),
                    Column("topic", "text", "topic name; null with `started` and `stopped`"),
                    Column("partition", "int", "partition number"),
                    Column("offset", "long", "offset of the record"),
                    Column(
                        "delivery_count",
                        "int",
                        "with `acquired`: how often the record was acquired so far, as the broker counts; "
                        "null: not known",
                    ),
                    Column(
                        "lock_ms",
                        "int",
                        "with `acquired`: how long the broker keeps it for the member; null: not known",
                    ),
                    Column("poll", "long", "with `acquired`: number of the member's poll that returned it"),
                    Column("writer", "int", "with `acquired`: writer named in the message"),
                    Column("seq", "long", "with `acquired`: sequence named in the message"),
                    Column(
                        "answer",
                        "text",
                        "with `acknowledged` and `answered`: `accept`, `release`, `reject` or `renew`",
                    ),
                    Column("asked_ns", "long", "with `answered`: when the member acknowledged it"),
                    Column(
                        "error",
                        "int",
                        "with `answered`: Kafka's error code, negative where the client gives none; 0: the "
                        "broker has carried it out",
                    ),
                ),
            ),
            Table(
                "share_groups",
                "What coordinators answered about share groups (ShareGroupDescribe), whenever it changed.",
                (
                    _NS,
                    _need("group", "text", "share group"),
                    _need("broker", "int", "id of the broker that answered as the group's coordinator"),
                    Column("state", "text", "`Empty`, `Stable` or `Dead`"),
                    Column("group_epoch", "int", "rises when members or subscriptions change"),
                    Column(
                        "assignment_epoch", "int", "the group's epoch for which its assignment was computed"
                    ),
                    Column(
                        "assigned",
                        "text",
                        "JSON object: the partitions of each member, by its client.id: "
                        '`{"az1-share": ["t/0"]}`',
                    ),
                    Column("asked_ns", "long", "when the observer asked; null: not known"),
                ),
            ),
            Table(
                "share_states",
                "The records of `__share_group_state` at the end of the run, in the log of the leader: what "
                "was stored about each share group and partition. A row for each batch of offsets that a "
                "record names, and one without offsets for a record that names none.",
                (
                    _need("group", "text", "share group"),
                    _TOPIC,
                    _PARTITION,
                    Column("ns", "long", "when the log was read; the same in all rows"),
                    _need("log_offset", "long", "offset of the record in `__share_group_state`"),
                    Column("timestamp_ms", "long", "timestamp of the record (wall clock, ms)"),
                    Column("snapshot", "flag", "it replaces everything before it; false: it adds to that"),
                    Column("snapshot_epoch", "int", "number of the snapshot that it is or adds to"),
                    Column("state_epoch", "int", "of a snapshot: rises when the group's offsets are reset"),
                    Column("leader_epoch", "int", "leader epoch of the partition that wrote it; -1: none"),
                    Column(
                        "start_offset",
                        "long",
                        "share-partition start offset: all before it is done; -1: unchanged",
                    ),
                    Column("first_offset", "long", "first offset of the batch; null: no batch"),
                    Column("last_offset", "long", "last offset of the batch"),
                    Column("state", "text", "`available`, `acknowledged` or `archived`"),
                    Column("delivery_count", "int", "how often the records of the batch were acquired"),
                ),
            ),
            Table(
                "applications",
                "Instances of applications of Kafka Streams: their states, and what their stores held when "
                "they were asked. Each record of `output` and `changelog` names the message of `source` from "
                "which it comes.",
                (
                    _NS,
                    _need("application", "text", "application.id, which is also the name of its group"),
                    _need("reader", "int", "the instance's number, unique in the run, also among `reads`"),
                    Column("member", "text", "the instance's name (client.id)"),
                    _need(
                        "event",
                        "text",
                        "`started` and `stopped`; `state`: it has another state; `stored`: a word that its "
                        "store holds, with its count, and one row without a word for each partition of the "
                        "store",
                    ),
                    Column("source", "text", "with `started`: topic that it reads"),
                    Column("output", "text", "with `started`: topic to which it writes each message again"),
                    Column("changelog", "text", "with `started`: topic with the changes of its store"),
                    Column("guarantee", "text", "with `started`: processing.guarantee"),
                    Column(
                        "words",
                        "int",
                        "with `started`: the word of a message is `writer/n`, and `n` is the remainder of "
                        "`seq` divided by this number",
                    ),
                    Column(
                        "state",
                        "text",
                        "with `state`: `CREATED`, `REBALANCING`, `RUNNING`, `PENDING_SHUTDOWN`, "
                        "`NOT_RUNNING`, `PENDING_ERROR` or `ERROR`",
                    ),
                    Column("partitions", "ints", "with `state`: partitions of the source that it processes"),
                    Column("partition", "int", "with `stored`: partition of the source and the changelog"),
                    Column("word", "text", "with `stored`: the word"),
                    Column("count", "long", "with `stored`: how often it was counted"),
                ),
            ),
            Table(
                "transactions",
                "Events of transactional producers.",
                (
                    _NS,
                    _need("writer", "int", "the producer's number, as in `writers`"),
                    _need("txn", "long", "number of the transaction, unique per writer"),
                    _need(
                        "event",
                        "text",
                        "`begin`; `committing` or `aborting` (the application asked for that end); "
                        "`committed`, `aborted` or `unknown` (the answer to the application)",
                    ),
                    Column(
                        "error",
                        "int",
                        "Kafka's error code, or librdkafka's for the same cause (negative); 0 or null: none",
                    ),
                ),
            ),
            Table(
                "producer_ids",
                "What transactional producers were told when they asked for a producer id (InitProducerId). "
                "An answer without an error fences all earlier producers with the same `transactional_id`.",
                (
                    _NS,
                    _need("writer", "int", "the producer's number, as in `writers`"),
                    Column(
                        "asked_ns",
                        "long",
                        "when the producer asked; `ns` is the time of the answer, or when it gave up; null: "
                        "not known",
                    ),
                    Column(
                        "error",
                        "int",
                        "Kafka's error code, or librdkafka's for the same cause (negative); 0 or null: none",
                    ),
                    Column("producer_id", "long", "Kafka's producer id; null: the client does not tell"),
                    Column("producer_epoch", "int", "Kafka's producer epoch; null: the client does not tell"),
                ),
            ),
            Table(
                "producer_states",
                "What the replicas of a partition know of its producers (DescribeProducers). A state is "
                "recorded when it changes, and again within 2 s if it does not change. Only runs with "
                "transactions on Kafka 3.0 and later have this table.",
                (
                    _NS,
                    _TOPIC,
                    _PARTITION,
                    _need(
                        "broker",
                        "int",
                        "broker that reported it: the leader, or a follower, which may lag",
                    ),
                    _need("producer_id", "long", "Kafka's producer id"),
                    Column("producer_epoch", "int", "Kafka's producer epoch"),
                    Column("last_sequence", "int", "sequence number of its last record; -1: not known"),
                    Column("coordinator_epoch", "int", "of its last transaction marker; -1: there is none"),
                    Column(
                        "transaction_start",
                        "long",
                        "offset of the first record of its open transaction; null: none is open",
                    ),
                ),
            ),
            Table(
                "transaction_states",
                "What coordinators know of transactions (ListTransactions, DescribeTransactions). A state is "
                "recorded when it changes, and again within 2 s if it does not change. Only runs with "
                "transactions on Kafka 3.0 and later have this table.",
                (
                    _NS,
                    _need("broker", "int", "broker that considers itself the coordinator"),
                    _need("transactional_id", "text", "transactional.id"),
                    Column("producer_id", "long", "Kafka's producer id"),
                    Column("producer_epoch", "int", "Kafka's producer epoch"),
                    Column(
                        "state",
                        "text",
                        "`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, "
                        "`CompleteAbort`, `PrepareEpochFence` or `Dead`",
                    ),
                    Column("timeout_ms", "int", "transaction.timeout.ms"),
                    Column(
                        "partitions",
                        "text",
                        "`topic/partition` of each partition in the transaction, separated by commas; while "
                        "it is being completed, only those that still lack their marker",
                    ),
                ),
            ),
            Table(
                "views",
                "What each node reported about the cluster, recorded when it changed. At each mark, "
                "`reachable` is recorded again for every node that answers: for its last answer, and for its "
                "first answer to a question that was asked after the mark. So is the last answer of a node "
                "that falls silent.",
                (
                    _NS,
                    _need("source", "text", "node that reported it: `broker1`, `zookeeper2`, `controller3`"),
                    _need("subject", "text", "`partition`, `controller`, `brokers` or `reachable`"),
                    Column("topic", "text", "topic name, with the subject `partition`"),
                    Column("partition", "int", "partition number"),
                    Column("leader", "int", "broker id of the leader; -1: none"),
                    Column(
                        "epoch", "int", "leader epoch; with the subject `controller` the controller epoch"
                    ),
                    Column("isr", "ints", "in-sync replicas; the observer sorts them"),
                    Column("replicas", "ints", "assigned replicas, in the reported order"),
                    Column("controller", "int", "node id of the controller; -1: none"),
                    Column("brokers", "ints", "ids of the registered, unfenced brokers"),
                    Column("error", "text", "why the node did not answer; null: it did"),
                    Column(
                        "asked_ns",
                        "long",
                        "when the observer asked; what the node reported was so at some moment between then "
                        "and `ns`; null: not known",
                    ),
                ),
            ),
            Table(
                "faults",
                "The moments of every fault, and the evidence that it took effect.",
                (
                    _NS,
                    _need("fault", "int", "number of the fault in the run"),
                    _need(
                        "name",
                        "text",
                        "a label for people, for example `isolate az1`; nothing is read from it",
                    ),
                    _need("kind", "text", "`link`, `degrade`, `process`, `storage` or `operator`"),
                    _need(
                        "moment",
                        "text",
                        "`injecting`, `injected`, `healing`, `healed` or `failed`; `injected` and `healed` "
                        "have the time of the change, not of its proof, which comes later",
                    ),
                    Column(
                        "targets",
                        "text",
                        'JSON object of exact names, for example `{"hosts": ["broker1"], "partitions": '
                        '["t/0"]}`; keys that causes use: `hosts`, `links` (`broker1 -> broker2`, also with '
                        "`:port`), `partitions`, `offset` (of damaged or truncated logs, unless the "
                        "evidence has `first_offset`), `before_offset` (of a DeleteRecords request), "
                        "`properties` (new values of a topic's configuration). Of cuts, what was asked for: "
                        "`ends` (`from`, `to`, `both` ways or not), `isolated`, `without_zookeeper`, "
                        "`halves`, `bridge` or `ring`; of a held request: `request` and `producer`",
                    ),
                    Column(
                        "evidence",
                        "text",
                        "JSON: probes and counters, for `injected` and `healed`; key that causes use: "
                        "`first_offset`, the first offset of a damaged batch or of what was truncated",
                    ),
                    Column(
                        "mechanism",
                        "text",
                        "what the fault does: one of the [mechanisms](#mechanisms); null: `other`",
                    ),
                    Column(
                        "stated",
                        "flag",
                        "somebody stated the fault (`acked mark`), and nothing proves it; null or false: "
                        "acked injected it",
                    ),
                ),
            ),
            Table(
                "processes",
                "Starts and ends of the lab's processes.",
                (
                    _NS,
                    _need("host", "text", "host it runs on"),
                    _need(
                        "event",
                        "text",
                        "`started`, `ready`, `killed`, `stopped`, `exited`, `paused` or `resumed`",
                    ),
                    Column("pid", "long", "process id"),
                    Column("status", "int", "exit status; negative: number of the signal that ended it"),
                    Column("detail", "text", "more about the event"),
                    Column("kafka", "text", "with `started`, Kafka's version; null: that of the run"),
                ),
            ),
            Table(
                "marks",
                "The steps of the scenario, one row each.",
                (
                    _NS,
                    _need("name", "text", "short name, by which claims refer to the step"),
                    Column("text", "text", "description of the step, for people; nothing is read from it"),
                    Column(
                        "facts", "text", "JSON object of what the step observed or did, such as an error code"
                    ),
                ),
            ),
            Table(
                "log_events",
                "Events parsed from the brokers' log files; in a recording, what brokers stated.",
                (
                    _NS,
                    _need("host", "text", "host whose log file it is from, or that stated it"),
                    _need(
                        "kind",
                        "text",
                        "`truncated`, `truncated_to_hw`, `isr_shrinking`, `isr_expanding`, `isr_updated`, "
                        "`became_leader`, `became_follower`, `unclean_election`, "
                        "`session_connected`, `session_expired`, `resigned`, `offsets_expired` (a "
                        "coordinator removed committed offsets after `offsets.retention.minutes`), "
                        "`segment_expired` (removed by `retention.ms`), `segment_oversized` (by "
                        "`retention.bytes`), `records_deleted` (the log start offset after a DeleteRecords "
                        "request), `log_start` (after any other removal), `topic_deleted`, `error` or "
                        "`fatal`",
                    ),
                    Column("topic", "text", "topic name"),
                    Column("partition", "int", "partition number"),
                    Column(
                        "offset",
                        "long",
                        "offset to which the log was truncated or at which "
                        "the leader's epoch begins, base offset of the removed segment, or log start offset",
                    ),
                    Column("epoch", "int", "leader epoch"),
                    Column("text", "text", "the log line, or what was stated"),
                ),
            ),
            Table(
                "machine",
                "How busy the machine was, once a second. On a busy machine, a late event proves nothing.",
                (
                    _NS,
                    _need(
                        "busy",
                        "int",
                        "processor time in use since the previous row, in percent of all processors",
                    ),
                ),
            ),
            Table(
                "configs",
                "Effective configuration of brokers and topics, what was set for share groups, and the "
                "cluster's features.",
                (
                    _need("scope", "text", "`broker`, `topic`, `group` or `cluster`"),
                    _need("name", "text", "`broker1`, the name of topic or group, or `features`"),
                    _need("key", "text", "configuration key"),
                    Column("value", "text", "effective value"),
                    Column("asked", "text", "value that was set; null: none, the default applies"),
                ),
            ),
        )
    }
)


def views(by: str = "") -> Mapping[str, str]:
    """SQL views over the tables, for claims and queries: what the metadata store reports.

    ``by`` is a column of the tables that distinguishes runs, if they hold several. The text is that of Spark
    and of DuckDB.
    """
    run = f"v.{by}, " if by else ""
    same, inner = (f" AND o.{by} = v.{by}", f" AND k.{by} = o.{by}") if by else ("", "")
    return MappingProxyType(
        {
            "truth": f"""
            SELECT {run}v.ns, v.asked_ns, v.source, v.topic, v.partition, v.leader, v.epoch, v.isr, v.replicas
            FROM views v
            WHERE v.subject = 'partition' AND v.topic IS NOT NULL AND v.epoch IS NOT NULL
              AND (v.source LIKE 'zookeeper%'
                   OR NOT EXISTS (SELECT 1 FROM views o WHERE o.source LIKE 'zookeeper%'{same})
                   OR v.ns >= (SELECT min(o.ns) FROM views o
                               WHERE o.subject = 'controller' AND o.source LIKE 'zookeeper%'{same}
                                 AND o.controller IN (
                                   SELECT k.controller FROM views k
                                   WHERE k.source LIKE 'controller%'{inner})))""",
            "controllers": f"""
            SELECT {run}v.ns, v.asked_ns, v.source, v.controller, v.epoch
            FROM views v
            WHERE v.subject = 'controller' AND v.controller IS NOT NULL
              AND (v.source LIKE 'zookeeper%'
                   OR (v.source LIKE 'controller%' AND v.controller >= 0
                       AND NOT EXISTS (SELECT 1 FROM views o WHERE o.source LIKE 'zookeeper%'{same})))""",
        }
    )


VIEWS = views()
"""Those over the tables of one run."""
