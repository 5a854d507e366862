"""What a run recorded besides messages: faults, leaders, writers, sightings; looked up for each message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.messages import FOREVER, Ints
from checkers.tables.group_reads import group_reads, watermarks_of
from checkers.tables.source import Source, numbers, read_small
from checkers.transactions.answers import ReportedTransactions, transactions_of
from checkers.transactions.debts import Debt, debts_of
from harness.errors import BadDataError, json_object, json_value, quoted
from harness.history.mechanisms import MECHANISMS
from harness.history.time_zero import TimeZero, time_zero
from harness.kafka.model import TopicPartition, broker_id
from harness.kafka.versions import version_key

Row = dict[str, Any]
"""A row of a table, by column; the schema says which type each value has."""
DATA_LOSS = tuple(name for name, mechanism in MECHANISMS.items() if mechanism.loses_data)
HINDERS_REPLICATION = tuple(name for name, mechanism in MECHANISMS.items() if mechanism.hinders_replication)
"""Mechanisms of faults that take data from a replica's disk."""

_VERSION = re.compile(r"\d+(\.\d+)*([@+]|$)")
PRODUCER_ID_EXPIRATION_NS = 86_400 * 10**9
"""Kafka's default of `producer.id.expiration.ms`."""

SMALL = (
    "writers",
    "faults",
    "views",
    "log_events",
    "processes",
    "groups",
    "shares",
    "share_states",
    "applications",
    "transactions",
    "producer_ids",
    "replicas",
    "configs",
    "producer_states",
    "transaction_states",
    "unobserved",
)
"""Tables that stay small however long the run is; every task gets them complete."""


@dataclass(frozen=True, kw_only=True)
class FaultSpan:
    """One fault, from the moment it was in force until it was healed."""

    fault: int
    name: str
    kind: str
    mechanism: str
    """One of `harness.history.mechanisms.MECHANISMS`."""
    hosts: frozenset[str]
    """Exact names of the hosts it names as targets."""
    partitions: frozenset[str]
    """`topic/partition` of the partitions it is restricted to; empty: no restriction."""
    first_offset: int = -1
    """The first offset that it damaged or took in these partitions; -1: not recorded."""
    from_ns: int
    until_ns: int
    moment: str
    """The row of `faults` from which ``from_ns`` comes."""
    targets: Mapping[str, Any] = field(default_factory=dict)
    """The row's `targets`, if they are an object."""
    stated: bool = False
    """Somebody stated it, and nothing proves it."""


