"""Planted histories of transactions, and their findings by brute force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.histories import History

Row = Mapping[str, Any]
Planted = History
S = 10**9


class Planter:
    """Draws transactions of two producers over two partitions, and the brokers' reactions."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.history = History()
        self.logs: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
        self.seqs = {1: -1, 2: -1, 9: -1}
        self.epochs = {1: 0, 2: 0}
        self.now = 0
        self.same_id = draw(st.booleans())
        self.records_ids = draw(st.booleans())
        for writer in (1, 2):
            config = draw(st.sampled_from((None, '{"transaction.timeout.ms": 1000}', "{}")))
            client = draw(st.sampled_from((None, "raw", "librdkafka", "java")))
            more = {"config": config, "client": client}
            self.history.add("writers", writer=writer, name="p", transactional_id=self.name(writer), **more)

    def name(self, writer: int) -> str:
        """The writer's transactional id."""
        return "x" if self.same_id else f"x{writer}"

    def tick(self) -> int:
        self.now += 1000
        return self.now

    def one_in(self, count: int) -> bool:
        return bool(self.draw(st.integers(1, count)) == 1)

    def plant(self) -> History:
        """Plant everything."""
        numbers = {1: 0, 2: 0}
        for _ in range(self.draw(st.integers(0, 5))):
            if self.one_in(4):
                self.message(9, None, self.draw(st.integers(0, 1)))
                continue
            writer = self.draw(st.integers(1, 2))
            numbers[writer] += 1
            self.transaction(writer, numbers[writer])
        for partition, log in self.logs.items():
            for broker in (1, 2, 3):
                self.history.log(broker, log, partition=partition)
            self.end(partition, log)
        self.history.rows.setdefault("transactions", [])
        return self.history

    def transaction(self, writer: int, txn: int) -> None:
        """One transaction: its messages, markers, and what was reported to the application."""
        reported = self.draw(st.sampled_from(("committed", "committed", "aborted", "unknown", None)))
        asked = {"committed": "committing", "aborted": "aborting"}.get(reported or "")
        asked = self.draw(st.sampled_from((asked, asked, "committing", "aborting", None)))
        if self.records_ids and self.one_in(2):
            self.initialise(writer)
        if not self.one_in(5):
            self.history.add("transactions", ns=self.tick(), writer=writer, txn=txn, event="begin")
        touched: list[int] = []
        for _ in range(self.draw(st.integers(0, 3))):
            partition = self.draw(st.integers(0, 1))
            self.message(writer, txn, partition)
            touched.append(partition)
            if self.one_in(10):  # a late marker, or the marker of a time-out
                self.marker(writer, partition, self.draw(st.sampled_from(("commit", "abort"))))
        early = self.one_in(2)
        if early:
            self.ask(writer, txn, asked, reported)
        kind = {"committed": "commit", "aborted": "abort"}.get(reported or "")
        kind = kind or self.draw(st.sampled_from(("commit", "abort", None)))
        for partition in sorted(set(touched)):
            here = self.draw(st.sampled_from((*((kind,) * 6), "commit", "commit", "abort", None)))
            if here is not None:
                for _ in range(1 + self.one_in(8)):
                    self.marker(writer, partition, here)
            if self.one_in(10):  # a late write
                self.message(writer, txn, partition)
        if not early:
            self.ask(writer, txn, asked, reported)
        if self.one_in(2):
            self.state(writer)
        if self.one_in(3):
            self.epochs[writer] += 1

    def state(self, writer: int) -> None:
        """What a coordinator says of the producer."""
        self.history.add(
            "transaction_states",
            ns=self.tick(),
            broker=self.draw(st.integers(1, 3)),
            transactional_id=self.name(writer),
            producer_id=None if self.one_in(15) else 7 if self.same_id else 6 + writer,
            state=self.draw(st.sampled_from(("PrepareCommit", "PrepareCommit", "PrepareAbort", "Ongoing"))),
            partitions=self.draw(st.sampled_from(("t/0", "t/1", "t/0,t/1", None))),
        )

    def initialise(self, writer: int) -> None:
        """The producer asks for its id; the answer may be late, an error, or of a request of unknown time."""
        asked, late = self.tick(), self.draw(st.sampled_from((1000, 1000, 9000)))
        error = self.draw(st.sampled_from((0, 0, 0, None, 51)))
        row = {"asked_ns": None if self.one_in(8) else asked, "ns": asked + late, "error": error}
        self.history.add("producer_ids", writer=writer, **row)

    def ask(self, writer: int, txn: int, asked: str | None, reported: str | None) -> None:
        for event in (asked, reported):
            if event is not None:
                self.history.add("transactions", ns=self.tick(), writer=writer, txn=txn, event=event)

    def producer(self, writer: int) -> dict[str, Any]:
        number = 7 if self.same_id else 6 + writer
        epoch = self.epochs[writer] if not self.one_in(15) else self.draw(st.integers(0, 3))
        return {"producer_id": number, "producer_epoch": epoch}

    def message(self, writer: int, txn: int | None, partition: int) -> None:
        """A message that is sent and, in most cases, appended; readers may receive it."""
        self.seqs[writer] += 1
        seq, log = self.seqs[writer], self.logs[partition]
        outcome = self.draw(st.sampled_from(("ok", "ok", "ok", "ok", "info", "fail", None)))
        logged = outcome != "fail" and not self.one_in(12)
        sent, offset = self.tick(), len(log) if logged else None
        self.history.send(
            seq,
            outcome,
            offset if outcome == "ok" else None,
            writer=writer,
            partition=partition,
            txn=txn,
            sent_ns=sent,
            done_ns=None if outcome is None else self.tick(),
        )
        if not logged:
            return
        producer = {"producer_id": -1, "producer_epoch": -1} if txn is None else self.producer(writer)
        transactional: bool | None = txn is not None
        if txn is not None and self.one_in(25):
            producer["producer_id"] = self.draw(st.sampled_from((-1, None)))
        elif txn is not None and self.one_in(20):
            transactional = self.draw(st.sampled_from((None, False)))
        row = {"offset": len(log), "writer": writer, "seq": seq, "transactional": transactional}
        log.append(row | producer | {"control": False})
        for _ in range(self.draw(st.integers(0, 2))):
            isolation = self.draw(st.sampled_from(("read_committed", "read_uncommitted")))
            reads = self.history.rows.get("reads", [])
            more = {"partition": partition, "writer": writer, "isolation": isolation}
            self.history.read(row["offset"], seq, self.tick(), reader=len(reads), **more)

    def marker(self, writer: int, partition: int, kind: str) -> None:
        log = self.logs[partition]
        row = {"offset": len(log), "writer": None, "seq": None, "control": True, "transactional": True}
        row |= {"marker": None if self.one_in(25) else kind, **self.producer(writer)}
        log.append(row | {"coordinator_epoch": self.draw(st.sampled_from((0, 0, 1, -1)))})

    def end(self, partition: int, log: list[dict[str, Any]]) -> None:
        """How much of the log was read, when, and how far it was committed."""
        end = len(log)
        waited = self.draw(st.sampled_from((1, 12, 100))) * S
        log_state = {
            "leo": end,
            "high_watermark": self.draw(st.sampled_from((end, end, end, None, max(0, end - 1)))),
            "last_stable_offset": self.draw(st.sampled_from((None, None, end, max(0, end - 2)))),
            "ns": self.draw(st.sampled_from((self.now + waited, self.now + waited, None))),
        }
        log_state |= (
            {"log_start": 1} if self.one_in(10) else {"cleanup": "compact"} if self.one_in(10) else {}
        )
        complete = not self.one_in(8)
        for broker in (1, 2, 3):
            self.history.replica(broker, complete, partition=partition, leader=broker == 2, **log_state)


