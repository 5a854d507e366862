"""Damage to logs and to answers to producers: every fate and every finding that needs no reader.

Each function plants one kind of damage in one partition, and returns ``False`` if the partition has no room
for it. It does not say what the damage means: `truth.py` reads that from the rows alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.independent.world import Record, ReplicatedPartition, World

Damage = Callable[[World, ReplicatedPartition], bool]


def _ok(send: dict[str, Any]) -> bool:
    return send["outcome"] == "ok" and send["offset"] is not None


def _pick(
    world: World, partition: ReplicatedPartition, suits: Callable[[dict[str, Any]], bool] = _ok
) -> int | None:
    """An offset of the leader's log at which a message stands that ``suits`` accepts."""
    offsets = partition.offsets(suits)
    return world.random.choice(offsets) if offsets else None


def _stranger(world: World, partition: ReplicatedPartition) -> Record:
    """A record that nobody sent: without identity, of an unknown writer, or with a seq that was never
    used.
    """
    writer = world.random.choice([send["writer"] for send in partition.sends.values()] or [0])
    identity = world.random.choice(
        ((None, None), (world.writer(), 5), (writer, world.writers.get(writer, 0) + 50), (writer, None))
    )
    home = world.random.choice((None, "/".join(map(str, partition.at))))
    return {"epoch": partition.epoch, "writer": identity[0], "seq": identity[1], "intact": True, "home": home}


def _fresh(
    world: World, partition: ReplicatedPartition, outcome: str | None
) -> tuple[dict[str, Any], Record]:
    """A new message of one of the partition's writers (or a new one), and its record."""
    writers = [send["writer"] for send in partition.sends.values()] or [world.writer()]
    send = world.send(partition, world.random.choice(writers), outcome)
    return send, world.record(send, partition)


def _follower(world: World, partition: ReplicatedPartition, in_sync: bool = True) -> int | None:
    followers = partition.in_sync if in_sync else partition.followers
    return world.random.choice(followers) if followers else None


def _level(partition: ReplicatedPartition, follower: int) -> bool:
    """Whether the follower's log ends where the leader's does, so that an append leaves no hole."""
    return bool(partition.replicas[follower]["leo"] == partition.end())


# ---- losses


def lost_in_a_hole(world: World, partition: ReplicatedPartition) -> bool:
    """An acknowledged record vanished from every replica and left a gap."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    partition.remove(offset)
    return True


def lost_at_the_end(world: World, partition: ReplicatedPartition) -> bool:
    """Every replica's log was truncated; sometimes new messages took the offsets."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    partition.cut(offset)
    partition.epoch += 1
    if world.random.random() < 0.6:
        writers = sorted({writer for writer, _ in partition.sends})
        for _ in range(world.random.randint(1, 4)):
            world.write(partition, world.random.choice(writers), world.random.choice(("ok", "ok", "info")))
    return True


def lost_and_taken(world: World, partition: ReplicatedPartition) -> bool:
    """Another message was acknowledged at the offset of an acknowledged one."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    send, record = _fresh(world, partition, world.random.choice(("ok", "ok", "info")))
    if send["outcome"] == "ok":
        send["offset"] = offset
    partition.put(offset, record)
    return True


def overwritten(world: World, partition: ReplicatedPartition) -> bool:
    """A record that nobody sent stands where an acknowledged one was, or a marker does."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    stranger = _stranger(world, partition)
    partition.put(
        offset, stranger if world.random.random() < 0.85 else {"epoch": partition.epoch, "control": True}
    )
    return True


def never_in_a_log(world: World, partition: ReplicatedPartition) -> bool:
    """A message that no log holds: acknowledged without offset, failed, or of unknown outcome."""
    outcome = world.random.choice(("ok", "fail", "info", None))
    send, _ = _fresh(world, partition, outcome)
    if outcome == "info" and world.random.random() < 0.4:
        send["offset"] = world.random.randint(0, partition.end())
    return True


# ---- too many copies, other places


