"""`acked client check`: the operations that a client program carries out, and the reports that are wrong.

The operations run as a scenario on a cluster of three brokers. Afterwards, what the program reported is
compared with the final logs of the brokers, which the harness reads itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.cluster.setup import Setup
from harness.errors import AckedError, InvalidRunError, WaitTimeoutError
from harness.kafka.model import Topic, TopicPartition
from harness.waiting import wait_until
from run.group_offsets import GroupOffsets
from run.producer import Producer
from run.scenario import Scenario
from run.stage import Stage
from run.transactional import TransactionalProducer
from workloads.client.background import BackgroundConsumer
from workloads.protocol.commands import Prepare
from workloads.protocol.lines import FEATURES, TIMESTAMPS
from workloads.protocol.spec import ConsumerSpec, StreamLoad

KAFKA = "3.9.1"
MODE: Literal["kraft-combined"] = "kraft-combined"
TOPIC, STREAMED = "check", "streamed"
MESSAGES, STREAM_MESSAGES = 20, 200
_LARGE = 3000
_LIMIT = 2000
"""max.message.bytes of the topic, which a message of `_LARGE` characters exceeds."""
_SHOWN = 3

SENTENCES: Mapping[str, str] = {
    "plain": "acks=all, no retries: 20 messages are acknowledged",
    "acks-one": "acks=1: 20 messages are acknowledged",
    "refused": "a message that is too large is refused",
    "stream": "200 messages at 100 a second are acknowledged",
    "assigned": "a consumer with an assigned partition reads what is in the log",
    "group": "a member of a group reads what is in the log",
    "unanswered": "messages are written, and the answers are lost: the outcome is not known",
    "cut off": "nothing passes between the client and the brokers: messages are not acknowledged",
    "idempotent": "answers are lost for 2 s: an idempotent producer writes each message once",
    "transactions": "one transaction commits, one aborts",
    "offsets": "a transaction that commits sets the offset of a group, and one that aborts does not",
    "member": "a transaction sets an offset as a member of the group; a former member is refused",
    "timestamps": "records have the timestamps that a producer is to give them, an hour ago",
}
"""The operations, in order."""
_UNDISTURBED = ("plain", "acks-one", "stream", "idempotent", "transactions", "timestamps")
"""Operations whose messages must be acknowledged."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "group": ("groups",),
    "idempotent": ("idempotence",),
    "transactions": ("transactions",),
    "offsets": ("transactions",),
    "member": ("transactions", "groups"),
    "timestamps": (TIMESTAMPS,),
}
_EVENT_AGE_MS = 3_600_000
_TAKEN_FOR_GRANTED = {"assigned": "assign"}
"""Operations that every program has, unless it says otherwise."""