@st.composite
def planted(draw: Any) -> History:
    """A history of transactions with known damage."""
    return Planter(draw).plant()


# ---- brute force


def brute_force(history: History) -> tuple[dict[Any, Any], dict[Any, Any], set[tuple[Any, ...]]]:
    """States by message, (reported, visible, finding) by transaction, and findings about transactions.

    A finding is class, partition, offset, writer, seq. All replicas are equal; broker 2 leads.
    """
    rows = history.rows
    logs = {
        partition: {
            row["offset"]: row
            for row in rows.get("copies", [])
            if row["partition"] == partition and row["broker"] == 2
        }
        for partition in (0, 1)
    }
    ends = {row["partition"]: row for row in rows["replicas"] if row["broker"] == 2}
    states: dict[Any, Any] = {}
    keys = {(row["writer"], row["txn"]) for row in rows.get("transactions", [])}
    keys |= {(row["writer"], row["txn"]) for row in rows.get("sends", []) if row["txn"] is not None}
    findings: set[tuple[Any, ...]] = set()
    fates: dict[Any, Any] = {}
    for writer, txn in sorted(keys):
        reported, asked = _reported(rows, writer, txn)
        sends = [row for row in rows.get("sends", []) if (row["writer"], row["txn"]) == (writer, txn)]
        places: list[tuple[int, int, int, str, bool]] = []
        for send in sends:
            log, end = logs[send["partition"]], ends[send["partition"]]
            state, offset, fenced = _state(rows, send, log, end, reported)
            states[writer, send["seq"]] = state
            if offset is not None:
                places.append((send["partition"], offset, send["seq"], state, fenced))
        gone = [send for send in sends if states[writer, send["seq"]] == "lost"]
        dropped = [(s["partition"], None, s["seq"]) for s in sends if states[writer, s["seq"]] == "dropped"]
        kind, expected = _kind(rows, writer, txn, reported, asked, sends, places, ends)
        early = _early(rows, writer, txn, sends, places, logs)
        here: list[tuple[Any, ...]] = [place for place in places if kind is not None and expected(place)]
        if kind is None and any(place[3] in ("readable", "blocked") for place in places):
            client = next(row["client"] for row in rows["writers"] if row["writer"] == writer)
            here = [*(dropped if client in ("librdkafka", "java") else ())] or [*early]
            kind = "torn_transaction" if here else None
        seen = _visible([p[3] for p in places] + ["lost"] * len(gone), len(dropped))
        fates[writer, txn] = (reported, seen, kind)
        if kind is not None:
            partition, offset, seq = min(here)[:3]
            findings.add((kind, partition, offset, writer, seq))
    return states, fates, findings | _readers(rows, states)