def duplicated(world: World, partition: ReplicatedPartition) -> bool:
    """A retry wrote the message once more, behind the end; it may be acknowledged, unknown or failed."""
    offset = _pick(world, partition, lambda send: True)
    if offset is None:
        return False
    for _ in range(world.random.choice((1, 1, 2))):
        again = partition.append(partition.logs[partition.leader][offset] | {"epoch": partition.epoch})
    if world.random.random() < 0.3 and partition.send_at(offset)["outcome"] == "ok":
        partition.send_at(offset)["offset"] = again
    return True


def moved(world: World, partition: ReplicatedPartition) -> bool:
    """The record stands at another offset than the one that was acknowledged."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    if world.random.random() < 0.5:
        record = dict(partition.logs[partition.leader][offset])
        partition.remove(offset)
        partition.append(record)
    else:
        partition.send_at(offset)["offset"] += world.random.choice((1, 2, 50))
    return True


def out_of_order(world: World, partition: ReplicatedPartition) -> bool:
    """Two messages of a writer have the opposite order, and were acknowledged that way."""
    offsets = partition.offsets(_ok)
    pairs = [
        (a, b)
        for a in offsets
        for b in offsets
        if a < b and partition.send_at(a)["writer"] == partition.send_at(b)["writer"]
    ]
    if not pairs:
        return False
    a, b = world.random.choice(pairs)
    first, second = partition.send_at(a), partition.send_at(b)
    first_record, second_record = (
        dict(partition.logs[partition.leader][a]),
        dict(partition.logs[partition.leader][b]),
    )
    partition.put(a, second_record)
    partition.put(b, first_record)
    first["offset"], second["offset"] = b, a
    return True


def misrouted(world: World, partition: ReplicatedPartition) -> bool:
    """A record stands in another partition: moved there, copied there, or two changed places."""
    others = [other for other in world.partitions if other is not partition]
    offset = _pick(world, partition, lambda send: send["outcome"] != "fail")
    if offset is None or not others:
        return False
    other = world.random.choice(others)
    record = dict(partition.logs[partition.leader][offset])
    if world.random.random() < 0.3:
        record["home"] = None
    theirs = _pick(world, other)
    kind = world.random.random()
    if kind < 0.3 and theirs is not None:
        partition.put(offset, dict(other.logs[other.leader][theirs]))
        other.put(theirs, record)
    elif kind < 0.45 and theirs is not None:
        partition.remove(offset)
        other.put(theirs, record)
    else:
        if kind < 0.8:
            partition.remove(offset)
        other.append(record)
    return True


# ---- wrong answers


def phantom(world: World, partition: ReplicatedPartition) -> bool:
    """The client was told that the write definitely failed; some or all replicas hold it."""
    brokers: list[int] | None = None
    follower = _follower(world, partition, in_sync=False)
    if follower is not None and world.random.random() < 0.4 and _level(partition, follower):
        brokers = [follower]
    _, record = _fresh(world, partition, "fail")
    partition.put(max(int(row["leo"]) for row in partition.replicas.values()), record, brokers)
    return True


def foreign(world: World, partition: ReplicatedPartition) -> bool:
    """A record that nobody sent, at the end or in a message's place, on all replicas or on one."""
    record = _stranger(world, partition)
    follower = _follower(world, partition, in_sync=False)
    alone = follower is not None and world.random.random() < 0.35 and _level(partition, follower)
    brokers = [follower] if alone and follower is not None else None
    offset = _pick(world, partition) if world.random.random() < 0.3 else None
    partition.put(offset if offset is not None else partition.end(), record, brokers)
    return True


def corrupt(world: World, partition: ReplicatedPartition) -> bool:
    """A damaged record, still recognisable or not, on the leader, on a follower, on some or on all."""
    random = world.random
    offset = _pick(world, partition, lambda send: send["outcome"] != "fail")
    if offset is None:
        return False
    brokers = random.choice(
        (list(partition.logs), [partition.leader], [random.choice(list(partition.logs))], partition.followers)
    )
    names_nobody = random.random() < 0.5
    for broker in brokers:
        record = partition.logs[broker].get(offset)
        if record is None or (record.get("writer"), record.get("seq")) not in partition.sends:
            continue
        record["intact"] = False
        if names_nobody:
            record["writer"] = record["seq"] = record["home"] = None
    return True


