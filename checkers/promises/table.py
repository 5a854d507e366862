"""The promise table: what Kafka promises, and what it does not, as data.

The rows are in order: the first row that lists a finding's class and whose conditions all hold decides it.
`checkers.promises.conditions` defines the conditions; a leading `not ` negates one. Imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

LOSS_CLASSES = (
    *("lost", "lost_after_read", "moved", "diverged", "offset_conflict", "aborted_read"),
    "truncated",
)
"""Classes that say that a message was taken out of the log, or out of one place in the log."""
STEPS = ("skip", "non_monotonic", "group_reset")
"""Classes about the order in which a reader receives records."""
UNEXPLAINED = ("process_exit", "server_error", "config_mismatch")
"""Classes that are not about a promise: each is one that no fault explains."""
STRAY = ("foreign", "misrouted", "overwritten")
"""Classes about records that do not belong where they are."""


COMMITS = ("replay", "commit_lost", "stale_offset")
"""Classes about the committed offsets of a group."""
SHARES = ("accept_lost", "not_delivered", "over_delivered", "held_twice", "lock_outlived", "archived")
"""Classes about the records that share groups are handed."""
APPLICATIONS = ("not_counted", "counted_twice", "store_differs")
"""Classes about applications of Kafka Streams."""
TRANSACTIONS = ("lost_transaction", "torn_transaction", "hanging_transaction")
"""Classes about what ended a transaction."""


@dataclass(frozen=True)
class StatementSource:
    """Where a statement comes from: a section of Kafka's documentation, a KIP, an issue, or code."""

    text: str


def _docs(section: str) -> StatementSource:
    return StatementSource(f"Kafka documentation, {section}")


REPLICATION = _docs("Design, Replication")
UNCLEAN = _docs("Design, Replication, Unclean leader election: what if they all die?")
AVAILABILITY = _docs("Design, Replication, Availability and durability guarantees")
SEMANTICS = _docs("Design, Message delivery semantics")
GUARANTEES = _docs("Introduction, Guarantees")
FILES = _docs("Design, Persistence, Don't fear the filesystem")
FLUSH = _docs("Operations, Application vs. OS flush management; topic configuration `flush.messages`")
ACKS = _docs("producer configuration `acks`")
RETRIES = _docs("producer configurations `retries` and `max.in.flight.requests.per.connection`")
IDEMPOTENCE = _docs("producer configuration `enable.idempotence`")
MIN_INSYNC = _docs("topic configuration `min.insync.replicas`")
UNCLEAN_KEY = _docs("topic configuration `unclean.leader.election.enable`")
LAG = _docs("broker configuration `replica.lag.time.max.ms`")
OFFSET_RESET = _docs("consumer configuration `auto.offset.reset`")
OFFSETS = _docs("broker configuration `offsets.commit.required.acks`")
ISOLATION = _docs("consumer configuration `isolation.level`")
RECORDS = _docs("Implementation, Messages, Record batch (`crc`)")
RETENTION = _docs("topic configurations `retention.ms`, `retention.bytes` and `cleanup.policy`")
COMPACTION = _docs("Design, Log Compaction; topic configuration `delete.retention.ms`")
KIP_932 = StatementSource("KIP-932, Queues for Kafka: In-flight records, Durable share-partition state")
KIP_129 = StatementSource("KIP-129, Streams Exactly-Once Semantics")
KIP_447 = StatementSource("KIP-447, Producer scalability for exactly once semantics")
KIP_107 = StatementSource("KIP-107, Add deleteRecordsBefore() API in AdminClient")
KIP_98 = StatementSource("KIP-98, Exactly Once Delivery and Transactional Messaging")
KIP_101 = StatementSource("KIP-101, Alter Replication Protocol to use Leader Epoch (KAFKA-1211)")
KIP_106 = StatementSource("KIP-106, Change Default unclean.leader.election.enable from True to False")
KIP_664 = StatementSource("KIP-664, Provide tooling to detect and abort hanging transactions")
KIP_854 = StatementSource("KIP-854, Separate configuration for producer ID expiry")
KIP_890 = StatementSource("KIP-890, Transactions Server-Side Defense")
KIP_966 = StatementSource("KIP-966, Eligible Leader Replicas")
APPEND = StatementSource("code: Partition.appendRecordsToLeader, ReplicaManager.appendRecords")
OFFSETS_CODE = StatementSource("code: GroupMetadataManager.getOffsets, GroupCoordinator.onResignation")
ISR_CODE = StatementSource("code: Partition.maybeExpandIsr, Partition.maybeShrinkIsr")
RETENTION_CODE = StatementSource("code: UnifiedLog.deleteRetentionMsBreachedSegments")
SEQUENCES = StatementSource("code: ProducerAppendInfo.checkSequence, ProducerStateManager")
NO_STATEMENT = StatementSource("the documentation makes no statement")


@dataclass(frozen=True, kw_only=True)
class PromiseRow:
    """One row: for findings of ``classes`` under the conditions ``when``, what Kafka promises."""

    name: str
    classes: tuple[str, ...]
    when: tuple[str, ...]
    promised: bool
    """Whether Kafka promises that there is no such finding."""
    brief: str
    """The row in half a sentence, for the terminal."""
    says: str
    sources: tuple[StatementSource, ...]