@dataclass(frozen=True, kw_only=True)
class ClientCut:
    """A time in which nothing passed between some producers and a broker."""

    writers: tuple[int, ...]
    broker: int
    from_ns: int
    until_ns: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The small tables of a history, and what is computed from them once."""

    tables: Mapping[str, pa.Table]
    faults: tuple[FaultSpan, ...] = ()
    writers: Mapping[int, Row] = field(default_factory=dict)
    transactions: ReportedTransactions = field(default_factory=ReportedTransactions)
    debts: tuple[Debt, ...] = ()
    """Markers that coordinators still had to write."""
    start_ns: int = 0
    """The earliest time in any small table."""
    kafka: tuple[int, ...] | None = None
    """Kafka's version as a sort key; None: not known."""

    @property
    def acks(self) -> dict[int, int]:
        """The acks of each producer, by its number; -1: all."""
        return {number: writer["acks"] for number, writer in self.writers.items()}

    @cached_property
    def application_topics(self) -> frozenset[str]:
        """The topics to which applications of Kafka Streams write: outputs and changelogs."""
        rows = self.rows("applications")
        return frozenset(
            row[name] for row in rows for name in ("output", "changelog") if row[name] is not None
        )

    @cached_property
    def zero(self) -> TimeZero:
        """What times that are shown count from."""
        return time_zero(self.rows("faults"), self.rows("processes"), self.start_ns)

    @cached_property
    def producer_id_expiration_ns(self) -> int:
        """Idle time after which brokers forget a producer's sequence numbers; the default if not recorded.

        `producer.id.expiration.ms`, or `transactional.id.expiration.ms` in versions that lack it (KIP-854).
        """
        table = self.tables.get("configs")
        if table is not None and table.num_rows:
            for key in ("producer.id.expiration.ms", "transactional.id.expiration.ms"):
                of_brokers = pc.and_(pc.equal(table["scope"], "broker"), pc.equal(table["key"], key))
                rows = table.filter(of_brokers).select(["value", "asked"]).to_pylist()
                texts = [row["asked"] if row["value"] is None else row["value"] for row in rows]
                numbers_ms = [ms for text in texts if (ms := whole_number(text)) is not None and ms >= 0]
                if numbers_ms:
                    return min(numbers_ms) * 10**6
        return PRODUCER_ID_EXPIRATION_NS

    @cached_property
    def client_cuts(self) -> tuple[ClientCut, ...]:
        """Proven cuts between clients and brokers."""
        by_host: dict[str, list[int]] = {}
        for number, row in self.writers.items():
            by_host.setdefault(str(row["host"]), []).append(number)
        healing = {row["fault"]: int(row["ns"]) for row in self.rows("faults") if row["moment"] == "healing"}
        cuts = []
        for span in self.faults:
            if span.mechanism != "cut" or span.moment != "injected" or span.stated:
                continue
            for hosts in {link.hosts for link in _links(span.targets) if link.service in ("", "kafka")}:
                for host in hosts & by_host.keys():
                    cuts += [
                        ClientCut(
                            writers=tuple(by_host[host]),
                            broker=broker,
                            from_ns=span.from_ns,
                            until_ns=healing.get(span.fault, span.until_ns),
                        )
                        for broker in map(broker_of, hosts - {host})
                        if broker >= 0
                    ]
        return tuple(cuts)

    def rows(self, table: str) -> list[Row]:
        """A small table as Python rows."""
        stored = self.tables.get(table)
        rows: list[Row] = [] if stored is None else stored.to_pylist()
        return rows

    def data_losses(self, where: TopicPartition) -> list[FaultSpan]:
        """Storage faults that may have taken records of a topic partition from the brokers that they hit."""
        return [
            fault
            for fault in self.faults
            if fault.mechanism in DATA_LOSS and (not fault.partitions or str(where) in fault.partitions)
        ]

    def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic that views name, rising."""
        views = self.tables.get("views")
        if views is None or not views.num_rows:
            return []
        partitions = views.filter(pc.equal(views["topic"], topic))["partition"].drop_null()
        return sorted(partitions.unique().to_pylist())

    def rows_about(self, table: str, where: TopicPartition, *, or_all: bool = False) -> list[Row]:
        """The rows of a small table about one topic partition; with ``or_all`` also those that name none.

        Every task asks, and a history of many partitions has many rows: only these become Python objects.
        """
        stored = self.tables.get(table)
        if stored is None or not stored.num_rows:
            return []
        topic, partition = stored["topic"], stored["partition"]
        about = pc.and_(pc.equal(topic, where.topic), pc.equal(partition, where.partition))
        if or_all:
            about = pc.or_kleene(about, pc.and_(pc.is_null(topic), pc.is_null(partition)))
        rows: list[Row] = stored.filter(about).to_pylist()
        return rows

    def for_tasks(self) -> Evidence:
        """The same without the tables that tasks do not read; `transactions` may be as large as `sends`."""
        empty = {
            name: self.tables[name].schema.empty_table()
            for name in ("transactions", "producer_ids", "producer_states", "transaction_states")
            if name in self.tables
        }
        return replace(self, tables={**self.tables, **empty}, transactions=self.transactions.for_tasks())


def gather(source: Source, kafka: str | None = None) -> Evidence:
    """Read the small tables of a history. Raises BadDataError for damaged or contradictory ones.

    ``kafka`` is the version of Kafka, if a manifest names it. Of partitions that groups read, the evidence
    holds `watermarks` too, and the reads by which a group's position is known (`group_reads`).
    """
    tables = {name: read_small(source, name) for name in SMALL}
    require_one_leader(tables["replicas"])
    if tables["groups"].num_rows:
        tables["watermarks"] = watermarks_of(source, tables["groups"])
        tables["group_reads"] = group_reads(source, tables["groups"], tables["watermarks"])
    return evidence_of(tables, kafka)


def require_one_leader(replicas: pa.Table) -> None:
    """Raise BadDataError if a replica has several rows, or a partition several leaders.

    Which log decides is then not known, and no fate would follow from the table.
    """
    rows: set[tuple[str, int, int]] = set()
    leaders: dict[tuple[str, int], int] = {}
    columns = [replicas[name].to_pylist() for name in ("topic", "partition", "broker", "leader")]
    for topic, partition, broker, leads in zip(*columns, strict=True):
        if (topic, partition, broker) in rows:
            raise BadDataError(
                f"replicas has two rows for broker {broker} and {quoted(topic)}, partition {partition}; "
                f"keep the row that tells how that replica ended."
            )
        rows.add((topic, partition, broker))
        if leads and leaders.setdefault((topic, partition), broker) != broker:
            raise BadDataError(
                f"replicas names brokers {leaders[topic, partition]} and {broker} as leaders of "
                f"{quoted(topic)}, partition {partition}; mark the one that led at the end, or none."
            )


def evidence_of(tables: Mapping[str, pa.Table], kafka: str | None = None) -> Evidence:
    """Derive the evidence from the small tables."""
    small = [tables[name] for name in SMALL if name in tables]
    moments = [table["ns"][0].as_py() for table in small if "ns" in table.column_names and table.num_rows]
    return Evidence(
        tables=tables,
        faults=_fault_spans(tables["faults"]),
        writers={row["writer"]: row for row in tables["writers"].to_pylist()},
        transactions=transactions_of(
            tables["transactions"], tables["writers"].to_pylist(), tables["producer_ids"].to_pylist()
        ),
        debts=debts_of(tables["transaction_states"].to_pylist()),
        start_ns=min((ns for ns in moments if ns is not None), default=0),
        kafka=None if kafka is None or not _VERSION.match(kafka) else version_key(kafka),
    )


def whole_number(text: str | None) -> int | None:
    """The number of a property of Kafka (int or long); None if the text holds none, as of another program."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,19}", text) else None


