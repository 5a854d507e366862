"""Compares what the checker finds in a history with what the model of Jepsen's checker finds in its export.

The model reads the exported file alone. Each method of `Comparison` that is listed in `CLASSES` says which
anomalies of one class the model must find, by the findings and fates that the checker gave, and which it may
find besides, with the reason. Partitions that were not read to their end are left out, because the checker
draws no conclusion from them.

Not compared: findings that the form cannot express (`foreign`, `misrouted` and `corrupt` records, replicas
that differ, `commit_lost` and others of groups), and `out_of_order`, which the model does not look for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from checkers.ask.jepsen.columns import MAX_WRITER
from checkers.ask.jepsen.export import export
from harness.history.imports.jepsen import WRITER_STEP
from tests.independent.compare import Case, cases, judge
from tests.independent.layout import layout
from tests.independent.model import (
    History,
    MessageId,
    Partition,
    Row,
    TopicPartition,
    in_order,
    message_id,
    partitions_of,
)
from tests.jepsen import analyse

Step = tuple[Row, Row]
"""Two records that a reader received one after the other."""
Anomalies = Mapping[str, Sequence[Any]]
"""What the model finds in a partition, by class: messages, offsets, or steps."""
Bounds = tuple[set[Any], set[Any]]
"""The anomalies that the model must find, and those that it may find."""


@dataclass(frozen=True)
class JudgedHistories:
    """Histories that the checker judged together, and the folder with their tables."""

    cases: Sequence[Case]
    folder: Path


def judged(seed: int, numbers: Iterable[int], folder: Path, *, layouts: int) -> Iterator[JudgedHistories]:
    """Histories that can be exported, with fates and findings; those of one layout together."""
    alike: dict[int, list[Case]] = defaultdict(list)
    for case in cases(seed, numbers, layouts):
        if _can_be_exported(case.history):
            moved = {**case.history, "groups": [*case.history.get("groups", ()), *_moves(case)]}
            case.history = layout(seed, case.layout).strip(moved)
            case.history = {**case.history, "reads": list(_in_polls(case))}
            alike[case.layout].append(case)
    for number, some in alike.items():
        lies, tables = layout(seed, number), folder / f"{number}"
        judge(None, some, lies, folder / f"{number}-judged")
        tables.mkdir()
        merged: dict[str, list[Row]] = defaultdict(list)
        for case in some:
            for name, rows in case.history.items():
                merged[name] += rows
        lies.write(merged, tables)
        yield JudgedHistories(some, tables)


def _can_be_exported(history: History) -> bool:
    """Whether every message has a value; `acked export` refuses others."""
    return all(row["writer"] <= MAX_WRITER and row["seq"] < WRITER_STEP for row in history["sends"])


def _moves(case: Case) -> Iterator[Row]:
    """Events of readers without a group, between two records that they received."""
    random = Random(case.number)
    last: dict[tuple[int, TopicPartition], int] = {}
    for row in in_order(case.history.get("reads", ())):
        place = row["topic"], row["partition"]
        key = row["reader"], place
        since = last[key] if key in last else row["ns"]
        last[key] = row["ns"]
        if row.get("group") is None and row["ns"] - since > 1 and random.random() < 0.5:
            event = random.choice(("assigned", "revoked", "lost", "sought"))
            where = {"topic": place[0], "partition": place[1], "reader": row["reader"]}
            yield {"ns": random.randrange(since + 1, row["ns"]), "group": "", "event": event, **where}


def _in_polls(case: Case) -> Iterator[Row]:
    """The deliveries with polls of one record or more, which end where a reader is assigned or seeks."""
    random = Random(case.number)
    events = case.history.get("groups", ())
    last: dict[int, Row] = {}
    for poll, row in enumerate(in_order(case.history.get("reads", ()))):
        before = last.get(row["reader"])
        if before is not None and random.random() < 0.5:
            moved = any(e["reader"] == row["reader"] and before["ns"] <= e["ns"] <= row["ns"] for e in events)
            poll = poll if moved else before["poll"]
        last[row["reader"]] = {**row, "poll": poll}
        yield last[row["reader"]]


def disagreements(one: JudgedHistories) -> list[str]:
    """Export the histories, read the export back, and list the differences from the checker's findings."""
    anomalies = exported(one.folder)
    return [
        f"history {case.number} ({', '.join(case.planted)}), {at[0]}/{at[1]}: {text}"
        for case in one.cases
        for at, partition in partitions_of(case.history).items()
        for text in Comparison(case, partition, anomalies.get(at, {})).differences()
    ]


