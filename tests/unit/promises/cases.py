"""Hand-written runs, one or more for each row of the promise table, with the judgement that each must get.

Runs that differ in one fact are next to each other: the same finding breaks a promise in only one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from checkers.records import evidence_row, facts_text
from tests.unit.promises.runs import Run, S

LOST: dict[str, Any] = {}
AGAIN = '{"hosts": ["broker1"]}'
EVERYWHERE = '{"hosts": ["broker1", "broker2", "broker3"]}'


class Expected(NamedTuple):
    """A run, the finding in it, and its judgement."""

    run: Run
    finding: str
    promise: str
    row: str | None
    more: dict[str, Any] = LOST
    bug: str | None = None


def _acks(level: int | None) -> Run:
    return Run().writer(level).safe()


def _failover(run: Run) -> Run:
    """Broker 1 is cut off; broker 2, which is in its ISR, leads; broker 1 returns."""
    run.state(1, 1, 0, 1, 2, 3).fault("cut", 5, 30, name="isolate az1")
    return run.state(15, 2, 1, 2, 3).state(35, 2, 1, 1, 2, 3)


def _crash(run: Run) -> Run:
    """Broker 1 is killed; broker 2 leads."""
    return run.state(1, 1, 0, 1, 2, 3).down(1, 15, 40).state(18, 2, 1, 2, 3)


def _crash_of_all(run: Run) -> Run:
    for broker in (1, 2, 3):
        run.down(broker, 15, 40)
    return run.state(1, 1, 0, 1, 2, 3).state(45, 2, 1, 2)


def _alone(run: Run, shrunk: int = 12) -> Run:
    """The ISR shrinks to broker 1, which crashes and returns as the leader."""
    run.state(1, 1, 0, 1, 2, 3).state(shrunk, 1, 0, 1).down(1, 15, 40)
    return run.state(45, 1, 2, 1)


def _unclean(run: Run) -> Run:
    """The ISR shrinks to broker 1; broker 2 is elected."""
    return run.state(1, 1, 0, 1, 2, 3).state(12, 1, 0, 1).fault("cut", 11, 30).state(15, 2, 1, 2)


def _expiring(after_ms: str, *, idempotent: bool = True) -> Run:
    run = _librdkafka(idempotent=idempotent)
    return run.config("producer.id.expiration.ms", after_ms, scope="broker", name="broker1")


def _begins_at(start: int, run: Run) -> Run:
    """The leader's log begins later in the end."""
    row = {"topic": "t", "partition": 0, "broker": 1, "leader": True, "in_sync": True, "complete": True}
    return run.add("replicas", ns=100 * S, log_start=start, **row)


def _min_one() -> Run:
    run = (
        Run().writer(-1).config("min.insync.replicas", "1").config("unclean.leader.election.enable", "false")
    )
    return run.config("flush.messages", "9223372036854775807")


def _flushing(interval: str = "1") -> Run:
    run = (
        Run().writer(-1).config("min.insync.replicas", "2").config("unclean.leader.election.enable", "false")
    )
    return run.config("flush.messages", interval)


def _with_unclean(value: str) -> Run:
    run = Run().writer(-1).config("min.insync.replicas", "2")
    return run.config("unclean.leader.election.enable", value)


def _hung(session: int | None, ready: int = 25) -> Run:
    """Brokers 1 and 3 are paused for 20 s; meanwhile broker 2 is killed, loses its data, and leads."""
    run = Run().writer(-1).safe().state(1, 2, 0, 1, 2, 3)
    if session is not None:
        run.config("broker.session.timeout.ms", str(session * 1000), "broker", "broker1")
    for broker in ("broker1", "broker3"):
        run.add("processes", ns=14 * S, host=broker, event="paused")
    run.down(2, 15, 16).fault("wipe", 15, 16, targets='{"hosts": ["broker2"]}')
    run.add("processes", ns=ready * S, host="broker2", event="ready").state(26, 2, 2, 2)
    for broker in ("broker1", "broker3"):
        run.add("processes", ns=34 * S, host=broker, event="resumed")
    return run


def _elr(enabled: str, run: Run | None = None) -> Run:
    run = run or Run(kafka="4.1.0").writer(-1).safe()
    return run.config("eligible.leader.replicas.version", enabled, "cluster", "features")


def _librdkafka(**more: Any) -> Run:
    return Run().writer(-1, client="librdkafka", retries=5, **more).safe()


def _retained(run: Run, limit_ms: str = "3000", limit_bytes: str = "-1") -> Run:
    """Retention by time or size; -1: none."""
    run = run.config("cleanup.policy", "delete")
    return run.config("retention.ms", limit_ms).config("retention.bytes", limit_bytes)


def _two_claims(run: Run) -> Run:
    """Controller 1 still claims to lead when controller 2 does."""
    run.add("views", ns=1 * S, source="controller1", subject="controller", controller=11, epoch=3)
    return run.add("views", ns=8 * S, source="controller2", subject="controller", controller=12, epoch=4)


def _not_converged(run: Run, ended: int = 100) -> Run:
    return run.replica(1, in_sync=True, leader=True, ns=ended * S).replica(2, in_sync=False, ns=ended * S)


def _unclean_log(run: Run, topic: str) -> Run:
    """An unclean election of the only partition of an internal topic."""
    return (
        run.config("unclean.leader.election.enable", "true", "broker", "broker1")
        .add("views", ns=S, source="broker1", subject="partition", topic=topic, partition=0, epoch=0)
        .add("log_events", ns=S, host="broker2", kind="unclean_election", topic=topic, partition=0)
    )


def _offsets(run: Run, value: str = "-1") -> Run:
    return run.config("offsets.commit.required.acks", value, "broker", "broker1")