def broker_of(host: str) -> int:
    """The id of the broker that a host runs, -1 for a host that runs none: `broker12` is 12."""
    try:
        return broker_id(host)
    except ValueError:
        return -1


def first_injection(faults: Iterable[Row]) -> int | None:
    """When the first fault began to be injected, ns; None when there was none.

    ``faults`` are rows of that table.
    """
    times = (row["ns"] for row in faults if row["moment"] in ("injecting", "injected"))
    return min(times, default=None)


def _fault_spans(table: pa.Table) -> tuple[FaultSpan, ...]:
    starts: dict[int, Row] = {}
    ends: dict[int, int] = {}
    for row in sorted(table.to_pylist(), key=lambda row: int(row["ns"])):
        number = row["fault"]
        if row["moment"] == "injected" or (row["moment"] == "injecting" and number not in starts):
            starts[number] = row
        elif row["moment"] in ("healed", "failed"):
            ends[number] = row["ns"]
    spans = []
    for number, row in sorted(starts.items(), key=lambda item: (int(item[1]["ns"]), item[0])):
        targets = _object(row["targets"])
        spans.append(
            FaultSpan(
                fault=number,
                name=row["name"],
                kind=row["kind"],
                mechanism=row["mechanism"] or "other",
                hosts=frozenset(_texts(targets.get("hosts"))),
                partitions=frozenset(_texts(targets.get("partitions"))),
                first_offset=_first_offset(row),
                from_ns=row["ns"],
                until_ns=ends.get(number, FOREVER),
                moment=row["moment"],
                targets=targets,
                stated=bool(row["stated"]),
            )
        )
    return tuple(spans)


