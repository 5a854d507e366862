"""Checks that the declarations of a user's scenario make sense, before anything starts."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from checkers.verdict import JudgedBy
from harness.cluster.setup import Quorum, Setup
from harness.errors import UsageError
from harness.kafka.model import Library, Topic
from harness.kafka.versions import MIGRATION, MODES, ZOOKEEPER, kafka_version
from harness.lab.layout import THREE_AZS, three_azs
from run.placement import hosts_of
from run.scenario import Claim, Either, Erratum, Expected, Scenario, speaks_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Lower-case words with hyphens."""
_RESERVED = ("all", "assess", "matrix")
"""Names of the folders of series, which no scenario may have."""
_TUPLES = {"claims": Claim, "expected": Expected, "faults": str, "versions": str, "modes": str}
_SETUP_TUPLES = {
    "topics": Topic,
    "brokers": int,
    "volatile_disks": str,
    "second_log_dirs": str,
    "own_clocks": str,
    "named": str,
    "own_topics": Topic,
    "transaction_log": int,
    "offsets_log": int,
}

_Problem = tuple[str, str, str]
"""The call that declares it (`Claim`), its name, and the sentence."""


def check(scenario: Scenario, text: str, path: Path) -> None:
    """Raise UsageError with file and line for the first part of a declaration that makes no sense."""
    for call, name, sentence in _problems(scenario):
        line = line_of(text, call, name) if call != "Scenario" else line_of(text, call, scenario.name)
        raise UsageError(f"{path}:{line}: {sentence}")