CASES: dict[str, Callable[[], Expected]] = {
    # ---- acks=0 and acks=1
    "acks=0, leader isolated": lambda: Expected(_failover(_acks(0)), "lost", "not promised", "acks-0"),
    "acks=0, no fault": lambda: Expected(_acks(0), "lost", "not promised", "acks-0"),
    "acks=0, but read": lambda: Expected(_failover(_acks(0)), "lost_after_read", "broken", "partition"),
    "acks=1, leader isolated": lambda: Expected(_failover(_acks(1)), "lost", "not promised", "acks-1-leader"),
    "acks=1, acknowledged after another was elected": lambda: Expected(
        _failover(_acks(1)), "lost", "not promised", "acks-1-leader", {"acked_ns": 32 * S}
    ),
    "acks=1, leader killed": lambda: Expected(_crash(_acks(1)), "lost", "not promised", "acks-1-leader"),
    "acks=1, another broker killed": lambda: Expected(
        _acks(1).state(1, 1, 0, 1, 2, 3).down(3, 15, 40), "lost", "broken", "acks-1-steady"
    ),
    "acks=1, the leader crashed before": lambda: Expected(
        _acks(1).state(1, 1, 0, 1, 2, 3).down(1, 3, 5), "lost", "broken", "acks-1-steady"
    ),
    "acks=1, no fault": lambda: Expected(_acks(1).state(1, 1, 0, 1, 2, 3), "lost", "broken", "acks-1-steady"),
    "acks=1, an election before the acknowledgement, by whom is not known": lambda: Expected(
        _crash(_acks(1)), "lost", "unknown", "acks-1-leader", {"acked_ns": 45 * S, "acked_by": None}
    ),
    "acks=1, no views": lambda: Expected(_acks(1), "lost", "unknown", "acks-1-leader"),
    "acks=1, but read, leader isolated": lambda: Expected(
        _failover(_acks(1)), "lost_after_read", "broken", "partition"
    ),
    "acks not recorded": lambda: Expected(_failover(_acks(None)), "lost", "unknown", "acks-0"),
    "producer not recorded": lambda: Expected(_failover(Run().safe()), "lost", "unknown", "acks-0"),
    # ---- acks=all: what survives
    "acks=all, leader's AZ isolated": lambda: Expected(_failover(_acks(-1)), "lost", "broken", "partition"),
    "acks=all, moved": lambda: Expected(_failover(_acks(-1)), "moved", "broken", "partition"),
    "acks=all, min.insync 1, leader isolated": lambda: Expected(
        _failover(_min_one()), "lost", "broken", "partition"
    ),
    "acks=all, min.insync 1, the ISR was the leader, isolated": lambda: Expected(
        _min_one().state(1, 1, 0, 1).fault("cut", 11, 30).state(15, -1, 1, 1).state(35, 1, 2, 1),
        "lost",
        "broken",
        "partition",
    ),
    "acks=all, leader killed": lambda: Expected(_crash(_acks(-1)), "lost", "broken", "crash-of-some"),
    "acks=all, one AZ of three lost with its disk": lambda: Expected(
        _crash(_acks(-1)).fault("wipe", 16, targets=AGAIN), "lost", "broken", "power-loss-of-some"
    ),
    "acks=all, power loss of the leader": lambda: Expected(
        _crash(_acks(-1)).fault("power_cut", 15, targets=AGAIN), "lost", "broken", "power-loss-of-some"
    ),
    "acks=all, all killed": lambda: Expected(_crash_of_all(_acks(-1)), "lost", "broken", "crash-of-all"),
    "acks=all, no fault": lambda: Expected(_acks(-1).state(1, 1, 0, 1, 2, 3), "lost", "broken", "committed"),
    "acks=all, before the log start offset": lambda: Expected(
        _begins_at(4, _acks(-1).state(1, 1, 0, 1, 2, 3)),
        "lost",
        "broken",
        "removed-as-configured",
        {"offset": 3},
    ),
    "acks=all, removed by a broker whose clock was ahead": lambda: Expected(
        _begins_at(4, _acks(-1).state(1, 1, 0, 1, 2, 3)),
        "lost",
        "not promised",
        "clock-ahead",
        {"offset": 3, "cause": "clock_ahead"},
    ),
    "acks=1, removed by a broker whose clock was ahead": lambda: Expected(
        _begins_at(4, _acks(1).state(1, 1, 0, 1, 2, 3)),
        "lost",
        "not promised",
        "clock-ahead",
        {"offset": 3, "cause": "clock_ahead"},
    ),
    "acks=all, at the log start offset": lambda: Expected(
        _begins_at(3, _acks(-1).state(1, 1, 0, 1, 2, 3)), "lost", "broken", "committed", {"offset": 3}
    ),
    "acks=all, before the log start offset, all lost power": lambda: Expected(
        _begins_at(4, _crash_of_all(_acks(-1)).fault("power_cut", 15, targets=EVERYWHERE)),
        "lost",
        "not promised",
        "all-in-sync-replicas-lost-data",
        {"offset": 3},
    ),
    "acks=all, paused": lambda: Expected(
        _acks(-1).state(1, 1, 0, 1, 2, 3).fault("pause", 11, 20, kind="process"),
        "lost",
        "broken",
        "committed",
    ),
    "acks=all, all lost power before": lambda: Expected(
        _acks(-1).state(1, 1, 0, 1, 2, 3).fault("power_cut", 2, 3, targets=EVERYWHERE).down(1, 2, 4),
        "lost",
        "broken",
        "committed",
    ),
    # ---- acks=all: power, disks
    "acks=all, all lose power": lambda: Expected(
        _crash_of_all(_acks(-1)).fault("power_cut", 15, targets=EVERYWHERE),
        "lost",
        "not promised",
        "all-in-sync-replicas-lost-data",
    ),
    "acks=all, all lose power, of another partition": lambda: Expected(
        _crash_of_all(_acks(-1)).fault("wipe", 15, targets='{"hosts": ["broker1"], "partitions": ["u/0"]}'),
        "lost",
        "broken",
        "crash-of-all",
    ),
    "acks=all, all lose power, one flush each": lambda: Expected(
        _crash_of_all(_flushing()).fault("power_cut", 15, targets=EVERYWHERE),
        "lost",
        "broken",
        "power-loss-flushed",
    ),
    "acks=all, all lose power, a flush every second message": lambda: Expected(
        _crash_of_all(_flushing("2")).fault("power_cut", 15, targets=EVERYWHERE),
        "lost",
        "not promised",
        "all-in-sync-replicas-lost-data",
    ),
    "acks=all, all lose their disks, one flush each": lambda: Expected(
        _crash_of_all(_flushing()).fault("wipe", 16, targets=EVERYWHERE),
        "lost",
        "not promised",
        "all-in-sync-replicas-lost-data",
    ),
    "acks=all, all lose power, flush not recorded": lambda: Expected(
        _crash_of_all(_with_unclean("false")).fault("power_cut", 15, targets=EVERYWHERE),
        "lost",
        "unknown",
        "all-in-sync-replicas-lost-data",
    ),
    "acks=all, all lose power, no views": lambda: Expected(
        _acks(-1).fault("power_cut", 15, 40, targets=EVERYWHERE).down(1, 15, 40),
        "lost",
        "unknown",
        "all-in-sync-replicas-lost-data",
    ),
    "min.insync 1, all lose power": lambda: Expected(
        _crash_of_all(_min_one()).fault("power_cut", 15, targets=EVERYWHERE),
        "lost",
        "not promised",
        "all-in-sync-replicas-lost-data",
    ),
    "min.insync 1, the only in-sync replica wiped": lambda: Expected(
        _alone(_min_one(), 8).fault("wipe", 16, targets=AGAIN), "lost", "not promised", "isr-of-one"
    ),
    "min.insync 1, the only in-sync replica killed": lambda: Expected(
        _alone(_min_one(), 8), "lost", "broken", "crash-of-all"
    ),
    "min.insync 2, the last in-sync replica wiped": lambda: Expected(
        _alone(_acks(-1)).fault("wipe", 16, targets=AGAIN), "lost", "not promised", "last-replica-standing"
    ),
    "min.insync 2, a replica wiped that was out of the ISR": lambda: Expected(
        _alone(_acks(-1)).fault("wipe", 16, targets='{"hosts": ["broker2"]}'),
        "lost",
        "broken",
        "crash-of-all",
    ),
    "eligible leader replicas, the last one wiped": lambda: Expected(
        _alone(_elr("1")).fault("wipe", 16, targets=AGAIN), "lost", "broken", "eligible-leader-replicas"
    ),
    "eligible leader replicas, leader's AZ isolated": lambda: Expected(
        _failover(_elr("1")), "lost", "broken", "partition"
    ),
    "eligible leader replicas switched off": lambda: Expected(
        _alone(_elr("0")).fault("wipe", 16, targets=AGAIN), "lost", "not promised", "last-replica-standing"
    ),
    "eligible leader replicas not recorded": lambda: Expected(
        _alone(Run(kafka="4.1.0").writer(-1).safe()).fault("wipe", 16, targets=AGAIN),
        "lost",
        "unknown",
        "eligible-leader-replicas",
    ),
    "eligible leader replicas, as the empty ISR shows": lambda: Expected(
        _alone(Run(kafka="4.1.0").writer(-1).safe()).state(38, -1, 1).fault("wipe", 16, targets=AGAIN),
        "lost",
        "broken",
        "eligible-leader-replicas",
    ),
    "eligible leader replicas, and another was killed": lambda: Expected(
        _alone(_elr("1")).down(2, 11, 50).fault("wipe", 16, targets=AGAIN),
        "lost",
        "not promised",
        "last-replica-standing",
    ),
    "eligible leader replicas, and another was stopped": lambda: Expected(
        _alone(_elr("1")).down(2, 11, 50, "stopped").fault("wipe", 16, targets=AGAIN),
        "lost",
        "broken",
        "eligible-leader-replicas",
    ),
    # ---- unclean elections
    "unclean election enabled": lambda: Expected(
        _unclean(_with_unclean("true")), "lost", "not promised", "unclean-enabled"
    ),
    "unclean election disabled": lambda: Expected(
        _unclean(_with_unclean("false")), "lost", "broken", "clean-election"
    ),
    "unclean election enabled, but the election was clean": lambda: Expected(
        _failover(_with_unclean("true")), "lost", "broken", "partition"
    ),
    "unclean election, configuration not recorded": lambda: Expected(
        _unclean(Run().writer(-1)), "lost", "unknown", "unclean-enabled"
    ),
    "unclean election, as the brokers' log tells": lambda: Expected(
        _failover(_with_unclean("true")).add(
            "log_events", ns=15 * S, host="broker2", kind="unclean_election", topic="t", partition=0
        ),
        "lost",
        "not promised",
        "unclean-enabled",
    ),
    "an operator elected an unclean leader": lambda: Expected(
        _unclean(_with_unclean("false")).fault("elect_unclean", 14, targets='{"partitions": ["t/0"]}'),
        "lost",
        "not promised",
        "unclean-by-operator",
    ),
    "an operator elected an unclean leader of another partition": lambda: Expected(
        _unclean(_with_unclean("false")).fault("elect_unclean", 14, targets='{"partitions": ["u/0"]}'),
        "lost",
        "broken",
        "clean-election",
    ),
    # ---- replicas that differ
    "in-sync replicas differ": lambda: Expected(
        _failover(_acks(1)).replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
    ),
    "replicas differ, and nobody knows which were in sync": lambda: Expected(
        _failover(_acks(1)).replica(1).replica(2),
        "diverged",
        "unknown",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
    ),
    "a follower lacks what is not committed": lambda: Expected(
        _acks(1).replica(1, leader=True, high_watermark=7),
        "diverged",
        "not promised",
        "above-high-watermark",
        {"detail": facts_text(difference="log_ends_earlier"), "offset": 7},
    ),
    "a follower lacks what is committed": lambda: Expected(
        _acks(1).replica(1, leader=True, in_sync=True, high_watermark=8),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="log_ends_earlier"), "offset": 7},
    ),
    "a follower lacks records, no high watermark": lambda: Expected(
        _acks(1).replica(1, leader=True),
        "diverged",
        "unknown",
        "above-high-watermark",
        {"detail": facts_text(difference="log_ends_earlier"), "offset": 7},
    ),
    "only a replica out of sync holds it": lambda: Expected(
        _failover(_acks(1)).replica(1, in_sync=False),
        "diverged",
        "not promised",
        "acks-1-leader",
        {"brokers": [1]},
    ),
    "a replica in sync holds it": lambda: Expected(
        _failover(_acks(1)).replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"brokers": [1]},
    ),
    "in-sync replicas differ where a file was cut": lambda: Expected(
        _acks(1).fault("truncate", 15, targets=AGAIN),
        "diverged",
        "not promised",
        "storage-damage",
        {"detail": facts_text(difference="log_ends_earlier"), "brokers": [2]},
    ),
    # ---- bytes and strangers
    "corrupt where a fault changed bytes": lambda: Expected(
        Run().fault("damage", 15, targets=AGAIN),
        "corrupt",
        "not promised",
        "storage-damage",
        {"brokers": [1]},
    ),
    "corrupt where the damaged batch begins": lambda: Expected(
        Run().fault("damage", 15, targets='{"hosts": ["broker1"], "offset": 7}'),
        "corrupt",
        "not promised",
        "storage-damage",
        {"brokers": [1], "offset": 7},
    ),
    "corrupt before the damaged batch": lambda: Expected(
        Run().fault("damage", 15, targets='{"hosts": ["broker1"], "offset": 8}'),
        "corrupt",
        "broken",
        "checksum",
        {"brokers": [1], "offset": 7},
    ),
    "corrupt on another replica": lambda: Expected(
        Run().fault("damage", 15, targets=AGAIN), "corrupt", "broken", "checksum", {"brokers": [2]}
    ),
    "foreign": lambda: Expected(Run(), "foreign", "broken", "records-as-sent"),
    "misrouted": lambda: Expected(Run(), "misrouted", "broken", "records-as-sent"),
    "overwritten where a fault changed bytes": lambda: Expected(
        Run().fault("damage", 15, targets=AGAIN),
        "overwritten",
        "not promised",
        "storage-damage",
        {"brokers": [1]},
    ),
    # ---- failures and aborts
    "refused, and yet written": lambda: Expected(_acks(-1), "phantom", "broken", "refused-not-written"),
    "refused after retries, and yet written": lambda: Expected(
        _librdkafka(), "phantom", "not promised", "refused-after-retry"
    ),
    "refused, and yet read": lambda: Expected(
        _acks(-1).message(outcome="fail"), "aborted_read", "broken", "refused-not-written"
    ),
    "aborted, and yet read": lambda: Expected(
        _acks(-1).message(outcome="ok", aborted=True),
        "aborted_read",
        "broken",
        "read-committed",
    ),
    "read, and later lost by an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")).message(outcome="info"),
        "aborted_read",
        "not promised",
        "unclean-enabled",
    ),
    "read, and later lost in a partition": lambda: Expected(
        _failover(_acks(1)).message(outcome="info"), "aborted_read", "broken", "partition", {"acked_ns": None}
    ),
    "read at another offset, after an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")),
        "offset_conflict",
        "not promised",
        "unclean-enabled",
        {"acked_ns": None},
    ),
    "read, message not looked up": lambda: Expected(
        _unclean(_with_unclean("true")), "aborted_read", "unknown", "refused-not-written"
    ),
    # ---- duplicates
    "duplicate of a retry": lambda: Expected(_librdkafka(), "duplicated", "not promised", "duplicate-retry"),
    "idempotent, but the producer id had expired": lambda: Expected(
        _expiring("2000").message(sessions=1, took_ns=3 * S),
        "duplicated",
        "not promised",
        "duplicate-after-expiration",
    ),
    "retry without idempotence, for longer than producer ids live": lambda: Expected(
        _expiring("2000", idempotent=False).message(sessions=1, took_ns=3 * S),
        "duplicated",
        "not promised",
        "duplicate-retry",
    ),
    "idempotent, answered before the producer id expired": lambda: Expected(
        _expiring("4000").message(sessions=1, took_ns=3 * S), "duplicated", "broken", "duplicate-idempotent"
    ),
    "duplicate of one request": lambda: Expected(_acks(-1), "duplicated", "broken", "duplicate-one-attempt"),
    "duplicate of an idempotent producer": lambda: Expected(
        _librdkafka(idempotent=True).message(sessions=1), "duplicated", "broken", "duplicate-idempotent"
    ),
    "duplicate of two sessions": lambda: Expected(
        _librdkafka(idempotent=True).message(sessions=2),
        "duplicated",
        "not promised",
        "duplicate-of-another-session",
    ),
    "duplicate, producer ids unknown": lambda: Expected(
        _librdkafka(idempotent=True), "duplicated", "unknown", "duplicate-of-another-session"
    ),
    "duplicate, idempotence not recorded": lambda: Expected(
        _librdkafka(idempotent=None).message(sessions=1), "duplicated", "unknown", "duplicate-idempotent"
    ),
    # ---- order
    "out of order, retries, several in flight": lambda: Expected(
        _librdkafka(config='{"max.in.flight": 5}'), "out_of_order", "not promised", "order-retries"
    ),
    "out of order, retries, one in flight to each broker": lambda: Expected(
        _librdkafka(config='{"max.in.flight.requests.per.connection": 1}'),
        "out_of_order",
        "not promised",
        "order-retries",
    ),
    "out of order, retries, one in flight": lambda: Expected(
        Run().writer(1, client="java", retries=3, config='{"max.in.flight.requests.per.connection": "1"}'),
        "out_of_order",
        "broken",
        "order",
    ),
    "out of order, retries, librdkafka's default": lambda: Expected(
        _librdkafka(), "out_of_order", "not promised", "order-retries"
    ),
    "out of order, idempotent": lambda: Expected(
        _librdkafka(idempotent=True, config='{"max.in.flight": 5}'),
        "out_of_order",
        "broken",
        "order-idempotent",
    ),
    "out of order, requests on two connections": lambda: Expected(
        _acks(1).message(overlapped=True), "out_of_order", "not promised", "order-of-connections"
    ),
    "out of order, one request after the other": lambda: Expected(
        _acks(1).message(overlapped=False), "out_of_order", "broken", "order"
    ),
    "out of order, in flight not recorded": lambda: Expected(
        Run().writer(1, client="java", retries=3), "out_of_order", "unknown", "order-retries"
    ),
    # ---- all in-sync replicas out of service at once
    "one wiped while the others hang for longer than their sessions": lambda: Expected(
        _hung(4), "lost", "not promised", "all-in-sync-replicas-lost-data"
    ),
    "one wiped while the others hang for less than their sessions": lambda: Expected(
        _hung(30), "lost", "broken", "power-loss-of-some"
    ),
    "one wiped while the others hang, sessions not recorded": lambda: Expected(
        _hung(None), "lost", "broken", "power-loss-of-some"
    ),
    "one wiped and ready before the others' sessions end": lambda: Expected(
        _hung(4, ready=17), "lost", "broken", "power-loss-of-some"
    ),
    # ---- readers
    "skip": lambda: Expected(_failover(Run().safe()), "skip", "broken", "read-order"),
    "skip after an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")),
        "skip",
        "not promised",
        "reads-after-unclean-election",
        {"acked_ns": None},
    ),
    "skip, unclean election enabled, clean failover": lambda: Expected(
        _failover(_with_unclean("true")), "skip", "broken", "read-order"
    ),
    "skip after an unclean election that was not allowed": lambda: Expected(
        _unclean(_with_unclean("false")), "skip", "broken", "read-order"
    ),
    "back after data was lost": lambda: Expected(
        _crash_of_all(Run().safe()).fault("power_cut", 15, targets=EVERYWHERE),
        "non_monotonic",
        "not promised",
        "reads-after-data-loss",
        {"acked_ns": None},
    ),
    "replay": lambda: Expected(_offsets(Run()), "replay", "broken", "committed-offsets"),
    "replay, commits wait for one replica": lambda: Expected(
        _offsets(Run(), "1"), "replay", "not promised", "offset-commit-acks"
    ),
    "replay, commits not recorded": lambda: Expected(Run(), "replay", "unknown", "offset-commit-acks"),
    "replay, a replaced coordinator answered": lambda: Expected(
        _offsets(Run()),
        "replay",
        "not promised",
        "stale-coordinator",
        {"cause": "stale_coordinator"},
    ),
    "replay, two owners": lambda: Expected(
        _offsets(Run()),
        "replay",
        "not promised",
        "replay-by-two-owners",
        {"cause": "two_owners"},
    ),
    "an old offset of a replaced coordinator": lambda: Expected(
        _offsets(Run()),
        "stale_offset",
        "not promised",
        "stale-coordinator",
        {"cause": "stale_coordinator"},
    ),
    "commit lost": lambda: Expected(
        _offsets(Run()), "commit_lost", "broken", "committed-offsets", {"cause": "new_coordinator"}
    ),
    "commit lost, commits wait for one replica": lambda: Expected(
        _offsets(Run(), "1"), "commit_lost", "not promised", "offset-commit-acks"
    ),
    "two owners": lambda: Expected(Run(), "double_ownership", "not promised", "ownership"),
    # ---- share groups
    "an accept lost": lambda: Expected(Run(), "accept_lost", "broken", "accepts"),
    "an accept lost in an unclean election of the log of states": lambda: Expected(
        _unclean_log(Run(), "__share_group_state"),
        "accept_lost",
        "not promised",
        "accepts-after-lost-states",
    ),
    "accepted, and handed out again by a leader that was deposed": lambda: Expected(
        Run(), "accept_lost", "not promised", "accepts-beside-stale-leaders", {"cause": "stale_leader"}
    ),
    "accepted, and kept by a client that had it from a leader that was deposed": lambda: Expected(
        Run(), "accept_lost", "not promised", "accepts-beside-stale-leaders", {"cause": "earlier_leader"}
    ),
    "done with a record whose offset was another's": lambda: Expected(
        _crash_of_all(_acks(-1)).fault("power_cut", 15, targets=EVERYWHERE),
        "archived",
        "not promised",
        "archived-after-lost-records",
        {"cause": "records_replaced"},
    ),
    "done with a record, all lose power, and its offset was its own": lambda: Expected(
        _crash_of_all(_acks(-1)).fault("power_cut", 15, targets=EVERYWHERE),
        "archived",
        "broken",
        "archived",
        {"cause": "unexplained"},
    ),
    "done with a record, and one replica of three lost its disk": lambda: Expected(
        _acks(-1).fault("wipe", 15, targets='{"hosts": ["broker3"], "partitions": ["t/0"]}'),
        "archived",
        "broken",
        "archived",
        {"cause": "records_replaced"},
    ),
    "handed to two": lambda: Expected(Run(), "held_twice", "broken", "one-holder"),
    "handed to two by two leaders": lambda: Expected(
        Run(), "held_twice", "not promised", "deliveries-over-failovers", {"cause": "new_share_leader"}
    ),
    "handed to two when one was gone": lambda: Expected(
        Run(), "held_twice", "not promised", "records-of-gone-members", {"cause": "share_session_fault"}
    ),
    "delivered too often": lambda: Expected(Run(), "over_delivered", "broken", "one-holder"),
    "delivered too often by two leaders": lambda: Expected(
        Run(), "over_delivered", "not promised", "deliveries-over-failovers", {"cause": "new_share_leader"}
    ),
    "acknowledged too late": lambda: Expected(Run(), "lock_outlived", "broken", "one-holder"),
    "acknowledged too late, and done before": lambda: Expected(
        Run(),
        "lock_outlived",
        "not promised",
        "late-acknowledgement-of-done-records",
        {"cause": "done_before"},
    ),
    "archived": lambda: Expected(Run(), "archived", "broken", "archived"),
    "archived at the limit": lambda: Expected(
        Run(), "archived", "not promised", "archived-at-the-limit", {"cause": "delivery_limit"}
    ),
    "available for long": lambda: Expected(Run(), "not_delivered", "not promised", "share-availability"),
    # ---- applications of Kafka Streams
    "not counted": lambda: Expected(Run(), "not_counted", "broken", "streams-exactly-once"),
    "not counted after an unclean election": lambda: Expected(
        Run(),
        "not_counted",
        "not promised",
        "streams-after-data-loss",
        {"cause": "unclean_election"},
    ),
    "counted twice after a power cut": lambda: Expected(
        Run(), "counted_twice", "not promised", "streams-after-data-loss", {"cause": "unflushed_data_lost"}
    ),
    "counted twice": lambda: Expected(Run(), "counted_twice", "broken", "streams-exactly-once"),
    "counted twice, at least once": lambda: Expected(
        Run(), "counted_twice", "not promised", "streams-at-least-once", {"cause": "at_least_once"}
    ),
    "a store that differs": lambda: Expected(Run(), "store_differs", "broken", "streams-exactly-once"),
    "a store that counted twice": lambda: Expected(
        Run(), "store_differs", "not promised", "streams-at-least-once", {"cause": "at_least_once"}
    ),
    "an offset expired": lambda: Expected(Run(), "offset_expired", "not promised", "offset-retention"),
    "an offset outside of a watched log": lambda: Expected(
        Run(), "offset_outside", "not promised", "offset-outside-log"
    ),
    "committed batches of a watched topic gone": lambda: Expected(
        _unclean(_with_unclean("true")), "truncated", "not promised", "unclean-enabled", {"writer": None}
    ),
    "a group stood still": lambda: Expected(Run(), "group_stalled", "not promised", "group-availability"),
    "a group was reset below the log start": lambda: Expected(
        _retained(Run()),
        "group_reset",
        "not promised",
        "reset-by-retention",
        {"offset": 5, "found_offset": 9, "evidence": [evidence_row("configs", None, "retention")]},
    ),
    "a group was reset below the log start, by size": lambda: Expected(
        _retained(Run(), limit_ms="-1", limit_bytes="1000"),
        "group_reset",
        "not promised",
        "reset-by-retention",
        {"offset": 5, "found_offset": 9, "evidence": [evidence_row("configs", None, "retention")]},
    ),
    "a group was reset below the log start, nothing is removed": lambda: Expected(
        _retained(Run().safe(), limit_ms="-1").state(1, 1, 0, 1, 2, 3),
        "group_reset",
        "broken",
        "read-order",
        {"offset": 5, "found_offset": 9},
    ),
    "a group was reset below the log start, retention is not known": lambda: Expected(
        Run(), "group_reset", "unknown", "reset-by-retention", {"offset": 5, "found_offset": 9}
    ),
    "a group was reset, though its position was above the log start": lambda: Expected(
        _retained(Run().safe()).state(1, 1, 0, 1, 2, 3),
        "group_reset",
        "broken",
        "read-order",
        {"offset": 9, "found_offset": 5, "evidence": [evidence_row("configs", None, "retention")]},
    ),
    "a reader skips after an operator's election": lambda: Expected(
        _unclean(_with_unclean("false")).fault("elect_unclean", 14, targets='{"partitions": ["t/0"]}'),
        "skip",
        "not promised",
        "reads-after-operator-election",
    ),
    "replay after an unclean election of the offsets topic": lambda: Expected(
        _unclean_log(_offsets(Run()), "__consumer_offsets"),
        "replay",
        "not promised",
        "offsets-topic-lost-data",
    ),
    # ---- the run
    "not in sync, link still cut": lambda: Expected(
        _not_converged(Run().fault("cut", 11)),
        "not_converged",
        "not promised",
        "isr-under-fault",
        {"brokers": [2]},
    ),
    "not in sync, broker down": lambda: Expected(
        _not_converged(Run().down(2, 15)),
        "not_converged",
        "not promised",
        "isr-under-fault",
        {"brokers": [2]},
    ),
    "not in sync, long after the heal": lambda: Expected(
        _not_converged(Run().fault("cut", 11, 30)), "not_converged", "broken", "isr-rejoins", {"brokers": [2]}
    ),
    "not in sync, just after the heal": lambda: Expected(
        _not_converged(Run().fault("cut", 11, 95)),
        "not_converged",
        "unknown",
        "isr-rejoins",
        {"brokers": [2]},
    ),
    # ---- transactions
    "aborted by an operator": lambda: Expected(
        _acks(-1),
        "lost_transaction",
        "not promised",
        "transaction-ended-by-operator",
        {"txn": 1, "cause": "ended_by_operator"},
    ),
    "torn": lambda: Expected(
        _acks(-1),
        "torn_transaction",
        "broken",
        "transaction-atomicity",
        {"txn": 1, "cause": "unexplained_transaction"},
    ),
    "marker taken by an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")),
        "torn_transaction",
        "not promised",
        "transaction-marker-unclean",
        {"txn": 1, "cause": "own_marker_missing"},
        "KAFKA-20716",
    ),
    "torn, and an unclean election elsewhere in time": lambda: Expected(
        _unclean(_with_unclean("true")),
        "torn_transaction",
        "broken",
        "transaction-atomicity",
        {"txn": 1, "cause": "unexplained_transaction"},
    ),
    "marker missing without an unclean election": lambda: Expected(
        _failover(_acks(-1)),
        "hanging_transaction",
        "broken",
        "transaction-ends",
        {"txn": 1, "cause": "marker_missing"},
    ),
    "hung during the run": lambda: Expected(
        _failover(_acks(-1)), "hung_transaction", "broken", "transaction-ends"
    ),
    "hung after an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")),
        "hung_transaction",
        "not promised",
        "transaction-hung-unclean",
        {},
        "KAFKA-20716",
    ),
    "marker missing under a cut": lambda: Expected(
        _acks(-1).state(1, 1, 0, 1, 2, 3).fault("cut", 11),
        "hanging_transaction",
        "not promised",
        "transaction-marker-under-fault",
        {"txn": 1, "cause": "marker_missing"},
    ),
    "read its own": lambda: Expected(
        _acks(-1), "precommitted_read", "broken", "transaction-isolation", {"txn": 1}
    ),
    "fenced": lambda: Expected(
        _acks(-1), "fenced_write_read", "broken", "transaction-fencing", {"txn": 1, "cause": ""}
    ),
    "read although nobody asked for a commit": lambda: Expected(
        _acks(-1), "aborted_read", "broken", "read-committed", {"txn": 1, "cause": ""}
    ),
    "process ended": lambda: Expected(Run(), "process_exit", "not promised", "process-exit"),
    "ERROR line": lambda: Expected(Run(), "server_error", "not promised", "log-lines"),
    "another configuration": lambda: Expected(Run(), "config_mismatch", "not promised", "configuration"),
    "not read to the end": lambda: Expected(Run(), "undetermined", "unknown", None),
}


