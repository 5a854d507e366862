"""The JSON files of a run folder; the shape of `run.json` and `claims.json` is checked.

They may be damaged or come from another version, so a value of a wrong type is refused with its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

from checkers.tables.files import FAILURES, exists, inside, is_uri, line_of, read_bytes
from checkers.verdict import JudgedBy, SeenEvent
from harness.errors import BadDataError, json_object
from harness.history.schema import OUTCOMES, SCHEMA_VERSION, readable
from harness.plain_files import require_plain

SETTLED_FATES = ("kept", "failed", "unknown_dropped")
"""Fates of messages that a rolling judgement settles (`checkers.partition.rolling`)."""
STATUSES = ("running", "complete", "crashed", "invalid", "unfit")


@dataclass(frozen=True, kw_only=True)
class Settled:
    """Messages of a writer with the same outcome and fate, which the history does not hold."""

    writer: int
    outcome: str
    fate: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `run.json` says about a run."""

    status: str
    scenario: str | None
    problem: str | None
    kafka: str | None = None
    """Kafka's version, for example `2.7.1`."""
    mode: str | None = None
    """`zookeeper`, `kraft` or `kraft-combined`."""
    seen: Mapping[str, int] | None = None
    """In a recording of somebody else's cluster, how often each `SeenEvent` was seen; otherwise None."""
    settled: tuple[Settled, ...] = ()
    """Messages that a rolling judgement has counted and left out of the history."""


class Declaration(TypedDict):
    """What `claims.json` says that a run should show."""

    claims: Sequence[Mapping[str, Any]]
    """Objects with `name`, `says`, `section` and the query `holds`; see `run.scenario.Claim`."""
    expected: Sequence[Mapping[str, Any]]
    """Objects with `finding` (a class of findings) and `where` (an SQL condition)."""
    judged_by: JudgedBy
    """What decides about findings; see `run.scenario.Scenario.judged_by`."""
    described: str
    """See `run.scenario.Scenario.described`."""


NOTHING_DECLARED: Declaration = {
    "claims": (),
    "expected": (),
    "judged_by": "declaration",
    "described": "",
}


def read_json(place: str) -> dict[str, Any]:
    """A JSON object of a run folder. Raises BadDataError when there is none."""
    if not exists(place):
        raise BadDataError(
            f"{place} cannot be read (No such file or directory); is this the folder of a run?"
        )
    try:
        return json_object(read_bytes(place), place)
    except FAILURES as error:
        raise BadDataError(
            f"{place} cannot be read ({line_of(error)}); is this the folder of a run?"
        ) from error


def read_manifest(folder: str) -> Manifest:
    """`run.json` of a run folder. Raises BadDataError when it is missing or damaged."""
    if not is_uri(folder):
        require_plain(folder)
    file = inside(folder, "run.json")
    manifest = read_json(file)
    version = manifest.get("schema_version")
    if not readable(version):
        raise BadDataError(
            f"{file} has schema_version {version!r}; this checker reads version {SCHEMA_VERSION}."
        )
    status = manifest.get("status")
    if status not in STATUSES:
        raise BadDataError(f"{file} has status {status!r}; it must be one of {', '.join(STATUSES)}.")
    names = ("scenario", "problem", "kafka", "mode")
    texts = {name: _text(file, "run.json", manifest, name) for name in names}
    settled = tuple(_settled(file, row) for row in _list(file, manifest, "settled"))
    return Manifest(status=status, seen=_seen(file, manifest), settled=settled, **texts)


def _settled(file: str, row: object) -> Settled:
    """Raises BadDataError for anything that no rolling judgement writes."""
    entry = _object(file, "settled", row)
    writer, count, outcome, fate = (entry.get(name) for name in ("writer", "count", "outcome", "fate"))
    numbers = all(type(number) is int and number >= 0 for number in (writer, count))
    if not numbers or outcome not in OUTCOMES or fate not in SETTLED_FATES:
        raise BadDataError(
            f"{file}: settled holds {str(dict(entry))[:100]}; each entry needs a writer and a count, an "
            f"outcome ({', '.join(OUTCOMES)}) and a fate ({', '.join(SETTLED_FATES)})."
        )
    assert isinstance(writer, int) and isinstance(count, int)
    return Settled(writer=writer, outcome=str(outcome), fate=str(fate), count=count)


def _seen(file: str, manifest: Mapping[str, Any]) -> Mapping[str, int] | None:
    """The counts of a recording. Raises BadDataError for other values."""
    recording = manifest.get("recording")
    if recording is None:
        return None
    counts = _object(file, "recording", recording).get("seen") or {}
    counts = _object(file, "seen of recording", counts)
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise BadDataError(f"{file}: {name!r} of seen is {_kind(count)}, but must be a count.")
    return {name: int(counts.get(name, 0)) for name in get_args(SeenEvent)}


def read_declared(folder: str) -> Declaration:
    """`claims.json` of a run folder. Without the file, nothing is declared.

    Raises BadDataError naming the claim, or the expected finding, that is damaged.
    """
    file = inside(folder, "claims.json")
    if not exists(file):
        return NOTHING_DECLARED
    declared = read_json(file)
    claims = tuple(
        _claim(file, f"claim {number}", entry)
        for number, entry in enumerate(_list(file, declared, "claims"), 1)
    )
    twice = [name for name, count in Counter(claim["name"] for claim in claims).items() if count > 1]
    if twice:
        raise BadDataError(f"{file} declares the claim {twice[0]!r} twice; each needs a name of its own.")
    expected: list[Mapping[str, Any]] = []
    for number, entry in enumerate(_list(file, declared, "expected"), 1):
        what = f"expected finding {number}"
        expected.append(_object(file, what, entry))
        for key in ("finding", "where"):
            _needed(file, what, expected[-1], key)
    judged_by = declared.get("judged_by", NOTHING_DECLARED["judged_by"])
    if judged_by not in get_args(JudgedBy):
        raise BadDataError(
            f"{file} has judged_by {str(judged_by)[:40]!r}; it must be {' or '.join(get_args(JudgedBy))}."
        )
    described = declared.get("described", "")
    if not isinstance(described, str):
        raise BadDataError(f"{file} has described {str(described)[:40]!r}; it must be the name of a setting.")
    return {"claims": claims, "expected": expected, "judged_by": judged_by, "described": described}


def _claim(file: str, what: str, entry: object) -> Mapping[str, Any]:
    claim = _object(file, what, entry)
    what = f"claim {_needed(file, what, claim, 'name')!r}"
    for key in ("says", "section", "holds"):
        _needed(file, what, claim, key)
    _text(file, what, claim, "given")
    for key in ("erratum", "either"):
        if claim.get(key) is not None:
            other = _object(file, f"{key} of {what}", claim[key])
            for part in ("says", "because", "holds"):
                _needed(file, f"{key} of {what}", other, part)
    return claim


def _list(file: str, entry: Mapping[str, Any], key: str) -> list[object]:
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise BadDataError(f"{file}: {key} is {_kind(value)}, but must be a list.")
    return value


def _object(file: str, what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadDataError(f"{file}: {what} is {_kind(value)}, but must be an object.")
    return value


def _needed(file: str, what: str, entry: Mapping[str, Any], key: str) -> str:
    if entry.get(key) is None:
        raise BadDataError(f"{file}: {what} has no {key!r}.")
    text = _text(file, what, entry, key)
    assert text is not None
    return text


def _text(file: str, what: str, entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise BadDataError(f"{file}: {key!r} of {what} is {_kind(value)}, but must be a text.")
    return value


_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS[type(value)]
