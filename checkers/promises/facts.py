"""The facts by which promises are judged: configuration, faults, processes, leaders and ISRs of one run."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from checkers.convergence import incomplete_isrs
from checkers.evidence import (
    PRODUCER_ID_EXPIRATION_NS,
    Evidence,
    FaultSpan,
    Row,
    broker_of,
    linked_hosts,
    whole_number,
)
from checkers.partition.messages import FOREVER
from harness.kafka.model import node_host
from harness.kafka.versions import version_key

_ENDED = ("killed", "stopped", "exited")


class IsrState(NamedTuple):
    """Leader, epoch and ISR of a partition, from ``ns`` on."""

    ns: int
    leader: int
    epoch: int
    isr: tuple[int, ...]


class Span(NamedTuple):
    """A time during which a broker's process was down."""

    from_ns: int
    until_ns: int


@dataclass(frozen=True, kw_only=True)
class ReplicaFacts:
    """What is known of a replica at the end."""

    broker: int
    in_sync: bool | None
    leader: bool | None
    high_watermark: int | None
    ns: int | None
    log_start: int | None = None


@dataclass(frozen=True, kw_only=True)
class Message:
    """What the history holds about one message, where a finding does not say it."""

    outcome: str | None = None
    aborted: bool = False
    """It belongs to a transaction that was aborted."""
    overlapped: bool | None = None
    """A later message that has a lower offset was sent before this one was answered."""
    sessions: int | None = None
    """Number of producer ids of its records in the logs; None: the records name none."""
    epochs: int | None = None
    """Number of producer epochs of its records, counted for each producer id; None: the records name none."""
    took_ns: int | None = None
    """Time from the send to the answer; None: there was none."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a history says about one run, without its messages."""

    kafka: str | None = None
    """Kafka's version, for example `2.7.1` or `2.7.1@2.6`; in an upgrade, the one that it begins with."""
    upgraded: frozenset[str] = frozenset()
    """The versions that nodes were started with in an upgrade."""
    mode: str | None = None
    """`zookeeper`, `kraft` or `kraft-combined`."""
    configs: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """Effective values by scope (`broker` or `topic`), name and key, as far as they stayed the same."""
    writers: Mapping[int, Row] = field(default_factory=dict)
    faults: tuple[FaultSpan, ...] = ()
    linked: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Hosts at the ends of the links that a fault names, by its number."""
    down: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)
    """When each broker's process was down, by time."""
    silent: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)
    """When each broker's process was not ready yet, or had been paused for longer than its session."""
    ended_uncleanly: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """When each broker's process was killed or exited by itself."""
    states: Mapping[tuple[str, int], tuple[IsrState, ...]] = field(default_factory=dict)
    """Leaders and ISRs of each partition by time, as the metadata store reports them."""
    replicas: Mapping[tuple[str, int], tuple[ReplicaFacts, ...]] = field(default_factory=dict)
    unclean: frozenset[tuple[str, int]] = frozenset()
    """Partitions for which a broker logged an unclean election."""
    stuck: frozenset[tuple[str, int]] = frozenset()
    """Partitions whose ISR is incomplete at the end, because a change of it was never answered."""
    two_controllers: bool = False
    """Two KRaft controllers claimed to lead the quorum at the same time."""
    producer_id_expiration_ns: int = PRODUCER_ID_EXPIRATION_NS
    """Idle time after which brokers may forget a producer's sequence numbers."""
    attached: bool = False
    """acked did not start the cluster: what became of its processes and disks is not known, and `silent` says
    when its brokers did not answer."""
    messages: Mapping[tuple[int, int], Message] = field(default_factory=dict)
    """Messages by writer and seq, as far as findings need them."""

    def version(self) -> tuple[int, ...] | None:
        """The version as a sort key; None if it is not known."""
        return None if self.kafka is None else version_key(self.kafka)

    def versions(self) -> tuple[tuple[int, ...] | None, ...]:
        """The versions that ran, the first one first."""
        return (self.version(), *sorted(map(version_key, self.upgraded - {self.kafka})))

    def session_ns(self) -> int | None:
        """How long a broker is silent before it counts as failed; None if it is not known."""
        zookeeper = self.mode is None or self.mode == "zookeeper"
        key = "zookeeper.session.timeout.ms" if zookeeper else "broker.session.timeout.ms"
        session_ms = whole_number(self.broker_config(key))
        return session_ms * 10**6 if session_ms is not None and session_ms >= 0 else None

    def topic_config(self, topic: str, key: str, broker_key: str | None = None) -> str | None:
        """The effective value for a topic; None if the history does not hold it."""
        value = self.configs.get(("topic", topic, key))
        if value is not None:
            return value
        # A topic may override what the brokers say. Before 0.11 only overrides of topics were recorded.
        version = self.version()
        if topic.startswith("__") or (version is not None and version < (0, 11)):
            return self.broker_config(broker_key or key)
        return None

    def broker_config(self, key: str) -> str | None:
        """The value on all brokers; None if it is not known, or differs between brokers."""
        values = {
            value for (scope, _, name), value in self.configs.items() if (scope, name) == ("broker", key)
        }
        return values.pop() if len(values) == 1 else None

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """All times at which anything in these facts changes."""
        edges = {ns for fault in self.faults for ns in (fault.from_ns, fault.until_ns)}
        edges |= {
            ns
            for down in (self.down, self.silent)
            for spans in down.values()
            for span in spans
            for ns in span
        }
        edges |= {state.ns for states in self.states.values() for state in states}
        return tuple(sorted(edges))

    def is_out_of_service(self, broker: int, ns: int) -> bool:
        """Whether the broker's process was down or silent: without a session, a broker counts as failed."""
        silent = any(span.from_ns <= ns < span.until_ns for span in self.silent.get(broker, ()))
        return silent or self.is_down(broker, ns)

    def is_down(self, broker: int, ns: int) -> bool:
        """Whether the broker's process was down at a time."""
        return any(span.from_ns <= ns < span.until_ns for span in self.down.get(broker, ()))

    def state_at(self, topic: str, partition: int, ns: int) -> IsrState | None:
        """The newest state of a partition at a time; its first state if all are later."""
        states = self.states.get((topic, partition), ())
        place = bisect_right(states, ns, key=lambda state: state.ns)
        return states[max(0, place - 1)] if states else None

    def later_states(self, topic: str, partition: int, ns: int) -> tuple[IsrState, ...]:
        """The states of a partition after a time."""
        states = self.states.get((topic, partition), ())
        return states[bisect_right(states, ns, key=lambda state: state.ns) :]

    def high_watermark(self, topic: str, partition: int) -> int | None:
        """The high watermark of the partition's leader at the end; None if it is not known."""
        replicas = self.replicas.get((topic, partition), ())
        return next((replica.high_watermark for replica in replicas if replica.leader), None)

    def log_start(self, topic: str, partition: int) -> int | None:
        """The log start offset of the partition's leader at the end; None if it is not known."""
        replicas = self.replicas.get((topic, partition), ())
        return next((replica.log_start for replica in replicas if replica.leader), None)

    def ends_of_processes(self, ns: int) -> tuple[int, ...]:
        """When brokers' processes ended, from a time on."""
        times = sorted(span.from_ns for spans in self.down.values() for span in spans)
        return tuple(times[bisect_left(times, ns) :])


