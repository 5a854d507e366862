"""The truth about a small history, by brute force, from `docs/findings.md` and `docs/history.md` alone.

``truth_of`` gives the fate of every message and the multiset of findings. The rule of the document
stands in backquotes beside the code that applies it. `Choices` lists what the document leaves open,
with the reading taken here as the default.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.independent import deliveries, whole_run
from tests.independent.choices import DEFAULT, Choices
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

FATES_WITH_A_FINDING = ("lost", "lost_after_read", "duplicated", "moved", "overwritten", "phantom")
"""Fates that are a finding of their own, one a message; the others' findings belong to a record or place."""


@dataclass
class Truth:
    """What became of every message, and every anomaly once."""

    fates: dict[MessageId, str] = field(default_factory=dict)
    findings: Counter[Finding] = field(default_factory=Counter)


def truth_of(history: History, choices: Choices = DEFAULT) -> Truth:
    """The truth; where two replicas are on a par as the reference, with the one of the lower broker id."""
    return next(truths_of(history, choices))


def truths_of(history: History, choices: Choices = DEFAULT) -> Iterator[Truth]:
    """The truth for every choice of the reference that the document allows."""
    partitions = partitions_of(history)
    names = sorted(partitions)
    candidates: list[list[Log | None]] = [[*partitions[name].references()] or [None] for name in names]
    for references in itertools.product(*candidates):
        yield _Judge(history, partitions, dict(zip(names, references, strict=True)), choices).truth()


class _Judge:
    def __init__(
        self,
        history: History,
        partitions: dict[TopicPartition, Partition],
        references: dict[TopicPartition, Log | None],
        choices: Choices,
    ) -> None:
        self.history, self.partitions, self.references, self.choices = (
            history,
            partitions,
            references,
            choices,
        )
        self.home: dict[MessageId, TopicPartition] = {
            message: name for name, partition in partitions.items() for message in partition.sends
        }
        self.strays: dict[MessageId, set[tuple[TopicPartition, int]]] = {}
        for name, partition in partitions.items():
            for log in partition.logs.values():
                for offset, row in log.records.items():
                    if self.kind(name, row) == "misrouted":
                        self.strays.setdefault(message_id(row) or (0, 0), set()).add((name, offset))

    def truth(self) -> Truth:
        """Judge every partition, then the run as a whole."""
        truth = Truth()
        for name, partition in sorted(self.partitions.items()):
            one = PartitionJudge(self, partition, self.references[name])
            truth.fates.update(one.fates)
            truth.findings.update(one.findings())
            truth.findings.update(deliveries.findings(self.history, one, self.choices))
        for message, places in self.strays.items():
            # `misrouted: a record of another partition's message`
            writer, seq = message
            for (topic, number), offset in places:
                finding = Finding("misrouted", None, None, None, writer, seq)
                if self.choices.misrouted_is_placed_where_it_stands:
                    finding = finding._replace(topic=topic, partition=number, offset=offset)
                truth.findings[finding] += 1
        truth.findings.update(whole_run.findings(self.history))
        return truth

    def kind(self, name: TopicPartition, row: Row) -> str:
        """What a record is: `marker`, `copy`, `damaged`, `unreadable`, `misrouted` or `foreign`."""
        if row.get("control"):
            return "marker"
        message = message_id(row)
        home = self.home.get(message) if message is not None else None
        if row.get("intact") is False:
            return "damaged" if home == name else "unreadable"
        if home is None:
            return "foreign"
        return "copy" if home == name else "misrouted"