def linked_hosts(rows: Iterable[Row]) -> Mapping[int, frozenset[str]]:
    """The hosts at the ends of the links that each fault names, by its number.

    ``rows`` are those of `faults`.
    """
    linked: dict[int, frozenset[str]] = {}
    for row in rows:
        if row["fault"] in linked:
            continue
        linked[row["fault"]] = frozenset().union(*(link.hosts for link in _links(_object(row["targets"]))))
    return linked


class _Link(NamedTuple):
    hosts: frozenset[str]
    """The hosts at its ends."""
    service: str
    """What the fault is restricted to (`broker1 -> broker2:kafka`); empty: no restriction."""


def _links(targets: Mapping[str, Any]) -> list[_Link]:
    """The links that the targets of a fault name."""
    links = targets.get("links")
    return [
        _Link(
            frozenset(end.partition(":")[0].strip() for end in str(link).split("->")),
            str(link).partition("->")[2].partition(":")[2],
        )
        for link in (links if isinstance(links, list) else ())
    ]


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        return json_object(text or "{}", "targets of faults")
    except BadDataError:
        return {}


def _first_offset(fault: Row) -> int:
    """The first offset that a fault damaged or took; -1 if its row does not state it.

    The evidence states that of the damaged batch; the targets have the offset that the fault should hit.
    """
    for column, key in (("evidence", "first_offset"), ("targets", "offset")):
        try:
            damage = json_value(fault[column] or "{}", f"{column} of faults")
        except BadDataError:
            continue
        offset = damage.get(key) if isinstance(damage, dict) else None
        if type(offset) is int and 0 <= offset < FOREVER:
            return offset
    return -1


def _texts(items: object) -> set[str]:
    return {str(item) for item in items} if isinstance(items, list) else set()


def during(faults: tuple[FaultSpan, ...], at_ns: Ints) -> Ints:
    """Position of the newest fault in force at each time, -1 for none (or an unknown time)."""
    positions = np.full(len(at_ns), -1, dtype=np.int32)
    for position, fault in enumerate(faults):
        positions[(at_ns >= fault.from_ns) & (at_ns < fault.until_ns) & (at_ns >= 0)] = position
    return positions


def fault_names(faults: tuple[FaultSpan, ...], positions: Ints) -> pa.Array:
    """Names of faults by position, null for -1."""
    return _pick([fault.name for fault in faults], positions, pa.string())


def fault_numbers(faults: tuple[FaultSpan, ...], positions: Ints) -> pa.Array:
    """Numbers of faults by position, null for -1."""
    return _pick([fault.fault for fault in faults], positions, pa.int32())


def writer_columns(evidence: Evidence, writer: Ints) -> dict[str, pa.Array]:
    """Columns of `life` that describe the writer of each message."""
    writers = sorted(evidence.writers)
    lookup = np.array(writers, dtype=np.int64)
    place = np.searchsorted(lookup, writer)
    place = np.minimum(place, max(0, len(writers) - 1))
    place = np.where(lookup[place] == writer, place, -1) if writers else np.full(len(writer), -1)
    names = {"writer_name": "name", "host": "host", "az": "az", "role": "role", "client": "client"}
    columns = {
        target: _pick([evidence.writers[w][name] for w in writers], place, pa.string())
        for target, name in names.items()
    }
    columns["acks"] = _pick([evidence.writers[w]["acks"] for w in writers], place, pa.int32())
    columns["idempotent"] = _pick([evidence.writers[w]["idempotent"] for w in writers], place, pa.bool_())
    return columns


def _pick(values: Sequence[object], positions: Ints, kind: pa.DataType) -> pa.Array:
    if not values:
        return pa.nulls(len(positions), kind)
    return pa.array(values, kind).take(pa.array(positions, pa.int32(), mask=positions < 0))


def broker_events(evidence: Evidence) -> Iterator[tuple[int, str, str]]:
    """Time, host and event of the starts and ends of brokers' processes."""
    for row in evidence.rows("processes"):
        if str(row["host"]).startswith("broker") and row["event"] in ("killed", "exited", "ready", "paused"):
            yield row["ns"], row["host"], row["event"]