def facts_of(
    evidence: Evidence,
    *,
    kafka: str | None = None,
    mode: str | None = None,
    attached: bool = False,
    messages: Mapping[tuple[int, int], Message] | None = None,
) -> RunFacts:
    """The facts that the small tables of a history hold."""
    views = sorted(evidence.rows("views"), key=lambda row: int(row["ns"]))
    processes = sorted(evidence.rows("processes"), key=lambda row: int(row["ns"]))
    facts = RunFacts(
        kafka=kafka if kafka is None or re.fullmatch(r"[\d.]+(@.*)?", kafka) else None,
        upgraded=frozenset(str(row["kafka"]) for row in processes if row.get("kafka")),
        mode=mode,
        configs=_configs(evidence),
        writers=evidence.writers,
        faults=evidence.faults,
        linked=linked_hosts(evidence.rows("faults")),
        down=_down(processes, evidence.faults),
        ended_uncleanly=_unclean_ends(processes),
        states=_states(views),
        replicas=_replicas(evidence.rows("replicas")),
        unclean=frozenset(
            (row["topic"], row["partition"])
            for row in evidence.rows("log_events")
            if row["kind"] == "unclean_election" and row["topic"] is not None
        ),
        stuck=frozenset((isr.topic, isr.partition) for isr in incomplete_isrs(evidence) if isr.cause),
        two_controllers=_two_controllers(views),
        producer_id_expiration_ns=evidence.producer_id_expiration_ns,
        attached=attached,
        messages=messages or {},
    )
    if attached:
        return replace(facts, silent=_unanswered(views))
    return replace(facts, silent=_silent(processes, facts.session_ns()))


def _configs(evidence: Evidence) -> Mapping[tuple[str, str, str], str]:
    table = evidence.tables["configs"]
    columns = [table[name].to_pylist() for name in ("scope", "name", "key", "value", "asked")]
    configs: dict[tuple[str, str, str], set[str]] = {}
    for scope, name, key, value, asked in zip(*columns, strict=True):
        effective = asked if value is None else value
        if effective is not None:
            configs.setdefault((scope, name, key), set()).add(effective)
    return {where: values.pop() for where, values in configs.items() if len(values) == 1}