# ---- replicas that differ


def leader_lacks(world: World, partition: ReplicatedPartition) -> bool:
    """The leader has a hole, ends early or is empty; followers go on."""
    offset = _pick(world, partition)
    if offset is None or not partition.followers:
        return False
    kind = world.random.random()
    if kind < 0.4:
        partition.remove(offset, [partition.leader])
    else:
        partition.cut(offset if kind < 0.8 else -1, [partition.leader])
    return True


def follower_lacks(world: World, partition: ReplicatedPartition) -> bool:
    """A follower has a hole, ends early or is empty."""
    offset, follower = _pick(world, partition, lambda send: True), _follower(world, partition)
    if offset is None or follower is None:
        return False
    kind = world.random.random()
    if kind < 0.4:
        partition.remove(offset, [follower])
    else:
        row = partition.replicas[follower]
        partition.cut(offset if kind < 0.8 else row["log_start"], [follower])
    return True


def empty_follower(world: World, partition: ReplicatedPartition) -> bool:
    """An in-sync follower whose log starts, and ends, inside the leader's."""
    offset, follower = _pick(world, partition, lambda send: True), _follower(world, partition)
    if offset is None or follower is None:
        return False
    partition.cut(-1, [follower])
    partition.replicas[follower] |= {"log_start": offset, "leo": offset}
    return True


def follower_differs(world: World, partition: ReplicatedPartition) -> bool:
    """A follower holds another message at an offset, or the same one of another epoch."""
    offset, follower = _pick(world, partition, lambda send: True), _follower(world, partition)
    if offset is None or follower is None or offset not in partition.logs[follower]:
        return False
    if world.random.random() < 0.5:
        partition.logs[follower][offset]["epoch"] += 1
    else:
        _, record = _fresh(world, partition, world.random.choice(("info", None)))
        partition.put(offset, record, [follower])
    return True


def follower_has_more(world: World, partition: ReplicatedPartition) -> bool:
    """A follower holds a record after the leader's end or in a gap; no answer said that it was written."""
    follower = _follower(world, partition, in_sync=world.random.random() < 0.8)
    if follower is None or not _level(partition, follower):
        return False
    _, record = _fresh(world, partition, world.random.choice(("info", None, "ok")))
    gaps = set(range(partition.replicas[follower]["log_start"], partition.end()))
    gaps -= set(partition.logs[partition.leader])
    offset = world.random.choice(sorted(gaps)) if gaps and world.random.random() < 0.7 else partition.end()
    if partition.sends[record["writer"], record["seq"]]["outcome"] == "ok":
        partition.sends[record["writer"], record["seq"]]["offset"] = offset
    partition.put(offset, record, [follower])
    return True


def names_other_aborted(world: World, partition: ReplicatedPartition) -> bool:
    """A follower names other aborted transactions to readers than its leader does."""
    random = world.random
    follower = _follower(world, partition, in_sync=random.random() < 0.8)
    if follower is None:
        return False
    others = [dict(one) for one in partition.aborted]
    spare = {"producer_id": 999, "first_offset": random.randint(0, partition.end())}
    if not others or random.random() < 0.4:
        others.append(spare)
    elif random.random() < 0.5:
        others.remove(random.choice(others))
    else:
        changed = random.choice(("producer_id", "first_offset"))
        random.choice(others)[changed] = spare[changed]
    for row in partition.replicas.values():
        row["aborted"] = list(partition.aborted)
    partition.replicas[follower]["aborted"] = others
    for row in partition.replicas.values():
        if random.random() < 0.2:
            row["last_stable_offset"] = random.randint(row["log_start"], row["leo"])
        if random.random() < 0.1:
            row["aborted"] = None
    return True