_Leadership = tuple[int, int | None]
"""A broker that led, and in which epoch."""


def _leaderships_at(rows: Sequence[Row], known: Sequence[_Leadership], at_ns: Ints) -> Ints:
    """Who led at each time by the newest of these views, sorted by time: place in ``known``, else -1."""
    stated = [(row["ns"], _leadership(row)) for row in rows if row["leader"] is not None]
    times = np.array([ns for ns, _ in stated], dtype=np.int64)
    places = [known.index(one) if one in known else -1 for _, one in stated]
    return np.array([-1, *places], dtype=np.int64)[np.searchsorted(times, at_ns, side="right")]


def _leadership(row: Row) -> _Leadership:
    return int(row["leader"]), row["epoch"]


def acknowledged_by(
    evidence: Evidence,
    topic: str,
    partition: int,
    *,
    stated: Ints,
    first_seen: Ints,
    writer: Ints,
    sent_ns: Ints,
    done_ns: Ints,
    replaced_epoch: Ints,
) -> Ints:
    """The broker that acknowledged each message; -1 if it is not known.

    If the answer states it (``stated``), it is that broker. Otherwise it is the broker on which the record
    was first seen, if that broker had led by then, since a record may be seen on a follower first. Otherwise
    it is the leader at the time of the answer, unless another broker led, or took itself for the leader,
    between the send and the answer: that one may have acknowledged it as well. If all of these brokers but
    one are excluded, it is that one. A broker is excluded if a cut kept the client from it for as long as
    it can have led in that time. So it is if another record, which it wrote as the leader, is at the
    message's offset: a leader writes each offset once in an epoch. ``replaced_epoch`` is the leader epoch of
    that record in the final log; -1: there is none.
    """
    rows = sorted(
        (
            row
            for row in evidence.rows_about("views", TopicPartition(topic, partition))
            if row["subject"] == "partition"
        ),
        key=lambda row: (int(row["ns"]), -1 if row["leader"] is None else row["leader"]),
    )
    brokers = np.where(stated >= 0, stated, first_seen)
    if not rows:
        return brokers
    led_from: dict[int, int] = {}
    since: dict[_Leadership, int] = {}
    for row in rows:
        led_from.setdefault(-1 if row["leader"] is None else row["leader"], row["ns"])
        if row["leader"] is not None and row["leader"] >= 0:
            since.setdefault(_leadership(row), row["ns"])
    seen_only = np.zeros(len(brokers), dtype=bool)
    for broker in np.unique(brokers[(stated < 0) & (brokers >= 0)]).tolist():
        follower = done_ns < led_from.get(broker, FOREVER)
        seen_only |= (stated < 0) & (brokers == broker) & follower
    rest = np.flatnonzero((brokers < 0) | seen_only)
    sent_ns, done_ns, writer = sent_ns[rest], done_ns[rest], writer[rest]
    known = list(since)
    leaders = np.array([*(broker for broker, _ in known), -1], dtype=np.int64)
    first, last = (_leaderships_at(rows, known, ns) for ns in (sent_ns, done_ns))
    before, after = leaders[first], leaders[last]
    doubtful = (before >= 0) & (after >= 0) & (before != after)
    possible = {one: (first == place) | (last == place) for place, one in enumerate(known)}
    for one, from_ns, to_ns in _own_leaderships(rows):
        meanwhile = (done_ns >= from_ns) & (sent_ns < to_ns)
        doubtful |= (after >= 0) & (after != one[0]) & meanwhile
        possible[one] = possible[one] | meanwhile
    only = after
    if doubtful.any():
        left = {broker: np.zeros(len(rest), dtype=bool) for broker, _ in known}
        for (broker, epoch), may in possible.items():
            for cut in evidence.client_cuts:
                if cut.broker == broker:
                    may_lead_ns = np.maximum(sent_ns, since[broker, epoch])
                    lasts = (may_lead_ns >= cut.from_ns) & (done_ns <= cut.until_ns)
                    may = may & ~(lasts & np.isin(writer, cut.writers))
            if epoch is not None:
                may = may & (replaced_epoch[rest] != epoch)
            left[broker] |= may
        names, flags = np.array(list(left), dtype=np.int64), np.stack(list(left.values()))
        single = np.where(flags.sum(axis=0) == 1, names[flags.argmax(axis=0)], -1)
        only = np.where(doubtful, single, after)
    brokers[rest] = np.where((after < 0) & seen_only[rest], brokers[rest], only)
    return brokers