class PartitionJudge:
    """Fates and findings of one partition; deliveries (`deliveries.py`) ask it what became of messages."""

    def __init__(self, judge: _Judge, partition: Partition, reference: Log | None) -> None:
        self.judge, self.partition, self.reference, self.choices = judge, partition, reference, judge.choices
        self.handed: dict[MessageId, set[int]] = {}
        for row in partition.reads:
            if (message := message_id(row)) is not None:
                self.handed.setdefault(message, set()).add(row["offset"])
        self.owners = {
            offset: self._owner(offset)
            for log in partition.logs.values()
            for offset, row in log.records.items()
            if self.kind(row) == "unreadable"
        }
        self.fates = {message: self._fate(message, send) for message, send in partition.sends.items()}

    # ---- records

    def kind(self, row: Row) -> str:
        return self.judge.kind(self.partition.at, row)

    def good(self, log: Log, message: MessageId) -> set[int]:
        """Offsets at which ``log`` holds an undamaged record of the message."""
        return {
            o for o, row in log.records.items() if self.kind(row) == "copy" and message_id(row) == message
        }

    def bad(self, log: Log, message: MessageId) -> set[int]:
        """Offsets at which ``log`` holds a damaged record that is known to be the message's."""
        return {
            o
            for o, row in log.records.items()
            if (self.kind(row) == "damaged" and message_id(row) == message)
            or (self.kind(row) == "unreadable" and self.owners[o] == message)
        }

    def _owner(self, offset: int) -> MessageId | None:
        """Whose record it is that stands at ``offset`` and is damaged beyond recognition."""
        for log in self._logs():
            row = log.records.get(offset)
            if row is not None and self.kind(row) in ("copy", "damaged"):
                return message_id(row)  # another replica's copy says what stood there
        claims = [
            (send["sent_ns"], message)
            for message, send in self.partition.sends.items()
            if send.get("outcome") != "fail"
            and (
                send.get("offset") == offset
                or (send.get("offset") is None and offset in self.handed.get(message, ()))
            )
            and not any(self.good(log, message) for log in self._logs())
        ]
        return max(claims)[1] if claims else None

    def _logs(self) -> list[Log]:
        """The reference first."""
        rest = [log for log in self.partition.logs.values() if log is not self.reference]
        return ([self.reference] if self.reference is not None else []) + rest

    # ---- fates

    def _fate(self, message: MessageId, send: Row) -> str:
        outcome, reported = (
            send.get("outcome") or "info",
            send.get("offset"),
        )  # `no outcome at all counts as info`
        logs = self._logs()
        if outcome == "fail":
            # `reported as definitely failed, yet in the log` / `definitely failed, and absent`
            present = any(self.good(log, message) or self.bad(log, message) for log in logs)
            return "phantom" if present else "failed"
        good = self.good(self.reference, message) if self.reference else set()
        bad = self.bad(self.reference, message) if self.reference else set()
        if len(good | bad) > 1:
            # `at more than one offset of the final log (acknowledged or of unknown outcome)`
            return "duplicated"
        if good or bad:
            if not good and not any(self.good(log, message) for log in logs):
                return "corrupt"  # `its bytes in the final log are damaged, and no good copy is left`
            if outcome == "info":
                return "unknown_kept"  # `outcome unknown; it is in the final log`
            found = next(iter(good | bad))
            # `acknowledged, and in the final log where it was said to be` / `found at another` offset
            return "kept" if reported in (None, found) else "moved"
        return self._fate_of_absent(message, outcome, reported)

    def _fate_of_absent(self, message: MessageId, outcome: str, reported: int | None) -> str:
        """It is not in the reference log."""
        held = set().union(
            *(self.good(log, message) | self.bad(log, message) for log in self.partition.logs.values())
        )
        if outcome == "ok" and message in self.judge.strays and not held:
            return "misrouted"  # `acknowledged, and found in another partition than its own`
        known = reported is not None and self.retired_at(reported)
        if not self.determined() and not known:
            return "undetermined"  # `absent as far as was read, but the read was not complete`
        if self.may_be_retired(message):
            if outcome == "ok" or self.choices.unknown_below_the_start_is_retired:
                return "retired"  # `absent because retention (before the log's start) or compaction took it`
            return "unknown_dropped"
        if outcome == "info":
            return "unknown_dropped"  # `outcome unknown; it is not in the final log`
        if held:
            return "diverged"  # `acknowledged, on a follower, but not in the reference log`
        if reported is None and None in self.owners.values():
            return "corrupt"  # a record damaged beyond recognition may be this one: no loss is proven
        row = self.reference.records.get(reported) if self.reference and reported is not None else None
        if row is not None and self.kind(row) == "foreign":
            return "overwritten"  # `acknowledged, gone, and at its offset stands a record that nobody sent`
        # `acknowledged, and on no replica of the final log` / `the same, and a reader had been handed it`
        return "lost_after_read" if message in self.handed else "lost"

    def determined(self) -> bool:
        """Whether absence proves something: `If the final read did not reach the end, absence proves
        nothing`.
        """
        if self.reference is None:  # no replica at all: an empty log, unless `replicas` should have told
            return "replicas" not in self.judge.history
        leader = self.partition.leader()
        if leader is not None and not leader.whole and not self.choices.follower_proves_what_leader_lacks:
            return False
        return self.reference.whole

    def may_be_retired(self, message: MessageId) -> bool:
        """`absent because retention (before the log's start) or compaction took it`, as far as can be
        known.
        """
        if self.reference is None:
            return False
        reported = self.partition.sends[message].get("offset")
        known = {reported} if reported is not None else set(self.handed.get(message, ()))
        if not known:
            known = set().union(*(self.good(log, message) for log in self.partition.logs.values()))
        if not known:  # an acknowledgement without offset: it may have stood there
            return self.reference.start > 0 or self.reference.compacted
        return any(self.retired_at(offset) for offset in known)

    def retired_at(self, offset: int) -> bool:
        """Whether retention or compaction explains that the reference has nothing at ``offset``."""
        log = self.reference
        if log is None:
            return False
        # Compaction keeps offsets and never takes the end of a log.
        return offset < log.start or (log.compacted and offset < log.end and offset not in log.records)

    # ---- findings of the log

    def findings(self) -> Counter[Finding]:
        """Everything that sends and logs show, `one per root cause`."""
        found: Counter[Finding] = Counter()
        topic, partition = self.partition.at
        for message, fate in self.fates.items():
            if fate in FATES_WITH_A_FINDING:
                place = fate in ("lost", "lost_after_read", "moved", "overwritten")
                offset = self.partition.sends[message].get("offset") if place else None
                found[Finding(fate, topic, partition, offset, *message)] += 1
        if "undetermined" in self.fates.values() or (
            self.choices.incomplete_read_is_a_finding and not self.determined()
        ):
            found[Finding("undetermined", topic, partition)] += 1  # `one per partition`
        overwritten = {
            self.partition.sends[message].get("offset")
            for message, fate in self.fates.items()
            if fate == "overwritten"
        }
        for offset in sorted(set().union(*(log.records for log in self._logs()))):
            kinds = {self.kind(log.records[offset]) for log in self._logs() if offset in log.records}
            if kinds & {"damaged", "unreadable"}:
                found[Finding("corrupt", topic, partition, offset)] += 1  # `whose checksum does not hold`
            if "foreign" in kinds and offset not in overwritten:
                found[Finding("foreign", topic, partition, offset)] += 1  # `a record that nobody sent`
        places, messages = self._disagreements()
        for offset in places:
            found[Finding("diverged", topic, partition, offset)] += 1
        for message in messages:
            found[Finding("diverged", topic, partition, None, *message)] += 1
        for message in self._out_of_order():
            found[Finding("out_of_order", topic, partition, None, *message)] += 1
        return found

    def _explained(self, row: Row) -> bool:
        """Whether the record has a finding of its own, so that its being there is no disagreement besides."""
        if self.kind(row) in ("foreign", "misrouted", "damaged", "unreadable"):
            return True
        message = message_id(row)
        return message is not None and self.fates.get(message) == "phantom"

    def _disagreements(self) -> tuple[set[int], set[MessageId]]:
        """Offsets at which `in-sync replicas disagree: in content, in epoch, a record missing or too many;
        a log that ends early is one finding, where it ends`; and acknowledged messages that only
        followers hold, where no such offset tells of them.
        """
        in_sync = [log for log in self._logs() if self.in_sync(log)]
        points = {o for log in in_sync for o in log.records if self._disagree(in_sync, o)}
        ends = {log.end for log in in_sync if log.whole and self._goes_on(in_sync, log)}
        messages: set[MessageId] = set()
        reference = self.reference
        for message, fate in self.fates.items():
            if fate != "diverged" or reference is None:
                continue
            held = set().union(*(self.good(log, message) | self.bad(log, message) for log in self._logs()))
            row = reference.records.get(min(held))
            behind_the_end = min(held) >= reference.end
            if held & points or (row is not None and self._explained(row)):
                continue
            if behind_the_end and self.choices.end_outside_the_isr_is_one_finding:
                ends.add(reference.end)
            elif not (behind_the_end and reference.end in ends):
                messages.add(message)
        return points | ends, messages

    def in_sync(self, log: Log) -> bool:
        """Whether a log is compared with the others."""
        return log.in_sync or (log.in_sync is None and self.choices.unknown_is_in_sync)

    def _disagree(self, in_sync: list[Log], offset: int) -> bool:
        """Whether replicas that were read at ``offset`` hold different things there."""
        contents: set[object] = set()
        epochs: dict[object, set[int]] = {}
        compacted = any(log.compacted for log in in_sync)
        for log in in_sync:
            if not log.covers(offset):
                continue
            row = log.records.get(offset)
            if row is None:
                contents |= set() if compacted else {"nothing"}  # `Gaps are no finding: … compaction …`
                continue
            content = "marker" if row.get("control") else message_id(row)
            if not self._explained(row):
                contents.add(content)
            if row.get("epoch") is not None:
                epochs.setdefault(content, set()).add(row["epoch"])
        return len(contents) > 1 or any(len(values) > 1 for values in epochs.values())

    def _goes_on(self, in_sync: list[Log], short: Log) -> bool:
        """Whether another in-sync log holds a record where ``short`` has ended."""
        return any(
            offset >= short.end and (self.kind(row) == "damaged" or not self._explained(row))
            for log in in_sync
            for offset, row in log.records.items()
        )

    def _out_of_order(self) -> list[MessageId]:
        """`an acknowledged message stands behind a later one of its writer; moved ones are not counted
        again`.
        """
        if self.reference is None:
            return []
        stands = {
            message: next(iter(self.good(self.reference, message) | self.bad(self.reference, message)))
            for message, fate in self.fates.items()
            if fate in ("kept", "unknown_kept")
        }
        return [
            (writer, seq)
            for (writer, seq), offset in stands.items()
            if self.fates[writer, seq] == "kept"
            and any(
                w == writer
                and later > seq
                and o < offset
                and (self.fates[w, later] == "kept" or not self.choices.later_one_is_acknowledged)
                for (w, later), o in stands.items()
            )
        ]
