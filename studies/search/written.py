"""A schedule written as a scenario file, which `acked run` takes: imports, set-up, body, one claim."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from checkers.promises.table import UNEXPLAINED
from checkers.tables.output import FINDINGS
from studies.search.findings import MARK, RunFinding
from studies.search.schedule import Group, Member, Producer, Schedule, TopicPlan
from studies.steps.step import Moment, Step, described

_WIDTH = 100


def scenario_text(
    schedule: Schedule,
    finding: RunFinding,
    *,
    name: str,
    version: str,
    mode: str,
    rate: str,
    story: Sequence[str] = (),
) -> str:
    """The text of the file; ``rate`` says how often the finding came back, ``story`` is that of a message."""
    steps = "; ".join(described(step) for step in schedule.steps) or "no fault"
    title = f"{finding.name.replace('_', ' ')}: {steps}"
    lines = [
        f'"""{_plain(title)}.',
        "",
        *_wrapped(
            f"Kafka {version}, {mode}. Found by `acked search` ({schedule.made_by}), and shrunk: {rate}."
        ),
    ]
    if story:
        lines += ["", *(_plain(line).rstrip() for line in story)]
    lines += [
        '"""',
        "",
        "from acked import Claim, Expected, Scenario, Stage"
        if finding.name in FINDINGS
        else "from acked import Claim, Scenario, Stage",
        f"from acked.schedules import {', '.join(_IMPORTED)}",
        "",
        f"SCHEDULE = {_value(schedule, 0)}",
        "",
        "",
        "def body(stage: Stage) -> None:",
        '    """Carry out the schedule, heal everything, and wait until the cluster is whole again."""',
        "    perform(stage, SCHEDULE)",
        "",
        "",
        f"FINDING = {_text(_where(finding))}",
        f"TABLE = {_text('findings' if finding.name in FINDINGS else 'marks')}",
        "",
        "SCENARIO = Scenario(",
        f"    name={_text(name)},",
        f"    title={_text(_plain(title)[:_WIDTH])},",
        "    body=body,",
        f"    setup=set_up(SCHEDULE, mode={_text(mode)}),",
        "    claims=(",
        "        Claim(",
        '            name="it-comes-back",',
        f"            says={_text(_sentence(finding))},",
        "            holds=(",
        "                \"SELECT count(*) > 0 AS holds, concat(count(*), ' such findings') AS observed \"",
        '                f"FROM {TABLE} WHERE {FINDING}"',
        "            ),",
        "        ),",
        "    ),",
        *_expected(finding),
        f"    faults={_value(tuple(dict.fromkeys(step.fault for step in schedule.steps)), 1)},",
        f"    kafka={_text(version)},",
        f"    mode={_text(mode)},",
        f"    outcome={_text(_plain(finding.kind))},",
        ")",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(_plain(text), _WIDTH)


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")


def _text(text: str) -> str:
    """A Python literal in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _conditions(finding: RunFinding) -> Iterator[str]:
    if finding.known_bug:
        yield f"known_bug = {_quoted(finding.known_bug)}"
        return
    if finding.promise:
        yield f"promise = {_quoted(finding.promise)}"
    if finding.row:
        yield f"promise_row = {_quoted(finding.row)}"


def _where(finding: RunFinding) -> str:
    if finding.name not in FINDINGS:
        return f"name = {_quoted(MARK + finding.name)}"
    return " AND ".join((f"class = {_quoted(finding.name)}", *_conditions(finding)))


def _expected(finding: RunFinding) -> Iterator[str]:
    """The declaration that the finding is not a violation; empty for a mark, which never is one."""
    if finding.name in FINDINGS:
        yield "    expected=("
        yield f'        Expected({_text(finding.name)}, "true", {_text(_because(finding))}),'
        yield "    ),"


def _sentence(finding: RunFinding) -> str:
    if finding.name in UNEXPLAINED:
        return f"The run shows {finding.name}: {_plain(finding.cause)}."
    if finding.name not in FINDINGS:
        return f"The run ends with {finding.name}."
    what = {"broken": "which breaks a promise", "not promised": "which Kafka does not promise to prevent"}
    because = f" ({finding.known_bug or finding.row})" if finding.known_bug or finding.row else ""
    return f"The run shows {finding.name}, {what.get(finding.promise, 'undecided')}{because}."


def _because(finding: RunFinding) -> str:
    return f"what the schedule was shrunk for: {_plain(finding.kind)}"


_IMPORTED = ("Group", "Member", "Moment", "Producer", "Schedule", "Step", "TopicPlan", "perform", "set_up")
_STRUCTS = (Schedule, Step, Producer, Group, Member, TopicPlan, Moment)


def _value(value: Any, depth: int) -> str:
    """A literal for a part of a schedule, without default values."""
    if isinstance(value, _STRUCTS):
        given = []
        for field in msgspec.structs.fields(value):
            content = getattr(value, field.name)
            if field.default is msgspec.NODEFAULT or content != field.default:
                given.append(f"{field.name}={_value(content, depth + 1)}")
        return _call(type(value).__name__, given, depth)
    if isinstance(value, tuple):
        inner = [_value(one, depth + 1) for one in value]
        short = f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        return short if _fits(short, depth) else _lines("(", [f"{one}," for one in inner], ")", depth)
    return _text(value) if isinstance(value, str) else repr(value)


def _call(name: str, given: list[str], depth: int) -> str:
    short = f"{name}({', '.join(given)})"
    return short if _fits(short, depth) else _lines(f"{name}(", [f"{one}," for one in given], ")", depth)


def _fits(text: str, depth: int) -> bool:
    return "\n" not in text and len(text) + 4 * depth + 12 <= _WIDTH


def _lines(begin: str, inner: list[str], end: str, depth: int) -> str:
    space = "    " * (depth + 1)
    return "\n".join((begin, *(space + one for one in inner), "    " * depth + end))


__all__ = ["scenario_text"]