def _down(processes: Iterable[Row], faults: tuple[FaultSpan, ...]) -> Mapping[int, tuple[Span, ...]]:
    spans: dict[int, list[Span]] = {}
    ended: dict[int, int] = {}
    any_process = False
    for row in processes:
        broker = broker_of(row["host"])
        if broker < 0:
            continue
        any_process = True
        if row["event"] in _ENDED:
            ended.setdefault(broker, row["ns"])
        elif row["event"] == "started" and broker in ended:
            spans.setdefault(broker, []).append(Span(ended.pop(broker), row["ns"]))
    for broker, ns in ended.items():
        spans.setdefault(broker, []).append(Span(ns, FOREVER))
    if not any_process:  # a history without processes: the faults say when one was down
        for fault in faults:
            if not fault.stated and fault.mechanism in ("kill", "stop", "power_cut"):
                for broker in filter(lambda number: number >= 0, map(broker_of, fault.hosts)):
                    spans.setdefault(broker, []).append(Span(fault.from_ns, fault.until_ns))
    return {broker: tuple(sorted(broker_spans)) for broker, broker_spans in spans.items()}


def _silent(processes: Iterable[Row], session_ns: int | None) -> Mapping[int, tuple[Span, ...]]:
    """From the start of each process until it is ready, and pauses from the end of the session on."""
    spans: dict[int, list[Span]] = {}
    paused: dict[int, int] = {}
    started: dict[int, int] = {}
    for row in processes:
        broker, event, ns = broker_of(row["host"]), row["event"], int(row["ns"])
        if broker < 0:
            continue
        if event == "paused":
            paused.setdefault(broker, ns)
        elif broker in paused:
            since = paused.pop(broker)
            if session_ns is not None and ns > since + session_ns:
                spans.setdefault(broker, []).append(Span(since + session_ns, ns))
        if event == "started":
            started[broker] = ns
        elif event == "ready" and broker in started:
            spans.setdefault(broker, []).append(Span(started.pop(broker), ns))
    return {broker: tuple(sorted(broker_spans)) for broker, broker_spans in spans.items()}


def _unanswered(views: Iterable[Row]) -> Mapping[int, tuple[Span, ...]]:
    """From the first question that a broker left unanswered until it answered again."""
    spans: dict[int, list[Span]] = {}
    since: dict[int, int] = {}
    for row in views:
        if row["subject"] != "reachable" or (broker := broker_of(row["source"])) < 0:
            continue
        if row["error"] is not None:
            since.setdefault(broker, row["ns"] if row["asked_ns"] is None else row["asked_ns"])
        elif broker in since:
            spans.setdefault(broker, []).append(Span(since.pop(broker), row["ns"]))
    for broker, ns in since.items():
        spans.setdefault(broker, []).append(Span(ns, FOREVER))
    return {broker: tuple(silences) for broker, silences in spans.items()}


def _unclean_ends(processes: Iterable[Row]) -> Mapping[int, tuple[int, ...]]:
    unclean_ns: dict[int, tuple[int, ...]] = {}
    for row in processes:
        broker = broker_of(row["host"])
        if broker >= 0 and row["event"] in ("killed", "exited"):
            unclean_ns[broker] = (*unclean_ns.get(broker, ()), row["ns"])
    return unclean_ns


def _states(views: Iterable[Row]) -> Mapping[tuple[str, int], tuple[IsrState, ...]]:
    """States by time: as ZooKeeper reports them; with KRaft controllers, any node's of the newest epoch."""
    views = list(views)
    rows = [
        row
        for row in views
        if row["subject"] == "partition" and row["topic"] is not None and row["epoch"] is not None
    ]
    stored = [row for row in rows if row["source"].startswith("zookeeper")]
    states_by_partition: dict[tuple[str, int], list[IsrState]] = {}
    in_kraft = any(row["source"].startswith("controller") for row in views)
    for row in rows if in_kraft else stored or rows:
        leader = -1 if row["leader"] is None else row["leader"]
        states = states_by_partition.setdefault((row["topic"], row["partition"]), [])
        state = IsrState(row["ns"], leader, row["epoch"], tuple(row["isr"] or ()))
        if not states or (state.epoch >= states[-1].epoch and state[1:] != states[-1][1:]):
            states.append(state)
    return {partition: tuple(states) for partition, states in states_by_partition.items()}


def _replicas(rows: Iterable[Row]) -> Mapping[tuple[str, int], tuple[ReplicaFacts, ...]]:
    replicas: dict[tuple[str, int], tuple[ReplicaFacts, ...]] = {}
    for row in rows:
        key = (row["topic"], row["partition"])
        replica = ReplicaFacts(
            broker=row["broker"],
            in_sync=row["in_sync"],
            leader=row["leader"],
            high_watermark=row["high_watermark"],
            ns=row["ns"],
            log_start=row["log_start"],
        )
        replicas[key] = (*replicas.get(key, ()), replica)
    return replicas


def _two_controllers(views: Iterable[Row]) -> bool:
    stated = [
        row for row in views if row["subject"] == "controller" and not row["source"].startswith("zookeeper")
    ]
    sources = frozenset(row["source"] for row in stated)
    claims: dict[str, int] = {}
    for row in stated:
        leads = row["controller"] is not None and node_host(row["controller"], sources) == row["source"]
        if row["error"] is None and leads:
            claims[row["source"]] = row["controller"]
            if len(set(claims.values())) > 1:
                return True
        elif row["error"] is None:
            claims.pop(row["source"], None)
    return False