def _own_leaderships(rows: Sequence[Row]) -> list[tuple[_Leadership, int, int]]:
    """When each broker took itself for the leader, from and until. ``rows`` are views sorted by time."""
    leaderships: list[tuple[_Leadership, int, int]] = []
    since: dict[str, tuple[_Leadership, int]] = {}
    for row in rows:
        source = row["source"]
        broker = broker_of(source)
        leads = broker >= 0 and row["leader"] == broker
        if source in since and not (leads and since[source][0] == _leadership(row)):
            leaderships.append((*since.pop(source), row["ns"]))
        if leads:
            since.setdefault(source, (_leadership(row), row["ns"]))
    return leaderships + [(*one, FOREVER) for one in since.values()]


def own_epoch_at(evidence: Evidence, topic: str, partition: int, broker: Ints, at_ns: Ints) -> Ints:
    """The leader epoch that each broker itself last named before a time; -1 if it never named one."""
    own_epochs = np.full(len(at_ns), -1, dtype=np.int64)
    stated = evidence.rows_about("views", TopicPartition(topic, partition))
    for number in np.unique(broker[broker >= 0]).tolist():
        rows = sorted(
            (row["ns"], row["epoch"])
            for row in stated
            if row["source"] == f"broker{number}"
            and row["subject"] == "partition"
            and row["epoch"] is not None
        )
        times = np.array([row[0] for row in rows], dtype=np.int64)
        epochs = np.array([-1, *(row[1] for row in rows)], dtype=np.int64)
        of_broker = broker == number
        own_epochs[of_broker] = epochs[np.searchsorted(times, at_ns[of_broker], side="right")]
    return own_epochs


@dataclass(frozen=True, kw_only=True)
class Sightings:
    """Per message: the broker on which it was first seen, and where it was last seen; -1 stands for never."""

    first_broker: Ints
    again_ns: Ints
    """When it was last seen again on that broker, after it had gone from there."""
    last_broker: Ints
    last_offset: Ints
    last_epoch: Ints
    gone_ns: Ints


def sightings_of(count: int, row: Ints, table: pa.Table) -> Sightings:
    """Condense `sightings` (``row`` is the message of each) to one entry per message."""
    seen, gone = numbers(table, "seen_ns"), numbers(table, "gone_ns", -1)
    broker, offset, epoch = numbers(table, "broker"), numbers(table, "offset"), numbers(table, "epoch")
    empty = np.full(count, -1, dtype=np.int64)
    first, last_broker, last_offset, last_epoch, gone_ns = (empty.copy() for _ in range(5))
    first_ns, again_ns = empty.copy(), empty.copy()
    known_rows = np.flatnonzero(row >= 0)
    by_first = known_rows[np.lexsort((seen[known_rows],))][::-1]
    first[row[by_first]], first_ns[row[by_first]] = broker[by_first], seen[by_first]
    again = by_first[::-1]
    again = again[(broker[again] == first[row[again]]) & (seen[again] > first_ns[row[again]])]
    again_ns[row[again]] = seen[again]
    until = np.where(gone < 0, FOREVER, gone)
    by_last = known_rows[np.lexsort((-seen[known_rows], until[known_rows]))]
    last_broker[row[by_last]] = broker[by_last]
    last_offset[row[by_last]] = offset[by_last]
    last_epoch[row[by_last]] = epoch[by_last]
    gone_ns[row[by_last]] = gone[by_last]
    return Sightings(
        first_broker=first,
        again_ns=again_ns,
        last_broker=last_broker,
        last_offset=last_offset,
        last_epoch=last_epoch,
        gone_ns=gone_ns,
    )
