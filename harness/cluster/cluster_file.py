"""`cluster.toml`: the description of a cluster, read and checked before anything starts.

::

    kafka = "2.7.1"
    mode = "zookeeper"            # or "kraft", "kraft-combined"

    [[az]]
    name = "north"
    brokers = 3
    zookeepers = 2                # with mode = "kraft": controllers

    [[az]]
    name = "south"
    brokers = 3
    zookeepers = 2

    [[az]]
    name = "tie-breaker"
    brokers = 0
    zookeepers = 1
    clients = 0

    [broker]                      # and [topic], [topic.NAME], [producer], [consumer]
    replica.lag.time.max.ms = 30000

Of every role an AZ has one host unless it says otherwise. `docs/cluster-file.md` is the reference, and
`docs/settings.md` that of the tables of settings.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.cluster.settings_files import read_tables
from harness.errors import UsageError
from harness.lab.layout import MAX_AZS, ROLES_BY_MODE, AvailabilityZone, Layout

_AZ_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_RESERVED = re.compile(r"az\d+|(zookeeper|controller|broker|client)(s|\d+)", re.IGNORECASE)
Count = Annotated[int, Meta(ge=0, le=48)]


class _Az(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    brokers: Count = 1
    zookeepers: Count | None = None
    controllers: Count | None = None
    clients: Count = 1


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kafka: str = ""
    mode: str = ""
    az: Annotated[list[_Az], Meta(min_length=1, max_length=MAX_AZS)]
    broker: Any = None
    topic: Any = None
    producer: Any = None
    consumer: Any = None


@dataclass(frozen=True, kw_only=True)
class ClusterFile:
    """What a file says. Empty ``kafka`` and ``mode`` leave the choice to the scenario."""

    path: Path
    layout: Layout
    kafka: str = ""
    mode: str = ""
    settings: Settings = NO_SETTINGS


def read_cluster_file(path: Path) -> ClusterFile:
    """Read and check a file. Raises UsageError with the line, the key, the value and the remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {reason}; name a cluster file in TOML.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None
    try:
        found = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        raise UsageError(_explained(path, text, data, str(error))) from None
    _check(path, text, found)
    azs = tuple(
        AvailabilityZone(
            name=az.name,
            brokers=az.brokers,
            zookeepers=1 if az.zookeepers is None else az.zookeepers,
            controllers=1 if az.controllers is None else az.controllers,
            clients=az.clients,
        )
        for az in found.az
    )
    layout = Layout(azs)
    for mode in [found.mode] if found.mode else list(ROLES_BY_MODE):
        try:
            layout.topology(mode)
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}") from None
    settings = read_tables(data, path, text)
    return ClusterFile(path=path, layout=layout, kafka=found.kafka, mode=found.mode, settings=settings)


def _check(path: Path, text: str, found: _File) -> None:
    """Raise UsageError for what types alone do not exclude."""
    if found.mode and found.mode not in ROLES_BY_MODE:
        raise UsageError(
            f"{_at(path, text, ('mode',))}: mode = {found.mode!r}: use {', '.join(ROLES_BY_MODE)}."
        )
    seen: set[str] = set()
    for number, az in enumerate(found.az):
        where = _at(path, text, ("az", number, "name"))
        if not _AZ_NAME.fullmatch(az.name):
            raise UsageError(
                f"{where}: name = {az.name!r}: begin with a letter, and use up to 40 letters, digits, "
                f"'.', '_' and '-'."
            )
        if _RESERVED.fullmatch(az.name) and az.name != f"az{number + 1}":
            raise UsageError(
                f"{where}: name = {az.name!r}: names such as az1, broker1 and brokers have a meaning in "
                f"faults; choose another one."
            )
        if az.name in seen:
            raise UsageError(
                f"{where}: name = {az.name!r}: two AZs have this name; give each one of its own."
            )
        seen.add(az.name)
        for role, mode in (("zookeepers", "zookeeper"), ("controllers", "kraft")):
            if getattr(az, role) is not None and found.mode and found.mode != mode:
                raise UsageError(
                    f"{_at(path, text, ('az', number, role))}: {role} = {getattr(az, role)}: mode "
                    f"{found.mode!r} has no {role}; remove the line."
                )


def _explained(path: Path, text: str, data: dict[str, Any], problem: str) -> str:
    """A sentence for a message of the library, which ends in the place: `... - at `$.az[0].brokers``."""
    message, _, tail = problem.partition(" - at `$")
    place = _place(tail.rstrip("`"))
    unknown = re.search(r"unknown field `(.+)`", message)
    missing = re.search(r"missing required field `(.+)`", message)
    if unknown:
        known = ", ".join((_Az if place[:1] == ("az",) else _File).__struct_fields__)
        return f"{_at(path, text, (*place, unknown[1]))}: there is no key {unknown[1]!r} here; use {known}."
    if missing:
        what = "an [[az]] table for each AZ" if missing[1] == "az" else f"{missing[1]} = ..."
        return f"{_at(path, text, place)}: {missing[1]} is missing; add {what}."
    value: Any = data
    for step in place:
        value = value[step]
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    return f"{_at(path, text, place)}: {key} = {value!r}: {message[0].lower()}{message[1:]}."


def _place(tail: str) -> tuple[str | int, ...]:
    """The steps of a path such as `.az[0].brokers`."""
    steps = re.findall(r"\.([A-Za-z_-]+)|\[(\d+)\]", tail)
    return tuple(name or int(number) for name, number in steps)


def _at(path: Path, text: str, place: tuple[str | int, ...]) -> str:
    """`cluster.toml:12`, as closely as the text shows it: the key's line, else that of its table."""
    wanted = next((step for step in place if isinstance(step, int)), -1)
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    table, header = -1, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[\[\s*az\s*\]\]", line):
            table += 1
            header = number if table == wanted else header
        elif table == wanted and key and re.match(rf"\s*['\"]?{re.escape(key)}['\"]?\s*=", line):
            return f"{path}:{number}"
    return f"{path}:{header}" if header else str(path)
