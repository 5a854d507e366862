"""Consumers of a history: what they received, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.independent.world import ReplicatedPartition, World

Damage = Callable[[World, ReplicatedPartition], bool]


def deliver(world: World, partition: ReplicatedPartition, reader: int, offset: int, **more: Any) -> None:
    """One delivery of the record at ``offset`` on the leader; without a message if there is none."""
    record = partition.logs[partition.leader].get(offset, {}) if partition.logs else {}
    row = {
        "topic": partition.at[0],
        "partition": partition.at[1],
        "reader": reader,
        "ns": world.tick(),
        "offset": offset,
        "epoch": record.get("epoch"),
        "writer": record.get("writer"),
        "seq": record.get("seq"),
        "group": None,
        "isolation": None,
    }
    world.rows("reads").append(row | more)


def event(
    world: World,
    partition: ReplicatedPartition,
    group: str,
    reader: int,
    name: str,
    offset: int | None = None,
) -> None:
    """A row of `groups`."""
    topic, number = partition.at
    asked_ns = world.tick()
    world.rows("groups").append(
        {
            "ns": world.tick(),
            "asked_ns": asked_ns if name in ("committed", "fetched") else None,
            "error": world.random.choice((0, 0, None)),
            "group": group,
            "reader": reader,
            "event": name,
            "topic": topic,
            "partition": number,
            "offset": offset,
        }
    )


def _visible(world: World, partition: ReplicatedPartition, isolation: str | None) -> list[int]:
    """Offsets that a consumer receives: no markers, nothing damaged or hidden by its isolation level."""
    undecided = {
        (row["writer"], row["txn"])
        for row in world.rows("transactions")
        if row["event"] in ("aborted", "unknown")
    }
    offsets = []
    for offset, record in sorted(partition.logs[partition.leader].items()):
        send = partition.sends.get((record.get("writer"), record.get("seq")), {})  # type: ignore[arg-type]
        hidden = isolation == "read_committed" and (send.get("writer"), send.get("txn")) in undecided
        if not record.get("control") and record.get("intact") is not False and not hidden:
            offsets.append(offset)
    return offsets


def consume(world: World) -> None:
    """Correct readers: some with assigned partitions, some in a group whose partitions move."""
    for partition in world.partitions:
        for _ in range(world.random.choice((0, 1, 1, 2))):
            isolation = world.random.choice((None, "read_committed", "read_uncommitted"))
            offsets = _visible(world, partition, isolation)
            if world.random.random() < 0.3:
                offsets = offsets[world.random.randint(0, len(offsets)) :]
            if world.random.random() < 0.4:
                _consume_as_group(world, partition, offsets, isolation)
                continue
            reader = world.reader()
            for offset in offsets:
                deliver(world, partition, reader, offset, isolation=isolation)


def _consume_as_group(
    world: World, partition: ReplicatedPartition, offsets: list[int], isolation: str | None
) -> None:
    """Two members take turns; the one that takes over begins at the group's newest commit."""
    group = f"g{world.name}-{world.reader()}"
    members = [world.reader(), world.reader()]
    member, committed, position = 0, -1, 0
    commits = world.random.random() < 0.8
    while position < len(offsets):
        reader = members[member]
        event(world, partition, group, reader, "joined")
        world.rows("groups")[-1] |= {"generation": position, "topic": None, "partition": None}
        event(world, partition, group, reader, "assigned")
        stop = min(len(offsets), position + world.random.randint(1, 6))
        for offset in offsets[position:stop]:
            deliver(world, partition, reader, offset, group=group, isolation=isolation)
            if commits and world.random.random() < 0.3:
                committed = offset
                event(world, partition, group, reader, "committed", offset + 1)
                _ask_for_offsets(world, offset)
        if world.random.random() < 0.4:
            event(world, partition, group, reader, "revoked")
            member = 1 - member
            if commits and committed >= 0:
                stop = offsets.index(committed) + 1
        position = max(stop, position + (0 if commits else 1))


def _ask_for_offsets(world: World, offset: int) -> None:
    """After a commit, one that was not acknowledged, and an answer of a broker: neither is a commit."""
    done = world.rows("groups")[-1]
    for name, error in (("commit_failed", 7), ("fetched", 0)):
        world.rows("groups").append(done | {"event": name, "offset": offset + 3, "broker": 1, "error": error})


def _rows(world: World, partition: ReplicatedPartition, group: bool | None = None) -> list[dict[str, Any]]:
    """Deliveries of one reader of the partition, in order."""
    rows = [row for row in world.rows("reads") if (row["topic"], row["partition"]) == partition.at]
    if group is not None:
        rows = [row for row in rows if (row["group"] is not None) == group]
    if not rows:
        return []
    reader = world.random.choice(rows)["reader"]
    return sorted((row for row in rows if row["reader"] == reader), key=lambda row: int(row["ns"]))


