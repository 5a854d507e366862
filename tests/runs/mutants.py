"""Generic changes of a history, each of which makes some claims false.

A mutant is a function from a `Recorded` history to another one, or to None where it changes nothing. "After
the fault" means after the first fault began, or after the first mark in a run without faults. A mutant that
adds a statement about the cluster adds it for every source that had reported on the subject, so that the
sources agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.history.schema import TABLES

Row = dict[str, Any]
MS = 1_000_000
S = 1_000_000_000


@dataclass(frozen=True)
class Recorded:
    """A history as Python rows, read when they are asked for."""

    tables: Mapping[str, pa.Table]

    def rows(self, name: str) -> list[Row]:
        """The rows of a table, each a copy."""
        table = self.tables.get(name)
        other: list[Row] = [] if table is None else table.to_pylist()
        return other

    def having(self, **changed: Iterable[Row]) -> Recorded | None:
        """The history with these rows in these tables; None if no row differs."""
        made = {
            name: pa.Table.from_pylist(list(rows), schema=TABLES[name].arrow())
            for name, rows in changed.items()
        }
        if all(name in self.tables and self.tables[name].equals(rows) for name, rows in made.items()):
            return None
        return Recorded({**self.tables, **made})

    @cached_property
    def marks(self) -> list[int]:
        """Times of all marks, in order."""
        return sorted(row["ns"] for row in self.rows("marks"))

    @cached_property
    def since(self) -> int:
        """When the first fault began, or the first mark was set."""
        faults = [row["ns"] for row in self.rows("faults") if row["moment"] == "injecting"]
        return min(faults or self.marks)

    @cached_property
    def brokers_of(self) -> dict[tuple[str, int], list[int]]:
        """Brokers that hold a replica of each partition at the end."""
        other: dict[tuple[str, int], list[int]] = {}
        for row in self.rows("replicas"):
            other.setdefault((row["topic"], row["partition"]), []).append(row["broker"])
        return other

    @cached_property
    def last_view_ns(self) -> int:
        """When anything was observed for the last time."""
        return max((row["ns"] for row in self.rows("views")), default=self.since)


Mutant = Callable[[Recorded], Recorded | None]
MUTANTS: dict[str, Mutant] = {}
"""All mutants by name. The mutants that change most come last."""


def mutant(function: Mutant) -> Mutant:
    """Register a mutant under its name."""
    MUTANTS[function.__name__.replace("_", "-")] = function
    return function


# Small changes, tried first -------------------------------------------------------------------------------


@mutant
def acks_all_never_fails(recorded: Recorded) -> Recorded | None:
    """Every acks=all message that was sent after the fault is acknowledged at once, and in the final log."""
    waiting = {row["writer"] for row in recorded.rows("writers") if row["acks"] == -1}
    ok = {"outcome": "ok", "error": 0}
    sends = _sends(
        recorded, lambda row: row | ok | {"done_ns": row["sent_ns"] + MS} if row["writer"] in waiting else row
    )
    changed = recorded.having(sends=sends)
    return _kept(recorded if changed is None else changed, lambda row: row["writer"] in waiting)


@mutant
def answers_that_it_is_no_controller(recorded: Recorded) -> Recorded | None:
    """A broker that was asked for a new topic, and did not answer, answers NOT_CONTROLLER (41)."""
    rows = recorded.rows("marks")
    for row in rows:
        if " asked to create " in (row["text"] or ""):
            row["facts"] = row["facts"].replace('"answered":0', '"answered":1')
    return recorded.having(marks=rows)


@mutant
def upgraded_nodes_answer_otherwise(recorded: Recorded) -> Recorded | None:
    """Levels noted as old are new, and new ones old; what was refused is accepted, and the reverse."""
    rows = recorded.rows("marks")
    for row in rows:
        facts = json.loads(row["facts"] or "{}")
        if "level" in facts:
            facts["level"] = "new" if facts["level"] == "old" else "old"
        elif row["name"] == "asked" and "error" in facts:
            facts["error"] = 0 if facts["error"] else 95
        else:
            continue
        row["facts"] = json.dumps(facts, separators=(",", ":"))
    return recorded.having(marks=rows)


@mutant
def other_controllers_vote(recorded: Recorded) -> Recorded | None:
    """The third controller is no voter where it was noted as one, and the reverse."""
    rows = recorded.rows("marks")
    for row in rows:
        facts = json.loads(row["facts"] or "{}")
        if "voters" in facts:
            facts["voters"] = sorted({*facts["voters"]} ^ {13})
            row["facts"] = json.dumps(facts, separators=(",", ":"))
    return recorded.having(marks=rows)


@mutant
def replicas_stay_in_their_directories(recorded: Recorded) -> Recorded | None:
    """Every replica is noted in the first directory of its broker."""
    rows = recorded.rows("marks")
    for row in rows:
        facts = json.loads(row["facts"] or "{}")
        if any("data2" in str(fact) for fact in facts.values()):
            row["facts"] = json.dumps(dict.fromkeys(facts, "data"), separators=(",", ":"))
    return recorded.having(marks=rows)


@mutant
def a_follower_differs(recorded: Recorded) -> Recorded | None:
    """One follower of each partition holds another message at its last offset."""
    follows = {
        (row["topic"], row["partition"]): row["broker"]
        for row in recorded.rows("replicas")
        if not row["leader"]
    }
    rows = recorded.rows("copies")
    ends: dict[tuple[str, int], Row] = {}
    for row in rows:
        place = (row["topic"], row["partition"])
        if row["broker"] == follows.get(place) and row["seq"] is not None:
            ends[place] = max(row, ends.get(place, row), key=lambda one: int(one["offset"]))
    for row in ends.values():
        row["seq"] += 1_000_000
    return recorded.having(copies=rows)


@mutant
def deposed_leaders_refuse(recorded: Recorded) -> Recorded | None:
    """After the fault, a broker that does not lead by the metadata store refuses every message (error 6)."""
    leaders: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in recorded.rows("views"):
        if row["subject"] == "partition" and not row["source"].startswith("broker"):
            leaders.setdefault((row["topic"], row["partition"]), []).append((row["ns"], row["leader"]))
    for stated in leaders.values():
        stated.sort()

    def change(row: Row) -> Row:
        stated = leaders.get((row["topic"], row["partition"]), [])
        leader = max((one for one in stated if one[0] <= row["sent_ns"]), default=(0, row["broker"]))[1]
        refused = row["broker"] is not None and row["broker"] != leader
        return row | ({"outcome": "fail", "error": 6, "offset": None} if refused else {})

    return recorded.having(sends=_sends(recorded, change))


@mutant
def high_watermarks_are_log_ends(recorded: Recorded) -> Recorded | None:
    """Every replica that becomes leader or follower logs its log end offset as its high watermark."""
    rows = recorded.rows("log_events")
    for row in rows:
        if row["kind"] in ("became_leader", "became_follower"):
            row["text"] = re.sub(r"high watermark \d+", f"high watermark {row['offset']}", row["text"] or "")
    return recorded.having(log_events=rows)


@mutant
def replicas_are_told_first(recorded: Recorded) -> Recorded | None:
    """A replica that becomes leader or follower after the fault began logs it when the fault begins."""
    told = ("became_leader", "became_follower")
    return recorded.having(
        log_events=[
            row | {"ns": recorded.since + MS} if row["kind"] in told and row["ns"] > recorded.since else row
            for row in recorded.rows("log_events")
        ]
    )


@mutant
def followers_start_over(recorded: Recorded) -> Recorded | None:
    """When the last fault ends, every follower truncates its logs to 0; in the end it has all again."""
    heals = [row["ns"] for row in recorded.rows("faults") if row["moment"] == "healed"]
    if not heals:
        return None
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    added = [
        {**blank, "ns": max(heals) + MS, "host": f"broker{row['broker']}", "kind": "truncated", "offset": 0}
        | {"topic": row["topic"], "partition": row["partition"], "text": "Truncating to offset 0"}
        for row in recorded.rows("replicas")
        if not row["leader"]
    ]
    return recorded.having(log_events=[*recorded.rows("log_events"), *added])


@mutant
def one_broker_leads_all(recorded: Recorded) -> Recorded | None:
    """Whatever became a leader did so on the same broker."""
    rows = recorded.rows("log_events")
    for row in rows:
        if row["kind"] == "became_leader":
            row["host"] = "broker1"
    return recorded.having(log_events=rows)


@mutant
def settings_are_others(recorded: Recorded) -> Recorded | None:
    """Every setting that is a number is one larger than it was."""
    rows = recorded.rows("configs")
    for row in rows:
        if (row["value"] or "").isdigit():
            row["value"] = str(int(row["value"]) + 1)
    return recorded.having(configs=rows)


# What the cluster says about partitions ---------------------------------------------------------------------


def _place(row: Row) -> tuple[Any, ...]:
    return (row["source"], row["subject"], row["topic"], row["partition"])


def _restated(recorded: Recorded, subject: str, change: Callable[[Row, Row], Row]) -> Recorded | None:
    """``change(row, before)`` for each statement after the fault; each source gets one more at once."""
    rows = sorted(recorded.rows("views"), key=lambda row: row["ns"])
    before = {_place(row): row for row in rows if row["subject"] == subject and row["ns"] < recorded.since}
    at_once = [{**change(dict(row), row), "ns": recorded.since + MS} for row in before.values()]
    later = [
        change(dict(row), before.get(_place(row), row))
        if row["subject"] == subject and row["ns"] >= recorded.since
        else row
        for row in rows
    ]
    return recorded.having(views=[*later, *at_once])


def _other(row: Row) -> int:
    """A replica that does not lead."""
    replicas = row["replicas"] or [row["leader"]]
    if row["leader"] not in replicas:
        return int(replicas[0])
    other = replicas[(replicas.index(row["leader"]) + 1) % len(replicas)]
    return int(other) if other != row["leader"] else -1


@mutant
def another_leader(recorded: Recorded) -> Recorded | None:
    """Another replica leads than before."""
    return _restated(recorded, "partition", lambda row, _: row | {"leader": _other(row)})


@mutant
def no_leader(recorded: Recorded) -> Recorded | None:
    """No partition has a leader."""
    return _restated(recorded, "partition", lambda row, _: row | {"leader": -1})


@mutant
def leader_stands(recorded: Recorded) -> Recorded | None:
    """The leader before the fault still leads."""
    return _restated(recorded, "partition", lambda row, before: row | {"leader": before["leader"]})


@mutant
def epoch_stands(recorded: Recorded) -> Recorded | None:
    """The leader epoch before the fault stays."""
    return _restated(recorded, "partition", lambda row, before: row | {"epoch": before["epoch"]})


@mutant
def epoch_higher(recorded: Recorded) -> Recorded | None:
    """The leader epoch is one higher than it was."""
    return _restated(recorded, "partition", lambda row, _: row | {"epoch": (row["epoch"] or 0) + 1})


@mutant
def isr_stands(recorded: Recorded) -> Recorded | None:
    """The ISR before the fault stays."""
    return _restated(recorded, "partition", lambda row, before: row | {"isr": before["isr"]})


@mutant
def another_isr(recorded: Recorded) -> Recorded | None:
    """The ISR lacks its last member; an ISR with a single member has another member."""

    def change(row: Row, _: Row) -> Row:
        isr = row["isr"] or []
        others = [broker for broker in row["replicas"] or [1, 2, 3] if broker not in isr] or [9]
        return row | {"isr": isr[:-1] if len(isr) > 1 else others[:1]}

    return _restated(recorded, "partition", change)


@mutant
def partitions_flicker(recorded: Recorded) -> Recorded | None:
    """At every mark the leader and the ISR change, and change back."""
    return _at_marks(
        recorded,
        "partition",
        lambda row, _: row | {"leader": _other(row), "isr": [9]},
        and_back=True,
    )


@mutant
def epochs_run(recorded: Recorded) -> Recorded | None:
    """At every mark the leader epoch rises."""
    return _at_marks(recorded, "partition", lambda row, number: row | {"epoch": (row["epoch"] or 0) + number})


@mutant
def topics_exist(recorded: Recorded) -> Recorded | None:
    """Every topic was known to everybody from the beginning."""
    rows = recorded.rows("views")
    first: dict[tuple[Any, ...], Row] = {}
    sources = {row["source"] for row in rows if row["subject"] == "partition"}
    for row in rows:
        if row["subject"] == "partition":
            first.setdefault((row["topic"], row["partition"]), row)
    start = min(row["ns"] for row in rows)
    added = [{**row, "source": source, "ns": start} for row in first.values() for source in sources]
    return recorded.having(views=[*rows, *added])


def _new_topics_vanish(recorded: Recorded, sources: Callable[[str], bool]) -> Recorded | None:
    rows = recorded.rows("views")
    before = {row["topic"] for row in rows if row["ns"] < recorded.since}
    kept = [
        row
        for row in rows
        if row["subject"] != "partition" or row["topic"] in before or not sources(row["source"])
    ]
    return recorded.having(views=kept)


@mutant
def topics_vanish(recorded: Recorded) -> Recorded | None:
    """No source knows a topic that was created after the fault."""
    return _new_topics_vanish(recorded, lambda source: True)


@mutant
def one_broker_learns_no_topic(recorded: Recorded) -> Recorded | None:
    """Broker 2 does not know a topic that was created after the fault; everybody else does."""
    return _new_topics_vanish(recorded, lambda source: source == "broker2")


@mutant
def brokers_hear(recorded: Recorded) -> Recorded | None:
    """Every broker immediately knows what the metadata store says about partitions and the controller."""
    return _brokers_repeat(recorded, lambda row: not row["source"].startswith("broker"))


@mutant
def brokers_hear_nothing(recorded: Recorded) -> Recorded | None:
    """No broker hears anything new after the fault."""
    return _unheard(recorded, lambda row: row["subject"] != "reachable")


@mutant
def partitions_are_not_passed_on(recorded: Recorded) -> Recorded | None:
    """Of a partition, only its leader and the controller hear anything new after the fault."""
    controllers = {row["controller"] for row in recorded.rows("views")}
    return _unheard(
        recorded,
        lambda row: (
            row["subject"] == "partition"
            and row["source"] not in {f"broker{number}" for number in (row["leader"], *controllers)}
        ),
    )


def _unheard(recorded: Recorded, chosen: Callable[[Row], bool]) -> Recorded | None:
    """After the fault, brokers state instead of the chosen rows what they stated before it."""
    rows = sorted(recorded.rows("views"), key=lambda row: row["ns"])
    before = {_place(row): row for row in rows if row["ns"] < recorded.since}
    kept = []
    for row in rows:
        if row["ns"] >= recorded.since and row["source"].startswith("broker") and chosen(row):
            if _place(row) in before:
                kept.append({**before[_place(row)], "ns": row["ns"]})
        else:
            kept.append(row)
    return recorded.having(views=kept)


def _brokers_repeat(recorded: Recorded, by: Callable[[Row], bool]) -> Recorded | None:
    rows = recorded.rows("views")
    subjects = ("partition", "controller")
    brokers = {row["source"] for row in rows if row["source"].startswith("broker")}
    stated = [row for row in rows if row["subject"] in subjects and by(row) and row["ns"] >= recorded.since]
    kept = [
        row
        for row in rows
        if row["source"] not in brokers or row["subject"] not in subjects or row["ns"] < recorded.since
    ]
    added = [{**row, "source": broker, "ns": row["ns"] + MS} for row in stated for broker in brokers]
    return recorded.having(views=[*kept, *added])


def _at_marks(
    recorded: Recorded, subject: str, change: Callable[[Row, int], Row], *, and_back: bool = False
) -> Recorded | None:
    """After each mark, each source makes a changed statement; those in between are changed likewise."""
    rows = sorted(recorded.rows("views"), key=lambda row: row["ns"])
    made: list[Row] = []
    current: dict[tuple[Any, ...], Row] = {}
    moments = [(row["ns"], row) for row in rows]
    passed = 0
    for ns, row in sorted([*moments, *((mark, None) for mark in recorded.marks)], key=lambda item: item[0]):
        if row is None:
            passed += 1
            for stated in current.values():
                made.append({**change(dict(stated), passed), "ns": ns + 1})
                if and_back:
                    made.append({**stated, "ns": ns + 2})
        elif row["subject"] == subject:
            current[_place(row)] = row
            made.append(row if and_back else change(dict(row), passed))
        else:
            made.append(row)
    return recorded.having(views=made)


@mutant
def changes_come_at_once(recorded: Recorded) -> Recorded | None:
    """The cluster reports everything between the fault and the heal as soon as the next mark is set."""
    start = min((mark for mark in recorded.marks if mark >= recorded.since), default=recorded.since)
    heals = [row["ns"] for row in recorded.rows("faults") if row["moment"] == "healing"]
    end = min(heals, default=recorded.last_view_ns)

    def change(row: Row) -> Row:
        if not start < row["ns"] < end:
            return row
        return row | {"ns": start + 1 + (row["ns"] - start) // MS}

    return recorded.having(views=[change(row) for row in recorded.rows("views")])


# Brokers and the controller ---------------------------------------------------------------------------------


@mutant
def nobody_leaves(recorded: Recorded) -> Recorded | None:
    """The brokers that were registered before the fault stay registered."""
    return _restated(recorded, "brokers", lambda row, before: row | {"brokers": before["brokers"]})


@mutant
def brokers_leave(recorded: Recorded) -> Recorded | None:
    """No broker is registered after the fault."""
    return _restated(recorded, "brokers", lambda row, _: row | {"brokers": []})


@mutant
def all_answer(recorded: Recorded) -> Recorded | None:
    """Every node answers the observer all the time."""
    rows = recorded.rows("views")
    return recorded.having(views=[row | {"error": None} for row in rows])


@mutant
def none_answers(recorded: Recorded) -> Recorded | None:
    """No node answers the observer after the fault."""
    rows = recorded.rows("views")
    silent = {"subject": "reachable", "error": "timed out"}
    sources = {row["source"] for row in rows}
    blank: Row = dict.fromkeys(TABLES["views"].arrow().names)
    moments = [recorded.since, *recorded.marks]
    after = [{**blank, **silent, "source": one, "ns": ns + 1} for one in sources for ns in moments]
    return recorded.having(views=[row for row in rows if row["subject"] != "reachable"] + after)


def _another_controller(row: Row) -> Row:
    number = row["controller"] or 0
    other = number - 1 if number % 10 > 1 else number + 1
    return row | {"controller": other, "epoch": None if row["epoch"] is None else row["epoch"] + 1}


@mutant
def another_controller(recorded: Recorded) -> Recorded | None:
    """Another controller is elected after the fault, and acts instead of the actual one."""
    return _restated(recorded, "controller", lambda row, _: _another_controller(row))


@mutant
def same_controller(recorded: Recorded) -> Recorded | None:
    """The controller and its epoch stay what they were before the fault."""
    keep = ("controller", "epoch")
    return _restated(recorded, "controller", lambda row, before: row | {key: before[key] for key in keep})


@mutant
def same_controller_elected(recorded: Recorded) -> Recorded | None:
    """Whenever a controller is elected, it is the same as before the fault."""
    return _restated(recorded, "controller", lambda row, before: row | {"controller": before["controller"]})


@mutant
def controllers_run(recorded: Recorded) -> Recorded | None:
    """At every mark another controller is elected."""

    def change(row: Row, number: int) -> Row:
        made = _another_controller(row) if number % 2 else row
        return made | {"epoch": None if row["epoch"] is None else row["epoch"] + number}

    return _at_marks(recorded, "controller", change)


@mutant
def roles_move_while_sessions_last(recorded: Recorded) -> Recorded | None:
    """Another controller is elected, and others lead, although the brokers of before keep their sessions.

    These end with the last observation; the sessions of all other brokers end a second after the fault.
    """
    rows = [row for row in recorded.rows("views") if row["ns"] < recorded.since]
    before = {row[role] for row in rows for role in ("leader", "controller")}
    changed: Recorded | None = recorded
    for change in (another_leader, epoch_higher, another_controller):
        changed = changed and change(changed)
    if changed is None:
        return None
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    ended = [
        {**blank, "kind": "session_expired", "host": f"broker{number}"}
        | {"ns": recorded.last_view_ns if number in before else recorded.since + S}
        for number in {number for brokers in recorded.brokers_of.values() for number in brokers}
    ]
    return changed.having(log_events=[*recorded.rows("log_events"), *ended])


# What brokers log -------------------------------------------------------------------------------------------

_LOGGED = (
    *("truncated", "truncated_to_hw", "isr_shrinking", "isr_expanding", "isr_updated", "became_leader"),
    *("became_follower", "unclean_election", "session_expired", "resigned"),
)


def _hosts(recorded: Recorded) -> set[str]:
    return {row["host"] for row in recorded.rows("log_events")}


@mutant
def logs_say_nothing(recorded: Recorded) -> Recorded | None:
    """After the fault, brokers log only a meaningless line."""
    rows = recorded.rows("log_events")
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    ends = [{**blank, "ns": recorded.last_view_ns, "host": host, "kind": "none"} for host in _hosts(recorded)]
    return recorded.having(log_events=[row for row in rows if row["ns"] < recorded.since] + ends)


@mutant
def logs_say_everything(recorded: Recorded) -> Recorded | None:
    """After the fault and after each mark every broker logs every event of every partition."""
    rows = recorded.rows("log_events")
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    hosts = {f"broker{number}" for brokers in recorded.brokers_of.values() for number in brokers} | _hosts(
        recorded
    )
    added = [
        {**blank, "ns": ns + 1, "host": host, "kind": kind, "offset": 0, "text": " to 1 and "}
        | {"topic": topic, "partition": number}
        for ns in {recorded.since, *recorded.marks}
        for host in hosts
        for topic, number in recorded.brokers_of
        for kind in _LOGGED
    ]
    return recorded.having(log_events=[*rows, *added])


@mutant
def truncates_elsewhere(recorded: Recorded) -> Recorded | None:
    """Every truncation is to one offset further."""
    return recorded.having(
        log_events=[
            row | {"offset": (row["offset"] or 0) + 1} if row["kind"].startswith("truncated") else row
            for row in recorded.rows("log_events")
        ]
    )


@mutant
def truncates_to_the_high_watermark(recorded: Recorded) -> Recorded | None:
    """Every truncation after the fault is one to the high watermark, at the same offset."""
    rows = recorded.rows("log_events")
    added = [
        row | {"kind": "truncated_to_hw"}
        for row in rows
        if row["kind"] == "truncated" and row["ns"] >= recorded.since
    ]
    return recorded.having(log_events=[*rows, *added])


@mutant
def leaders_want_the_isr_that_is(recorded: Recorded) -> Recorded | None:
    """Every leader wants to shrink its ISR to all its members."""
    rows = recorded.rows("log_events")
    for row in rows:
        if row["kind"] == "isr_shrinking":
            row["text"] = re.sub(r"from ([\d,]+) to [\d,]+", r"from \1 to \1", row["text"])
    return recorded.having(log_events=rows)


@mutant
def logs_word_it_otherwise(recorded: Recorded) -> Recorded | None:
    """The events are logged with other words."""
    return recorded.having(log_events=[row | {"text": "otherwise"} for row in recorded.rows("log_events")])


# Answers to clients -----------------------------------------------------------------------------------------


def _sends(recorded: Recorded, change: Callable[[Row], Row]) -> list[Row]:
    """Sends; those after the fault are changed."""
    changed = (
        (row, change(dict(row)) if row["sent_ns"] >= recorded.since else None)
        for row in recorded.rows("sends")
    )
    return [row if made is None else made for row, made in changed]


@mutant
def all_acknowledged(recorded: Recorded) -> Recorded | None:
    """Every message that was sent after the fault is acknowledged."""
    ok = {"outcome": "ok", "error": 0}
    return recorded.having(
        sends=_sends(recorded, lambda row: row | ok | {"done_ns": row["done_ns"] or row["sent_ns"] + MS})
    )


@mutant
def acknowledged_at_once(recorded: Recorded) -> Recorded | None:
    """Every message is acknowledged a millisecond after it was sent."""
    ok = {"outcome": "ok", "error": 0}
    return recorded.having(sends=_sends(recorded, lambda row: row | ok | {"done_ns": row["sent_ns"] + MS}))


@mutant
def all_refused(recorded: Recorded) -> Recorded | None:
    """Every message that was sent after the fault is refused, with an error that no other answer has."""
    fail = {"outcome": "fail", "error": 87}
    return recorded.having(
        sends=_sends(recorded, lambda row: row | fail | {"done_ns": row["done_ns"] or row["sent_ns"] + MS})
    )


@mutant
def none_answered(recorded: Recorded) -> Recorded | None:
    """No message that was sent after the fault is answered."""
    none = {"outcome": "info", "error": -185, "done_ns": None, "offset": None, "broker": None}
    return recorded.having(sends=_sends(recorded, lambda row: row | none))


@mutant
def answered_late(recorded: Recorded) -> Recorded | None:
    """Every answer to an acks=all write after the fault takes a minute longer."""
    late = 60 * S
    waiting = {row["writer"] for row in recorded.rows("writers") if row["acks"] == -1}
    return recorded.having(
        sends=_sends(
            recorded,
            lambda row: (
                row
                | {"done_ns": row["done_ns"] and row["done_ns"] + (late if row["writer"] in waiting else 0)}
            ),
        )
    )


# What the final logs hold -----------------------------------------------------------------------------------


def _message(row: Row) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["writer"], row["seq"])


@mutant
def all_lost(recorded: Recorded) -> Recorded | None:
    """No replica holds any message."""
    return recorded.having(copies=[row for row in recorded.rows("copies") if row["writer"] is None])


@mutant
def acknowledged_lost(recorded: Recorded) -> Recorded | None:
    """No replica holds a message that was acknowledged after the fault began."""
    after = {
        _message(row)
        for row in recorded.rows("sends")
        if row["outcome"] == "ok" and (row["done_ns"] or 0) >= recorded.since
    }
    return recorded.having(copies=[row for row in recorded.rows("copies") if _message(row) not in after])


@mutant
def unacknowledged_gone(recorded: Recorded) -> Recorded | None:
    """No replica holds a message that was not acknowledged."""
    without = {_message(row) for row in recorded.rows("sends") if row["outcome"] != "ok"}
    return recorded.having(copies=[row for row in recorded.rows("copies") if _message(row) not in without])


@mutant
def nothing_lost(recorded: Recorded) -> Recorded | None:
    """Every message is at the end of the final log, and its answer says so."""
    return _kept(recorded, lambda row: True)


def _kept(recorded: Recorded, chosen: Callable[[Row], bool]) -> Recorded | None:
    """The chosen messages that the final log lacks are at its end, and their answers say so."""
    copies, sends = recorded.rows("copies"), recorded.rows("sends")
    there = {_message(row) for row in copies}
    ends: dict[tuple[str, int], int] = {}
    epochs: dict[tuple[str, int], int] = {}
    for row in copies:
        place = (row["topic"], row["partition"])
        ends[place] = max(ends.get(place, 0), row["offset"] + 1)
        epochs[place] = max(epochs.get(place, 0), row["epoch"] or 0)
    blank: Row = dict.fromkeys(TABLES["copies"].arrow().names)
    for row in sends:
        place = (row["topic"], row["partition"])
        if _message(row) in there or not chosen(row):
            continue
        offset = ends[place] = ends.get(place, 0) + 1
        row["offset"] = offset if row["outcome"] == "ok" else row["offset"]
        stands = {"topic": place[0], "partition": place[1], "offset": offset, "epoch": epochs.get(place, 0)}
        stands |= {
            "writer": row["writer"],
            "seq": row["seq"],
            "intact": True,
            "home": f"{place[0]}/{place[1]}",
        }
        copies += [{**blank, **stands, "broker": broker} for broker in recorded.brokers_of.get(place, ())]
    return recorded.having(copies=copies, sends=sends)


@mutant
def written_twice(recorded: Recorded) -> Recorded | None:
    """Every replica holds every message twice."""
    copies = recorded.rows("copies")
    again = [row | {"offset": row["offset"] + 1_000_000} for row in copies if row["writer"] is not None]
    return recorded.having(copies=[*copies, *again])


@mutant
def held_by_all(recorded: Recorded) -> Recorded | None:
    """All brokers with a replica hold what any replica holds."""
    by_offset: dict[tuple[Any, ...], Row] = {}
    for row in recorded.rows("copies"):
        by_offset.setdefault((row["topic"], row["partition"], row["offset"]), row)
    copies = [
        row | {"broker": broker}
        for row in by_offset.values()
        for broker in recorded.brokers_of.get((row["topic"], row["partition"]), [1, 2, 3])
    ]
    return recorded.having(copies=copies)


@mutant
def logs_differ(recorded: Recorded) -> Recorded | None:
    """One replica of each partition holds other messages at every offset."""
    odd = {place: max(brokers) for place, brokers in recorded.brokers_of.items()}
    return recorded.having(
        copies=[
            row | {"seq": row["seq"] + 1_000_000}
            if row["seq"] is not None and odd.get((row["topic"], row["partition"])) == row["broker"]
            else row
            for row in recorded.rows("copies")
        ]
    )


@mutant
def epoch_caches_differ(recorded: Recorded) -> Recorded | None:
    """Epoch caches have only leader epochs with records, each from its second record on."""
    epochs = {row["epoch"] for row in recorded.rows("copies")}

    def change(row: Row) -> Row:
        kept = [one for one in row["epochs"] or [] if one["epoch"] in epochs]
        return row | {"epochs": [one | {"start_offset": one["start_offset"] + 1} for one in kept]}

    return recorded.having(replicas=[change(row) for row in recorded.rows("replicas")])


# Transactions -----------------------------------------------------------------------------------------------

_OTHER_END = {"commit": "abort", "abort": "commit", "committed": "aborted", "aborted": "committed"}


@mutant
def late_requests_end_otherwise(recorded: Recorded) -> Recorded | None:
    """Held requests got another answer when they were delivered; held connections delivered nothing."""
    rows = recorded.rows("faults")
    for row in rows:
        if row["name"].startswith("hold ") and row["evidence"] is not None:
            row["evidence"] = row["evidence"].replace('"error": ', '"error": 7')
            row["evidence"] = row["evidence"].replace('"fate": "delivered"', '"fate": "dropped"')
    return recorded.having(faults=rows)


@mutant
def decided_otherwise(recorded: Recorded) -> Recorded | None:
    """Transactions that are committed in the logs are aborted, and vice versa."""
    rows = recorded.rows("copies")
    return recorded.having(copies=[row | {"marker": _OTHER_END.get(row["marker"])} for row in rows])


@mutant
def told_otherwise(recorded: Recorded) -> Recorded | None:
    """Transactions that were reported as committed are reported as aborted, and others as committed."""
    other = {**_OTHER_END, "unknown": "committed"}
    rows = recorded.rows("transactions")
    changed = [row | {"event": other.get(row["event"], row["event"]), "error": 0} for row in rows]
    return recorded.having(transactions=changed)


@mutant
def committed_in_the_meantime(recorded: Recorded) -> Recorded | None:
    """A second after each mark since the fault every transaction that began is reported as committed."""
    rows = recorded.rows("transactions")
    added = [
        row | {"ns": ns + S, "event": "committed", "error": 0}
        for row in rows
        for ns in recorded.marks
        if row["event"] == "begin" and row["ns"] < ns and ns > recorded.since
    ]
    return recorded.having(transactions=[*rows, *added])


@mutant
def readers_never_wait(recorded: Recorded) -> Recorded | None:
    """The last stable offset is the high watermark at all times."""
    rows = recorded.rows("watermarks")
    if all(row["last_stable_offset"] is None for row in rows):
        return None
    changed = [row | {"last_stable_offset": row["high_watermark"]} for row in rows]
    return recorded.having(watermarks=changed)


@mutant
def coordinators_know(recorded: Recorded) -> Recorded | None:
    """For coordinators, every partition is part of every transaction, and all transactions are open."""
    places = {f"{row['topic']}/{row['partition']}" for row in recorded.rows("producer_states")}
    rows = recorded.rows("transaction_states")
    state = {"state": "Ongoing", "partitions": ",".join(sorted(places))}
    return recorded.having(transaction_states=[row | state for row in rows]) if rows else None


@mutant
def readers_wait_for_ever(recorded: Recorded) -> Recorded | None:
    """The last stable offset is the start of the log at all times."""
    rows = recorded.rows("watermarks")
    if all(row["last_stable_offset"] is None for row in rows):
        return None
    return recorded.having(watermarks=[row | {"last_stable_offset": 0} for row in rows])


# Committed offsets ------------------------------------------------------------------------------------------


@mutant
def shares_come_once(recorded: Recorded) -> Recorded | None:
    """No record is handed to a member of a share group a second time."""
    kept, seen = [], set()
    for row in sorted(recorded.rows("shares"), key=lambda row: int(row["ns"])):
        place = (row["group"], row["topic"], row["partition"], row["offset"])
        if row["event"] == "acquired" and place in seen:
            continue
        if row["event"] == "acquired":
            seen.add(place)
        kept.append(row)
    return recorded.having(shares=kept)


@mutant
def shares_are_answered_otherwise(recorded: Recorded) -> Recorded | None:
    """Acknowledgements of members of share groups that were carried out are refused, and vice versa."""
    rows = recorded.rows("shares")
    for row in rows:
        if row["event"] == "answered":
            row["error"] = 0 if row["error"] else 121
    return recorded.having(shares=rows)


@mutant
def shares_come_again(recorded: Recorded) -> Recorded | None:
    """A minute after the last event, members of share groups are handed again all that they were handed."""
    rows = recorded.rows("shares")
    end = max((row["ns"] for row in rows), default=0) + 60 * S
    again = [row | {"ns": end} for row in rows if row["event"] == "acquired"]
    return recorded.having(shares=[*rows, *again])


@mutant
def instances_process_nothing(recorded: Recorded) -> Recorded | None:
    """Instances of applications of Kafka Streams process no partition."""
    rows = recorded.rows("applications")
    for row in rows:
        if row["partitions"] is not None:
            row["partitions"] = []
    return recorded.having(applications=rows)


@mutant
def commits_answered_otherwise(recorded: Recorded) -> Recorded | None:
    """After the fault, acknowledged commits are refused, and vice versa."""
    rows = recorded.rows("groups")
    for row in rows:
        if row["ns"] >= recorded.since and row["event"] == "committed":
            row |= {"event": "commit_failed", "error": 3}
        elif row["ns"] >= recorded.since and row["event"] == "commit_failed":
            row |= {"event": "committed", "error": 0}
    return recorded.having(groups=rows)


@mutant
def brokers_name_later_offsets(recorded: Recorded) -> Recorded | None:
    """After the fault every broker that is asked names a higher committed offset."""
    rows = recorded.rows("groups")
    for row in rows:
        if row["ns"] >= recorded.since and row["event"] == "fetched":
            row |= {"error": 0, "offset": (row["offset"] or 0) + 1000}
    return recorded.having(groups=rows)


@mutant
def members_keep_their_partitions(recorded: Recorded) -> Recorded | None:
    """After the fault nobody is assigned a partition, or loses one."""
    moves = ("assigned", "revoked", "lost")
    rows = recorded.rows("groups")
    kept = [row for row in rows if row["ns"] < recorded.since or row["event"] not in moves]
    return recorded.having(groups=kept)


@mutant
def members_give_their_partitions_up(recorded: Recorded) -> Recorded | None:
    """One second after each mark since the fault, every member gives up all its partitions of the run."""
    rows = recorded.rows("groups")
    owned = {
        (row["group"], row["reader"], row["topic"], row["partition"]): row
        for row in rows
        if row["event"] == "assigned"
    }
    added = [
        row | {"ns": ns + S, "event": "revoked", "offset": None, "asked_ns": None}
        for row in owned.values()
        for ns in recorded.marks
        if ns > recorded.since
    ]
    return recorded.having(groups=[*rows, *added])


# What was seen on replicas, and read by consumers -----------------------------------------------------------


def still_tailed(recorded: Recorded, sightings: list[Row]) -> list[Row]:
    """The same, with one more record on each broker at the end, so that all were followed until then."""
    brokers = {number for numbers in recorded.brokers_of.values() for number in numbers}
    blank: Row = dict.fromkeys(TABLES["sightings"].arrow().names)
    last = {"topic": "another", "partition": 0, "offset": 0, "seen_ns": recorded.last_view_ns + S}
    return [*sightings, *({**blank, **last, "broker": number} for number in brokers)]


@mutant
def seen_nowhere(recorded: Recorded) -> Recorded | None:
    """No record appears on any replica after the fault."""
    kept = [row for row in recorded.rows("sightings") if row["seen_ns"] < recorded.since]
    return recorded.having(sightings=still_tailed(recorded, kept))


@mutant
def seen_everywhere(recorded: Recorded) -> Recorded | None:
    """Every record appears on every broker when it first appears on any."""
    rows = sorted(recorded.rows("sightings"), key=lambda row: row["seen_ns"])
    brokers = {number for numbers in recorded.brokers_of.values() for number in numbers}
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        first.setdefault((*_message(row), row["offset"]), row)
    added = [row | {"broker": broker, "gone_ns": None} for row in first.values() for broker in brokers]
    return recorded.having(sightings=added)


@mutant
def read_nothing(recorded: Recorded) -> Recorded | None:
    """Consumers read the first record of each partition only."""
    return recorded.having(reads=[row for row in recorded.rows("reads") if row["offset"] == 0])


@mutant
def groups_receive_nothing_twice(recorded: Recorded) -> Recorded | None:
    """A group receives each record once."""
    received: set[tuple[object, ...]] = set()
    rows = []
    for row in sorted(recorded.rows("reads"), key=lambda row: int(row["ns"])):
        place = (row["group"], row["topic"], row["partition"], row["offset"])
        if row["group"] is None or place not in received:
            received.add(place)
            rows.append(row)
    return recorded.having(reads=rows)


@mutant
def one_consumer_receives_it(recorded: Recorded) -> Recorded | None:
    """Of the consumers of a partition, only the first one receives anything."""
    first: dict[tuple[str, int], int] = {}
    rows = sorted(recorded.rows("reads"), key=lambda row: int(row["ns"]))
    return recorded.having(
        reads=[
            row
            for row in rows
            if first.setdefault((row["topic"], row["partition"]), row["reader"]) == row["reader"]
        ]
    )


@mutant
def read_everything(recorded: Recorded) -> Recorded | None:
    """Before each mark a consumer reads every record that any replica had by then, after the fault."""
    rows = recorded.rows("reads")
    blank: Row = dict.fromkeys(TABLES["reads"].arrow().names)
    names = ("topic", "partition", "offset", "epoch", "writer", "seq")
    added = []
    for number, mark in enumerate(recorded.marks):
        for row in recorded.rows("sightings"):
            if row["seen_ns"] < mark and row["topic"] != "stream":
                added.append({**blank, **{n: row[n] for n in names}, "reader": 900 + number, "ns": mark - 1})
    return recorded.having(reads=[*rows, *added])


@mutant
def readers_never_go_back(recorded: Recorded) -> Recorded | None:
    """No consumer receives an offset again."""
    ends: dict[tuple[Any, ...], int] = {}
    rows = []
    for row in sorted(recorded.rows("reads"), key=lambda row: int(row["ns"])):
        place = (row["reader"], row["topic"], row["partition"])
        if row["offset"] > ends.get(place, -1):
            ends[place] = row["offset"]
            rows.append(row)
    return recorded.having(reads=rows)


@mutant
def readers_begin_again(recorded: Recorded) -> Recorded | None:
    """A millisecond before each mark since the fault, every consumer receives all that it had received."""
    rows = recorded.rows("reads")
    marks = [ns for ns in recorded.marks if ns > recorded.since]
    again = [{**row, "ns": ns - MS} for ns in marks for row in rows if row["ns"] < ns - MS]
    return recorded.having(reads=[*rows, *again])


# The harness's own records ----------------------------------------------------------------------------------


@mutant
def ten_seconds_late(recorded: Recorded) -> Recorded | None:
    """All observations after the fault are ten seconds later; the marks stay."""

    def late(rows: list[Row], *columns: str) -> list[Row]:
        for row in rows:
            for column in columns:
                if row[column] is not None and row[column] > recorded.since:
                    row[column] += 10 * S
        return rows

    columns = {"views": ("ns",), "log_events": ("ns",), "reads": ("ns",), "replicas": ("ns",)}
    columns |= {"sightings": ("seen_ns", "gone_ns")}
    return recorded.having(**{name: late(recorded.rows(name), *which) for name, which in columns.items()})


# What changes least is tried first, what changes most last.
_LEAST = (
    *("partitions-are-not-passed-on", "truncates-to-the-high-watermark", "one-consumer-receives-it"),
    *("leaders-want-the-isr-that-is", "changes-come-at-once", "roles-move-while-sessions-last"),
)
for _name in (
    *(name for name in tuple(MUTANTS) if name not in _LEAST),
    *("ten-seconds-late", "partitions-flicker", "another-leader", "another-isr", "controllers-run"),
    *("logs-say-everything", "logs-say-nothing", "none-answers", "none-answered"),
    *("nothing-lost", "all-lost", "all-acknowledged", "all-refused"),
):
    MUTANTS[_name] = MUTANTS.pop(_name)
