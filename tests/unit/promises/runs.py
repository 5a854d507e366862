"""Small runs for the promise table: leaders over time, faults, and one finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from checkers.evidence import evidence_of
from checkers.promises.facts import Message, RunFacts, facts_of
from checkers.promises.judging import PromiseJudgement, judge
from checkers.tables.output import FINDING
from harness.history.schema import TABLES

S = 10**9
ACKED = 10 * S
"""When the message of a finding was acknowledged."""


@dataclass
class Run:
    """Rows of a history's small tables, added one by one; each method returns the run."""

    kafka: str | None = "3.9.1"
    mode: str | None = "kraft"
    attached: bool = False
    """acked did not start the cluster."""
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    messages: dict[tuple[int, int], Message] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> Run:
        """One row, as it is."""
        self.rows.setdefault(table, []).append(row)
        return self

    def writer(self, acks: int | None = -1, *, idempotent: bool | None = False, **more: Any) -> Run:
        """Producer 1."""
        row = {"writer": 1, "name": "w", "host": "client1", "client": "raw", "acks": acks, "retries": 0}
        return self.add("writers", **row | {"idempotent": idempotent} | more)

    def config(self, key: str, value: str, scope: str = "topic", name: str = "t") -> Run:
        """An effective value."""
        return self.add("configs", scope=scope, name=name, key=key, value=value)

    def safe(self) -> Run:
        """The safest configuration: min.insync.replicas=2, clean elections, no flush."""
        self.config("min.insync.replicas", "2").config("unclean.leader.election.enable", "false")
        return self.config("flush.messages", str(2**63 - 1))

    def state(self, at: int, leader: int, epoch: int, *isr: int, source: str = "zookeeper1") -> Run:
        """Leader, epoch and ISR of t/0, ``at`` seconds."""
        row = {"topic": "t", "partition": 0, "leader": leader, "epoch": epoch, "isr": sorted(isr)}
        return self.add("views", ns=at * S, source=source, subject="partition", **row)

    def answers(self, broker: int, at: int, *, silent: bool = False) -> Run:
        """Whether a broker answers the observer from a moment on."""
        error = "timed out" if silent else None
        return self.add("views", ns=at * S, source=f"broker{broker}", subject="reachable", error=error)

    def down(self, broker: int, since: int, until: int | None = None, event: str = "killed") -> Run:
        """A broker's process ends, and is started again."""
        self.add("processes", ns=since * S, host=f"broker{broker}", event=event)
        if until is not None:
            self.add("processes", ns=until * S, host=f"broker{broker}", event="started")
        return self

    def fault(
        self,
        mechanism: str,
        since: int,
        until: int | None = None,
        targets: str = "{}",
        kind: str = "",
        name: str = "",
    ) -> Run:
        """A fault; without an end it is never healed."""
        kind = kind or {"cut": "link", "kill": "process", "elect_unclean": "operator"}.get(
            mechanism, "storage"
        )
        row = {"fault": 1 + len(self.rows.get("faults", [])), "name": name or mechanism, "kind": kind}
        row |= {"mechanism": mechanism, "targets": targets}
        self.add("faults", ns=since * S, moment="injected", **row)
        if until is not None:
            self.add("faults", ns=until * S, moment="healed", **row)
        return self

    def replica(self, broker: int, **more: Any) -> Run:
        """A replica at the end."""
        return self.add("replicas", topic="t", partition=0, broker=broker, complete=True, **more)

    def message(self, **facts: Any) -> Run:
        """What is known about the message of the finding."""
        self.messages[1, 0] = Message(**facts)
        return self

    def facts(self) -> RunFacts:
        """The facts that these rows hold."""
        tables = {name: pa.Table.from_pylist(self.rows.get(name, []), schema=_loose(name)) for name in TABLES}
        return facts_of(
            evidence_of(tables),
            kafka=self.kafka,
            mode=self.mode,
            attached=self.attached,
            messages=self.messages,
        )

    def judge(self, name: str = "lost", **more: Any) -> PromiseJudgement:
        """The judgement of one finding about message 1/0 of t/0, acknowledged by broker 1."""
        return judge(finding(name, **more), self.facts())


def _loose(table: str) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in TABLES[table].arrow()])


def finding(name: str, **more: Any) -> Mapping[str, Any]:
    """A finding with every column."""
    row = dict.fromkeys(FINDING.names) | {"class": name, "topic": "t", "partition": 0, "writer": 1, "seq": 0}
    row |= {"offset": 0, "acked_ns": ACKED, "acked_by": 1, "brokers": [], "count": 1, "expected": False}
    return row | more
