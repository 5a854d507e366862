"""Known bugs of Kafka and its clients that explain a finding, as data.

A bug distinguishes a known finding from a new one; it does not change the judgement. Bugs whose findings no
scenario has to declare are in `harness.kafka.bugs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from checkers.promises.table import LOSS_CLASSES, TRANSACTIONS
from harness.kafka.bugs import BUGS as OF_EVERY_SCENARIO
from harness.kafka.bugs import Bug
from harness.kafka.versions import version_key


@dataclass(frozen=True, kw_only=True)
class KnownBug:
    """A bug explains findings of ``classes`` under the conditions ``when``, in some versions."""

    name: str
    """Its issue or KIP, or its name if there is none."""
    says: str
    classes: tuple[str, ...]
    when: tuple[str, ...]
    since: str | None = None
    """First version that has it; None: no version is excluded."""
    before: str | None = None
    """First version in which it is fixed."""
    contributes: bool = False
    """It is named even if the finding breaks no promise, because it caused the finding."""
    kraft: bool = False
    """It exists in KRaft only."""

    def may_be_in(self, version: tuple[int, ...] | None, mode: str | None) -> bool:
        """Whether a version and mode have it. An unknown version has no bug that is limited to versions."""
        if self.kraft and not (mode or "").startswith("kraft"):
            return False
        if self.since is None and self.before is None:
            return True
        if version is None:
            return False
        return (self.since is None or version >= version_key(self.since)) and (
            self.before is None or version < version_key(self.before)
        )


def _of_isrs(bug: Bug) -> tuple[KnownBug, ...]:
    """What follows from an ISR that stays incomplete."""
    if bug.finding != "not_converged":
        return ()
    incomplete = KnownBug(
        name=bug.jira,
        says=bug.says,
        classes=(bug.finding,),
        when=("an ISR change was never answered",),
        since=bug.since,
        before=bug.before,
    )
    markers = replace(
        incomplete,
        says="the same; the leader refuses the marker that ends a transaction whenever the coordinator "
        "sends it",
        classes=("hanging_transaction",),
        when=("the transaction waits for its marker", "a stuck ISR refuses markers"),
    )
    return incomplete, markers


KNOWN: tuple[KnownBug, ...] = (
    KnownBug(
        name="KIP-101 (KAFKA-1211)",
        says="a follower without leader epochs truncates to its own high watermark, which may lag behind, so "
        "that committed messages are lost or replicas diverge",
        classes=(*LOSS_CLASSES, "out_of_order"),
        when=("records without leader epochs",),
    ),
    KnownBug(
        name="KIP-279 (KAFKA-6361)",
        says="after fast failovers a leader does not know an epoch of its follower, and the logs diverge",
        classes=("diverged", "lost", "lost_after_read"),
        when=("not records without leader epochs", "several elections"),
        since="0.11.0",
        before="2.0.0",
    ),
    KnownBug(
        name="KAFKA-15489 (KAFKA-13621)",
        says="an isolated KRaft controller goes on leading its side; partitions get two leaders although the "
        "links between their brokers are healthy",
        classes=LOSS_CLASSES,
        when=("two controllers led at once",),
        before="3.7.0",
        contributes=True,
        kraft=True,
    ),
    KnownBug(
        name="KAFKA-15468",
        says="a leader of `__transaction_state` loads all transactions again when the ISR of the partition "
        "changes; a state that it was just writing is then completed without its entry",
        classes=("server_error",),
        when=("a transaction's state was not pending",),
        before="3.8.0",
        contributes=True,
        kraft=True,
    ),
    KnownBug(
        name="KAFKA-17754",
        says="a delayed EndTxn request decides a later transaction of the same producer, if the client's "
        "protocol has no epoch for each transaction",
        classes=("aborted_read", *TRANSACTIONS),
        when=("a late marker ended the transaction",),
    ),
    KnownBug(
        name="KIP-890",
        says="a leader appends a write that arrives after its transaction has ended: any before 3.6, later "
        "only if the producer's next transaction has the same partition",
        classes=("aborted_read", "torn_transaction", "hanging_transaction"),
        when=(
            "a write arrived after the transaction had ended",
            "the client names no transaction when it ends one",
        ),
    ),
    KnownBug(
        name="KAFKA-20716",
        says="if an unclean election removes a transaction marker, nobody writes it again",
        classes=TRANSACTIONS,
        when=("the marker of the transaction is missing", "an unclean leader was elected"),
        contributes=True,
    ),
    KnownBug(
        name="KAFKA-20716",
        says="if an unclean election removes a transaction marker, nobody writes it again",
        classes=("hung_transaction",),
        when=("an unclean leader was elected",),
        contributes=True,
    ),
    KnownBug(
        name="KAFKA-20734",
        says="the coordinator takes a partition without a leader for a deleted one, and leaves out the "
        "marker that ends a fenced producer's transaction (docs/findings/marker-skipped-without-leader.md)",
        classes=("fenced_write_read", "hung_transaction"),
        when=("the partition had no leader",),
        since="4.3.0",
        kraft=True,
    ),
    KnownBug(
        name="KAFKA-20734",
        says="the same, of a transaction that the application aborted or that timed out",
        classes=("hanging_transaction",),
        when=("the marker of the transaction is missing", "the partition had no leader"),
        since="4.3.0",
        kraft=True,
    ),
    KnownBug(
        name="librdkafka: implicit acknowledgement",
        says="a broker without state for a producer id accepts any first sequence number (KAFKA-15591); "
        "librdkafka takes the acknowledgement of a later message for that of the earlier ones, which were "
        "never appended (confluent-kafka-go issue 921; docs/findings/idempotent-first-sequence.md)",
        classes=("lost",),
        when=("idempotent", "the client is librdkafka", "acknowledged without an offset"),
    ),
    KnownBug(
        name="librdkafka: leader epoch forgotten",
        says="when all brokers seem to be down, librdkafka starts again from its bootstrap servers (since "
        "2.10) and forgets the leader epochs; it then trusts a stale leader, which answers that the "
        "position is out of range, and the reader starts where `auto.offset.reset` says "
        "(docs/findings/reader-stale-leader.md)",
        classes=("non_monotonic",),
        when=("a stale leader still led",),
    ),
    KnownBug(
        name="new producer epoch after a time-out",
        says="if a message times out, librdkafka and the Java client take a new producer epoch and begin at "
        "sequence number 0; they repeat messages that were sent in the old epoch and have no answer, and the "
        "broker appends them again (KAFKA-14397; librdkafka issue 4953; docs/findings/idempotent-timeout.md)",
        classes=("duplicated",),
        when=("idempotent", "written in two producer epochs"),
    ),
    *(found for bug in OF_EVERY_SCENARIO for found in _of_isrs(bug)),
)