ROWS: tuple[PromiseRow, ...] = (
    # ---- copies that differ, and records that do not belong
    PromiseRow(
        name="storage-damage",
        classes=("corrupt", "diverged", *STRAY),
        when=("damaged by a storage fault",),
        promised=False,
        brief="bytes that a storage fault changed are not repaired",
        says="Kafka does not repair a log file whose bytes change or whose end vanishes on disk. Consumers "
        "and followers refuse a batch whose checksum is wrong.",
        sources=(RECORDS,),
    ),
    PromiseRow(
        name="checksum",
        classes=("corrupt",),
        when=(),
        promised=True,
        brief="a record comes back as it was sent",
        says="A record has the bytes that the producer sent: brokers check a batch's checksum on append and "
        "on replication.",
        sources=(RECORDS,),
    ),
    PromiseRow(
        name="records-as-sent",
        classes=STRAY,
        when=(),
        promised=True,
        brief="a partition holds only records that were sent to it",
        says="A partition holds only records that a producer sent to that partition.",
        sources=(GUARANTEES, SEMANTICS),
    ),
    PromiseRow(
        name="above-high-watermark",
        classes=("diverged",),
        when=("above the high watermark",),
        promised=False,
        brief="a follower may lack what is not committed yet",
        says="Records above the high watermark are not committed. In-sync followers may lack them for up to "
        "`replica.lag.time.max.ms`.",
        sources=(REPLICATION, LAG),
    ),
    PromiseRow(
        name="identical-replicas",
        classes=("diverged",),
        when=("in-sync replicas disagree",),
        promised=True,
        brief="in-sync replicas hold the same records at the same offsets",
        says="All in-sync replicas have the same records at the same offsets up to the high watermark, "
        "whatever failed before and whatever `acks` was. This holds even if records were lost.",
        sources=(REPLICATION, KIP_101),
    ),
    # ---- what readers are given, where the message decides
    PromiseRow(
        name="refused-after-retry",
        classes=("phantom", "aborted_read"),
        when=("the client reported a failure", "not one attempt"),
        promised=False,
        brief="the last error of a client that retries says nothing about earlier attempts",
        says="A client that retries reports the error of its last attempt. An earlier attempt may have been "
        "written.",
        sources=(SEMANTICS, RETRIES),
    ),
    PromiseRow(
        name="refused-not-written",
        classes=("phantom", "aborted_read"),
        when=("the client reported a failure",),
        promised=True,
        brief="a refused write is not in the log",
        says="An error that the broker raises before the append (such as NOT_ENOUGH_REPLICAS) means that "
        "this attempt was not written.",
        sources=(APPEND, MIN_INSYNC),
    ),
    PromiseRow(
        name="read-committed",
        classes=("aborted_read",),
        when=("the transaction was aborted",),
        promised=True,
        brief="read_committed readers never receive what was aborted",
        says="With `isolation.level=read_committed` a consumer receives only messages of committed "
        "transactions. With `read_uncommitted` it also receives aborted ones.",
        sources=(ISOLATION, KIP_98),
    ),
    # ---- losses, whatever acks was
    PromiseRow(
        name="clock-ahead",
        classes=("lost", "lost_after_read"),
        when=("a broker's clock was ahead",),
        promised=False,
        brief="retention counts with the broker's clock, which is trusted",
        says="A broker removes a segment when `retention.ms` have passed from its newest timestamp to the "
        "time that the broker's own clock shows. If that clock is ahead, records are removed too early; if "
        "it is the leader's, from every replica.",
        sources=(RETENTION, RETENTION_CODE),
    ),
    # ---- losses: acks=0 and acks=1
    PromiseRow(
        name="acks-0",
        classes=LOSS_CLASSES,
        when=("acks 0", "not received by a reader"),
        promised=False,
        brief="acks=0: the broker confirms nothing",
        says="With `acks=0` nothing is confirmed: no replica needs to have the message.",
        sources=(ACKS,),
    ),
    PromiseRow(
        name="acks-1-leader",
        classes=LOSS_CLASSES,
        when=("acks 1", "not received by a reader", "the leader failed or was deposed"),
        promised=False,
        brief="acks=1: what the next leader had not copied may be lost",
        says="With `acks=1` only the leader confirms. If it crashes, loses its disk, or another leader is "
        "elected while it is isolated, messages that no other in-sync replica had copied are lost. "
        "`min.insync.replicas` makes no difference.",
        sources=(ACKS, AVAILABILITY),
    ),
    PromiseRow(
        name="acks-1-steady",
        classes=LOSS_CLASSES,
        when=("acks 1", "not received by a reader"),
        promised=True,
        brief="acks=1: a message is kept as long as its leader leads",
        says="With `acks=1` a message is kept as long as the leader that confirmed it does not fail and is "
        "not deposed.",
        sources=(ACKS, REPLICATION),
    ),
    # ---- losses: committed messages; the rows above decide all others
    PromiseRow(
        name="unclean-by-operator",
        classes=LOSS_CLASSES,
        when=("an operator elected an unclean leader",),
        promised=False,
        brief="an operator elected a leader that was not in sync",
        says="An unclean election that an operator asks for (`kafka-leader-election.sh --election-type "
        "unclean`) may elect a replica that lacks committed messages.",
        sources=(UNCLEAN, StatementSource("KIP-460, Admin Leader Election RPC")),
    ),
    PromiseRow(
        name="unclean-enabled",
        classes=LOSS_CLASSES,
        when=("an unclean leader was elected", "unclean election is enabled"),
        promised=False,
        brief="unclean.leader.election.enable=true: a leader out of sync may lack what was committed",
        says="With `unclean.leader.election.enable=true` a replica outside the ISR may become leader. "
        "Messages that it lacks are lost, even with `acks=all` and any `min.insync.replicas`. `true` was the "
        "default before 0.11.0.",
        sources=(UNCLEAN_KEY, UNCLEAN, KIP_106),
    ),
    PromiseRow(
        name="isr-of-one",
        classes=LOSS_CLASSES,
        when=(
            "the in-sync replicas were down and lost data",
            "the ISR was one replica",
            "min.insync.replicas is 1",
        ),
        promised=False,
        brief="min.insync.replicas=1: the only in-sync replica lost its data",
        says="With `min.insync.replicas=1` the ISR may shrink to the leader, and `acks=all` then waits for "
        "the leader alone. If that replica loses its data (power loss before the flush, lost disk), "
        "messages are lost although other replicas exist.",
        sources=(MIN_INSYNC, AVAILABILITY),
    ),
    PromiseRow(
        name="eligible-leader-replicas",
        classes=LOSS_CLASSES,
        when=(
            "the in-sync replicas were down and lost data",
            "eligible leader replicas protect it",
        ),
        promised=True,
        brief="eligible leader replicas: fewer than min.insync.replicas unclean losses lose nothing",
        says="With eligible leader replicas (KRaft, 4.0 and later, default of new clusters from 4.1) a "
        "committed message is kept as long as fewer than `min.insync.replicas` replicas shut down "
        "uncleanly or lost their data.",
        sources=(KIP_966,),
    ),
    PromiseRow(
        name="last-replica-standing",
        classes=LOSS_CLASSES,
        when=("the in-sync replicas were down and lost data", "the ISR was one replica"),
        promised=False,
        brief="the last in-sync replica lost its data",
        says="A message that was committed to several replicas depends on the last one when the others have "
        "left the ISR. If that one loses its data and returns, it leads with what it has left, and the "
        "others truncate. `min.insync.replicas` does not prevent it without eligible leader replicas.",
        sources=(UNCLEAN, KIP_966),
    ),
    PromiseRow(
        name="all-in-sync-replicas-lost-data",
        classes=LOSS_CLASSES,
        when=("the in-sync replicas were down and lost data",),
        promised=False,
        brief="all in-sync replicas were down at once, and at least one lost unflushed data",
        says="Kafka relies on replication, not on fsync. If all in-sync replicas are down at the same time "
        "and one of them lost what it had not flushed (power loss) or its disk, that one may lead "
        "afterwards, and the message is lost.",
        sources=(UNCLEAN, FLUSH),
    ),
    PromiseRow(
        name="removed-as-configured",
        classes=("lost", "lost_after_read"),
        when=("before the log start offset",),
        promised=True,
        brief="the beginning of a log is removed by retention or on request only",
        says="A log's beginning is removed by retention (`retention.ms`, `retention.bytes`), by a "
        "DeleteRecords request, or with its topic, and for no other reason. What they remove is `retired`, "
        "not lost.",
        sources=(RETENTION, KIP_107),
    ),
    PromiseRow(
        name="clean-election",
        classes=LOSS_CLASSES,
        when=("an unclean leader was elected",),
        promised=True,
        brief="only in-sync replicas become leader",
        says="With `unclean.leader.election.enable=false` (default since 0.11.0) only a replica of the ISR "
        "becomes leader, and it has every committed message. Without such a replica the partition waits.",
        sources=(UNCLEAN_KEY, UNCLEAN, KIP_106),
    ),
    PromiseRow(
        name="power-loss-flushed",
        classes=LOSS_CLASSES,
        when=("a power loss of replicas that flush every message",),
        promised=True,
        brief="flush.messages=1: what was acknowledged survives a power loss",
        says="With `flush.messages=1` (or `log.flush.interval.messages=1`) a replica syncs each append to "
        "disk before it answers, so that committed messages survive a power loss of every replica.",
        sources=(FLUSH,),
    ),
    PromiseRow(
        name="crash-of-all",
        classes=LOSS_CLASSES,
        when=("all in-sync replicas were down at once",),
        promised=True,
        brief="a crash of every in-sync replica loses nothing that is in the page cache or on disk",
        says="If the processes of all in-sync replicas die and none loses data, the partition waits for one "
        "of them and keeps every committed message: a broker writes to the file system before it answers, "
        "and the page cache survives the process.",
        sources=(UNCLEAN, FILES),
    ),
    PromiseRow(
        name="power-loss-of-some",
        classes=LOSS_CLASSES,
        when=("a replica lost its data",),
        promised=True,
        brief="data lost on some replicas is copied again from an in-sync replica that is alive",
        says="If replicas lose their data (power loss before the flush, lost disk) and one in-sync replica "
        "stays alive, every committed message is kept: a returning replica copies the missing messages "
        "before it rejoins the ISR. With `min.insync.replicas=n` this covers the loss of n-1 "
        "replicas, for example of one AZ of three with n=2.",
        sources=(REPLICATION, AVAILABILITY),
    ),
    PromiseRow(
        name="crash-of-some",
        classes=LOSS_CLASSES,
        when=("a replica's process ended",),
        promised=True,
        brief="a committed message survives crashes as long as an in-sync replica is alive",
        says="A committed message (`acks=all`, or read by a consumer) is kept as long as one in-sync replica "
        "is alive at all times: with replication factor r and a full ISR, through r-1 crashes.",
        sources=(REPLICATION, AVAILABILITY),
    ),
    PromiseRow(
        name="partition",
        classes=LOSS_CLASSES,
        when=("a fault of the network",),
        promised=True,
        brief="a network partition does not lose committed messages",
        says="A committed message survives any partition of the network. An isolated leader cannot commit "
        "without its ISR. If the ISR had shrunk to the leader before the isolation, the partition becomes "
        "unavailable, but loses nothing. This holds with `min.insync.replicas=1` as well.",
        sources=(REPLICATION, UNCLEAN, KIP_101),
    ),
    PromiseRow(
        name="committed",
        classes=LOSS_CLASSES,
        when=(),
        promised=True,
        brief="a committed message is kept",
        says="A committed message is kept without faults, and under pauses, slow links, full disks, "
        "restarts, reassignments and clean elections.",
        sources=(REPLICATION,),
    ),
    # ---- duplicates
    PromiseRow(
        name="duplicate-of-another-session",
        classes=("duplicated",),
        when=("idempotent", "written by two producer sessions"),
        promised=False,
        brief="idempotence ends with the producer session",
        says="Idempotence covers one producer session (one producer id). A message that is sent again by "
        "another session, for example after a restart of the producer, may be written twice.",
        sources=(IDEMPOTENCE, KIP_98),
    ),
    PromiseRow(
        name="duplicate-after-expiration",
        classes=("duplicated",),
        when=("idempotent", "the producer id may have expired"),
        promised=False,
        brief="brokers forget a producer that is idle for longer than producer.id.expiration.ms",
        says="A broker forgets the sequence numbers of a producer that has written nothing to a partition "
        "for `producer.id.expiration.ms`. A retry that arrives later is written again.",
        sources=(_docs("broker configuration `producer.id.expiration.ms`"), KIP_854),
    ),
    PromiseRow(
        name="duplicate-idempotent",
        classes=("duplicated",),
        when=("idempotent",),
        promised=True,
        brief="an idempotent producer writes each message once",
        says="With `enable.idempotence=true` (`acks=all`, at most 5 requests in flight) retries write a "
        "message once per partition and producer session.",
        sources=(IDEMPOTENCE, KIP_98, SEQUENCES),
    ),
    PromiseRow(
        name="duplicate-one-attempt",
        classes=("duplicated",),
        when=("one attempt",),
        promised=True,
        brief="a message that is sent once is written at most once",
        says="Without retries a message is written at most once.",
        sources=(SEMANTICS,),
    ),
    PromiseRow(
        name="duplicate-retry",
        classes=("duplicated",),
        when=(),
        promised=False,
        brief="at least once: a retry without idempotence may write a message twice",
        says="A producer that retries without idempotence delivers at least once: if an answer is lost, the "
        "retry is written as well.",
        sources=(SEMANTICS, RETRIES),
    ),
    # ---- order of one producer in one partition
    PromiseRow(
        name="order-of-connections",
        classes=("out_of_order",),
        when=("a connection for each message", "sent before the earlier one was answered"),
        promised=False,
        brief="requests on different connections have no order",
        says="Requests that are under way on different connections at the same time are appended in the "
        "order of their arrival.",
        sources=(
            GUARANTEES,
            StatementSource("code: SocketServer.Processor (order within one connection only)"),
        ),
    ),
    PromiseRow(
        name="order-idempotent",
        classes=("out_of_order",),
        when=("idempotent",),
        promised=True,
        brief="an idempotent producer keeps its order",
        says="With idempotence a partition keeps the order of one producer session with up to 5 requests in "
        "flight, retries included.",
        sources=(
            IDEMPOTENCE,
            RETRIES,
            StatementSource("KAFKA-5494 (more than one request in flight, 1.0.0)"),
        ),
    ),
    PromiseRow(
        name="order-retries",
        classes=("out_of_order",),
        when=("not one attempt", "not one request in flight"),
        promised=False,
        brief="retries with several requests in flight may reorder messages without idempotence",
        says="Without idempotence, and with more than one request in flight, a retry may be appended after "
        "later messages. librdkafka counts requests in flight for each broker: even with a limit of one, a "
        "message that the old leader has not answered may be appended after those that were sent to the new "
        "leader.",
        sources=(
            RETRIES,
            StatementSource(
                "librdkafka configuration `message.send.max.retries` (retrying may cause reordering)"
            ),
        ),
    ),
    PromiseRow(
        name="order",
        classes=("out_of_order",),
        when=(),
        promised=True,
        brief="messages of one producer are appended in the order of sending",
        says="With one request in flight, or without retries, a partition keeps the order in which one "
        "producer sent.",
        sources=(GUARANTEES, RETRIES),
    ),
    # ---- readers
    PromiseRow(
        name="reset-by-retention",
        classes=("group_reset",),
        when=("the position was below the log start", "a documented removal"),
        promised=False,
        brief="retention and requests remove records whether a group has read them or not",
        says="Retention and requests remove records whether a group has received them or not. A member whose "
        "position lies below the log start offset continues where `auto.offset.reset` says.",
        sources=(_docs("topic configurations `retention.ms` and `retention.bytes`"), KIP_107, OFFSET_RESET),
    ),
    PromiseRow(
        name="reads-after-operator-election",
        classes=STEPS,
        when=("an operator elected an unclean leader",),
        promised=False,
        brief="an unclean election that an operator asked for may send readers back or ahead",
        says="An unclean election that an operator asks for may end the log before a reader's position, like "
        "one that the controller makes.",
        sources=(UNCLEAN, StatementSource("KIP-460, Admin Leader Election RPC")),
    ),
    PromiseRow(
        name="reads-after-unclean-election",
        classes=STEPS,
        when=("an unclean leader was elected", "unclean election is enabled"),
        promised=False,
        brief="an unclean election may send readers back or ahead",
        says="After an unclean election the log may end before a reader's position; the reader is reset, and "
        "may go back or pass over records.",
        sources=(UNCLEAN_KEY, StatementSource("KIP-320, Allow fetchers to detect and handle log truncation")),
    ),
    PromiseRow(
        name="reads-after-data-loss",
        classes=STEPS,
        when=("the in-sync replicas were down and lost data",),
        promised=False,
        brief="data lost on all in-sync replicas may send readers back or ahead",
        says="The same applies if all in-sync replicas were down and one of them lost data.",
        sources=(UNCLEAN, FLUSH),
    ),
    PromiseRow(
        name="read-order",
        classes=STEPS,
        when=(),
        promised=True,
        brief="a reader receives every record in the order of the log",
        says="A consumer receives the records of a partition in the order of their offsets and leaves out "
        "none that its isolation level allows, unless it seeks.",
        sources=(GUARANTEES,),
    ),
    PromiseRow(
        name="stale-coordinator",
        classes=("replay", "stale_offset"),
        when=("a replaced coordinator answered",),
        promised=False,
        brief="a coordinator that does not know its successor answers with an older offset",
        says="A coordinator answers for a group until it learns that another broker leads the group's "
        "partition of `__consumer_offsets`. If it is cut off, it goes on answering with old offsets; Kafka "
        "does not promise that an answer names the newest one.",
        sources=(OFFSETS_CODE,),
    ),
    PromiseRow(
        name="replay-by-two-owners",
        classes=("replay",),
        when=("two members owned the partition",),
        promised=False,
        brief="a member that does not know of its successor receives what that one has committed",
        says="A member that learns late that it has lost its partitions continues to receive their messages, "
        "including messages that its successor has committed.",
        sources=(_docs("consumer configurations `session.timeout.ms` and `max.poll.interval.ms`"),),
    ),
    PromiseRow(
        name="offset-commit-acks",
        classes=COMMITS,
        when=("offset commits do not wait for all replicas",),
        promised=False,
        brief="offsets.commit.required.acks is not -1: a committed offset may be lost",
        says="With `offsets.commit.required.acks` other than -1 a committed offset may be lost with its "
        "coordinator.",
        sources=(OFFSETS,),
    ),
    PromiseRow(
        name="offsets-topic-lost-data",
        classes=COMMITS,
        when=("committed offsets may be lost",),
        promised=False,
        brief="the offsets topic may have lost what was committed",
        says="Committed offsets are messages of `__consumer_offsets` and are lost if that topic loses "
        "committed messages without breaking a promise.",
        sources=(OFFSETS, UNCLEAN),
    ),
    PromiseRow(
        name="committed-offsets",
        classes=COMMITS,
        when=(),
        promised=True,
        brief="a group continues at its committed offset",
        says="A committed offset is kept like a message with `acks=all`. A group may receive again only "
        "what it had not committed.",
        sources=(SEMANTICS, OFFSETS),
    ),
    PromiseRow(
        name="offset-retention",
        classes=("offset_expired",),
        when=(),
        promised=False,
        brief="committed offsets expire after offsets.retention.minutes",
        says="Committed offsets are kept for `offsets.retention.minutes` (7 days by default, 1 day before "
        "2.0) after the group became empty; those of a client that is no member, and of a group with "
        "`group.protocol=consumer`, after the last commit; before 2.1 all of them after their commit. Then a "
        "member starts where `auto.offset.reset` says.",
        sources=(
            _docs("broker configuration `offsets.retention.minutes`"),
            StatementSource("KIP-211, Revise Expiration Semantics of Consumer Group Offsets (KAFKA-4682)"),
            StatementSource("KIP-186, Increase offsets retention default to 7 days"),
            StatementSource(
                "code: GroupMetadata.removeExpiredOffsets, ConsumerGroup.offsetExpirationCondition"
            ),
            OFFSET_RESET,
        ),
    ),
    PromiseRow(
        name="offset-outside-log",
        classes=("offset_outside",),
        when=(),
        promised=False,
        brief="a committed offset is kept although the log begins after it or ends before it",
        says="A committed offset is a number that the group's coordinator keeps. If retention removes the "
        "records at it, or the log is truncated to before it, members start where `auto.offset.reset` says.",
        sources=(OFFSET_RESET, RETENTION),
    ),
    PromiseRow(
        name="group-availability",
        classes=("group_stalled",),
        when=(),
        promised=False,
        brief="a group stands still while it has no coordinator",
        says="A group needs the leader of its partition of `__consumer_offsets` to join, to be assigned "
        "partitions and to commit. Kafka does not say how long that may take; more replicas of that topic "
        "make it more available.",
        sources=(
            _docs(
                "broker configuration `offsets.topic.replication.factor` (set higher to ensure availability)"
            ),
            REPLICATION,
        ),
    ),
    PromiseRow(
        name="ownership",
        classes=("double_ownership",),
        when=(),
        promised=False,
        brief="a member may learn late that another one owns its partition",
        says="The coordinator assigns a partition to one member of a generation. A member that does not hear "
        "from it, or does not poll, learns late that it has lost its partitions. Its commits are refused; "
        "other effects of its work are not.",
        sources=(_docs("consumer configurations `session.timeout.ms` and `max.poll.interval.ms`"),),
    ),
    # ---- share groups
    PromiseRow(
        name="accepts-after-lost-states",
        classes=("accept_lost",),
        when=("committed share states were lost",),
        promised=False,
        brief="what took committed records of `__share_group_state` took accepts with them",
        says="An accept is a record of `__share_group_state`, which is replicated like any topic. What "
        "loses committed records there loses accepts. The records are delivered again.",
        sources=(KIP_932, REPLICATION),
    ),
    PromiseRow(
        name="accepts-beside-stale-leaders",
        classes=("accept_lost",),
        when=("an earlier leader had handed it out",),
        promised=False,
        brief="what a replaced leader has handed out comes again, also if it was accepted meanwhile",
        says="The states of a share partition are in its leader's memory. A leader that was deposed without "
        "noticing learns of no accept that its successor has stored, and hands its records to members that "
        "can reach it. A member's client may also have kept a record from it, which its next poll returns. "
        "The accepts are not lost: the stored states have them.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="accepts",
        classes=("accept_lost",),
        when=(),
        promised=True,
        brief="an accept that was carried out is stored and replicated",
        says="The leader of a partition answers an acknowledgement after its new state has been stored in "
        "`__share_group_state` and replicated. A record that was accepted is not delivered again.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="deliveries-over-failovers",
        classes=("over_delivered", "held_twice"),
        when=("a new leader took over the share partition",),
        promised=False,
        brief="a new leader knows neither of records in members' hands nor of their last deliveries",
        says="That a record is in a member's hands is in the memory of the partition's leader alone. A new "
        "leader hands it to the next member, and counts that delivery as if the last one had not been.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="records-of-gone-members",
        classes=("held_twice",),
        when=("a member of the share group was gone",),
        promised=False,
        brief="a leader takes records back from a member whose connection is gone",
        says="A leader keeps records for a member as long as their share session lasts. When it ends, the "
        "records are available again, whatever is left of the time of the lock.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="late-acknowledgement-of-done-records",
        classes=("lock_outlived",),
        when=("the share group was done with the record",),
        promised=False,
        brief="a leader confirms acknowledgements of records before the start offset",
        says="A leader refuses an acknowledgement of a record that is available again or in another member's "
        "hands. If the group is done with the record, and the start offset is beyond it, the leader confirms "
        "the acknowledgement, whoever sends it. It changes nothing.",
        sources=(KIP_932, StatementSource("`SharePartition.acknowledge` in Kafka 4.4")),
    ),
    PromiseRow(
        name="one-holder",
        classes=("over_delivered", "held_twice", "lock_outlived"),
        when=(),
        promised=True,
        brief="a record is in the hands of one member, for the time of the lock, up to a number of times",
        says="A record that a member has been handed is locked for `share.record.lock.duration.ms`, and no "
        "other member is handed it meanwhile. Then the member's acknowledgement is refused. It is delivered "
        "`share.delivery.count.limit` times at most.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="archived-at-the-limit",
        classes=("archived",),
        when=("the record had reached its delivery limit",),
        promised=False,
        brief="a record that was delivered as often as the limit allows is archived",
        says="After `share.delivery.count.limit` deliveries without an accept, a share group gives a record "
        "up, whoever released it or let its lock run out.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="archived-after-lost-records",
        classes=("archived",),
        when=("the partition's records were replaced", "the in-sync replicas were down and lost data"),
        promised=False,
        brief="a share group knows records by their offsets, and is done with whatever has one of those",
        says="The stored states of a share group name offsets. If the partition loses records, new ones get "
        "their offsets, and a group that was done with the old ones is not handed the new ones.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="archived",
        classes=("archived",),
        when=(),
        promised=True,
        brief="a share group is done with a record only if a member says so, or at the limit",
        says="A record that was neither accepted nor rejected stays available until the limit of deliveries "
        "is reached, or until retention removes it.",
        sources=(KIP_932,),
    ),
    PromiseRow(
        name="share-availability",
        classes=("not_delivered",),
        when=(),
        promised=False,
        brief="Kafka does not say how soon a share group is handed a record",
        says="A share group needs the leader of the partition, its coordinator, and the leader of its "
        "partition of `__share_group_state` to be handed records. Kafka does not say how long that may take.",
        sources=(KIP_932,),
    ),
    # ---- applications of Kafka Streams
    PromiseRow(
        name="streams-at-least-once",
        classes=("counted_twice", "store_differs"),
        when=("the application processes at least once",),
        promised=False,
        brief="processing.guarantee=at_least_once: what was not committed is processed again",
        says="With `processing.guarantee=at_least_once`, the default, an instance writes its output "
        "before it commits its progress. After a failure, what comes after the last commit is processed "
        "again: it may be written and counted twice, but is not left out.",
        sources=(_docs("Kafka Streams configuration `processing.guarantee`"), KIP_129),
    ),
    PromiseRow(
        name="streams-after-data-loss",
        classes=("not_counted", "counted_twice", "store_differs"),
        when=("a topic lost what the application wrote",),
        promised=False,
        brief="an unclean leader or a storage fault takes what was committed to the topics of an application",
        says="Output, changelogs, progress and transactions are records of topics. Whatever loses committed "
        "records of topics loses those of an application: stores that are restored afterwards lack them, and "
        "what it has lost of its progress it processes again.",
        sources=(KIP_129, REPLICATION),
    ),
    PromiseRow(
        name="streams-exactly-once",
        classes=("not_counted", "counted_twice", "store_differs"),
        when=(),
        promised=True,
        brief="output, changelog and progress are committed together",
        says="With `processing.guarantee=exactly_once_v2`, the records of output and changelogs and the "
        "progress in the source are committed in one transaction. Readers of committed records get the "
        "outcome of each message once, and a store that is restored from its changelog has counted it once. "
        "At-least-once processing leaves no message out either.",
        sources=(KIP_129, KIP_447, _docs("Kafka Streams configuration `processing.guarantee`")),
    ),
    # ---- transactions
    PromiseRow(
        name="transaction-ended-by-operator",
        classes=("lost_transaction", "torn_transaction"),
        when=("an operator ended the transaction",),
        promised=False,
        brief="an operator aborted the transaction",
        says="`kafka-transactions abort` writes an abort marker whatever the coordinator had decided.",
        sources=(KIP_664,),
    ),
    PromiseRow(
        name="transaction-marker-unclean",
        classes=TRANSACTIONS,
        when=("the marker of the transaction is missing", "an unclean leader was elected"),
        promised=False,
        brief="an unclean election may lose the marker that ends a transaction",
        says="A marker is a record: an unclean election may lose it. Then the next marker of the producer "
        "decides, or none.",
        sources=(UNCLEAN, KIP_98),
    ),
    PromiseRow(
        name="transaction-hung-unclean",
        classes=("hung_transaction",),
        when=("an unclean leader was elected",),
        promised=False,
        brief="an unclean election may lose the marker that ends a transaction",
        says="The same during the run: the new leader does not know that the transaction has ended, and "
        "its coordinator does not write the marker again.",
        sources=(UNCLEAN, KIP_98),
    ),
    PromiseRow(
        name="transaction-marker-under-fault",
        classes=("hanging_transaction",),
        when=("a fault stands at the end",),
        promised=False,
        brief="the coordinator cannot reach the leader to write the marker",
        says="The coordinator writes markers as soon as it reaches the leaders; Kafka does not say when.",
        sources=(KIP_98,),
    ),
    PromiseRow(
        name="transaction-ends",
        classes=("hanging_transaction", "hung_transaction"),
        when=(),
        promised=True,
        brief="the coordinator ends every transaction",
        says="Every transaction ends in every partition: as the application asked or, after "
        "`transaction.timeout.ms`, by an abort.",
        sources=(KIP_98, KIP_890),
    ),
    PromiseRow(
        name="transaction-atomicity",
        classes=("lost_transaction", "torn_transaction"),
        when=(),
        promised=True,
        brief="a transaction is committed as a whole or not at all, and as the application was told",
        says="All messages of a transaction are committed or none is, over all partitions; an acknowledged "
        "commit is a commit.",
        sources=(KIP_98, SEMANTICS),
    ),
    PromiseRow(
        name="transaction-isolation",
        classes=("precommitted_read", "circular_read"),
        when=(),
        promised=True,
        brief="read_committed readers receive nothing before it is committed",
        says="With `isolation.level=read_committed` nobody receives a message before its transaction is "
        "committed: no transaction reads its own messages, and no two read each other's.",
        sources=(ISOLATION, KIP_98),
    ),
    PromiseRow(
        name="transaction-fencing",
        classes=("fenced_write_read",),
        when=(),
        promised=True,
        brief="a producer with the same transactional.id fences its predecessor",
        says="After a producer has initialised, nothing that a predecessor with the same `transactional.id` "
        "writes is committed.",
        sources=(KIP_98,),
    ),
    # ---- the cluster at the end
    PromiseRow(
        name="isr-under-fault",
        classes=("not_converged",),
        when=("a fault stands at the end",),
        promised=False,
        brief="a replica that a fault still holds back need not be in sync",
        says="A replica that is down, cut off or slowed need not be in the ISR.",
        sources=(REPLICATION, LAG),
    ),
    PromiseRow(
        name="isr-rejoins",
        classes=("not_converged",),
        when=("time to rejoin the ISR",),
        promised=True,
        brief="a replica that has caught up rejoins the ISR",
        says="A replica that is alive and has caught up with the leader's log end offset rejoins the ISR "
        "without an operator.",
        sources=(REPLICATION, ISR_CODE),
    ),
    PromiseRow(
        name="process-exit",
        classes=("process_exit",),
        when=(),
        promised=False,
        brief="Kafka promises nothing about a single process",
        says="Kafka makes no promise about a single process, only that the data outlives it.",
        sources=(NO_STATEMENT,),
    ),
    PromiseRow(
        name="log-lines",
        classes=("server_error",),
        when=(),
        promised=False,
        brief="Kafka promises nothing about log lines",
        says="Kafka promises nothing about the lines in its log files.",
        sources=(NO_STATEMENT,),
    ),
    PromiseRow(
        name="configuration",
        classes=("config_mismatch",),
        when=(),
        promised=False,
        brief="a dynamic configuration may override what was asked for",
        says="A broker's or topic's dynamic configuration overrides its file. The table uses effective "
        "values.",
        sources=(_docs("Configuration, Updating broker configs"),),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement that decides no finding, but that readers of the table look for."""

    name: str
    says: str
    sources: tuple[StatementSource, ...]


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        name="retention",
        says="With `cleanup.policy=delete` Kafka removes the oldest segments of a log when their newest "
        "record is older than `retention.ms`, or when the log without them still has `retention.bytes`. It "
        "does not matter whether consumers have received the records. The age of a record is that of its "
        "timestamp, which the producer may choose, unless `message.timestamp.type=LogAppendTime`.",
        sources=(RETENTION, _docs("topic configuration `message.timestamp.type`")),
    ),
    Statement(
        name="compaction",
        says="With `cleanup.policy=compact` Kafka keeps at least the newest record of each key, and removes "
        "older ones. A record without a value removes its key, and is itself removed after "
        "`delete.retention.ms`.",
        sources=(COMPACTION,),
    ),
    Statement(
        name="deletion",
        says="A DeleteRecords request removes the records before an offset, and the deletion of a topic all "
        "of its records. A topic that is created again under the same name begins at offset 0.",
        sources=(KIP_107, _docs("Operations, Modifying topics")),
    ),
    Statement(
        name="transaction-time-out",
        says="The coordinator aborts a transaction that is open for longer than the producer's "
        "`transaction.timeout.ms`. A commit that the application asks for later is refused, and the messages "
        "stay in the log as aborted ones.",
        sources=(KIP_98, _docs("producer configuration `transaction.timeout.ms`")),
    ),
    Statement(
        name="outcome-unknown",
        says="A message whose outcome the client does not know (time-out, lost connection, error after the "
        "append) may be in the log or not; neither is a finding.",
        sources=(
            SEMANTICS,
            StatementSource("code: DelayedProduce, Partition.checkEnoughReplicasReachOffset"),
        ),
    ),
    Statement(
        name="min-insync-refuses",
        says="With `acks=all` and fewer in-sync replicas than `min.insync.replicas` the leader refuses "
        "writes (NOT_ENOUGH_REPLICAS). With `acks=0` and `acks=1` it accepts them.",
        sources=(MIN_INSYNC,),
    ),
    Statement(
        name="availability",
        says="Kafka promises nothing about how long a partition is unavailable during a failover.",
        sources=(REPLICATION,),
    ),
    Statement(
        name="transactions-at-once",
        says="The messages of a transaction do not become visible at the same time: each partition has a "
        "marker of its own. An open transaction blocks `read_committed` readers of its partitions.",
        sources=(KIP_98, ISOLATION),
    ),
)


BY_NAME = {row.name: row for row in ROWS}
"""The rows by name."""
