"""Offsets that expired, positions that were not in the log, and groups that stood still."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.independent.model import History, Row

MINUTE = 60 * 10**9


def of_group(history: History, group: str) -> list[Row]:
    """Events of one group, by time."""
    return sorted(
        (row for row in history.get("groups", ()) if row["group"] == group), key=lambda row: int(row["ns"])
    )


# ---- `When a committed offset expires`


def minutes(history: History, broker: int | None) -> int | None:
    """`configs has offsets.retention.minutes (if brokers differ: that of the broker that answered)`."""
    values = {
        row["name"]: row.get("value") or row.get("asked")
        for row in history.get("configs", ())
        if row["scope"] == "broker" and row["key"] == "offsets.retention.minutes"
    }
    value = values.get(f"broker{broker}") if len({*values.values()}) != 1 else [*values.values()][0]
    return None if value is None else int(value)


def present(events: list[Row], member: int, ns: int, until: int) -> bool:
    """Whether a member belonged to its group at some time of (ns, until).

    `from joined or assigned until it has given up all its partitions, or until its last event`
    """
    began, owned, spans, last = None, set(), [], None
    for row in (row for row in events if row["reader"] == member):
        if row["event"] in ("joined", "assigned") and began is None:
            began = row["ns"]
        last = row["ns"]
        at = (row.get("topic"), row.get("partition"))
        if row["event"] == "assigned":
            owned.add(at)
        if row["event"] in ("revoked", "lost"):
            owned.discard(at)
            if not owned and began is not None:
                spans.append((began, row["ns"]))
                began = None
    if began is not None:
        spans.append((began, last))
    return any(begin < until and end > ns for begin, end in spans)


def expired(history: History, commit: Row, answer: Row) -> bool:
    """`the offset may have expired`: the setting is recorded, and as many minutes had passed."""
    limit = minutes(history, answer.get("broker"))
    if limit is None or answer.get("offset") is not None:
        return False
    events = of_group(history, commit["group"])
    members = {row["reader"] for row in events if row["event"] in ("joined", "assigned")}
    begins = commit.get("asked_ns") or commit["ns"]

    def vacant(ns: int, until: int) -> bool:
        return not any(present(events, member, ns, until) for member in members)

    if any(row["event"] == "joined" and row.get("protocol") == "consumer" for row in events):
        # `the commit; but an offset does not expire while the group has members`
        due = begins + limit * MINUTE
        moments = [due, *(row["ns"] for row in events if row["ns"] >= due)]
        return any(ns < answer["ns"] and vacant(ns, ns + 1) for ns in moments)
    # `when its last member had left, and only while it has none`; without members, the commit
    moments = [begins, *(row["ns"] for row in events if row["ns"] >= begins)]
    return any(ns + limit * MINUTE <= answer["ns"] and vacant(ns, ns + limit * MINUTE) for ns in moments)


# ---- `When a position is not in the log`


def elections(history: History, at: tuple[str, int]) -> list[Row]:
    """The first view of each leader in a new epoch, with the ISR before it."""
    views = sorted(
        (
            row
            for row in history.get("views", ())
            if row["subject"] == "partition" and (row.get("topic"), row.get("partition")) == at
        ),
        key=lambda row: int(row["ns"]),
    )
    elected: list[Row] = []
    epoch, isr = -2, []
    for row in views:
        seen = -1 if row.get("epoch") is None else row["epoch"]
        if seen > epoch and row.get("leader") is not None and row["leader"] >= 0:
            elected.append({**row, "before": isr})
        if seen >= epoch:
            epoch, isr = seen, row.get("isr") or []
    return elected


def marks(history: History, at: tuple[str, int], broker: int | None = None) -> list[Row]:
    """Rows of `watermarks` about a partition (and broker), by time."""
    rows = [
        row
        for row in history.get("watermarks", ())
        if (row["topic"], row["partition"]) == at and broker in (None, row["broker"])
    ]
    return sorted(rows, key=lambda row: int(row["ns"]))


def resets(history: History, at: tuple[str, int], group: str) -> Iterator[tuple[int, Row]]:
    """The position, and the next record that a member received, at another offset."""
    received = [
        row
        for row in history.get("reads", ())
        if row.get("group") == group and (row["topic"], row["partition"]) == at
    ]
    events = [row for row in of_group(history, group) if (row.get("topic"), row.get("partition")) == at]
    for member in sorted({row["reader"] for row in received}):
        before: Row | None = None
        for row in sorted((r for r in received if r["reader"] == member), key=lambda r: int(r["ns"])):
            position, since = expected(events, member, before, row)
            before = row
            if position is None or row["offset"] == position:
                continue
            if row["offset"] < position and ended(history, at, position, since, row["ns"]):
                yield position, row
            if row["offset"] > position and began(history, at, position, row["ns"]):
                yield position, row


def expected(events: list[Row], member: int, before: Row | None, row: Row) -> tuple[int | None, int]:
    """The position before a record, and since when the group had it."""
    since = -1 if before is None else before["ns"]
    moves = [
        event
        for event in events
        if event["reader"] == member
        and event["event"] in ("assigned", "sought", "revoked", "lost")
        and since <= event["ns"] <= row["ns"]
    ]
    if not moves:
        return (None, -1) if before is None else (before["offset"] + 1, since)
    last = moves[-1]
    if last["event"] != "assigned" or last.get("error") or last.get("offset") is None:
        return None, -1
    acked = [
        event["ns"]
        for event in events
        if event["event"] == "committed"
        and event.get("offset") == last["offset"]
        and event["ns"] < last["ns"]
    ]
    return last["offset"], max(acked, default=last["ns"])


def ended(history: History, at: tuple[str, int], position: int, since: int, until: int) -> bool:
    """`a leader was elected, and the end of its log was below the position`, and the cause is known."""
    later = [one for one in elections(history, at) if since < one["ns"] <= until]
    if not later:
        return False
    leader = later[-1]
    views = [
        row
        for row in marks(history, at, leader["leader"])
        if row["ns"] <= until and row.get("leo") is not None
    ]
    valid = [row for row in views if row["ns"] <= leader["ns"]][-1:] + [
        row for row in views if row["ns"] > leader["ns"]
    ]
    if not valid or min(row["leo"] for row in valid) >= position:
        return False
    if any(one["before"] and one["leader"] not in one["before"] for one in later):
        return True
    for fault in history.get("faults", ()):
        targets = json.loads(fault.get("targets") or "{}")
        if (
            fault.get("mechanism") in ("power_cut", "wipe", "truncate", "damage")
            and fault["moment"] == "injected"
            and since < fault["ns"] <= until
            and f"broker{leader['leader']}" in targets.get("hosts", ())
            and (not targets.get("partitions") or f"{at[0]}/{at[1]}" in targets["partitions"])
        ):
            return True
    return any(
        row["kind"] in ("truncated", "truncated_to_hw")
        and (row.get("topic"), row.get("partition")) == at
        and row["ns"] > since
        and row.get("offset") is not None
        and row["offset"] < position
        for row in history.get("log_events", ())
    )


def began(history: History, at: tuple[str, int], position: int, until: int) -> bool:
    """`at most 1 s after the record was received, that the leader's log began above the position`."""
    for row in marks(history, at):
        if row["ns"] > until + 10**9 or row.get("log_start") is None or row["log_start"] <= position:
            continue
        led = [one["leader"] for one in elections(history, at) if one["ns"] <= min(row["ns"], until)]
        if not led or led[-1] == row["broker"]:
            return True
    return False


# ---- `When a group stands still`


def stalls(history: History, at: tuple[str, int], group: str) -> int:
    """How often nobody owned a partition for longer than a group needs to make progress."""
    everything = of_group(history, group)
    events = [row for row in everything if (row.get("topic"), row.get("partition")) == at]
    received = [
        row
        for row in history.get("reads", ())
        if row.get("group") == group and (row["topic"], row["partition"]) == at
    ]
    joined = [row.get("session_ms") for row in everything if row["event"] == "joined"]
    session = max((value or 45_000 for value in joined), default=45_000)
    delay = max(
        (
            int(row["value"])
            for row in history.get("configs", ())
            if row["key"] == "group.initial.rebalance.delay.ms" and row.get("value")
        ),
        default=3_000,
    )
    limit = (2 * session + delay) * 10**6
    owners: set[int] = set()
    lost: int | None = None
    count = 0
    for row in events:
        if row["event"] in ("revoked", "lost"):
            owners.discard(row["reader"])
            lost = None if owners else row["ns"]
        if row["event"] == "assigned":
            if lost is not None and not owners:
                signs = [(sign["reader"], sign["ns"]) for sign in (*everything, *received)]
                alive = {reader for reader, ns in signs if ns <= lost} & {
                    reader for reader, ns in signs if ns >= row["ns"]
                }
                begin = stands(history, at, events, received, lost, row["ns"])
                count += bool(alive) and begin is not None and row["ns"] - begin > limit
            owners.add(row["reader"])
            lost = None
    return count


def stands(
    history: History, at: tuple[str, int], events: list[Row], received: list[Row], lost: int, until: int
) -> int | None:
    """From when the time counts: a record can be read, the partition has a leader, no fault hits clients."""
    commits = [
        row["offset"]
        for row in events
        if row["event"] == "committed" and row["ns"] <= lost and row.get("offset") is not None
    ]
    position = max(
        [*commits[-1:], *(row["offset"] + 1 for row in received if row["ns"] <= lost)], default=None
    )
    if position is None:
        return None
    uncommitted = any(row.get("isolation") == "read_uncommitted" for row in received)
    begin = None
    for row in marks(history, at):
        led = [one["leader"] for one in elections(history, at) if one["ns"] <= row["ns"]]
        end = row.get("high_watermark")
        if end is not None and not uncommitted and row.get("last_stable_offset") is not None:
            end = min(end, row["last_stable_offset"])
        if (
            end is not None
            and end > position
            and (not led or led[-1] == row["broker"])
            and row["ns"] <= until
        ):
            begin = max(lost, row["ns"])
            break
    if begin is None:
        return None
    begin = max(begin, cut_off(history, begin, until))
    epochs: dict[int, Row] = {}
    for row in sorted(history.get("views", ()), key=lambda row: int(row["ns"])):
        if (
            row["subject"] == "partition"
            and (row.get("topic"), row.get("partition")) == at
            and row.get("epoch") is not None
        ):
            epochs.setdefault(row["epoch"], row)
    states = [epochs[epoch] for epoch in sorted(epochs)]
    for number, row in enumerate(states):
        end = states[number + 1]["ns"] if number + 1 < len(states) else until
        if (row.get("leader") is None or row["leader"] < 0) and row["ns"] < until and end > begin:
            begin = max(begin, end)
    return begin


def cut_off(history: History, begin: int, until: int) -> int:
    """Until when `a fault hits a host that is neither a broker, a controller nor a ZooKeeper node`."""
    last = begin
    for fault in {row["fault"] for row in history.get("faults", ())}:
        rows = [row for row in history["faults"] if row["fault"] == fault]
        targets = json.loads(rows[0].get("targets") or "{}")
        hosts = {*targets.get("hosts", ())}
        for link in targets.get("links", ()):
            hosts |= {end.strip().partition(":")[0] for end in link.split("->")}
        start = min((row["ns"] for row in rows if row["moment"] in ("injecting", "injected")), default=None)
        end = min((row["ns"] for row in rows if row["moment"] == "healed"), default=2**62)
        clients = [
            host for host in hosts if host.rstrip("0123456789") not in ("broker", "controller", "zookeeper")
        ]
        if clients and start is not None and start < until and end > begin:
            last = max(last, end)
    return last