def old_leader(world: World, partition: ReplicatedPartition) -> bool:
    """A replica outside the ISR still holds what it acknowledged; the others went on without it."""
    offset, follower = _pick(world, partition), _follower(world, partition, in_sync=False)
    if offset is None or follower is None:
        return False
    partition.replicas[follower]["in_sync"] = False
    others = [broker for broker in partition.logs if broker != follower]
    partition.cut(offset, others)
    partition.epoch += 1
    writers = sorted({writer for writer, _ in partition.sends})
    for _ in range(world.random.randint(0, 3)):
        outcome = world.random.choice(("ok", "ok", "info"))
        send = world.send(partition, world.random.choice(writers), outcome)
        end = partition.end()
        partition.put(end, world.record(send, partition), others)
        if outcome == "ok":
            send["offset"] = end
    return True


def lagging(world: World, partition: ReplicatedPartition) -> bool:
    """A follower outside the ISR has fewer records, as expected."""
    follower = _follower(world, partition)
    if follower is None:
        return False
    partition.replicas[follower]["in_sync"] = world.random.choice((False, False, None))
    offset = _pick(world, partition)
    if offset is not None:
        partition.cut(offset, [follower])
    return True


# ---- legitimate removal of records, and reads that stop early


def retention(world: World, partition: ReplicatedPartition) -> bool:
    """The log's start moved on, on every replica alike or on each at its own pace."""
    offset = _pick(world, partition, lambda send: True)
    if offset is None:
        return False
    alike = world.random.random() < 0.6
    for broker, row in partition.replicas.items():
        start = offset if alike else world.random.randint(min(row["log_start"], offset), offset)
        row["log_start"] = start = min(max(start, row["log_start"]), row["leo"])
        row["cleanup"] = "delete"
        for old in [old for old in partition.logs[broker] if old < start]:
            del partition.logs[broker][old]
    if world.random.random() < 0.8:
        _document(world, partition, offset)
    return True


def _document(world: World, partition: ReplicatedPartition, start: int) -> None:
    """What the history says of a removal: enough to explain it, or something that does not."""
    random, (topic, number) = world.random, partition.at
    values = {
        "cleanup.policy": random.choice(("delete", "delete", "delete", "compact,delete", "compact")),
        "retention.ms": random.choice(("-1", "500", "3000", "9000", "9000", "604800000")),
        "retention.bytes": random.choice(("-1", "-1", "-1", "1000")),
        "message.timestamp.type": random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
    }
    if not any(row["name"] == topic and row["key"] in values for row in world.rows("configs")):
        for key, value in values.items():
            asked = random.choice((None, value))
            has_value = random.random() < 0.97
            row = {"scope": "topic", "name": topic, "key": key, "value": value if has_value else None}
            world.rows("configs").append(row | {"asked": asked})
    for row in partition.replicas.values():
        row["ns"] = random.choice((None, *(world.now + seconds * 10**9 for seconds in (1, 2, 5, 20))))
        row["size_bytes"] = random.choice((None, 200, 200, 1000))
    place = {"topic": topic, "partition": number}
    if any(row["leader"] and row["complete"] for row in partition.replicas.values()):
        host, ns = f"broker{partition.leader}", world.now + random.choice((-3, 0, 2 * 10**9, 4 * 10**9))
        kind = random.choice(("log_start", "log_start", "records_deleted", "segment_expired"))
        if random.random() < 0.5:
            line = {"ns": max(ns, 0), "host": host, "kind": kind, "offset": start}
            world.rows("log_events").append(line | place)
    if random.random() < 0.3:
        where = random.choice((f"{topic}/{number}", f"{topic}/{number + 1}"))
        before = max(0, start + random.choice((-1, 0, 0)))
        _operator(world, "delete_records", {"partitions": [where], "before_offset": before})
    elif random.random() < 0.2:
        changed = {"retention.ms": random.choice(("500", "20000"))}
        _operator(world, "configure", {"partitions": [f"{topic}/{number}"], "properties": changed})


