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

    [security]
    protocol = "SASL_SSL"         # of the listeners; or "SSL", "SASL_PLAINTEXT"
    mechanism = "SCRAM-SHA-512"   # of the clients; or "SCRAM-SHA-256", "PLAIN"

    [broker]                      # and [topic], [topic.NAME], [producer], [consumer]
    replica.lag.time.max.ms = 30000

Of every role an AZ has one host unless it says otherwise. `docs/cluster-file.md` is the reference, and
`docs/settings.md` that of the tables of settings.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from harness.cluster import explained
from harness.cluster.explained import at
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.cluster.settings_files import read_tables
from harness.errors import UsageError
from harness.kafka.security import ListenerSecurity
from harness.lab.layout import MAX_AZS, ROLES_BY_MODE, AvailabilityZone, Layout
from harness.texts import parse_toml, text_file

_AZ_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_RESERVED = re.compile(r"az\d+|(zookeeper|controller|broker|client)(s|\d+)", re.IGNORECASE)
Count = Annotated[int, Meta(ge=0, le=48)]


class _Az(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    brokers: Count = 1
    zookeepers: Count | None = None
    controllers: Count | None = None
    clients: Count = 1


class _Security(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    protocol: str
    mechanism: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kafka: str = ""
    mode: str = ""
    az: Annotated[list[_Az], Meta(min_length=1, max_length=MAX_AZS)]
    security: _Security | None = None
    broker: Any = None
    topic: Any = None
    producer: Any = None
    consumer: Any = None
    load: Any = None


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
    text = text_file(path, path, "name a cluster file in TOML")
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(explained.syntax(path, text, error)) from None
    problem = explained.shape(path, text, data, _File.__struct_fields__)
    if problem is not None:
        raise UsageError(problem)
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        keys = {
            "file": _File.__struct_fields__,
            "az": _Az.__struct_fields__,
            "security": _Security.__struct_fields__,
        }
        raise UsageError(explained.value(path, text, data, str(error), keys)) from None
    _check(path, text, file)
    azs = tuple(
        AvailabilityZone(
            name=az.name,
            brokers=az.brokers,
            zookeepers=1 if az.zookeepers is None else az.zookeepers,
            controllers=1 if az.controllers is None else az.controllers,
            clients=az.clients,
        )
        for az in file.az
    )
    layout = Layout(azs)
    for mode in [file.mode] if file.mode else list(ROLES_BY_MODE):
        try:
            names = layout.topology(mode).az_names
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}") from None
        for number, az in enumerate(azs):
            (called,) = (internal for internal, own in names.items() if own == az.name)
            if az.name in names and az.name != called:
                raise UsageError(
                    f"{at(path, text, ('az', number, 'name'))}: name = {az.name!r}: faults and results call "
                    f"this AZ {called}, because AZs with a host of every role come first; choose another "
                    f"name."
                )
    settings = read_tables(data, path, text)
    if file.security is not None:
        place = f"{at(path, text, ('security', 'protocol'))}: [security]"
        asked = ListenerSecurity.asked(file.security.protocol, file.security.mechanism, place)
        settings = replace(settings, security=asked)
    return ClusterFile(path=path, layout=layout, kafka=file.kafka, mode=file.mode, settings=settings)


def _check(path: Path, text: str, file: _File) -> None:
    """Raise UsageError for what types alone do not exclude."""
    if file.mode and file.mode not in ROLES_BY_MODE:
        raise UsageError(
            f"{at(path, text, ('mode',))}: mode = {file.mode!r}: use {', '.join(ROLES_BY_MODE)}."
        )
    seen: set[str] = set()
    for number, az in enumerate(file.az):
        where = at(path, text, ("az", number, "name"))
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
        for role in ("zookeepers", "controllers"):
            there = not file.mode or role.removesuffix("s") in ROLES_BY_MODE[file.mode]
            if getattr(az, role) is not None and not there:
                raise UsageError(
                    f"{at(path, text, ('az', number, role))}: {role} = {getattr(az, role)}: mode "
                    f"{file.mode!r} has no {role}; remove the line."
                )