@dataclass(kw_only=True)
class ProgramCheck:
    """One check of a program: the scenario's body, and what it notes for `examine`."""

    features: Collection[str] = FEATURES
    lacks: Collection[str] = ()
    problems: dict[str, str] = field(default_factory=dict)
    """Operation → why it could not be carried out."""
    done: list[str] = field(default_factory=list)
    readers: dict[int, str] = field(default_factory=dict)
    """Number of a consumer of the program → operation."""

    def scenario(self) -> Scenario:
        """The scenario to run."""
        config = {"min.insync.replicas": "1", "max.message.bytes": str(_LIMIT)}
        topics = (Topic(TOPIC, (1, 2, 3), config=config), Topic(STREAMED, (1, 2, 3)))
        return Scenario(
            name="client-check",
            title="A client program carries out its operations, with and without a fault",
            body=self.body,
            setup=Setup(topics=topics, stream_rate=0),
            kafka=KAFKA,
            mode=MODE,
        )

    @property
    def skipped(self) -> tuple[str, ...]:
        """Operations that the program says it does not have."""
        missing = [name for name, needed in _NEEDED.items() if not set(needed) <= set(self.features)]
        missing += [name for name, feature in _TAKEN_FOR_GRANTED.items() if feature in self.lacks]
        return tuple(name for name in SENTENCES if name in missing)

    def body(self, stage: Stage) -> None:
        """Carry out the operations one after the other."""
        operations: dict[str, Callable[[Stage], None]] = {
            "plain": lambda stage: self._send(self._producer(stage, "plain"), MESSAGES),
            "acks-one": lambda stage: self._send(self._producer(stage, "acks-one", acks=1), MESSAGES),
            "refused": self._refused,
            "stream": self._stream,
            "assigned": self._assigned,
            "group": self._group,
            "unanswered": self._unanswered,
            "cut off": self._cut_off,
            "idempotent": self._idempotent,
            "transactions": self._transactions,
            "offsets": self._offsets,
            "member": self._member,
            "timestamps": lambda stage: self._send(
                self._producer(stage, "timestamps", event_age_s=_EVENT_AGE_MS / 1000), MESSAGES
            ),
        }
        for name, operation in operations.items():
            if name in self.skipped:
                continue
            stage.mark(name, SENTENCES[name])
            try:
                operation(stage)
            except InvalidRunError:  # the program has ended, so it cannot be asked any more
                raise
            except AckedError as error:
                self.problems[name] = error.message
            self.done.append(name)

    @staticmethod
    def _producer(stage: Stage, name: str, **settings: Any) -> Producer:
        given = {"delivery_timeout_s": 4.0, "request_timeout_s": 1.5, **settings}
        return stage.producer("az1", name, via="librdkafka", **given)

    @staticmethod
    def _send(producer: Producer, count: int, label: str = "m") -> None:
        producer.prepare(TOPIC)
        for sent in [producer.send_later(TOPIC, f"{label}{number}") for number in range(count)]:
            sent.result()

    def _refused(self, stage: Stage) -> None:
        producer = self._producer(stage, "refused").prepare(TOPIC)
        producer.send(TOPIC, "x" * _LARGE)

    @staticmethod
    def _stream(stage: Stage) -> None:
        load = StreamLoad(topic=STREAMED, rate=100.0, max_count=STREAM_MESSAGES)
        stream = stage.start_stream("az1", "stream", load)
        wait_until(
            stream.counts,
            within_s=30,
            awaiting="the stream to end",
            accept=lambda counts: not counts.running,
        )

    def _assigned(self, stage: Stage) -> None:
        self._read(stage, "assigned")

    def _group(self, stage: Stage) -> None:
        self._read(stage, "group", group="check")

    def _read(self, stage: Stage, name: str, **settings: Any) -> None:
        self._reading(stage, name, **settings).stop()

    def _reading(
        self, stage: Stage, name: str, count: int | None = None, **settings: Any
    ) -> BackgroundConsumer:
        """A consumer of the program that has returned ``count`` records, by default all of the log."""
        number = 1000 + len(self.readers)
        self.readers[number] = name
        spec = ConsumerSpec(
            reader=number,
            name=name,
            brokers=stage.endpoints(),
            partitions=(TopicPartition(TOPIC, 0),),
            via=stage.library,
            **settings,
        )
        if count is None:
            count = len(stage.own_log("broker1", TOPIC).records)
        consumer = stage.clients["az1"].start_consumer(spec)
        try:
            wait_until(
                lambda: consumer.progress().count,
                within_s=25,
                awaiting=f"the consumer to return {count} records",
                accept=lambda returned: returned >= count,
            )
        except WaitTimeoutError:
            consumer.stop()
            raise
        return consumer

    def _unanswered(self, stage: Stage) -> None:
        producer = self._producer(stage, "unanswered").prepare(TOPIC)
        producer.send(TOPIC, "connected")
        with stage.nemesis.cut("broker1 -> client1"):
            for later in [producer.send_later(TOPIC, f"unanswered{number}") for number in range(3)]:
                later.result()

    def _cut_off(self, stage: Stage) -> None:
        producer = self._producer(stage, "cut off").prepare(TOPIC)
        with stage.nemesis.cut("brokers <-> client1"):
            for later in [producer.send_later(TOPIC, f"cut{number}") for number in range(3)]:
                later.result()

    def _idempotent(self, stage: Stage) -> None:
        settings = {"idempotent": True, "retries": 100, "delivery_timeout_s": 30.0}
        producer = self._producer(stage, "idempotent", **settings).prepare(TOPIC)
        producer.send(TOPIC, "connected")
        with stage.nemesis.cut("broker1 -> client1"):
            sent = [producer.send_later(TOPIC, f"idempotent{number}") for number in range(3)]
            since = stage.mark("answers lost", "answers are lost for 2 s")
            wait_until(
                lambda: stage.since(since),
                within_s=10,
                awaiting="2 s without answers",
                accept=lambda passed_s: passed_s >= 2.0,
            )
        for later in sent:
            later.result()

    def _transactions(self, stage: Stage) -> None:
        producer = self._transactional(stage, "transactions")
        for end_with, label in ((producer.commit, "committed"), (producer.abort, "aborted")):
            producer.begin()
            for number in range(2):
                producer.send(TOPIC, f"{label}{number}")
            end = end_with()
            if end.outcome != label:
                self.problems["transactions"] = f"a transaction that was to be {label} is {end.outcome}"

    @staticmethod
    def _transactional(stage: Stage, name: str) -> TransactionalProducer:
        producer = stage.transactional(
            "az1", name, via="librdkafka", timeout_s=30.0, request_timeout_s=1.5, delivery_timeout_s=30.0
        )
        producer.client.call(Prepare(producer=producer.spec, topic=TOPIC, within_s=30.0))
        return producer

    def _offsets(self, stage: Stage) -> None:
        producer, group = self._transactional(stage, "offsets"), stage.group_offsets("az1", "offsets")
        for offset, commit, expected in ((2, True, 2), (4, False, 2), (3, True, 3)):
            self._must_have(
                "offsets", stage, producer, group, group, offset, commit=commit, expected=expected
            )

    def _member(self, stage: Stage) -> None:
        producer, group = self._transactional(stage, "member"), stage.group_offsets("az1", "member")
        # The log also has records of aborted transactions, and markers.
        member = self._reading(stage, "member", 2 * MESSAGES, group=group.group, commit=False)
        self._must_have("member", stage, producer, group, member, 5, commit=True, expected=5)
        member.stop()
        producer.begin()
        if not producer.send_offsets(member, TOPIC, 6):
            self.problems["member"] = "offsets of a consumer that has left the group are taken"
        producer.abort()

    def _must_have(
        self,
        name: str,
        stage: Stage,
        producer: TransactionalProducer,
        group: GroupOffsets,
        of: BackgroundConsumer | GroupOffsets,
        offset: int,
        *,
        commit: bool,
        expected: int,
    ) -> None:
        """End a transaction with an offset, and compare what the group's coordinator then answers."""
        producer.begin()
        error = producer.send_offsets(of, TOPIC, offset)
        end = producer.commit() if commit else producer.abort()
        coordinator = stage.group_coordinator(group.group)
        committed = group.wait_answered(TOPIC, at=coordinator, stable=True).offset
        how = "committed" if commit else "aborted"
        if error or end.outcome != how:
            self.problems[name] = (
                f"a transaction with offset {offset} was to be {how}; the offset ended with error {error}, "
                f"and the transaction is {end.outcome}"
            )
        elif committed != expected:
            self.problems[name] = (
                f"offset {committed} is committed, where {expected} should be: a transaction with offset "
                f"{offset} was reported as {how}"
            )