def _reported(rows: Mapping[str, list[Any]], writer: int, txn: int) -> tuple[str, str | None]:
    events = [r["event"] for r in rows.get("transactions", []) if (r["writer"], r["txn"]) == (writer, txn)]
    asked = "commit" if "committing" in events else "abort" if "aborting" in events else None
    for event in ("aborted", "committed", "unknown"):
        if event in events:
            return event, asked
    return ("unknown" if asked or not events else "open"), asked


def _state(
    rows: Mapping[str, list[Any]], send: Row, log: Mapping[int, Row], end: Row, reported: str
) -> tuple[str, int | None, bool]:
    record = next((r for r in log.values() if (r["writer"], r["seq"]) == (send["writer"], send["seq"])), None)
    if record is None:
        whole = end["complete"] and not end.get("log_start") and not end.get("cleanup")
        lost = send["outcome"] == "ok" and whole and reported != "aborted"
        dropped = send["outcome"] in ("info", None) and whole
        return ("lost" if lost else "dropped" if dropped else "absent"), None, False
    offset = record["offset"]
    stable = _stable(log, end)
    if record["transactional"] is False:
        return ("readable" if offset < stable else "blocked"), offset, False
    if record["transactional"] is None or record["producer_id"] in (None, -1):
        return "unknown", offset, False
    marker = _marker(log, record)
    if marker is None:
        high = end["high_watermark"]
        decided = end["complete"] and (high is None or offset < high)
        return ("undecided" if decided else "unknown"), offset, False
    if marker["marker"] is None:
        return "unknown", offset, False
    if marker["marker"] == "abort":
        return "aborted", offset, False
    fenced = any(
        r["offset"] < offset
        and r["producer_id"] == record["producer_id"]
        and r["producer_epoch"] > record["producer_epoch"]
        for r in log.values()
    ) or _after_successor(rows, send, reported)
    return ("readable" if offset < stable else "blocked"), offset, fenced