def reads_what_is_gone(world: World, partition: ReplicatedPartition) -> bool:
    """Readers received messages that no log holds: failed, unknown, acknowledged, or sent by nobody."""
    random = world.random
    outcome = random.choice(("fail", "info", "ok", None, "nobody"))
    offset = partition.end() + random.choice((0, 0, 3)) if partition.replicas else 0
    if partition.offsets() and random.random() < 0.4:
        offset = random.choice(partition.offsets())
    if random.random() < 0.2:
        offset = random.randint(0, offset)
    more: dict[str, Any] = {"writer": None, "seq": None}
    if outcome == "nobody":
        strange = ((None, None), (world.writer(), 0), (world.writer(), None), (None, random.choice((0, 5))))
        more = dict(zip(("writer", "seq"), random.choice(strange), strict=True))
    else:
        writers = sorted({writer for writer, _ in partition.sends}) or [world.writer()]
        send = world.send(partition, random.choice(writers), outcome)
        if outcome == "ok" and random.random() < 0.8:
            send["offset"] = offset
        more = {"writer": send["writer"], "seq": send["seq"]}
    for _ in range(random.choice((1, 1, 2))):
        deliver(world, partition, world.reader(), offset, **more)
    return True


def reads_what_was_aborted(world: World, partition: ReplicatedPartition) -> bool:
    """A reader received a message of an aborted transaction."""
    aborted = {(row["writer"], row["txn"]) for row in world.rows("transactions") if row["event"] == "aborted"}
    offsets = partition.offsets(lambda send: (send["writer"], send.get("txn")) in aborted)
    if not offsets:
        return False
    for _ in range(world.random.choice((1, 1, 2))):
        isolation = world.random.choice(("read_committed", "read_committed", "read_uncommitted", None))
        deliver(world, partition, world.reader(), world.random.choice(offsets), isolation=isolation)
    return True


def reads_at_anothers_offset(world: World, partition: ReplicatedPartition) -> bool:
    """A reader received a message at an offset of another message, or of none."""
    offsets = partition.offsets()
    if len(offsets) < 2:
        return False
    a, b = world.random.sample(offsets, 2)
    if world.random.random() < 0.15:
        b = partition.end() + 2
    record = partition.logs[partition.leader][a]
    for _ in range(world.random.choice((1, 1, 2))):
        deliver(world, partition, world.reader(), b, writer=record["writer"], seq=record["seq"])
    return True


def jumps(world: World, partition: ReplicatedPartition) -> bool:
    """A reader did not receive some records in the middle; sometimes it had sought."""
    rows = _rows(world, partition)
    if len(rows) < 3:
        return False
    first = world.random.randint(1, len(rows) - 2)
    last = world.random.randint(first, len(rows) - 2)
    for row in rows[first : last + 1]:
        world.rows("reads").remove(row)
    _maybe_sought(world, partition, rows[first - 1], rows[last + 1])
    return True