def _operator(world: World, mechanism: str, targets: dict[str, Any]) -> None:
    number = 16 * int(world.name) + len(world.rows("faults"))
    row = {"fault": number, "name": f"{mechanism} {world.name}", "kind": "operator", "mechanism": mechanism}
    row |= {"targets": json.dumps(targets), "moment": "injected", "ns": world.tick()}
    world.rows("faults").append(row)


def topic_deleted(world: World, partition: ReplicatedPartition) -> bool:
    """The topic was deleted and created again; some messages went to the new one."""
    if not partition.sends or partition.end() != len(partition.sends):
        return False
    told = world.random.random()
    for broker, row in partition.replicas.items():
        partition.logs[broker].clear()
        row |= {"leo": 0, "log_start": 0}
    places = [f"{partition.at[0]}/{partition.at[1]}"] if told < 0.9 else ["elsewhere/0"]
    if told < 0.6 or told >= 0.9:
        _operator(world, "delete_topic", {"partitions": places})
    else:
        line = {"ns": world.tick(), "host": "broker1", "kind": "topic_deleted"}
        world.rows("log_events").append(line | {"topic": partition.at[0], "partition": None})
    partition.aborted.clear()
    for _ in range(world.random.randint(0, 3)):
        world.write(partition, world.random.choice(list(world.writers)))
    return True


def compaction(world: World, partition: ReplicatedPartition) -> bool:
    """The cleaner took records from the inside of the logs, on every replica at its own pace."""
    offsets = partition.offsets()[:-1]
    alike = world.random.random() < 0.5
    gone = {offset for offset in offsets if world.random.random() < 0.4}
    for broker, row in partition.replicas.items():
        row["cleanup"] = world.random.choice(("compact", "compact,delete", "delete,compact"))
        cleaned = gone if alike else {offset for offset in offsets if world.random.random() < 0.3}
        for offset in cleaned:
            if offset < max(partition.logs[broker], default=0):
                partition.remove(offset, [broker])
    return bool(offsets)


def acknowledged_without_offset(world: World, partition: ReplicatedPartition) -> bool:
    """acks=0: no offset was reported, for a message that is or is not in the log."""
    offset = _pick(world, partition)
    if offset is None:
        return False
    partition.send_at(offset)["offset"] = None
    if world.random.random() < 0.5:
        partition.remove(offset)
    return True


def incomplete(world: World, partition: ReplicatedPartition) -> bool:
    """The final read of the leader, of a follower or of every replica stopped before the end."""
    random = world.random
    if not partition.replicas:
        return False
    brokers = random.choice(([partition.leader], list(partition.logs), [random.choice(list(partition.logs))]))
    for broker in brokers:
        row, log = partition.replicas[broker], partition.logs[broker]
        row["complete"], row["error"] = False, random.choice((None, "timed out"))
        end = random.randint(row["log_start"], row["leo"])
        for offset in [offset for offset in log if offset >= end]:
            del log[offset]
        if random.random() < 0.3:
            row["leo"] = None
    return True


def nobody_leads(world: World, partition: ReplicatedPartition) -> bool:
    """Nothing is known of the leader, or of who was in sync."""
    for row in partition.replicas.values():
        row["leader"] = world.random.choice((None, False))
        if world.random.random() < 0.5:
            row["in_sync"] = None
    return True


def unread(world: World, partition: ReplicatedPartition) -> bool:
    """The final log of the partition was not read at all."""
    partition.replicas.clear()
    partition.logs.clear()
    return True


LOG_DAMAGE: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        lost_in_a_hole,
        lost_at_the_end,
        lost_and_taken,
        overwritten,
        never_in_a_log,
        duplicated,
        moved,
        out_of_order,
        misrouted,
        phantom,
        foreign,
        corrupt,
        leader_lacks,
        follower_lacks,
        empty_follower,
        follower_differs,
        follower_has_more,
        names_other_aborted,
        old_leader,
        lagging,
        retention,
        topic_deleted,
        compaction,
        acknowledged_without_offset,
        incomplete,
        nobody_leads,
        unread,
    )
}
LAST = ("incomplete", "nobody_leads", "unread")
"""After these, other damage cannot be planted in the partition any more."""
