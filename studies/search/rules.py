"""What a schedule must be: a readable file, valid in itself, and fit for a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import BadDataError, UsageError
from harness.lab.model import Topology
from harness.plain_files import require_file
from nemesis.catalogue import FAULTS
from studies.search.schedule import COORDINATED, FILE, VERSION, Producer, Schedule
from studies.steps.step import AZ_OF, OTHER_CONTROLLERS, ROLES, SIDES, Step

_TOPIC = re.compile(r"[a-z][a-z0-9]{0,40}")


def read(path: Path) -> Schedule:
    """A schedule from a file. Raises BadDataError with one sentence."""
    require_file(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadDataError(
            f"{path} cannot be read ({error.strerror}); name a {FILE}, or the folder of a run that has one."
        ) from None
    return decode(data, str(path))


def decode(data: bytes, place: str) -> Schedule:
    """A schedule from the bytes of a file at ``place``. Raises BadDataError with one sentence."""
    try:
        raw = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadDataError(
            f"{place} is not a whole JSON document ({error}); it may be cut short: copy it again."
        ) from None
    version = raw.get("acked_schedule") if isinstance(raw, dict) else None
    if version is None:
        raise BadDataError(f"{place} holds no schedule: it has no key 'acked_schedule'; name a {FILE}.")
    if version != VERSION:
        raise BadDataError(
            f"{place} has a schedule of version {version!r}, and this acked reads version {VERSION}; use the "
            "acked that wrote it."
        )
    for number, step in enumerate(_list(raw, "steps"), start=1):
        fault = step.get("fault") if isinstance(step, dict) else None
        if isinstance(fault, str) and fault not in FAULTS:
            raise BadDataError(
                f"{place}: step {number}: there is no fault {fault!r}; use {', '.join(FAULTS)}."
            )
    try:
        schedule = msgspec.convert(raw, Schedule)
    except msgspec.ValidationError as error:
        raise BadDataError(f"{place}: {error}; correct the value.") from None
    problem = next(problems(schedule), "")
    if problem:
        raise BadDataError(f"{place}: {problem}.")
    return schedule


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    items = raw.get(key, [])
    return items if isinstance(items, list) else []


def problems(schedule: Schedule) -> Iterator[str]:
    """What is wrong with a schedule beyond the types of its values, a clause each."""
    names = [topic.name for topic in schedule.topics]
    if len(set(names)) < len(names):
        yield "two topics have the same name; rename one"
    for topic in schedule.topics:
        if not _TOPIC.fullmatch(topic.name):
            yield f"the topic's name {topic.name!r} is not possible; use lower-case letters and digits"
        if topic.min_insync > topic.replicas:
            yield f"topic {topic.name!r} has min_insync above its {topic.replicas} replicas; use fewer"
    if all(producer.starts for producer in schedule.producers):
        yield "no producer starts before the first step; let one have starts 0"
    for number, producer in enumerate(schedule.producers, start=1):
        if producer.idempotent and producer.acks != -1:
            yield f"producer {number} is idempotent with acks={producer.acks}; idempotence needs acks -1"
        if producer.transactional and not producer.idempotent:
            yield f"producer {number} is transactional and not idempotent; transactions need idempotence"
        if producer.idempotent and producer.in_flight > 5:
            yield f"producer {number} is idempotent with {producer.in_flight} in flight; use 5 at most"
        if max(producer.starts, producer.stops) > len(schedule.steps):
            yield f"producer {number} names a step after the last of {len(schedule.steps)}"
        if producer.stops and producer.stops <= producer.starts:
            yield f"producer {number} stops after step {producer.stops}, before it has started"
        if producer.succeeds and not _may_succeed(number, producer, schedule.producers):
            yield (
                f"producer {number} cannot succeed producer {producer.succeeds}; a transactional producer "
                f"may succeed another one that starts before it and has no other successor"
            )
    for number, group in enumerate(schedule.groups, start=1):
        if group.topic >= len(schedule.topics):
            yield f"group {number} reads topic {group.topic} of {len(schedule.topics)}, counted from 0"
        if group.members[0].starts or group.members[0].stops:
            yield f"the first member of group {number} has starts or stops; let both be 0"
        for member in group.members:
            if max(member.starts, member.stops) > len(schedule.steps):
                yield f"a member of group {number} names a step after the last of {len(schedule.steps)}"
            if member.stops and member.stops <= member.starts:
                yield f"a member of group {number} stops after step {member.stops}, before it has started"
    for number, step in enumerate(schedule.steps, start=1):
        for problem in _step_problems(step, len(schedule.partitions)):
            yield f"step {number} ({step.fault}) {problem}"


def _may_succeed(number: int, one: Producer, producers: Sequence[Producer]) -> bool:
    """Whether a producer may take over the transactional.id that it names."""
    if one.succeeds > len(producers) or one.succeeds == number:
        return False
    before = producers[one.succeeds - 1]
    return (
        one.transactional
        and before.transactional
        and not before.succeeds
        and before.starts < one.starts
        and not any(other.succeeds == one.succeeds for other in producers[: number - 1])
    )


def mended(producers: Sequence[Producer]) -> tuple[Producer, ...]:
    """The producers without the successions that are not possible (any more)."""
    valid = list(producers)
    for place, one in enumerate(valid):
        if one.succeeds and not _may_succeed(place + 1, one, valid):
            valid[place] = msgspec.structs.replace(one, succeeds=0)
    return tuple(valid)


def chosen_producers(producers: Sequence[Producer], places: Iterable[int]) -> tuple[Producer, ...]:
    """The producers at some places, in this order; who succeeds one of the others succeeds nobody."""
    numbers = {place + 1: number for number, place in enumerate(places, start=1)}
    return mended(
        [
            msgspec.structs.replace(producers[old - 1], succeeds=numbers.get(producers[old - 1].succeeds, 0))
            for old in numbers
        ]
    )


def _step_problems(step: Step, partitions: int) -> Iterator[str]:
    kind = FAULTS.get(step.fault)
    if kind is None:
        yield f"is not a fault; use {', '.join(FAULTS)}"
        return
    if kind.takes in ("hosts", "links") and not step.targets:
        yield "names no targets"
    if kind.takes == "links" and not step.toward:
        yield "names no other side (toward)"
    if kind.takes not in ("hosts", "links") and step.targets:
        yield "takes no targets"
    if kind.takes != "links" and step.toward:
        yield "takes no other side (toward)"
    if not 0 <= step.partition < partitions:
        yield f"is about partition {step.partition} of {partitions}, counted from 0"
    if kind.values and not kind.values[0] <= step.value <= kind.values[-1]:
        yield f"has the value {step.value:g}; use {kind.values[0]:g} to {kind.values[-1]:g} {kind.unit}"


def require_hosts(schedule: Schedule, topology: Topology, place: str) -> None:
    """Raise UsageError if a schedule names something that the cluster does not have."""
    for number, step in enumerate(schedule.steps, start=1):
        for target in (*step.targets, *step.toward):
            name = target.removeprefix(AZ_OF)
            if name == OTHER_CONTROLLERS and topology.role("zookeeper"):
                raise UsageError(f"{place}: step {number}: {name} needs KRaft; use others or other-azs.")
            if name not in (*ROLES, *SIDES):
                try:
                    topology.select(target)
                except UsageError as error:
                    raise UsageError(f"{place}: step {number}: {error.message}") from None
    for one in (schedule.controller, *filter(None, (schedule.quorum_leader,))):
        topology.host(one)
    azs = {host.az for host in topology.role("client")}
    for producer in schedule.producers:
        if producer.az not in azs:
            raise UsageError(
                f"{place}: a producer is in {producer.az}, which has no client; use {', '.join(sorted(azs))}."
            )
    for member in (member for group in schedule.groups for member in group.members):
        if member.az not in azs:
            raise UsageError(
                f"{place}: a member of a group is in {member.az}, which has no client; use "
                f"{', '.join(sorted(azs))}."
            )
    brokers = len(topology.role("broker"))
    if schedule.transactional and brokers < COORDINATED:
        raise UsageError(
            f"{place}: a producer is transactional, which needs {COORDINATED} brokers, and the cluster has "
            f"{brokers}."
        )
    if schedule.groups and brokers < COORDINATED:
        raise UsageError(
            f"{place}: a consumer group needs {COORDINATED} brokers, and the cluster has {brokers}."
        )
    for topic in schedule.topics:
        if topic.replicas > brokers:
            raise UsageError(
                f"{place}: topic {topic.name!r} has {topic.replicas} replicas, and the cluster has "
                f"{brokers} brokers; use that many at most."
            )