@dataclass(frozen=True)
class Objection:
    """Something that the program did or said wrong."""

    operation: str
    sentence: str


def examine(folder: Path, check: ProgramCheck) -> list[Objection]:
    """Compare what the program reported with the final logs. Raises BadDataError."""
    from harness.history.tables import read_table

    names = ("writers", "sends", "copies", "reads", "transactions")
    return list(objections({name: read_table(folder, name).to_pylist() for name in names}, check))


Rows = list[dict[str, Any]]


def objections(rows: Mapping[str, Rows], check: ProgramCheck) -> Iterator[Objection]:
    """Everything that is wrong, judging by the rows of a history."""
    for name, problem in check.problems.items():
        yield Objection(name, problem)
    names = {row["writer"]: row["name"] for row in rows["writers"]}
    logged: dict[tuple[int, int], set[tuple[str, int, int]]] = defaultdict(set)
    log: dict[tuple[str, int, int], tuple[int, int]] = {}
    damaged = set()
    for copy in rows["copies"]:
        if copy["control"] or copy["writer"] is None:
            continue
        message, place = (copy["writer"], copy["seq"]), (copy["topic"], copy["partition"], copy["offset"])
        logged[message].add(place)
        log[place] = message
        if copy["intact"] is False or copy["home"] != f"{copy['topic']}/{copy['partition']}":
            damaged.add(message)
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for send in rows["sends"]:
        message = (send["writer"], send["seq"])
        operation, shown = names[send["writer"]], f"{send['writer']}/{send['seq']}"
        places = logged.get(message, set())
        for what in _wrong(send, places, operation):
            wrong[operation, what].append(shown)
        if message in damaged:
            wrong[operation, "in the log with another value, or in another partition"].append(shown)
    for (operation, what), messages in wrong.items():
        yield Objection(operation, f"{_counted(messages)} {what}")
    yield from _misread(rows["reads"], log, names, check)
    yield from _misdated(rows["copies"], names)
    yield from _visible(rows, check)