def _maybe_sought(
    world: World, partition: ReplicatedPartition, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """In one of three cases the reader sought there (or another reader did, which explains nothing)."""
    if world.random.random() < 0.33:
        reader = after["reader"] if world.random.random() < 0.8 else world.reader()
        group = after["group"] or world.random.choice(("", "", "by hand"))  # the column holds no null
        event(world, partition, group, reader, "sought", after["offset"])
        world.rows("groups")[-1]["ns"] = world.random.randint(before["ns"] + 1, after["ns"] - 1)


def goes_back(world: World, partition: ReplicatedPartition) -> bool:
    """A reader receives the last few records again, once; sometimes it had sought."""
    rows = _rows(world, partition)
    if not rows:
        return False
    again = _handed(world, rows[-1])[-world.random.randint(1, 4) :]
    for row in again:
        world.rows("reads").append(row | {"ns": world.tick(), "reader": rows[-1]["reader"]})
    _maybe_sought(world, partition, rows[-1], world.rows("reads")[-len(again)])
    return True


def _handed(world: World, row: dict[str, Any]) -> list[dict[str, Any]]:
    """What the reader of ``row`` (or its group) received from that partition, once each, by offset."""
    by_offset = {
        other["offset"]: other
        for other in world.rows("reads")
        if all(other[column] == row[column] for column in ("topic", "partition", "group"))
        and (row["group"] is not None or other["reader"] == row["reader"])
    }
    return [by_offset[offset] for offset in sorted(by_offset)]


def inverts(world: World, partition: ReplicatedPartition) -> bool:
    """A reader received two neighbouring records in the wrong order."""
    rows = _rows(world, partition, group=False)
    if len(rows) < 2:
        return False
    number = world.random.randint(0, len(rows) - 2)
    a, b = rows[number], rows[number + 1]
    a["ns"], b["ns"] = b["ns"], a["ns"]
    return True


def replays(world: World, partition: ReplicatedPartition) -> bool:
    """A member of a group receives again what the group had read: committed or not, newest or furthest."""
    rows = _rows(world, partition, group=True)
    if len(rows) < 2:
        return False
    rows = _handed(world, rows[0])
    group, reader = rows[0]["group"], rows[0]["reader"]
    number = world.random.randint(0, len(rows) - 1)
    kind = world.random.random()
    if kind < 0.6:
        event(world, partition, group, reader, "committed", rows[-1]["offset"] + 1)
        if kind < 0.2:
            event(world, partition, group, reader, "committed", rows[number]["offset"])
    elif kind < 0.7:
        event(world, partition, group, reader, "committed", rows[number]["offset"])
    if world.random.random() < 0.5:
        event(world, partition, group, reader, "revoked")
        reader = world.reader()
        event(world, partition, group, reader, "assigned")
    if world.random.random() < 0.2:
        event(world, partition, group, reader, "sought", rows[number]["offset"])
    for row in rows[number:]:
        world.rows("reads").append(row | {"ns": world.tick(), "reader": reader})
    return True


def commits_past_what_it_read(world: World, partition: ReplicatedPartition) -> bool:
    """A member commits beyond its last record, and a successor goes on there; or something explains it."""
    random = world.random
    isolation = random.choice((None, "read_committed", "read_uncommitted"))
    offsets = _visible(world, partition, isolation)
    if len(offsets) < 3:
        return False
    group, member = f"g{world.name}-{world.reader()}", world.reader()
    last = random.randint(0, len(offsets) - 3)
    first = random.randint(last + 2, len(offsets) - 1)
    handed: dict[str, Any] = {"group": group, "isolation": isolation}
    if random.random() < 0.9:  # a client that is not shown to be a member proves nothing
        event(world, partition, group, member, random.choice(("assigned",) * 5 + ("revoked",)))
    for offset in offsets[random.randint(0, last) : last + 1]:
        deliver(world, partition, member, offset, **handed)
    if random.random() < 0.15:
        event(world, partition, group, member, random.choice(("sought", "assigned", "revoked", "lost")), 0)
    committer = member if random.random() < 0.9 else world.reader()
    outcome = "committed" if random.random() < 0.9 else "commit_failed"
    event(world, partition, group, committer, outcome, offsets[first] + random.choice((0, 0, 0, -1, 1)))
    if random.random() < 0.1:
        event(world, partition, group, member, "committed", offsets[last] + 1)
    successor = member if random.random() < 0.3 else world.reader()
    if random.random() < 0.8:
        event(world, partition, group, successor, "assigned")
    if random.random() < 0.1:
        event(world, partition, group, successor, "sought", offsets[first])
    if random.random() < 0.1:  # the offset at which it was assigned the partition is older
        event(world, partition, group, member, "committed", offsets[first])
    for offset in offsets[first:]:
        deliver(world, partition, successor, offset, **handed)
    if random.random() < 0.2:
        deliver(world, partition, successor, random.choice(offsets[last + 1 : first]), **handed)
    return True


def asks_an_old_coordinator(world: World, partition: ReplicatedPartition) -> bool:
    """A client is answered with an offset that another commit replaced, or may have replaced."""
    random, reader = world.random, world.reader()
    group = f"g{world.name}-{reader}"
    for offset in random.sample(range(1, 9), random.randint(1, 3)):
        name = random.choice(("committed", "committed", "commit_failed"))
        event(world, partition, group, reader, name, offset)
        row = world.rows("groups")[-1]
        if random.random() < 0.8:  # the time of the other requests is not known
            row["asked_ns"] = max(0, row["ns"] - random.choice((1, 1, 100, 2000)))
    for _ in range(random.randint(1, 3)):
        name = random.choice(("fetched", "fetched", "assigned"))
        event(world, partition, group, world.reader(), name, random.choice((None, *range(1, 9))))
        row = world.rows("groups")[-1]
        row["asked_ns"] = random.choice((row["ns"] - 1, row["ns"] - 1, row["ns"] - 1, None))
        if random.random() < 0.1:
            row["error"] = 16
    return True


def owns_too_long(world: World, partition: ReplicatedPartition) -> bool:
    """Members of a group own a partition in turn, or at the same time."""
    members = [world.reader() for _ in range(world.random.randint(2, 3))]
    group = f"g{world.name}-{members[0]}"
    for _ in range(world.random.randint(2, 7)):
        name = world.random.choice(("assigned", "assigned", "revoked", "lost", "commit_failed"))
        event(world, partition, group, world.random.choice(members), name)
    return True


def sent_after_the_read(world: World, partition: ReplicatedPartition) -> bool:
    """A reader passed offsets whose records were truncated; the records there now were sent later."""
    offsets = partition.offsets()
    if len(offsets) < 3:
        return False
    reader, last = world.reader(), offsets[-1]
    deliver(world, partition, reader, offsets[0])
    deliver(world, partition, reader, last)
    partition.cut(offsets[1])
    partition.epoch += 1
    writers = sorted({writer for writer, _ in partition.sends})
    for _ in range(last - offsets[1] + 1 if last - offsets[1] < 50 else 1):
        world.write(partition, world.random.choice(writers))
    return True


READ_DAMAGE: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        reads_what_is_gone,
        reads_what_was_aborted,
        reads_at_anothers_offset,
        jumps,
        goes_back,
        inverts,
        replays,
        commits_past_what_it_read,
        asks_an_old_coordinator,
        owns_too_long,
        sent_after_the_read,
    )
}
