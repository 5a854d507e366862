"""Random histories: a healthy run, damage of every kind alone and together, and tables around it.

    python -m tests.independent.generate --seed S --only N       prints one history, row by row

Every history is a pure function of seed and number, so that a disagreement can be reproduced.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from random import Random
from typing import Any

from harness.history.schema import TABLES
from tests.independent.damage import LAST, LOG_DAMAGE, Damage
from tests.independent.layout import LAYOUTS, TELLING
from tests.independent.model import History
from tests.independent.readers import READ_DAMAGE, consume
from tests.independent.world import ReplicatedPartition, World, healthy

RUN_DAMAGE = ("process_exit", "server_error", "config_mismatch")
ATTEMPTS = 200
KINDS = (*LOG_DAMAGE, *READ_DAMAGE)
PAIRS = tuple(combinations(KINDS, 2))
COMBINATIONS = 2 ** len(TELLING)
COMPLETE = len(KINDS) + len(PAIRS)
"""So many histories come first; they have every table: each kind alone, then each pair."""
SCHEDULED = COMPLETE + len(KINDS) * COMBINATIONS
"""So many hold, besides, each kind alone with every combination of the tables in `TELLING`."""


def kinds_of(random: Random, number: int) -> list[str]:
    """The kinds to plant: those of the schedule (`SCHEDULED`), then up to three at random."""
    if number < len(KINDS):
        return [KINDS[number]]
    if number < COMPLETE:
        return list(PAIRS[number - len(KINDS)])
    if number < SCHEDULED:
        return [KINDS[(number - COMPLETE) % len(KINDS)]]
    return random.sample(KINDS, random.choice((0, 1, 1, 1, 1, 2, 2, 2, 2, 3)))


def layout_of(seed: int, number: int, count: int = LAYOUTS) -> int:
    """The layout of a history, of ``count``: those of the schedule (`SCHEDULED`), then any."""
    if count < LAYOUTS:
        return number % count
    if COMPLETE <= number < SCHEDULED:
        return 2 * ((number - COMPLETE) // len(KINDS)) + 1
    random = Random(f"layout of/{seed}/{number}")
    return 2 * random.randrange(LAYOUTS // 2) if number < COMPLETE else random.randrange(LAYOUTS)


def generate(seed: int, number: int) -> tuple[History, list[str]]:
    """History ``number`` of ``seed``, and what was planted in it."""
    for attempt in range(ATTEMPTS):
        random = Random(f"{seed}/{number}/{attempt}")
        kinds = kinds_of(random, number)
        world = _damaged(random, number, kinds)
        if set(kinds) <= set(world.planted):
            break  # otherwise there was no room for everything, but another world may have it
    return _tables(world), world.planted


def _damaged(random: Random, number: int, kinds: list[str]) -> World:
    """A healthy world, its readers, and damage to both."""
    world = healthy(random, number, limits=random.random() < 0.06)
    kinds = sorted(kinds, key=lambda kind: kind in LAST)
    early = random.random() < 0.6
    if early:
        consume(world)
    for kind in [kind for kind in kinds if kind in LOG_DAMAGE and kind not in LAST]:
        _plant(world, LOG_DAMAGE[kind], kind)
    if not early:
        consume(world)
    for kind in [kind for kind in kinds if kind in READ_DAMAGE]:
        _plant(world, READ_DAMAGE[kind], kind)
    for kind in [kind for kind in kinds if kind in LAST]:
        _plant(world, LOG_DAMAGE[kind], kind)
    if random.random() < 0.04:
        world.planted.append(random.choice(RUN_DAMAGE))
        _damage_the_run(world, world.planted[-1])
    _surroundings(world)
    return world


def _plant(world: World, damage: Damage, kind: str) -> None:
    """Plant it in the first partition, in random order, that has room for it."""
    for partition in world.random.sample(world.partitions, len(world.partitions)):
        if damage(world, partition):
            world.planted.append(kind)
            return


def _damage_the_run(world: World, kind: str) -> None:
    host = f"host{world.name}"
    if kind == "process_exit":
        world.rows("processes").append({"ns": world.tick(), "host": host, "event": "exited", "status": 1})
    elif kind == "server_error":
        for text in world.random.choices(("Quux frobnicated", "Zyzzyva"), k=world.random.randint(1, 3)):
            level = world.random.choice(("error", "fatal"))
            world.rows("log_events").append({"ns": world.tick(), "host": host, "kind": level, "text": text})
    else:
        key = {"scope": "topic", "name": world.partitions[0].at[0], "key": "min.insync.replicas"}
        world.rows("configs").append(key | {"value": "1", "asked": "2"})


_EVENT_AGES_MS = (None, None, 4_000, None, -4_000, None, 20_000)
"""Of the records of a producer; retention by time in these histories takes 0.5 to 20 s, or forever."""


def _surroundings(world: World) -> None:
    """Tables that explain and name things, and that change neither fates nor findings."""
    random = world.random
    for partition in world.partitions:
        _name_aborted(random, partition)
        _forget(random, partition)
    for writer in world.writers:
        if random.random() < 0.7:
            world.rows("writers").append(
                {"writer": writer, "name": f"w{writer}", "acks": random.choice((0, 1, -1, None))}
                | {"client": random.choice(("raw", "librdkafka", "java", "java", "program", None))}
                | {"event_age_ms": _EVENT_AGES_MS[(writer + int(world.name)) % len(_EVENT_AGES_MS)]}
            )
    world.rows("marks").append({"ns": world.tick(), "name": f"mark {world.name}", "text": None})
    for partition in world.partitions:
        topic, number = partition.at
        if random.random() < 0.6:
            for broker in world.brokers[:2]:
                isr = random.sample(world.brokers, random.randint(1, len(world.brokers)))
                world.rows("views").append(
                    {"ns": world.tick(), "source": f"broker{broker}", "subject": "partition", "topic": topic}
                    | {"partition": number, "leader": isr[0], "epoch": partition.epoch, "isr": isr}
                )
        for broker, log in partition.logs.items():
            for offset, record in log.items():
                if random.random() < 0.05 and record.get("writer") is not None:
                    world.rows("sightings").append(
                        {"topic": topic, "partition": number, "broker": broker, "offset": offset}
                        | {"seen_ns": world.tick(), "epoch": record["epoch"], "gone_ns": None}
                        | {"writer": record["writer"], "seq": record["seq"]}
                    )
    world.rows("processes").append({"ns": world.tick(), "host": f"host{world.name}", "event": "started"})
    world.rows("configs").append(
        {
            "scope": "topic",
            "name": world.partitions[0].at[0],
            "key": "a",
            "value": "1",
            "asked": random.choice(("1", None)),
        }
    )


def _name_aborted(random: Random, partition: ReplicatedPartition) -> None:
    """Replicas name the same aborted transactions, in any order, or the history does not say which."""
    named = random.random() < 0.5
    for row in partition.replicas.values():
        if "aborted" not in row and named and random.random() < 0.8:
            row["aborted"] = random.sample(partition.aborted, len(partition.aborted))


def _forget(random: Random, partition: ReplicatedPartition) -> None:
    """Nulls where a history need not say what it knows."""
    old_format = random.random() < 0.06
    for broker, row in partition.replicas.items():
        last = max(partition.logs[broker], default=-1)
        if random.random() < 0.1 and row["leo"] == last + 1:
            row["leo"] = None
        if random.random() < 0.2 and row["log_start"] == 0:
            row["log_start"] = None
    for log in partition.logs.values():
        for record in log.values():
            if old_format:
                record["epoch"] = None
            if random.random() < 0.3:
                record.setdefault("control", False)


def _tables(world: World) -> History:
    tables: dict[str, list[dict[str, Any]]] = {"sends": [], "copies": [], "replicas": []}
    for partition in world.partitions:
        topic, number = partition.at
        tables["sends"] += partition.sends.values()
        for broker, log in partition.logs.items():
            place = {"topic": topic, "partition": number, "broker": broker}
            tables["copies"] += [place | {"offset": offset} | record for offset, record in log.items()]
        tables["replicas"] += partition.replicas.values()
    for name in TABLES:
        if name not in tables:
            tables[name] = world.rows(name)
    tables["reads"].sort(key=lambda row: int(row["ns"]))
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", type=int, required=True)
    arguments = parser.parse_args()
    history, planted = generate(arguments.seed, arguments.only)
    print("planted:", ", ".join(planted))
    for name, rows in history.items():
        for row in rows:
            print(name, {column: value for column, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
