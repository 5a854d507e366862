"""The command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_FLAGS_OF_OUTPUT = frozenset({"--all", "--json", "--quiet", "-q", "--keep-failed", "--git-bisect"})
_OPTIONS_OF_OUTPUT = frozenset(
    {
        *("--runs", "--repeat", "--parallel", "--resume", "--filter", "--from"),
        *("--budget", "--shard", "--earlier", "--junit", "--summary"),
    }
)
"""Options of `acked run` that choose the runs and where their output goes. None changes a run."""
_FLAGS = frozenset({"--force", "--no-force"})


def command_to_repeat(manifest: Mapping[str, Any], scenario: str) -> str:
    """`acked run` with the scenario or its file, the settings given, and version, mode and lab."""
    made_by: Mapping[str, Any] = manifest.get("made_by") or {}
    given = _options(str(made_by.get("command") or ""))
    names = {word.split("=", 1)[0] for word in given}
    build = names & {"--kafka-home", "--kafka-jars"}
    facts = ("kafka", "mode", "lab")
    for name in facts[1:] if build else facts:
        if manifest.get(name) and f"--{name}" not in names:
            given = [*given, f"--{name}", str(manifest[name])]
    file: Mapping[str, str] = manifest.get("scenario_file") or {}
    of_a_file = file.get("path") and not file.get("module")
    what = f"{file['path']}:{scenario}" if of_a_file else scenario
    return shlex.join(["acked", "run", what, *given])


def _options(command: str) -> list[str]:
    """The options of an `acked run` that settle what is run; none for another command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    if [*words[:2]] != ["acked", "run"]:
        return []
    return [
        word
        for name, *value in _named(words[2:])
        if name not in _OPTIONS_OF_OUTPUT
        for word in (name, *value)
    ]


def _named(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Each option with its value, if it takes one; words that are no options are left out."""
    found: list[tuple[str, ...]] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in _FLAGS_OF_OUTPUT:
            continue
        name, equals, value = word.partition("=")
        if equals:
            found.append((name, value))
        elif name in _FLAGS:
            found.append((name,))
        else:
            found.append((name, *(one for one in [next(rest, None)] if one is not None)))
    return found