def _stuck(
    min_insync: int | None,
    *,
    answered: bool = False,
    kafka: str = "2.7.1",
    cause: str = "marker_missing",
    bug: str | None = "KAFKA-12686, KAFKA-12751",
) -> Expected:
    """A transaction without its marker, in a partition with one replica in sync."""
    run = Run(kafka=kafka, mode="zookeeper").writer(-1, client="librdkafka").state(1, 1, 0, 1)
    if min_insync is not None:
        run.config("min.insync.replicas", str(min_insync))
    run.replica(1, leader=True, in_sync=True, leo=3).replica(2, leader=False, in_sync=False, leo=3)
    event = {"host": "broker1", "topic": "t", "partition": 0}
    run.add("log_events", ns=20 * S, kind="isr_expanding", **event)
    if answered:
        run.add("log_events", ns=21 * S, kind="isr_updated", **event)
    return Expected(run, "hanging_transaction", "broken", "transaction-ends", {"txn": 1, "cause": cause}, bug)


_NOT_PENDING = {
    "detail": facts_text(
        host="broker1",
        level="error",
        text="TransactionMetadata(...)'s transition to TxnTransitMetadata(...) failed since pendingState is "
        "not defined: this should not happen (TransactionMetadata)",
    )
}
BUGS: dict[str, Callable[[], Expected]] = {
    "back to what a stale leader has": lambda: Expected(
        _failover(Run().safe()),
        "non_monotonic",
        "broken",
        "read-order",
        {"acked_ns": None, "cause": "stale_leader"},
        "librdkafka: leader epoch forgotten",
    ),
    "back, for no known reason": lambda: Expected(
        _failover(Run().safe()), "non_monotonic", "broken", "read-order", {"acked_ns": None}
    ),
    "KIP-101 by the version": lambda: Expected(
        _failover(Run(kafka="0.10.2.2", mode="zookeeper").writer(-1).safe()),
        "lost",
        "broken",
        "partition",
        bug="KIP-101 (KAFKA-1211)",
    ),
    "KIP-101 by the message format": lambda: Expected(
        _failover(Run(kafka="2.7.1", mode="zookeeper").writer(-1).safe())
        .config("message.format.version", "0.10.2")
        .replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
        "KIP-101 (KAFKA-1211)",
    ),
    "not KIP-101 with leader epochs": lambda: Expected(
        _failover(Run(kafka="2.7.1", mode="zookeeper").writer(-1).safe()).config(
            "message.format.version", "2.7-IV2"
        ),
        "lost",
        "broken",
        "partition",
    ),
    "KIP-279": lambda: Expected(
        _failover(Run(kafka="1.1.1", mode="zookeeper").writer(1))
        .state(40, 1, 2, 1, 2, 3)
        .replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
        "KIP-279 (KAFKA-6361)",
    ),
    "not KIP-279 after one election": lambda: Expected(
        _failover(Run(kafka="1.1.1", mode="zookeeper").writer(1)).replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
    ),
    "KIP-279 is fixed": lambda: Expected(
        _failover(Run(kafka="2.0.1", mode="zookeeper").writer(1))
        .state(40, 1, 2, 1, 2, 3)
        .replica(1, in_sync=True),
        "diverged",
        "broken",
        "identical-replicas",
        {"detail": facts_text(difference="other_record")},
    ),
    "zombie controller": lambda: Expected(
        _two_claims(_failover(Run(kafka="3.6.2").writer(1).safe())),
        "lost",
        "not promised",
        "acks-1-leader",
        bug="KAFKA-15489 (KAFKA-13621)",
    ),
    "zombie controller, but the broker was cut off as well": lambda: Expected(
        _two_claims(_failover(Run(kafka="3.6.2").writer(1).safe())).fault(
            "cut", 5, 30, targets='{"links": ["broker1 -> broker2"]}'
        ),
        "lost",
        "not promised",
        "acks-1-leader",
    ),
    "transactions loaded again": lambda: Expected(
        Run(kafka="3.6.2"), "server_error", "not promised", "log-lines", _NOT_PENDING, bug="KAFKA-15468"
    ),
    "transactions loaded again, and another line": lambda: Expected(
        Run(kafka="3.6.2"),
        "server_error",
        "not promised",
        "log-lines",
        {"detail": facts_text(host="broker1", level="error", text="other")},
    ),
    "transactions loaded again is fixed": lambda: Expected(
        Run(kafka="3.8.0"), "server_error", "not promised", "log-lines", _NOT_PENDING
    ),
    "zombie controller is fixed": lambda: Expected(
        _two_claims(_failover(Run(kafka="3.7.0").writer(1).safe())), "lost", "not promised", "acks-1-leader"
    ),
    "delayed EndTxn": lambda: Expected(
        _librdkafka(),
        "aborted_read",
        "broken",
        "read-committed",
        {"txn": 2, "cause": "late_marker"},
        "KAFKA-17754",
    ),
    "a delayed EndTxn that tears": lambda: Expected(
        _librdkafka(),
        "torn_transaction",
        "broken",
        "transaction-atomicity",
        {"txn": 2, "cause": "late_marker"},
        "KAFKA-17754",
    ),
    "not a delayed EndTxn": lambda: Expected(
        _librdkafka(),
        "lost_transaction",
        "broken",
        "transaction-atomicity",
        {"txn": 2, "cause": "unexplained_transaction"},
    ),
    "late write": lambda: Expected(
        _librdkafka(),
        "hanging_transaction",
        "broken",
        "transaction-ends",
        {"txn": 1, "cause": "late_write"},
        "KIP-890",
    ),
    "late write of a client that numbers its transactions": lambda: Expected(
        Run(kafka="4.1.0").writer(-1, client="java"),
        "hanging_transaction",
        "broken",
        "transaction-ends",
        {"txn": 1, "cause": "late_write"},
    ),
    "marker lost by an unclean election": lambda: Expected(
        _unclean(_with_unclean("true")),
        "lost_transaction",
        "not promised",
        "transaction-marker-unclean",
        {"txn": 1, "cause": "own_marker_missing"},
        "KAFKA-20716",
    ),
    "fenced while the partition had no leader": lambda: Expected(
        Run(kafka="4.3.1").writer(-1).safe().state(1, 1, 0, 1).state(2, -1, 1).state(3, 1, 2, 1),
        "fenced_write_read",
        "broken",
        "transaction-fencing",
        {"txn": 1, "cause": ""},
        "KAFKA-20734",
    ),
    "hung, and the partition had no leader": lambda: Expected(
        Run(kafka="4.3.1").writer(-1).safe().state(1, 1, 0, 1).state(2, -1, 1).state(3, 1, 2, 1),
        "hung_transaction",
        "broken",
        "transaction-ends",
        {},
        "KAFKA-20734",
    ),
    "without its marker, and the partition had no leader": lambda: Expected(
        Run(kafka="4.3.1").writer(-1).safe().state(1, 1, 0, 1).state(2, -1, 1),
        "hanging_transaction",
        "broken",
        "transaction-ends",
        {"txn": 1, "cause": "marker_missing"},
        "KAFKA-20734",
    ),
    "a stuck ISR refuses its marker": lambda: _stuck(2),
    "a stuck ISR takes its marker": lambda: _stuck(1, bug=None),
    "a stuck ISR, min.insync.replicas not recorded": lambda: _stuck(None, bug=None),
    "an ISR that is too small but not stuck": lambda: _stuck(2, answered=True, bug=None),
    "a stuck ISR, after the bug was fixed": lambda: _stuck(2, kafka="2.8.0", bug=None),
    "a stuck ISR, and the coordinator goes on": lambda: _stuck(2, cause="coordinator_not_finished"),
    "a stuck ISR, and a late write": lambda: _stuck(2, cause="late_write", bug="KIP-890"),
    "a stuck ISR, and another cause": lambda: _stuck(2, cause="unexplained_transaction", bug=None),
    "without its marker, and the partition always had a leader": lambda: Expected(
        Run(kafka="4.3.1").writer(-1).safe().state(1, 1, 0, 1, 2).state(2, 2, 1, 2),
        "hanging_transaction",
        "broken",
        "transaction-ends",
        {"txn": 1, "cause": "marker_missing"},
    ),
    "fenced, and the partition always had a leader": lambda: Expected(
        Run(kafka="4.3.1").writer(-1).safe().state(1, 1, 0, 1, 2).state(2, 2, 1, 2),
        "fenced_write_read",
        "broken",
        "transaction-fencing",
        {"txn": 1, "cause": ""},
    ),
    "fenced while the partition had no leader, before 4.3": lambda: Expected(
        Run(kafka="4.2.0").writer(-1).safe().state(1, 1, 0, 1).state(2, -1, 1).state(3, 1, 2, 1),
        "fenced_write_read",
        "broken",
        "transaction-fencing",
        {"txn": 1, "cause": ""},
    ),
    "implicit acknowledgement": lambda: Expected(
        _crash(_librdkafka(idempotent=True)),
        "lost",
        "broken",
        "crash-of-some",
        {"offset": None},
        "librdkafka: implicit acknowledgement",
    ),
    "not an implicit acknowledgement: another client": lambda: Expected(
        _crash(Run().writer(-1, client="java", retries=5, idempotent=True).safe()),
        "lost",
        "broken",
        "crash-of-some",
        {"offset": None},
    ),
    "not an implicit acknowledgement": lambda: Expected(
        _crash(_librdkafka(idempotent=True)), "lost", "broken", "crash-of-some"
    ),
    "a new epoch after a time-out": lambda: Expected(
        _librdkafka(idempotent=True).message(sessions=1, epochs=2),
        "duplicated",
        "broken",
        "duplicate-idempotent",
        {},
        "new producer epoch after a time-out",
    ),
    "not a new epoch": lambda: Expected(
        _librdkafka(idempotent=True).message(sessions=1, epochs=1),
        "duplicated",
        "broken",
        "duplicate-idempotent",
    ),
    "an ISR change that was never answered": lambda: Expected(
        _not_converged(Run(kafka="2.7.1", mode="zookeeper").fault("cut", 11, 30)),
        "not_converged",
        "broken",
        "isr-rejoins",
        {"brokers": [2], "cause": "isr_change_unanswered"},
        "KAFKA-12686, KAFKA-12751",
    ),
    "an ISR that was never expanded": lambda: Expected(
        _not_converged(Run(kafka="2.7.1", mode="zookeeper").fault("cut", 11, 30)),
        "not_converged",
        "broken",
        "isr-rejoins",
        {"brokers": [2], "cause": "isr_never_expanded"},
        "KAFKA-12686, KAFKA-12751",
    ),
    "an ISR that stays incomplete for another reason": lambda: Expected(
        _not_converged(Run(kafka="2.7.1", mode="zookeeper").fault("cut", 11, 30)),
        "not_converged",
        "broken",
        "isr-rejoins",
        {"brokers": [2]},
    ),
    "an ISR change that was never answered, where that is fixed": lambda: Expected(
        _not_converged(Run(kafka="2.8.1", mode="zookeeper").fault("cut", 11, 30)),
        "not_converged",
        "broken",
        "isr-rejoins",
        {"brokers": [2], "cause": "isr_change_unanswered"},
    ),
}
"""Runs in which a known bug explains the finding, beside runs in which it does not."""