def _wrong(send: Mapping[str, Any], places: set[tuple[str, int, int]], operation: str) -> Iterator[str]:
    outcome, offset = send["outcome"], send["offset"]
    if outcome is None:
        yield "sent, but the program never reported an outcome"
    elif outcome == "ok" and not places:
        yield "acknowledged, but in no log"
    elif outcome == "fail" and places:
        yield "reported as definitely not written (`fail`), but in the log"
    elif outcome == "ok" and offset is not None and offset not in {place[2] for place in places}:
        yield "acknowledged with an offset at which the log holds something else"
    if outcome not in ("ok", None) and operation in _UNDISTURBED:
        yield f"not acknowledged (`{outcome}`), although the operation calls for it"
    if len(places) > 1:
        yield "in the log more than once, although the producer may write each message once"


def _misread(
    reads: Rows,
    log: Mapping[tuple[str, int, int], tuple[int, int]],
    names: Mapping[int, str],
    check: ProgramCheck,
) -> Iterator[Objection]:
    owed = {
        place
        for place, (writer, _) in log.items()
        if place[0] == TOPIC and names.get(writer) in ("plain", "acks-one")
    }
    for number, operation in check.readers.items():
        message_at = {
            (row["topic"], row["partition"], row["offset"]): (row["writer"], row["seq"])
            for row in reads
            if row["reader"] == number
        }
        other = [place for place, message in message_at.items() if log.get(place) != message]
        if other:
            yield Objection(operation, f"{_counted(_at(other))} read that the log does not hold there")
        missing = sorted(owed - set(message_at))
        if missing and operation in check.done:
            yield Objection(
                operation, f"{_counted(_at(missing))} in the log, and not returned by the consumer"
            )


def _misdated(copies: Rows, names: Mapping[int, str]) -> Iterator[Objection]:
    """Between two producers at the same time lies the age that one of them gives its records."""
    times: dict[str, dict[int, int]] = defaultdict(dict)
    for copy in copies:
        times[names.get(copy["writer"], "")][copy["offset"]] = copy["timestamp_ms"] or 0
    newest = max(times["plain"].values(), default=0)
    for offset, at_ms in times["timestamps"].items():
        if not newest - _EVENT_AGE_MS <= at_ms <= newest - _EVENT_AGE_MS / 2:
            yield Objection("timestamps", f"the record at offset {offset} has the timestamp {at_ms}")
            return


def _visible(rows: Mapping[str, Rows], check: ProgramCheck) -> Iterator[Objection]:
    """The harness's own reader sees messages of committed transactions, and none of aborted ones."""
    seen = {(row["writer"], row["seq"]) for row in rows["reads"] if row["reader"] not in check.readers}
    ends = {
        (row["writer"], row["txn"]): row["event"] for row in rows["transactions"] if row["event"] != "begin"
    }
    for send in rows["sends"] if seen else ():
        end = ends.get((send["writer"], send["txn"]))
        visible = (send["writer"], send["seq"]) in seen
        message = f"{send['writer']}/{send['seq']}:"
        if end == "committed" and send["outcome"] == "ok" and not visible:
            yield Objection("transactions", f"{message} of a committed transaction, but not visible")
        if end == "aborted" and visible:
            yield Objection("transactions", f"{message} of an aborted transaction, but visible")


def _at(places: Collection[tuple[str, int, int]]) -> list[str]:
    return [f"{topic}/{partition}@{offset}" for topic, partition, offset in sorted(places)]


def _counted(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}:"