def _marker(log: Mapping[int, Row], record: Row) -> Row | None:
    behind = [
        r
        for r in log.values()
        if r["control"] and r["producer_id"] == record["producer_id"] and r["offset"] > record["offset"]
    ]
    return min(behind, key=lambda r: int(r["offset"]), default=None)


def _stable(log: Mapping[int, Row], end: Row) -> int:
    limits = [end["high_watermark"], end["last_stable_offset"]]
    if end["complete"]:
        limits += [
            r["offset"]
            for r in log.values()
            if r["transactional"]
            and not r["control"]
            and r["producer_id"] not in (None, -1)
            and _marker(log, r) is None
        ]
    return min((limit for limit in limits if limit is not None), default=2**62)


def _after_successor(rows: Mapping[str, list[Any]], send: Row, reported: str) -> bool:
    """Whether another producer with the id had certainly begun after the sender had, before the send."""
    ids = {row["writer"]: row["transactional_id"] for row in rows["writers"]}
    begins = {
        (row["writer"], row["txn"]): row["ns"]
        for row in rows.get("transactions", [])
        if row["event"] == "begin"
    }

    def starts(writer: int) -> tuple[list[tuple[int, int]], bool]:
        told = [
            (row["ns"] if row["asked_ns"] is None else row["asked_ns"], row["ns"])
            for row in rows.get("producer_ids", [])
            if row["writer"] == writer and row["error"] in (None, 0)
        ]
        first = min((ns for (other, _), ns in begins.items() if other == writer), default=None)
        return (told, True) if told or first is None else ([(first, first)], False)

    sent, (own, recorded) = send["sent_ns"], starts(send["writer"])
    own_begin = max((ns for _, ns in own if ns < sent), default=None)
    if own_begin is None:
        return False
    successors = [
        ns
        for other, name in ids.items()
        if other != send["writer"] and name == ids[send["writer"]]
        for asked, ns in starts(other)[0]
        if asked > own_begin and ns < sent
    ]
    began = begins.get((send["writer"], send["txn"]), -1)
    return bool(successors) and (recorded or reported != "committed" or began < min(successors))


def _visible(states: list[str], dropped: int) -> str | None:
    readable = states.count("readable")
    decided = [state for state in states if state != "unknown"]
    if not states:
        return None
    if readable and readable < len(decided) + dropped:
        return "part"
    if len(decided) < len(states):
        return "unknown"
    return "all" if readable else "none"


