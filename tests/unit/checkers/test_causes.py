"""Every cause of a loss or a duplicate, each from the least evidence that proves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.tables.source import open_source
from report.words.causes import cause_in_words, cause_of
from tests.histories import History

ATTEMPTS_UNKNOWN = cause_in_words("requests_not_recorded", {})
EXPIRED = cause_in_words("producer_id_expired", {})
NEVER_SEEN = cause_in_words("never_seen", {})
NOT_FOLLOWED = cause_in_words("not_followed", {"broker": 1})
NO_EVIDENCE = cause_in_words("unexplained_loss", {})
NOT_IDEMPOTENT = cause_in_words("idempotence_broken", {})
ONE_ATTEMPT = cause_in_words("single_request", {})

PLACE = {"topic": "t", "partition": 0}


def lost() -> History:
    """Message 1 was acknowledged by broker 1 at 1500 ns and is lost."""
    return History().send(0, offset=0, broker=1).send(1, offset=1, broker=1).logs([(0, 0)])


def led(history: History, ns: int, leader: int, epoch: int, isr: list[int]) -> History:
    said = {"source": f"broker{leader}", "subject": "partition", "leader": leader, "epoch": epoch, "isr": isr}
    return history.add("views", ns=ns, **said, **PLACE)


def fault(
    history: History, name: str, kind: str, since: int, until: int | None = None, **more: Any
) -> History:
    row = {"fault": 1, "name": name, "kind": kind, "targets": '{"hosts": ["broker1"]}'} | more
    history.add("faults", ns=since, moment="injected", **row)
    return history if until is None else history.add("faults", ns=until, moment="healed", **row)


def power_cut(since: int = 2000, name: str = "lights out", kind: str = "storage", **more: Any) -> History:
    """Broker 1 acknowledged message 1, and lost its power."""
    return fault(lost(), name, kind, since, **{"mechanism": "power_cut"} | more)


def wiped(since: int = 2000, **more: Any) -> History:
    """Broker 1 acknowledged message 1, and its replica was wiped."""
    targets = json.dumps({"hosts": ["broker1"], "partitions": ["t/0"]})
    row = {"mechanism": "wipe", "targets": targets} | more
    return fault(lost(), "an empty disk", "storage", since, **row)


def cut(history: History, kind: str = "truncated") -> History:
    return history.add("log_events", ns=4000, host="broker1", kind=kind, offset=1, epoch=0, **PLACE)


def rejoined() -> History:
    """Broker 2 was elected from the ISR after broker 1 had acknowledged the message alone."""
    return cut(led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]))


def usurped(until: int | None) -> History:
    """Broker 2 was leader already when broker 1 acknowledged; the fault lasted until ``until``."""
    history = led(led(lost(), 1, 1, 0, [1, 2]), 1000, 2, 1, [2])
    return cut(fault(history, "isolate az1", "link", 800, until))


def twice(outcome: str, idempotent: bool = False, **more: Any) -> History:
    history = History().send(0, outcome, offset=0 if outcome == "ok" else None, **more)
    history.add("writers", writer=1, name="one", idempotent=idempotent)
    return history.logs([(0, 0), (1, 0)])


def expiring(history: History, after_ms: int) -> History:
    """Brokers forget an idle producer after this time."""
    row = {"scope": "broker", "name": "broker1", "key": "producer.id.expiration.ms"}
    return history.add("configs", value=str(after_ms), **row)


CASES: dict[str, tuple[History, str]] = {
    "nothing is known": (lost(), NO_EVIDENCE),
    "rejoin": (rejoined(), "old leader truncated on rejoin: broker1 acknowledged it, then broker2"),
    "rejoin, led already": (
        usurped(None),
        "old leader truncated on rejoin: broker1 acknowledged it while broker2 led in epoch 1",
    ),
    "zombie": (usurped(1200), "zombie accepted after heal: broker1 acknowledged it after `isolate az1`"),
    "unclean": (
        led(led(lost(), 1, 1, 0, [1]), 3000, 2, 1, [2]),
        "unclean election: broker2 became leader in epoch 1 although the in-sync replicas were [1]",
    ),
    "high watermark": (
        cut(led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]), "truncated_to_hw"),
        "high-watermark truncation: broker1 truncated to its own high watermark 1",
    ),
    "wiped": (
        led(led(wiped(), 1, 1, 0, [1]), 3000, 1, 1, [1]),
        "last in-sync replica wiped: `an empty disk` emptied broker1, which then led again",
    ),
    "all data wiped": (
        led(led(wiped(targets='{"hosts": ["broker1"]}'), 1, 1, 0, [1]), 3000, 1, 1, [1]),
        "last in-sync replica wiped: `an empty disk` emptied broker1, which then led again",
    ),
    "not flushed, and a broker without power was elected": (
        led(led(power_cut(targets='{"hosts": ["broker1", "broker2"]}'), 1, 1, 0, [1]), 3000, 2, 1, [2]),
        "un-fsynced data lost: `lights out` took what broker1 had acknowledged",
    ),
    "not flushed": (
        power_cut(),
        "un-fsynced data lost: `lights out` took what broker1 had acknowledged",
    ),
    "truncated by a fault": (wiped(mechanism="truncate"), "storage fault: `an empty disk` on broker1"),
    "cut without election": (cut(lost()), "truncated: broker1 truncated its log to offset 1"),
    "retry of the unknown": (twice("info"), "client retry of an unknown outcome"),
    "retry of the acknowledged": (
        twice("ok", attempts=2),
        "client retry: the acknowledged attempt was not the only one",
    ),
    "idempotence": (twice("ok", idempotent=True, attempts=2), NOT_IDEMPOTENT),
    "producer id expired": (
        expiring(twice("ok", idempotent=True, attempts=2, done_ns=3 * 10**9), 2000),
        EXPIRED,
    ),
    "one attempt": (twice("ok", attempts=1), ONE_ATTEMPT),
    "phantom": (
        History().send(0, "fail").logs([(0, 0)]),
        "reported as definitely failed, yet appended",
    ),
    "phantom of one request": (
        History().send(0, "fail", attempts=1).logs([(0, 0)]),
        "reported as definitely failed, yet appended",
    ),
}


SEEN = {"writer": 1, "seq": 1, "broker": 1, "offset": 1, "seen_ns": 1400, **PLACE}

LOOKALIKES: dict[str, tuple[History, str]] = {
    "power cut of broker10": (
        power_cut(targets='{"hosts": ["broker10"]}', name="power broker10"),
        NO_EVIDENCE,
    ),
    "power cut of another broker": (power_cut(targets='{"hosts": ["broker2"]}'), NO_EVIDENCE),
    "power cut before it was acknowledged": (power_cut(100), NO_EVIDENCE),
    "power cut when it was gone already": (
        power_cut(9000).add("sightings", gone_ns=3000, **SEEN),
        NO_EVIDENCE,
    ),
    "power cut when a log had been truncated already": (
        cut(led(led(power_cut(9000), 1, 1, 0, [1]), 3000, 2, 1, [2])),
        "unclean election: broker2 became leader in epoch 1",
    ),
    "power cut when another broker led already": (
        led(led(power_cut(9000), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]).add("sightings", **SEEN),
        "old leader truncated on rejoin: broker1 acknowledged it, then broker2 was elected in epoch 1",
    ),
    "power cut, but it was seen again afterwards": (
        led(led(power_cut(), 1, 1, 0, [1]), 3000, 2, 1, [2])
        .add("sightings", gone_ns=2100, **SEEN)
        .add("sightings", gone_ns=3500, **SEEN | {"seen_ns": 2600}),
        "unclean election: broker2 became leader in epoch 1",
    ),
    "power cut, but its log was truncated at it afterwards": (
        cut(power_cut()),
        "truncated: broker1 truncated its log to offset 1, although no election was seen",
    ),
    "power cut, but a broker with power was elected although it was not in sync": (
        led(led(power_cut(), 1, 1, 0, [1]), 3000, 2, 1, [2]),
        "unclean election: broker2 became leader in epoch 1",
    ),
    "wiped when a log had been truncated already": (
        cut(led(led(wiped(9000), 1, 1, 0, [1, 2]), 3000, 2, 1, [2])),
        "old leader truncated on rejoin: broker1 acknowledged it, then broker2 was elected in epoch 1",
    ),
    "wiped, and nobody reported that it led again": (wiped(), "storage fault: `an empty disk` on broker1"),
    "wiped, but it was not the last one in sync": (
        led(led(wiped(), 1, 1, 0, [1, 2]), 3000, 1, 1, [1, 2]),
        "storage fault: `an empty disk` on broker1",
    ),
    "killed, not cut off from power": (
        power_cut(mechanism="kill", kind="process", name="power of broker1"),
        NO_EVIDENCE,
    ),
    "elected, in a topic whose name speaks of sync": (
        fault(lost(), "elect preferred leader of sync-log/0", "operator", 2000, mechanism="elect_preferred"),
        NO_EVIDENCE,
    ),
    "wiped before it was acknowledged": (wiped(100), NO_EVIDENCE),
    "another partition wiped": (
        wiped(targets='{"hosts": ["broker1"], "partitions": ["t/1"]}'),
        NO_EVIDENCE,
    ),
    "another topic wiped, whose name begins alike": (
        wiped(targets='{"hosts": ["broker1"], "partitions": ["t-2/0"]}'),
        NO_EVIDENCE,
    ),
    "disk full": (wiped(mechanism="disk_full"), NO_EVIDENCE),
    "truncated by a fault elsewhere": (
        wiped(mechanism="truncate", targets='{"hosts": ["broker3"], "partitions": ["t/0"]}'),
        NO_EVIDENCE,
    ),
    "elected from the ISR, so not unclean": (
        led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]).add("sightings", gone_ns=3500, **SEEN),
        "old leader truncated on rejoin",
    ),
    "elected afterwards, but no replica ever held it": (
        led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2]),
        NEVER_SEEN,
    ),
    "unclean election of another partition": (
        led(lost(), 1, 1, 0, [1]).add(
            "views",
            ns=3000,
            source="broker2",
            subject="partition",
            leader=2,
            epoch=1,
            isr=[2],
            topic="t",
            partition=1,
        ),
        NO_EVIDENCE,
    ),
    "truncated to the high watermark by a broker that never had it": (
        lost().add("log_events", ns=4000, host="broker2", kind="truncated_to_hw", offset=1, epoch=0, **PLACE),
        NO_EVIDENCE,
    ),
    "truncated to a high watermark beyond it": (
        lost().add("log_events", ns=4000, host="broker1", kind="truncated_to_hw", offset=2, epoch=0, **PLACE),
        NO_EVIDENCE,
    ),
    "truncated by a controller of the same number": (
        lost().add("log_events", ns=4000, host="controller1", kind="truncated", offset=1, epoch=0, **PLACE),
        NO_EVIDENCE,
    ),
    "truncated before it was acknowledged": (
        lost().add("log_events", ns=900, host="broker1", kind="truncated", offset=1, epoch=0, **PLACE),
        NO_EVIDENCE,
    ),
    "no zombie, since the fault still stands": (usurped(None), "old leader truncated on rejoin"),
    "no zombie, since broker 1 still led": (
        cut(fault(led(lost(), 1, 1, 0, [1, 2]), "isolate az1", "link", 800, 1200)),
        "truncated: broker1 truncated its log to offset 1, although no election was seen",
    ),
    "duplicated, of another writer that is idempotent": (
        twice("ok", attempts=1).add("writers", writer=2, name="two", idempotent=True),
        ONE_ATTEMPT,
    ),
    "duplicated, and tried again as far as nobody knows": (twice("ok"), ATTEMPTS_UNKNOWN),
    "answered before the producer id expired": (
        expiring(twice("ok", idempotent=True, attempts=2, done_ns=3 * 10**9), 4000),
        NOT_IDEMPOTENT,
    ),
    "expired long before, but the producer is not idempotent": (
        expiring(twice("ok", attempts=2, done_ns=3 * 10**9), 2000),
        "client retry: the acknowledged attempt was not the only one",
    ),
    "a phantom, but it was sent again after the request that was appended": (
        History().send(0, "fail", attempts=2).logs([(0, 0)]),
        "refused after a retry: an earlier one of the client's requests",
    ),
    "duplicated without an answer, but sent in one request": (twice("info", attempts=1), ONE_ATTEMPT),
}
"""Histories in which everything looks like a cause that is none, and what they come to."""


def lives(history: History, folder: Path) -> list[dict[str, Any]]:
    """Rows of the life table, computed without Spark."""
    source = open_source(history.write(folder / "history"))
    life, findings = folder / "life", folder / "findings"
    life.mkdir()
    findings.mkdir()
    judge_all(
        run_here,
        JudgingContext(source=source, evidence=gather(source), life=str(life), findings=str(findings)),
    )
    return [row for path in life.glob("*.parquet") for row in pq.read_table(path).to_pylist()]


def causes(history: History, folder: Path) -> list[str]:
    """The causes in the life table."""
    return [cause_of(row) for row in lives(history, folder) if cause_of(row)]


MISSED = {"ns": 2000, "source": "tail", "broker": 1, "from_offset": 1, "to_offset": 2, "since_ns": 1400}


@pytest.mark.parametrize(
    ("missed", "cause"),
    [
        ({}, NOT_FOLLOWED),
        ({"late": True, "from_offset": 0, "to_offset": 9}, NOT_FOLLOWED),
        ({"from_offset": None, "to_offset": None, "broker": None}, NOT_FOLLOWED),
        ({"from_offset": 2, "to_offset": 9}, NEVER_SEEN),
        ({"to_offset": 1, "from_offset": 0}, NEVER_SEEN),
        ({"broker": 2}, NEVER_SEEN),
        ({"partition": 1}, NEVER_SEEN),
        ({"ns": 1499}, NEVER_SEEN),
        ({"source": "read_back"}, NEVER_SEEN),
    ],
)
def test_what_the_observer_missed_may_have_been_there(
    tmp_path: Path, missed: dict[str, Any], cause: str
) -> None:
    """Broker 1 acknowledged message 1 at 1500 ns, at offset 1."""
    history = led(led(lost(), 1, 1, 0, [1, 2]), 3000, 2, 1, [2])
    assert causes(history.add("unobserved", **PLACE | MISSED | missed), tmp_path) == [cause]


@pytest.mark.parametrize("name", CASES)
def test_the_mechanism_is_named(tmp_path: Path, name: str) -> None:
    history, mechanism = CASES[name]
    (cause,) = causes(history, tmp_path)
    assert cause.startswith(mechanism), cause


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_looks_like_a_cause_is_none(tmp_path: Path, name: str) -> None:
    history, mechanism = LOOKALIKES[name]
    (cause,) = causes(history, tmp_path)
    assert cause.startswith(mechanism), cause


@pytest.mark.parametrize("name", CASES)
def test_a_cause_names_the_rows_it_rests_on(tmp_path: Path, name: str) -> None:
    history, mechanism = CASES[name]
    history.add("replicas", ns=9000, broker=1, leader=True, complete=True, **PLACE)
    causes(history, tmp_path)
    rows = [row for path in tmp_path.glob("findings/*") for row in pq.read_table(path).to_pylist()]
    (finding,) = (row for row in rows if row["class"] != "not_converged")
    grounds = [json.loads(text) for text in finding["evidence"] or ()]
    for ground in grounds:
        cited_rows = history.rows["replicas" if ground["table"] == "copies" else ground["table"]]
        assert any(ground["ns"] in (row.get("ns"), row.get("done_ns")) for row in cited_rows), ground
    assert bool(grounds) == (mechanism != NO_EVIDENCE), finding
    if not finding["class"].startswith("lost"):
        assert [ground["table"] for ground in grounds] == ["sends", "copies"]
        assert grounds[1]["what"].startswith("at offset") and grounds[1]["what"].endswith(" of t/0")


def test_the_mechanism_counts_and_not_the_name(tmp_path: Path) -> None:
    """The name says `wipe`, and the power was cut."""
    history = fault(lost(), "wipe t/0 on broker1", "storage", 2000, mechanism="power_cut")
    assert causes(history, tmp_path)[0].startswith("un-fsynced data lost: `wipe t/0 on broker1`")


def sent_to_broker_1(**answer: Any) -> History:
    """Message 1 is sent at 1000 ns, when broker 1 leads, and acknowledged at 1500 ns."""
    history = History().send(0, offset=0, broker=1).send(1, offset=1, **answer).logs([(0, 0)])
    return led(history, 1, 1, 0, [1, 2])


def deposed(history: History) -> History:
    """Broker 2 is elected between the sending and the acknowledgement of message 1."""
    return led(history, 1200, 2, 1, [2])


def seen_on(history: History, broker: int) -> History:
    return history.add("sightings", **SEEN | {"broker": broker})


ACKNOWLEDGED: dict[str, tuple[History, int | None]] = {
    "the answer states it": (deposed(sent_to_broker_1(broker=1)), 1),
    "seen on the leader that was deposed": (seen_on(deposed(sent_to_broker_1()), 1), 1),
    "not seen, and the leader changed": (deposed(sent_to_broker_1()), None),
    "not seen, one leader": (sent_to_broker_1(), 1),
    "not seen, sent after broker 2 was elected, which broker 1 does not know": (
        led(sent_to_broker_1(), 900, 2, 1, [2]),
        None,
    ),
    "not seen, sent after broker 2 was elected, which broker 1 knows": (
        led(sent_to_broker_1(), 900, 2, 1, [2]).add(
            "views", ns=950, source="broker1", subject="partition", leader=2, epoch=1, isr=[2], **PLACE
        ),
        2,
    ),
    "a follower was seen first": (seen_on(sent_to_broker_1(), 3), 1),
    "a follower was seen first, and the leader changed": (seen_on(deposed(sent_to_broker_1()), 3), None),
    "nobody reported a leader": (seen_on(History().send(1, offset=1).logs([]), 3), 3),
}


@pytest.mark.parametrize("name", ACKNOWLEDGED)
def test_which_broker_acknowledged_it(tmp_path: Path, name: str) -> None:
    history, broker = ACKNOWLEDGED[name]
    (life,) = (row for row in lives(history, tmp_path) if row["seq"] == 1)
    assert life["acked_by"] == broker