def line_of(text: str, call: str, name: object) -> int:
    """The line where ``call(name="...")`` stands in a source text; 1 if it is not written like that."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != call:
            continue
        given = [word.value for word in node.keywords if word.arg in ("name", "finding")] + node.args[:1]
        if any(isinstance(value, ast.Constant) and value.value == name for value in given):
            return node.lineno
    return 1


def _problems(one: Scenario) -> Iterator[_Problem]:
    """What is wrong, in the order of the checks; later checks rely on earlier ones."""
    subject = ("Scenario", str(one.name))
    for name in ("name", "title", "article", "section", "outcome", "kafka", "mode"):
        if not isinstance(value := getattr(one, name), str):
            yield *subject, f"{name} is {_shown(value)}, but must be a text."
    if not NAME.fullmatch(one.name) or one.name in _RESERVED:
        yield (
            *subject,
            (
                f"the name {one.name!r} cannot be used; give lower-case words with hyphens, such as my-case"
                f" (not {', '.join(_RESERVED)})."
            ),
        )
    if not _maps_texts(_any(one.aliases)):
        yield *subject, f"aliases is {_shown(one.aliases)}, but must map names to hosts: {{'A': 'broker1'}}."
    if one.judged_by not in get_args(JudgedBy):
        yield (
            *subject,
            f"judged_by is {_shown(one.judged_by)}; use {' or '.join(map(repr, get_args(JudgedBy)))}.",
        )
    if not callable(_any(one.body)):
        yield *subject, f"body is {_shown(one.body)}, but must be a function: def body(stage): ..."
    try:
        inspect.signature(one.body).bind(None)
    except TypeError:
        yield *subject, "the body must take one argument: def body(stage): ..."
    for name, kind in _TUPLES.items():
        yield from ((*subject, problem) for problem in _not_a_tuple(name, getattr(one, name), kind))
    yield from ((*subject, problem) for problem in _version_problems(one))
    if not isinstance(_any(one.setup), Setup):
        yield *subject, f"setup is {_shown(one.setup)}, but must be a Setup(...)."
    yield from ((*subject, problem) for problem in _setup_problems(one))
    yield from _claim_problems(one)


def _version_problems(one: Scenario) -> Iterator[str]:
    for mode in one.supported_modes:
        if mode not in MODES:
            yield f"{mode!r} is not a metadata mode; use {', '.join(MODES[:-1])} or {MODES[-1]}."
    entries: tuple[Claim | Expected, ...] = (*one.claims, *one.expected)
    bounds = [text for entry in entries for text in (entry.since, entry.before) if text]
    for label in (one.kafka, *one.versions, *bounds):
        try:
            kafka_version(label, force=True)
        except UsageError as error:
            yield error.message
    errata = (claim.erratum for claim in one.claims if isinstance(claim.erratum, Erratum))
    for client in {entry.client for entry in (*entries, *errata)}:
        if client not in get_args(Library):
            libraries = " or ".join(repr(name) for name in get_args(Library) if name)
            yield f"client is {_shown(client)}, but must be {libraries}, or left out for all clients."
    own = kafka_version(one.kafka, force=True)
    if not set(one.supported_modes) & set(own.modes):
        yield (
            f"Kafka {one.kafka} runs here in mode {' or '.join(own.modes)}, not {one.mode!r}; "
            f"use another version or mode."
        )


def _setup_problems(one: Scenario) -> Iterator[str]:
    setup = one.setup
    for name, kind in _SETUP_TUPLES.items():
        yield from _not_a_tuple(f"setup.{name}", getattr(setup, name), kind)
    if not setup.topics:
        yield "setup names no topic; give topics=(Topic(...),)."
    for name, count in Counter(topic.name for topic in setup.topics).items():
        if count > 1 or name == setup.stream_topic:
            what = "that of the background stream" if name == setup.stream_topic else "there twice"
            yield f"the topic {name!r} is {what}; give it a name of its own."
    if setup.for_layout:
        return
    if setup.quorum not in get_args(Quorum):
        quorums = " or ".join(map(repr, get_args(Quorum)))
        yield f"setup.quorum is {_shown(setup.quorum)}; use {quorums}."
        return
    hosts = {host.name for host in three_azs(one.mode).hosts}
    started = {host.name for host in hosts_of(setup, THREE_AZS, one.mode).hosts}
    for topic in setup.topics:
        for broker in sorted({number for replicas in topic.assignment for number in replicas}):
            if broker not in setup.brokers or f"broker{broker}" not in hosts:
                yield f"the topic {topic.name!r} has a replica on broker {broker!r}; use brokers 1 to 3."
    for name in ("transaction_log", "offsets_log"):
        for broker in getattr(setup, name):
            if broker not in setup.brokers or f"broker{broker}" not in hosts:
                yield f"setup.{name} names broker {broker!r}; use brokers 1 to 3."
    named = {
        "controller": [setup.controller],
        "zookeeper_leader": [setup.zookeeper_leader] if one.mode in (*ZOOKEEPER, *MIGRATION) else [],
        "volatile_disks": setup.volatile_disks,
        "second_log_dirs": setup.second_log_dirs,
        "own_clocks": setup.own_clocks,
        "named": setup.named,
        "zookeeper_pins": [
            *setup.zookeeper_pins,
            *itertools.chain(*setup.zookeeper_pins.values()),
        ],
        "zookeeper_sessions": [*setup.zookeeper_sessions, *setup.zookeeper_sessions.values()],
    }
    for field, names in named.items():
        for name in names:
            if name not in hosts:
                yield f"setup.{field} names {name!r}; use one of the hosts {', '.join(sorted(hosts))}."
            elif name not in started:
                yield (
                    f"setup.{field} names {name!r}, which does not start with quorum={setup.quorum!r}; "
                    f"use quorum='every AZ'."
                )


def _claim_problems(one: Scenario) -> Iterator[_Problem]:
    from checkers.tables.output import FATE_MEANINGS, FINDINGS

    for claim in one.claims:
        name = claim.name
        for part in ("name", "says", "holds", "section", "quote", "given"):
            value = getattr(claim, part)
            if not isinstance(value, str):
                yield "Claim", name, f"{part} of a claim is {_shown(value)}, but must be a text."
            elif not value.strip() and part in ("name", "says", "holds"):
                yield "Claim", name, f"a claim has an empty {part}; every claim needs name, says and holds."
        for part, kind in (("erratum", Erratum), ("either", Either)):
            if not isinstance(value := getattr(claim, part), kind | None):
                yield (
                    *("Claim", name),
                    f"{part} of claim {name!r} is {_shown(value)}; write {kind.__name__}(...).",
                )
    for version in one.versions or (one.kafka,):
        names = Counter(claim.name for claim in one.claims if speaks_of(claim, version))
        for name, count in names.items():
            if count > 1:
                yield "Claim", name, f"{count} claims have the name {name!r}; each needs a name of its own."
    finding_names = tuple(dict.fromkeys((*FINDINGS, *FATE_MEANINGS)))
    for entry in one.expected:
        if (finding := entry.finding) not in finding_names:
            yield (
                "Expected",
                finding,
                f"there is no finding {finding!r}; use one of {', '.join(finding_names)}.",
            )


def _not_a_tuple(name: str, value: object, kind: type) -> Iterator[str]:
    if isinstance(value, kind):
        yield f"{name} is {_shown(value)}, but must be a tuple; add a comma: ({kind.__name__}(...),)."
    elif not isinstance(value, tuple):
        yield f"{name} is {_shown(value)}, but must be a tuple of {kind.__name__}."
    else:
        for entry in value:
            if not isinstance(entry, kind):
                yield f"{name} has {_shown(entry)}, but must hold {kind.__name__} only."


def _any(value: object) -> object:
    """The value, whatever its type: a user's file may ignore the declared type."""
    return value


def _maps_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for pair in value.items() for one in pair)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
