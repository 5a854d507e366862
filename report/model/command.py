"""The command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

_FLAGS_OF_OUTPUT = frozenset(
    {
        *("--all", "--json", "--quiet", "-q", "--keep-failed", "--git-bisect"),
        *(
            "--plan",
            "--yes",
            "-y",
        ),  # of a run on the cluster of somebody else, whose command is repeated as it is
    }
)
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
    if manifest.get("recording"):  # what was broken was not up to acked
        return str(made_by.get("command") or "acked record")
    options = _options(str(made_by.get("command") or ""))
    given = {name for name, *_ in options}
    facts = ["mode", "lab"] if given & {"--kafka-home", "--kafka-jars"} else ["kafka", "mode", "lab"]
    for fact in facts:
        if manifest.get(fact) and f"--{fact}" not in given:
            options.append((f"--{fact}", str(manifest[fact])))
    file: Mapping[str, str] = manifest.get("scenario_file") or {}
    of_a_file = file.get("path") and not file.get("module")
    what = f"{file['path']}:{scenario}" if of_a_file else scenario
    return shlex.join(["acked", "run", what, *(word for option in options for word in option)])


def _options(command: str) -> list[tuple[str, ...]]:
    """The options of an `acked run` that settle what is run, with their values; none for another command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    if words[:2] != ["acked", "run"]:
        return []
    options: list[tuple[str, ...]] = []
    rest = iter(words[2:])
    for word in rest:
        if not word.startswith("-") or word in _FLAGS_OF_OUTPUT:
            continue
        name, equals, value = word.partition("=")
        if not equals and name not in _FLAGS:
            value = next(rest, "")
        if name not in _OPTIONS_OF_OUTPUT:
            options.append((name,) if name in _FLAGS else (name, value))
    return options
