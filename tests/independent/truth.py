"""The truth about a small history, by brute force, from `docs/findings.md` and `docs/history.md` alone.

``truth_of`` gives the fate of every message and the multiset of findings. The rule of the document is quoted
in backquotes beside the code that applies it.

Findings about a transaction as a whole (`lost_transaction`, `torn_transaction`, `hanging_transaction`,
`hung_transaction`, `fenced_write_read`, `circular_read`, `precommitted_read`) are not among them. Their truth
is in `tests/property/transactions.py` and `tests/anomalies/transactions.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.independent import deliveries, groups, whole_run
from tests.independent.model import (
    Finding,
    History,
    Log,
    MessageId,
    Partition,
    Row,
    TopicPartition,
    message_id,
    partitions_of,
)
from tests.independent.removals import Removals

FATES_WITH_A_FINDING = (
    "lost",
    "lost_after_read",
    "duplicated",
    "moved",
    "overwritten",
    "phantom",
    "corrupt",
)
"""Fates that are findings of their own, one per message; other findings belong to a record or place."""
ODD = ("foreign", "misrouted", "damaged", "unreadable")
"""Kinds of records that are a finding."""


@dataclass
class Truth:
    """The fate of every message, and every anomaly once."""

    fates: dict[MessageId, str] = field(default_factory=dict)
    findings: Counter[Finding] = field(default_factory=Counter)


def truth_of(history: History) -> Truth:
    """The truth; of two equally good references, that of the lower broker id counts."""
    return next(truths_of(history))


def truths_of(history: History) -> Iterator[Truth]:
    """The truth for every choice of the reference that the document allows."""
    partitions = partitions_of(history)
    names = sorted(partitions)
    candidates: list[list[Log | None]] = [[*partitions[name].references()] or [None] for name in names]
    for references in itertools.product(*candidates):
        yield _Judge(history, partitions, dict(zip(names, references, strict=True))).truth()


class _Judge:
    def __init__(
        self,
        history: History,
        partitions: dict[TopicPartition, Partition],
        references: dict[TopicPartition, Log | None],
    ) -> None:
        self.history, self.partitions, self.references = history, partitions, references
        self.home: dict[MessageId, TopicPartition] = {
            message: name for name, partition in partitions.items() for message in partition.sends
        }
        # `If nobody recorded the producers, no record is foreign`
        self.producers_recorded = bool(history.get("sends") or history.get("writers"))
        self.strays = {
            message_id(row)
            for name, partition in partitions.items()
            for log in partition.logs.values()
            for row in log.records.values()
            if self.kind(name, row) == "misrouted"
        }
        self.ends: dict[tuple[int, int], set[str]] = {}
        for row in history.get("transactions", ()):
            self.ends.setdefault((row["writer"], row["txn"]), set()).add(row["event"])

    def truth(self) -> Truth:
        """Judge every partition, then the run as a whole."""
        truth = Truth()
        for name, partition in sorted(self.partitions.items()):
            one = PartitionJudge(self, partition, self.references[name])
            truth.fates.update(one.fates)
            truth.findings.update(one.findings())
            truth.findings.update(deliveries.findings(self.history, one))
        truth.findings.update(whole_run.findings(self.history))
        truth.findings.update(groups.findings(self.history))
        return truth

    def kind(self, name: TopicPartition, row: Row) -> str:
        """What a record is: `marker`, `copy`, `damaged`, `unreadable`, `misrouted`, `foreign` or, if nobody
        recorded the producers, `unrecorded`.
        """
        if row.get("control"):
            return "marker"
        message = message_id(row)
        home = self.home.get(message) if message is not None else None
        if row.get("intact") is False:
            return "damaged" if home == name else "unreadable"
        if home is None:
            return "foreign" if self.producers_recorded else "unrecorded"
        return "copy" if home == name else "misrouted"

    def transaction(self, message: MessageId, send: Row) -> str:
        """`none`, `committed`, `aborted` or `unknown`: how the transaction of the message ended."""
        if send.get("txn") is None:
            return "none"
        ends = self.ends.get((message[0], send["txn"]), set())
        return next((event for event in ("aborted", "committed") if event in ends), "unknown")


class PartitionJudge:
    """Fates and findings of one partition; deliveries (`deliveries.py`) ask it what became of messages."""

    def __init__(self, judge: _Judge, partition: Partition, reference: Log | None) -> None:
        self.judge, self.partition, self.reference = judge, partition, reference
        self.removals = Removals(judge.history, partition, reference)
        self.compacted = self.removals.compacted
        self.conclusive = partition.read_to_its_end()
        if not partition.logs and "replicas" not in judge.history:
            self.conclusive = True  # no copies at all, and no table of replicas: empty logs
        if not partition.logs and self.removals.deleted >= 0:
            # `A partition of a topic that was deleted, and of which neither replicas nor copies has a row`
            self.conclusive = True
        self.kinds = {
            (log.broker, offset): judge.kind(partition.at, row)
            for log in partition.logs.values()
            for offset, row in log.records.items()
        }
        self.received: dict[MessageId, set[int]] = {}
        for row in partition.reads:
            if (message := message_id(row)) is not None:
                self.received.setdefault(message, set()).add(row["offset"])
        self._good: dict[tuple[int, MessageId], set[int]] = {}
        self._bad: dict[tuple[int, MessageId], set[int]] = {}
        owners: dict[int, MessageId | None] = {}
        self._find("copy", self._good, owners)
        self._find("damaged", self._bad, owners)
        owners |= {offset: self._owner(offset) for offset in self._offsets("unreadable")}
        self._find("unreadable", self._bad, owners)
        self.fates = {message: self._fate(message, send) for message, send in partition.sends.items()}

    # ---- records

    def _find(
        self,
        kind: str,
        offsets_by_message: dict[tuple[int, MessageId], set[int]],
        owners: Mapping[int, MessageId | None],
    ) -> None:
        """Add the records of one kind to ``offsets_by_message``, whose keys are broker and message."""
        for log in self._logs():
            for offset, row in log.records.items():
                if self.kind(log, offset) == kind:
                    message = owners[offset] if kind == "unreadable" else message_id(row)
                    if message is not None:
                        offsets_by_message.setdefault((log.broker, message), set()).add(offset)

    def kind(self, log: Log, offset: int) -> str:
        """What ``log`` holds at ``offset``, if anything."""
        return self.kinds[log.broker, offset]

    def _offsets(self, *kinds: str) -> set[int]:
        """Offsets at which any replica holds a record of such a kind."""
        return {offset for (_, offset), kind in self.kinds.items() if kind in kinds}

    def good(self, log: Log, message: MessageId) -> set[int]:
        """Offsets at which ``log`` holds an undamaged record of the message."""
        return self._good.get((log.broker, message), set())

    def held(self, log: Log | None, message: MessageId) -> set[int]:
        """Offsets at which ``log`` holds a record of the message, damaged or not."""
        if log is None:
            return set()
        return self.good(log, message) | self._bad.get((log.broker, message), set())

    def _owner(self, offset: int) -> MessageId | None:
        """`A damaged record that names no message of its partition belongs to the message that another
        replica holds at that offset; otherwise to the newest message that was acknowledged at that offset
        and of which no intact copy is left.`
        """
        for log in self._logs():
            if offset in log.records and self.kind(log, offset) in ("copy", "damaged"):
                return message_id(log.records[offset])
        claims = [
            (send["sent_ns"], message)
            for message, send in self.partition.sends.items()
            if send.get("outcome") != "fail"
            and (
                send.get("offset") == offset
                or (send.get("offset") is None and offset in self.received.get(message, ()))
            )
            and not any(self.good(log, message) for log in self._logs())
        ]
        return max(claims)[1] if claims else None

    def _logs(self) -> list[Log]:
        """The reference first, the others by broker."""
        rest = [log for _, log in sorted(self.partition.logs.items()) if log is not self.reference]
        return ([self.reference] if self.reference is not None else []) + rest

    # ---- fates

    def _fate(self, message: MessageId, send: Row) -> str:
        # `A missing outcome (null) counts as info.`
        outcome, reported = send.get("outcome") or "info", send.get("offset")
        aborted = self.judge.transaction(message, send) == "aborted"
        logs = self._logs()
        here = self.held(self.reference, message)
        anywhere = set().union(*(self.held(log, message) for log in logs))
        intact = any(self.good(log, message) for log in logs)
        if outcome == "fail":
            if aborted:
                return "failed"  # `of an aborted transaction, and either absent or reported as failed`
            if anywhere:
                return "phantom"  # `reported as definitely failed, yet in the log of a replica`
            return "failed" if self.conclusive else "undetermined"
        if len(here) > 1:
            # `at more than one offset of the final log (acknowledged or of unknown outcome)`
            return "duplicated"
        if here:
            if not intact:
                return "corrupt"  # `every copy of it in the final logs is damaged`
            if outcome == "info":
                return "unknown_kept"  # `outcome unknown; it is in the final log`
            # `in the final log at the offset that the acknowledgement named` / `found at another`
            return "kept" if reported in (None, *here) else "moved"
        if outcome == "info":
            return self._fate_of_absent_unknown(message, aborted, bool(anywhere), intact)
        return self._fate_of_absent(message, reported, aborted, anywhere, intact)

    def _fate_of_absent_unknown(self, message: MessageId, aborted: bool, held: bool, intact: bool) -> str:
        """Its outcome is unknown, and the reference log does not hold it."""
        if held and not intact:
            return "corrupt"
        # `A message of unknown outcome that only followers hold is unknown_dropped, and so is one that
        # retention may have removed`
        if held or aborted or self.conclusive or self.retired(message):
            return "unknown_dropped"
        return "undetermined"

    def _fate_of_absent(
        self, message: MessageId, reported: int | None, aborted: bool, held: set[int], intact: bool
    ) -> str:
        """It was acknowledged, and the reference log does not hold it."""
        if message in self.judge.strays and not held:
            # `A message that was found in another partition is misrouted, even if retention may have
            # removed it from its own`
            return "misrouted"
        if intact and not self.conclusive:
            # `If the read was not complete, an acknowledged message that any replica holds is kept`
            return "kept"
        if self.retired(message):
            return "retired"
        if intact:
            return "diverged"  # `acknowledged, on a follower, but not in the reference log`
        if held:
            return "corrupt"
        if aborted:
            return "failed"  # `of an aborted transaction, and … absent`
        if not self.conclusive:
            return "undetermined"
        if (
            self.reference is not None
            and reported in self.reference.records
            and self.kind(self.reference, reported) == "foreign"
        ):
            return "overwritten"  # `acknowledged, gone, and a record that nobody sent is at its offset`
        # `acknowledged, and on no replica of the final log` / `the same, and a reader had received it`
        return "lost_after_read" if message in self.received else "lost"

    def retired(self, message: MessageId) -> bool:
        """`not in the reference log, and retention, compaction or a deletion may have removed it`.

        Where it stood: at the reported offset; else where a follower holds it; else where readers received
        it: `An acknowledgement without an offset proves no loss if … The message is retired, as if it had
        been at the beginning of the log. If a reader received it, the offset at which it did counts instead.`
        """
        send = self.partition.sends[message]
        if send.get("offset") is not None:
            return self.retired_at(send["offset"], message)
        for log in sorted(self._logs(), key=lambda log: log.broker):
            if held := self.held(log, message):
                return self.retired_at(min(held), message)
        if message in self.received:
            return all(self.retired_at(offset, message) for offset in self.received[message])
        if self.conclusive or 0 <= send["sent_ns"] <= self.removals.deleted:
            return self.removals.explain(send, None, occupied=False)
        return False

    def retired_at(self, offset: int, message: MessageId) -> bool:
        """Whether a documented removal explains that the reference does not hold the message there."""
        occupied = self.reference is not None and offset in self.reference.records
        return self.removals.explain(self.partition.sends[message], offset, occupied=occupied)

    # ---- findings of the log

    def findings(self) -> Counter[Finding]:
        """Everything that sends and logs show, `one per root cause`."""
        findings: Counter[Finding] = Counter()
        topic, partition = self.partition.at
        for message, fate in self.fates.items():
            if fate in FATES_WITH_A_FINDING:
                place = fate in ("lost", "lost_after_read", "moved", "overwritten")
                offset = self.partition.sends[message].get("offset") if place else None
                findings[Finding(fate, topic, partition, offset, *message)] += 1
        if not self.conclusive:
            # `reported for every partition that was not read to its end, even if no message is missing`
            findings[Finding("undetermined", topic, partition)] += 1
        explained = self._explained_by_messages()
        for offset in self._offsets(*ODD) - explained:
            # `An offset has at most one finding about its records`, that of the reference's record if it has
            # one, else of the replica with the lowest broker id.
            log = next(log for log in self._logs() if offset in log.records and self.kind(log, offset) in ODD)
            kind = self.kind(log, offset)
            name = "corrupt" if kind in ("damaged", "unreadable") else kind
            row = log.records[offset]
            ids = (row["writer"], row["seq"]) if name == "misrouted" else (None, None)
            findings[Finding(name, topic, partition, offset, *ids)] += 1
        for offset in self._disagreements():
            findings[Finding("diverged", topic, partition, offset)] += 1
        for offset in self._named_differently():
            findings[Finding("diverged", topic, partition, offset)] += 1
        for message, fate in self.fates.items():
            if fate == "diverged" and not any(
                log.counts_as_in_sync and self.good(log, message) for log in self._logs()
            ):
                # `Acknowledged messages that only replicas out of sync hold are one finding each.`
                findings[Finding("diverged", topic, partition, None, *message)] += 1
        for message in self._out_of_order():
            findings[Finding("out_of_order", topic, partition, None, *message)] += 1
        return findings

    def _explained_by_messages(self) -> set[int]:
        """`If the finding of a message explains a record (corrupt, overwritten), there is no second finding
        about the record.`
        """
        offsets: set[int] = set()
        for message, fate in self.fates.items():
            if fate == "overwritten":
                offsets.add(self.partition.sends[message]["offset"])
            if fate == "corrupt":
                offsets |= set().union(*(self.held(log, message) for log in self._logs()))
        return offsets

    def _phantoms(self) -> set[int]:
        return {
            offset
            for message, fate in self.fates.items()
            if fate == "phantom"
            for log in self._logs()
            for offset in self.held(log, message)
        }

    def _disagreements(self) -> set[int]:
        """Offsets of `diverged: in-sync replicas disagree at an offset: content or epoch differs, or a
        record is missing or extra`.
        """
        reference = self.reference
        if reference is None or not reference.counts_as_in_sync:
            return set()
        explained = self._offsets(*ODD) | self._explained_by_messages() | self._phantoms()
        points: set[int] = set()
        beyond: set[int] = set()
        for log in self._logs():
            if log is reference or not log.counts_as_in_sync:
                continue
            head: set[int] = set()
            behind: set[int] = set()
            for offset in {*log.records, *reference.records} - explained:
                own, theirs = log.records.get(offset), reference.records.get(offset)
                if offset < max(log.start, reference.start):
                    continue  # `Records before the log start offset of either log are not compared.`
                if own is not None and theirs is not None:
                    if self._differ(own, theirs):
                        points.add(offset)
                elif own is None:
                    end = log.end if self.compacted else log.last
                    if offset >= end:
                        behind |= {offset} if log.whole else set()
                    elif not self.compacted:
                        (head if offset < min(log.records, default=offset) else points).add(offset)
                else:
                    end = reference.end if self.compacted else reference.last
                    if offset >= end:
                        beyond |= {offset} if reference.whole else set()
                    elif not self.compacted:
                        points.add(offset)
            # `a log that begins late or ends early is one finding, at the first record that it lacks`
            points |= {min(part) for part in (head, behind) if part}
        return points | ({min(beyond)} if beyond else set())

    def _named_differently(self) -> Iterator[int]:
        """`A replica that names other aborted transactions to readers of committed records than its leader
        does is one finding, at the first record of such a transaction`.
        """
        # `Only in-sync replicas that were read to their ends, and whose aborted is known, are compared.`
        logs = [log for log in self.partition.logs.values() if log.whole and log.counts_as_in_sync]
        named_aborted = [(log, log.aborted) for log in logs if log.aborted is not None]
        # `If the leader is not one of them, the replica with the lowest broker id takes its place.`
        named_aborted.sort(key=lambda one: (not one[0].leader, one[0].broker))
        for log, named in named_aborted[1:]:
            first, expected = named_aborted[0]
            # `Transactions that begin before the log start offset of either replica, or at or above the last
            # stable offset of either, do not count.`
            start = max(first.start, log.start)
            ends = [one.stable for one in (first, log) if one.stable is not None]
            other = [at for _, at in named ^ expected if at >= start and all(at < end for end in ends)]
            if other:
                yield min(other)

    def _differ(self, own: Row, theirs: Row) -> bool:
        content = [(bool(row.get("control")), row.get("writer"), row.get("seq")) for row in (own, theirs)]
        epochs = [row.get("epoch") for row in (own, theirs)]
        # `records that name no message are compared by the CRC of their batches`
        batches = {row.get("crc") for row in (own, theirs) if message_id(row) is None} - {None}
        if len(batches) > 1 and content[0] == content[1]:
            return True
        return content[0] != content[1] or (None not in epochs and epochs[0] != epochs[1])

    def _out_of_order(self) -> list[MessageId]:
        """`an acknowledged message comes after a later acknowledged one of its writer; moved messages are
        not counted again`.
        """
        stands = {
            message: min(self.held(self.reference, message))
            for message, fate in self.fates.items()
            if fate == "kept" and self.held(self.reference, message)
        }
        return [
            (writer, seq)
            for (writer, seq), offset in stands.items()
            if any(w == writer and later > seq and o < offset for (w, later), o in stands.items())
        ]
