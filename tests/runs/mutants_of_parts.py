"""Changes of a history that only parts of compound claims need: no whole claim depends on them."""

from __future__ import annotations

from collections.abc import Callable

from harness.history.schema import TABLES
from tests.runs.mutants import MS, MUTANTS, Mutant, Recorded, Row, logs_say_everything, still_tailed

OF_PARTS: dict[str, Mutant] = {}
"""These mutants by name."""
ASKED_IN_VAIN = "made-by-old"
"""A topic that scenarios request from a controller which is none any more."""


def of_parts(function: Mutant) -> Mutant:
    """Register a mutant under its name."""
    OF_PARTS[function.__name__.replace("_", "-")] = function
    return function


@of_parts
def notes_say_otherwise(recorded: Recorded) -> Recorded | None:
    """The scenario stated nothing of what its steps had observed."""
    return recorded.having(marks=[row | {"facts": "{}"} for row in recorded.rows("marks")])


@of_parts
def windows_are_missed(recorded: Recorded) -> Recorded | None:
    """The scenario noted that a window was closed wherever it noted that one was open."""
    return recorded.having(
        marks=[row | {"name": row["name"].replace("-open", "-closed")} for row in recorded.rows("marks")]
    )


@of_parts
def never_acknowledged(recorded: Recorded) -> Recorded | None:
    """No message was ever acknowledged, before the fault or after it."""
    rows = recorded.rows("sends")
    return recorded.having(sends=[row | {"outcome": "fail", "error": 7, "offset": None} for row in rows])


@of_parts
def always_led_by_another(recorded: Recorded) -> Recorded | None:
    """Another replica leads every partition, before the fault and after it."""
    rows = recorded.rows("views")
    for row in rows:
        if row["subject"] == "partition":
            row["leader"] = row["leader"] % 3 + 1
    return recorded.having(views=rows)


@of_parts
def switches_are_turned(recorded: Recorded) -> Recorded | None:
    """Every setting that is true is false, and vice versa."""
    other = {"true": "false", "false": "true"}
    rows = recorded.rows("configs")
    return recorded.having(configs=[row | {"value": other.get(row["value"], row["value"])} for row in rows])


@of_parts
def never_seen(recorded: Recorded) -> Recorded | None:
    """No record was ever seen on a replica, before the fault or after it."""
    return recorded.having(sightings=still_tailed(recorded, []))


@of_parts
def others_are_read(recorded: Recorded) -> Recorded | None:
    """Consumers receive other messages than were sent."""
    rows = recorded.rows("reads")
    present = [row | {"seq": row["seq"] + 1_000_000} for row in rows if row["seq"] is not None]
    return recorded.having(reads=present)


@of_parts
def written_once(recorded: Recorded) -> Recorded | None:
    """Every replica holds every message once."""
    kept: dict[tuple[object, ...], Row] = {}
    others = []
    for row in recorded.rows("copies"):
        if row["writer"] is None:
            others.append(row)
        else:
            kept.setdefault((row["broker"], row["topic"], row["partition"], row["writer"], row["seq"]), row)
    return recorded.having(copies=[*others, *kept.values()])


@of_parts
def brokers_log_errors(recorded: Recorded) -> Recorded | None:
    """After each mark every broker logs an error."""
    rows = recorded.rows("log_events")
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    added = [
        {**blank, "ns": ns + MS, "host": host, "kind": "error", "text": "an error"}
        for ns in recorded.marks
        for host in sorted({row["host"] for row in rows})
    ]
    return recorded.having(log_events=[*rows, *added])


@of_parts
def topics_asked_for_in_vain_exist(recorded: Recorded) -> Recorded | None:
    """Everybody knows of `ASKED_IN_VAIN` since the fault."""
    rows = recorded.rows("views")
    present = {row["source"]: row for row in rows if row["subject"] == "partition"}
    place = {"topic": ASKED_IN_VAIN, "partition": 0, "ns": recorded.since + MS}
    return recorded.having(views=[*rows, *(row | place for row in present.values())])


@of_parts
def answers_are_not_noted(recorded: Recorded) -> Recorded | None:
    """The scenario set none of the marks that say what was answered."""
    return recorded.having(marks=[row for row in recorded.rows("marks") if "answer" not in row["text"]])


@of_parts
def refused_for_another_reason(recorded: Recorded) -> Recorded | None:
    """Every refused message got error 3."""
    return recorded.having(
        sends=[row | {"error": 3} if row["error"] else row for row in recorded.rows("sends")]
    )


@of_parts
def another_broker_answered(recorded: Recorded) -> Recorded | None:
    """Every answer of which the client names the broker came from broker 9."""
    rows = recorded.rows("sends")
    return recorded.having(sends=[row | {"broker": row["broker"] and 9} for row in rows])


@of_parts
def every_controller_leads(recorded: Recorded) -> Recorded | None:
    """Every KRaft controller names itself as the leader of the quorum."""
    return _naming(recorded, "controller", lambda row: int(row["source"][-1]))


def _naming(recorded: Recorded, sources: str, controller: Callable[[Row], int]) -> Recorded | None:
    """Sources of a kind name another controller in each of their statements."""
    rows = recorded.rows("views")
    for row in rows:
        if row["subject"] == "controller" and row["source"].startswith(sources):
            row["controller"] = controller(row)
    return recorded.having(views=rows)


@of_parts
def zookeeper_names_another(recorded: Recorded) -> Recorded | None:
    """`/controller` names broker 9."""
    return _naming(recorded, "zookeeper", lambda _: 9)


@of_parts
def written_in_a_later_epoch(recorded: Recorded) -> Recorded | None:
    """Every record has the next producer epoch."""
    return recorded.having(
        copies=[
            row | {"producer_epoch": row["producer_epoch"] + 1} if row["producer_epoch"] is not None else row
            for row in recorded.rows("copies")
        ]
    )


@of_parts
def logs_say_everything_of_late_epochs(recorded: Recorded) -> Recorded | None:
    """As `logs-say-everything`, of epoch 9 and of offsets up to 5."""
    present = len(recorded.rows("log_events"))
    said = logs_say_everything(recorded)
    if said is None:
        return None
    rows = said.rows("log_events")
    added = [row | {"epoch": 9, "offset": offset} for row in rows[present:] for offset in range(6)]
    return recorded.having(log_events=[*rows[:present], *added])


@of_parts
def everybody_is_assigned_everything(recorded: Recorded) -> Recorded | None:
    """Before each mark, each member of a group is assigned all partitions that any member had."""
    rows = recorded.rows("groups")
    assigned = [row for row in rows if row["event"] == "assigned"]
    members = {(row["group"], row["member"], row["reader"]): row for row in assigned}
    added = [
        row | {"member": member, "reader": reader, "ns": mark - 1}
        for mark in recorded.marks
        for group, member, reader in members
        for row in assigned
        if row["group"] == group
    ]
    return recorded.having(groups=[*rows, *added])


@of_parts
def a_minute_late(recorded: Recorded) -> Recorded | None:
    """Everything that nodes state after the fault is stated a minute later."""
    return recorded.having(
        views=[
            row | {"ns": row["ns"] + 60_000 * MS} if row["ns"] > recorded.since else row
            for row in recorded.rows("views")
        ]
    )


@of_parts
def what_did_not_happen_is_noted(recorded: Recorded) -> Recorded | None:
    """The scenario set the mark `x` instead of `not-x`."""
    return recorded.having(
        marks=[row | {"name": row["name"].removeprefix("not-")} for row in recorded.rows("marks")]
    )


EVERY = {**OF_PARTS, **MUTANTS}
"""All mutants. The mutants that change most come last."""