def exported(folder: Path) -> Mapping[TopicPartition, Anomalies]:
    """The anomalies that the model finds in the export of a history, by topic partition."""
    target = folder / "export.json"
    places = {}
    for name, key in export(folder, target).keys.items():
        topic, _, number = name.rpartition("/")
        places[key] = topic, int(number)
    anomalies_by_place: dict[TopicPartition, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for name, anomalies in analyse(json.loads(target.read_text())).items():
        for key, *rest in anomalies:
            if name == "inconsistent-offsets":
                anomalies_by_place[places[key]][name] += rest
            else:
                messages = [divmod(value, WRITER_STEP) for value in rest]
                anomalies_by_place[places[key]][name].append(
                    tuple(messages) if len(messages) > 1 else messages[0]
                )
    return anomalies_by_place


HELD_ONCE = ("kept", "unknown_kept")
"""Fates of messages that the final log has at one offset."""
GONE = ("lost", "lost_after_read", "overwritten", "misrouted", "diverged", "retired")
"""Fates of acknowledged messages that the final log lacks; all but `retired` are findings. Jepsen's checker
knows neither retention nor other replicas."""

AWAY = (*GONE, "moved")
"""Fates of acknowledged messages that the final log lacks at the offset that was acknowledged."""


class Comparison:
    """One partition of a history: what the checker said about it, and what the model finds."""

    def __init__(self, case: Case, partition: Partition, anomalies: Anomalies) -> None:
        self.partition, self.anomalies = partition, anomalies
        self.fates = {message: case.fates[message] for message in partition.sends}
        self.findings = [one for one in case.findings if (one.topic, one.partition) == partition.at]
        self.named: dict[Any, set[str]] = defaultdict(set)
        for finding in self.findings:
            self.named[finding.writer, finding.seq].add(finding.name)
        self.ends: dict[tuple[int, int], str] = {}
        for row in case.history.get("transactions", ()):
            self.ends[row["writer"], row["txn"]] = row["event"]
        self.members = {row["reader"] for row in partition.reads if row.get("group") is not None}
        self.received = {message_id(row) for row in partition.reads}

    def differences(self) -> Iterator[str]:
        """What the model misses, and what it finds although the checker found nothing of the kind."""
        if any(finding.name == "undetermined" for finding in self.findings):
            return
        for name, bounds in CLASSES.items():
            said = {one for part in name.split(" + ") for one in self.anomalies.get(part, ())}
            must, may = bounds(self)
            yield from (f"{name} misses {self.described(one)}" for one in sorted(must - said))
            yield from (f"{name} has {self.described(one)}" for one in sorted(said - must - may))

    def described(self, one: Any) -> str:
        return f"{one}, {self.fates[one]}" if one in self.fates else f"{one}"

    # ---- what the form says of a message

    def end(self, message: MessageId) -> str:
        """How its transaction ended; `committed` without one."""
        txn = self.partition.sends[message].get("txn")
        return "committed" if txn is None else self.ends.get((message[0], txn), "unknown")

    @cached_property
    def acknowledged(self) -> set[MessageId]:
        """Messages in operations that are `ok`."""
        return {
            message
            for message, send in self.partition.sends.items()
            if send["outcome"] == "ok" and self.end(message) == "committed"
        }

    @cached_property
    def aborted(self) -> set[MessageId]:
        """Messages of aborted transactions, whose records are left out unless a reader of committed records
        received them.
        """
        return {message for message in self.partition.sends if self.end(message) == "aborted"}

    def reported(self, message: MessageId) -> int | None:
        offset: int | None = self.partition.sends[message].get("offset")
        return offset

    @cached_property
    def illegible(self) -> set[MessageId]:
        """Messages with a damaged copy. Jepsen's checker knows no checksums: a message that a damaged record
        names counts as read, and one that it no longer names as unseen.
        """
        damaged = {finding.offset for finding in self.findings if finding.name == "corrupt"}
        messages: set[Any] = {
            m for m, fate in self.fates.items() if fate == "corrupt" or self.reported(m) in damaged
        }
        for log in self.partition.logs.values():
            at = (message_id(record) for offset, record in log.records.items() if offset in damaged)
            messages.update(message for message in at if message in self.fates)
        return messages

    @cached_property
    def log(self) -> Mapping[int, Row]:
        """The reference log."""
        return next((log.records for log in self.partition.references()), {})

    @cached_property
    def held(self) -> dict[int, MessageId]:
        """The messages of the reference log that are exported, by offset."""
        messages = {offset: message_id(row) for offset, row in self.log.items()}
        return {o: m for o, m in messages.items() if m in self.partition.sends and m not in self.aborted}

    @cached_property
    def sound(self) -> dict[MessageId, int]:
        """Acknowledged messages that are kept and of which nothing is wrong, with their offsets."""
        return {
            message: offset
            for message in self.acknowledged - self.illegible
            if self.fates[message] == "kept" and "offset_conflict" not in self.named[message]
            if (offset := self.reported(message)) is not None
        }

    # ---- the classes

    def unseen(self) -> Bounds:
        gone = {message for message in self.acknowledged - self.received if self.fates[message] in GONE}
        return gone, self.illegible

    def lost_write(self) -> Bounds:
        """A message at the end of a log may still be read, so Jepsen's checker reports only those before the
        highest one that was read. It counts a transaction of unknown outcome as acknowledged if one of its
        messages was read.
        """
        gone, besides = self.unseen()
        last = max(self.sound.values(), default=-1)
        before = {m for m in gone if (offset := self.reported(m)) is not None and offset < last}
        unknown = {m for m, fate in self.fates.items() if fate in GONE and self.end(m) == "unknown"}
        return before, gone | besides | unknown

    def duplicate(self) -> Bounds:
        """The checker has one finding for each root cause: none about the offsets at which somebody received
        a message that has another finding, or that retention may have removed there.
        """
        named = {m for m, names in self.named.items() if names & {"duplicated", "moved", "offset_conflict"}}
        return (named & self.fates.keys()) - self.aborted, {
            m for m, fate in self.fates.items() if fate not in HELD_ONCE
        }

    def inconsistent_offsets(self) -> Bounds:
        """Jepsen's checker names the offset, the checker the message that is wrong there. Retired messages,
        and those of unknown outcome that the log lacks, are no findings, but it may know their offsets.
        """
        claims: dict[int, set[MessageId | None]] = defaultdict(set)
        for message, send in self.partition.sends.items():
            if send["outcome"] != "fail" and message not in self.aborted and send.get("offset") is not None:
                claims[send["offset"]].add(message)
        for row in self.partition.reads:
            claims[row["offset"]].add(message_id(row))
        wrong = {m for m, fate in self.fates.items() if fate not in HELD_ONCE or self.named[m]}
        may = {o for o, messages in claims.items() if ({self.held.get(o)} | messages) & wrong}
        moved: set[Any] = {(self.reported(m), m) for m in self.acknowledged if self.fates[m] in AWAY}
        moved |= {(f.offset, (f.writer, f.seq)) for f in self.findings if f.name == "offset_conflict"}
        return {o for o, m in moved if m not in self.aborted and self.held.get(o, m) != m}, may

    def aborted_read(self) -> Bounds:
        """Jepsen's checker reports reads of messages that failed; the checker also reads of messages that
        nobody sent, or of unknown outcome.
        """
        failed = {m for m, send in self.partition.sends.items() if send["outcome"] == "fail"} | self.aborted
        read = {m for m in failed if "aborted_read" in self.named[m]}
        phantoms = {m for m in failed if "phantom" in self.named[m]}
        return read | phantoms & {*self.held.values()}, phantoms

    # ---- the order in which readers received messages

    @cached_property
    def steps(self) -> tuple[list[Step], list[Step]]:
        """The comparable steps of readers, and the others.

        A step is comparable if the reader is in no group, because the checker judges groups by what they
        committed, and if the export has both records, at the only offset that their message ever had. Where
        it may lack records, or have another order, those before and after them may be a step, too.
        """
        streams: dict[int, list[Row]] = defaultdict(list)
        steps: tuple[list[Step], list[Step]] = [], []
        for after in self.partition.reads:
            rows = streams[after["reader"]]
            for before in reversed(rows):
                surely = before is rows[-1] and self._stands(before) and self._stands(after)
                steps[not surely or after["reader"] in self.members].append((before, after))
                if self._stands(before):
                    break
            rows.append(after)
        return steps

    def _stands(self, row: Row) -> bool:
        """Whether a record that a reader received is exported, and its message was nowhere else."""
        message = message_id(row)
        return (
            message in self.partition.sends
            and message == message_id(self.log.get(row["offset"], {}))
            and self.fates[message] in HELD_ONCE
            and "offset_conflict" not in self.named[message]
            and self.reported(message) in (None, row["offset"])
            and message not in self.aborted
        )

    @cached_property
    def others(self) -> set[Any]:
        """Steps that the checker does not judge, or not alike; also those of the process that polls the final
        log, which is no reader.
        """
        log = [message for _, message in sorted(self.held.items())]
        return {*pairwise(log), *map(_named, self.steps[1])}

    def nonmonotonic_poll(self) -> Bounds:
        """The checker names only the message to which a reader went back."""
        targets = [
            message_id(after) for steps in self.steps for before, after in steps if _back(before, after)
        ]
        steps_back = {
            (message_id(before), message_id(after))
            for before, after in self.steps[0]
            if _back(before, after) and "non_monotonic" in self.named[message_id(after)]
        }
        return {step for step in steps_back if targets.count(step[1]) == 1}, steps_back | self.others

    def poll_skip(self) -> Bounds:
        """The checker names only the first message that a reader skipped. Jepsen's checker also reports steps
        over messages that are lost, hidden from the reader, received at another time, or sent later.
        """
        must, may = set(), set(self.others)
        for step in self.steps[0]:
            skipped = [f for f in self.findings if f.name == "skip" and _over(step, f.offset)]
            if skipped or not any(self._due(step, offset) for offset in self.log if _over(step, offset)):
                may.add(_named(step))
            if any((f.writer, f.seq) not in self.aborted and self._passing(f.offset) == 1 for f in skipped):
                must.add(_named(step))
        return must, may

    def _passing(self, offset: int | None) -> int:
        """How many steps of readers pass over an offset."""
        return sum(_over(step, offset) for steps in self.steps for step in steps)

    def _due(self, step: Step, offset: int) -> bool:
        """Whether the reader should have received the message of the final log at ``offset``."""
        message, (_, after) = message_id(self.log[offset]), step
        if message not in self.partition.sends or self.log[offset].get("intact") is False:
            return False
        shown = after.get("isolation") == "read_uncommitted" or self.end(message) == "committed"
        handed = (message_id(row) for row in self.partition.reads if row["reader"] == after["reader"])
        return shown and self.partition.sends[message]["sent_ns"] <= after["ns"] and message not in handed


def _named(step: Step) -> tuple[MessageId | None, MessageId | None]:
    return message_id(step[0]), message_id(step[1])


def _back(before: Row, after: Row) -> bool:
    return bool(after["offset"] <= before["offset"])


def _over(step: Step, offset: int | None) -> bool:
    return offset is not None and step[0]["offset"] < offset < step[1]["offset"]


CLASSES = {
    "unseen": Comparison.unseen,
    "lost-write": Comparison.lost_write,
    "duplicate": Comparison.duplicate,
    "inconsistent-offsets": Comparison.inconsistent_offsets,
    "G1a": Comparison.aborted_read,
    "nonmonotonic-poll + int-nonmonotonic-poll": Comparison.nonmonotonic_poll,
    "poll-skip + int-poll-skip": Comparison.poll_skip,
}
"""Anomalies of the model, and the bounds that the checker's findings give."""
