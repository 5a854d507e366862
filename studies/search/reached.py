"""What a run reached: the states and events that its history shows, and the promises that it put to the test.

Each is a short text. A schedule that reaches one that no schedule reached before is worth mutating.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkers.evidence import Evidence, gather
from checkers.health import SERIOUS
from checkers.partition.fate import TRANSACTION_ENDS
from checkers.promises.facts import RunFacts, facts_of
from checkers.promises.judging import judge
from checkers.promises.table import ROWS
from checkers.run_folder import read_manifest
from checkers.tables.output import FINDING
from checkers.tables.source import open_source, read_small
from harness.errors import json_file
from harness.kafka.model import node_host

ASKED = ("lost", "lost_after_read", "duplicated", "out_of_order", "not_converged")
"""Classes of findings that `exercised` assumes, to see which promise they would break."""
OF_TRANSACTIONS = ("torn_transaction", "hanging_transaction")
"""The same for transactional producers."""
TESTABLE = tuple(
    row.name for row in ROWS if row.promised and any(one in (*ASKED, *OF_TRANSACTIONS) for one in row.classes)
)
"""Promises that a run may put to the test."""
_LENGTH = 3
_BEFORE_NS = 1


def reached(folder: Path) -> frozenset[str]:
    """What a judged run reached. Raises BadDataError."""
    source = open_source(str(folder / "history"))
    evidence = gather(source)
    manifest = read_manifest(str(folder))
    facts = facts_of(evidence, kafka=manifest.kafka, mode=manifest.mode)
    judgement = json_file(folder / "judgement.json")
    features = {f"fate {name}" for name, count in judgement["fates"].items() if count}
    features |= {f"finding {row['class']}, {row['row']}" for row in judgement["promises"]}
    features |= set(_logged(evidence))
    features |= set(_orders(facts))
    features |= set(_faults(evidence, facts))
    errors = read_small(source, "sends").select(["outcome", "error", "writer"]).to_pylist()
    acks = {number: row["acks"] for number, row in evidence.writers.items()}
    features |= {
        f"error {row['error']} ({row['outcome']}, acks {acks.get(row['writer'])})"
        for row in errors
        if row["error"]
    }
    features |= {
        f"transaction {row['event']}, error {row['error']}"
        for row in evidence.rows("transactions")
        if row["event"] in TRANSACTION_ENDS
    }
    features |= set(_shared(evidence))
    if facts.two_controllers:
        features.add("two controllers lead at once")
    return frozenset(features)


def _logged(evidence: Evidence) -> Iterator[str]:
    for row in evidence.rows("log_events"):
        if row["kind"] not in SERIOUS:
            yield f"log {row['kind']} ({str(row['host']).rstrip('0123456789')})"


def _shared(evidence: Evidence) -> Iterator[str]:
    """What became of acknowledgements of share groups, and how often records were delivered."""
    for row in evidence.rows("shares"):
        if row["event"] == "answered":
            yield f"share answer {row['answer']}, error {row['error']}"
        elif row["event"] == "acquired" and row["delivery_count"] is not None:
            yield f"share delivery {row['delivery_count']}"


def _orders(facts: RunFacts) -> Iterator[str]:
    """Elections, leaderless times, and changes of the ISR of a partition, three after each other; counts."""
    for states in facts.states.values():
        signs = ""
        elections = 0
        for before, state in zip(states, states[1:], strict=False):
            if state.leader < 0:
                signs += "0"
            elif state.leader != before.leader:
                signs += "L"
                elections += 1
            elif state.epoch != before.epoch and state.isr == before.isr:
                signs += "l"
            if len(state.isr) < len(before.isr):
                signs += "-"
            elif len(state.isr) > len(before.isr):
                signs += "+"
        yield from (f"order {signs[at : at + _LENGTH]}" for at in range(max(1, len(signs) - _LENGTH + 1)))
        yield f"elections {elections if elections < _LENGTH else '3 and more'}"
        yield from (
            f"ISR of {len(state.isr)}, {'led' if state.leader >= 0 else 'no leader'}" for state in states
        )


def _faults(evidence: Evidence, facts: RunFacts) -> Iterator[str]:
    """Each fault with the roles of the hosts that it hit."""
    sources = frozenset(row["source"] for row in evidence.rows("views"))
    controllers = [
        (int(row["ns"]), int(row["controller"]))
        for row in evidence.rows("views")
        if row["subject"] == "controller" and row["controller"] is not None and row["controller"] >= 0
    ]
    for fault in facts.faults:
        hosts = fault.hosts | facts.linked.get(fault.fault, frozenset())
        numbers = {int(host.removeprefix("broker")) for host in hosts if host.startswith("broker")}
        before = [number for ns, number in controllers if ns <= fault.from_ns]
        states = [facts.state_at(*key, fault.from_ns) for key in facts.states]
        roles = []
        if any(state is not None and state.leader in numbers for state in states):
            roles.append("leader")
        elif numbers:
            roles.append("follower")
        if before and node_host(before[-1], sources) in hosts:
            roles.append("controller")
        many = "all" if len(numbers) >= len(evidence_brokers(evidence)) > 1 else ""
        yield f"fault {fault.mechanism} hits {' '.join(filter(None, (many, *roles))) or 'others'}"


def evidence_brokers(evidence: Evidence) -> frozenset[str]:
    """Hosts of brokers that a history names."""
    return frozenset(
        str(row["host"]) for row in evidence.rows("processes") if str(row["host"]).startswith("broker")
    ) or frozenset(
        str(row["source"]) for row in evidence.rows("views") if str(row["source"]).startswith("broker")
    )


def exercised(folder: Path) -> Counter[str]:
    """Promises that the run put to the test, and in how many assumed cases.

    This assumes that a message acknowledged just before a fault was lost, duplicated or moved behind another
    one. If that would have broken a promise, the run put the promise to the test.
    """
    evidence = gather(open_source(str(folder / "history")))
    manifest = read_manifest(str(folder))
    facts = facts_of(evidence, kafka=manifest.kafka, mode=manifest.mode)
    counts: Counter[str] = Counter()
    for finding in _supposed(evidence, facts):
        judged = judge(finding, facts)
        if judged.promise == "broken" and judged.row is not None:
            counts[judged.row] += 1
    return counts


def _supposed(evidence: Evidence, facts: RunFacts) -> Iterator[dict[str, Any]]:
    moments: Sequence[int] = sorted({fault.from_ns - _BEFORE_NS for fault in facts.faults})
    for topic, partition in facts.states:
        for ns in moments:
            state = facts.state_at(topic, partition, ns)
            for number, writer in evidence.writers.items():
                transactional = OF_TRANSACTIONS if writer["transactional_id"] else ()
                for name in (*ASKED, *transactional):
                    yield {
                        **dict.fromkeys(FINDING.names),
                        "class": name,
                        "topic": topic,
                        "partition": partition,
                        "writer": number,
                        "acked_by": None if state is None else state.leader,
                        "acked_ns": ns,
                        "txn": 0 if name in transactional else None,
                        "brokers": [],
                    }