def _kind(
    rows: Mapping[str, list[Any]],
    writer: int,
    txn: int,
    reported: str,
    asked: str | None,
    sends: list[Any],
    places: list[tuple[int, int, int, str, bool]],
    ends: Mapping[int, Row],
) -> tuple[str | None, Any]:
    committed = [place for place in places if place[3] in ("readable", "blocked")]
    aborted = [place for place in places if place[3] == "aborted"]
    undecided = [place for place in places if place[3] == "undecided"]
    to_commit = reported == "committed" or (reported == "unknown" and asked != "abort")
    if any(place[4] for place in places):
        return "fenced_write_read", lambda place: place[4]
    if committed and aborted:
        return "torn_transaction", (lambda p: p in aborted) if to_commit else (lambda p: p in committed)
    if reported == "committed" and aborted:
        return "lost_transaction", lambda p: p in aborted
    if committed and not to_commit:
        return "aborted_read", lambda p: p in committed
    if undecided:
        begin = [
            r["ns"]
            for r in rows.get("transactions", [])
            if (r["writer"], r["txn"], r["event"]) == (writer, txn, "begin")
        ]
        last = max([*begin, *(send["sent_ns"] for send in sends)])
        config = next(row["config"] for row in rows["writers"] if row["writer"] == writer)
        timeout = json.loads(config or "{}").get("transaction.timeout.ms", 60_000) + 10_000
        read = max((ends[p[0]]["ns"] for p in undecided if ends[p[0]]["ns"] is not None), default=-1)
        overdue = read > last + timeout * 10**6
        unowed = [p for p in undecided if not _owed(rows, writer, reported, p)]
        if overdue or (reported in ("committed", "aborted") and unowed):
            return "hanging_transaction", lambda p: p in (unowed or undecided)
    return None, None


def _owed(rows: Mapping[str, list[Any]], writer: int, reported: str, place: tuple[Any, ...]) -> bool:
    """Whether the coordinator's last statement is that it still has to write the marker."""
    partition, offset = place[:2]
    name = next(row["transactional_id"] for row in rows["writers"] if row["writer"] == writer)
    (producer,) = {
        row["producer_id"]
        for row in rows["copies"]
        if (row["partition"], row["offset"], row["broker"]) == (partition, offset, 2)
    }
    said = [
        row
        for row in rows.get("transaction_states", [])
        if (row["transactional_id"], row["producer_id"]) == (name, producer)
    ]
    if not said:
        return False
    last = max(said, key=lambda row: (row["ns"], row["broker"]))
    fitting = {"committed": ("PrepareCommit",), "aborted": ("PrepareAbort",)}
    topic = rows["replicas"][0]["topic"]
    return last["state"] in fitting.get(reported, ("PrepareCommit", "PrepareAbort")) and (
        f"{topic}/{partition}" in (last["partitions"] or "").split(",")
    )


def _early(
    rows: Mapping[str, list[Any]],
    writer: int,
    txn: int,
    sends: list[Any],
    places: list[tuple[int, int, int, str, bool]],
    logs: Mapping[int, Mapping[int, Row]],
) -> list[tuple[int, int, int, str, bool]]:
    """Places that a commit marker decided before one that was acknowledged before an end was asked for."""
    asked = [
        row["ns"]
        for row in rows.get("transactions", [])
        if (row["writer"], row["txn"]) == (writer, txn) and row["event"] in ("committing", "aborting")
    ]
    if not asked:
        return []
    acked = {row["seq"] for row in sends if row["outcome"] == "ok" and row["done_ns"] < min(asked)}
    early = []
    for place in places:
        record = logs[place[0]][place[1]]
        named = record["transactional"] is True and record["producer_id"] not in (None, -1)
        marker = _marker(logs[place[0]], record) if named else None
        if marker is None or marker["marker"] != "commit":
            continue
        if any(p[0] == place[0] and p[1] > marker["offset"] and p[2] in acked for p in places):
            early.append(place)
    return early


def _readers(rows: Mapping[str, list[Any]], states: Mapping[Any, str]) -> set[tuple[Any, ...]]:
    """Readers of committed records that received aborted messages."""
    findings = set()
    sends = {(row["writer"], row["seq"]): row for row in rows.get("sends", [])}
    for read in rows.get("reads", []):
        key = (read["writer"], read["seq"])
        if read["isolation"] != "read_committed" or sends[key]["txn"] is None:
            continue
        reported, _ = _reported(rows, read["writer"], sends[key]["txn"])
        state = states[key]
        if (reported == "aborted" and state not in ("readable", "blocked")) or (
            state == "aborted" and reported != "committed"
        ):
            findings.add(("aborted_read", read["partition"], read["offset"], *key))
    return findings
