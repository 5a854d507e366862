"""What a report reads of the JSON files of a run folder: their objects, keys and types.

A key may be absent or null unless it is `Required`. Other keys may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypedDict

import msgspec
from msgspec import Meta

from harness.errors import DAMAGED, BadDataError, json_file

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
WholeCount = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Anchor(TypedDict):
    monotonic_ns: WholeCount
    wall_ns: WholeCount


class _MadeBy(TypedDict, total=False):
    command: str | None
    memory_bytes: WholeCount | None


class _Durations(TypedDict, total=False):
    scenario: Annotated[float, Meta(ge=0)] | None


class _ScenarioFile(TypedDict, total=False):
    path: str | None
    module: str | None


class ManifestShape(TypedDict, total=False):
    """`run.json`."""

    scenario: str | None
    title: str | None
    kafka: str | None
    mode: str | None
    lab: str | None
    status: str | None
    problem: str | None
    anchor: _Anchor | None
    durations: _Durations | None
    azs: dict[str, Any] | None
    roles: dict[str, Any] | None
    made_by: _MadeBy | None
    jars: dict[str, Any] | None
    scenario_file: _ScenarioFile | None


class DeclarationShape(TypedDict, total=False):
    """`claims.json`."""

    article: str | None
    section: str | None
    aliases: dict[str, str] | None


class _Outcome(TypedDict):
    says: str
    because: str


class _Evidence(TypedDict, total=False):
    from_ns: Whole | None
    to_ns: Whole | None
    sources: list[str] | None
    partitions: list[str] | None
    offsets: list[Whole] | None
    tables: list[str] | None


class _Claim(TypedDict, total=False):
    name: Required[str]
    says: Required[str]
    section: Required[str]
    status: Required[str]
    as_declared: Required[bool]
    quote: str | None
    observed: str | None
    occurred: str | None
    precondition: bool | None
    erratum: _Outcome | None
    either: _Outcome | None
    evidence: _Evidence | None


class _Writer(TypedDict, total=False):
    writer_name: str | None
    az: str | None
    acks: Whole | None
    outcome: str | None
    fate: Required[str]
    count: Required[WholeCount]


class _Promise(TypedDict, total=False):
    promise: Required[str]
    row: str | None
    known_bug: str | None
    why: str | None
    count: Required[WholeCount]


class JudgementShape(TypedDict, total=False):
    """`judgement.json`."""

    scenario: str | None
    verdict: str | None
    judged_by: str | None
    described: str | None
    reasons: list[str] | None
    messages: WholeCount | None
    claims: list[_Claim] | None
    fates: dict[str, WholeCount] | None
    fates_by_writer: list[_Writer] | None
    findings_by_class: dict[str, WholeCount] | None
    promises: list[_Promise] | None
    first_fault: str | None


class _Pause(TypedDict, total=False):
    seconds: Required[float]
    until_heal: Required[bool]
    least_s: float


class _ProducerOutcome(TypedDict, total=False):
    lost: Required[WholeCount]
    lost_after_read: Required[WholeCount]
    duplicated: Required[WholeCount]
    out_of_order: Required[WholeCount]
    outcome: Required[str]
    promise: Required[str]
    known_bugs: Required[list[str]]
    writes: Required[dict[str, _Pause]]


class _WriteRates(TypedDict):
    from_s: Whole
    by_az: dict[str, list[WholeCount]]


class AssessmentLineShape(TypedDict, total=False):
    """A case and a place of the leaders, or one topic of it."""

    case: Required[str]
    says: Required[str]
    roles: Required[str]
    led: Required[str]
    status: Required[str]
    reason: Required[str]
    controller: str
    quorum_leader: str
    varies: str
    runs: Required[list[str]]
    settings: Required[dict[str, _ProducerOutcome]]
    reads: Required[dict[str, _Pause]]
    rates: _WriteRates
    fault_s: float | None
    busy_percent: WholeCount | None
    failover_s: Required[float | None]
    recovery_s: Required[float | None]
    operator: Required[list[str]]
    topic: str
    topics: list[AssessmentLineShape]
    topics_differ: bool


class _RunNotAsDeclared(TypedDict):
    case: str
    run: str
    verdict: str
    reasons: list[str]


class AssessmentShape(TypedDict, total=False):
    """`assessment.json`."""

    verdict: Required[Literal["as declared", "violated", "unknown"]]
    not_as_declared: Required[list[_RunNotAsDeclared]]
    kafka: Required[str]
    mode: Required[str]
    header: Required[dict[str, str]]
    azs: Required[dict[str, str]]
    hosts: dict[str, str]
    clients: Required[list[str]]
    producers: Required[Annotated[list[str], Meta(min_length=1)]]
    lines: Required[list[AssessmentLineShape]]
    consequences: Required[list[str]]
    runs: Required[str]
    ended: WholeCount
    planned: WholeCount


class _SearchFinding(TypedDict):
    name: str
    cause: str
    known_bug: str
    promise: str
    settings: str
    weight: Literal["new", "unknown", "known", "not promised"]
    count: int


class _ScoredStep(TypedDict):
    says: str
    from_s: float
    to_s: float | None
    waits: bool


class _FindingGroup(TypedDict, total=False):
    finding: Required[_SearchFinding]
    runs: Required[int]
    of: Required[int]
    first: Required[int]
    folder: Required[str]
    low: Required[float]
    high: Required[float]
    brief: str
    option: str
    steps: list[str]
    score: list[_ScoredStep]


class _SearchPlan(TypedDict):
    version: str
    mode: str
    seed: int


class SearchShape(TypedDict, total=False):
    """`search.json`."""

    plan: Required[_SearchPlan]
    schedules: Required[int]
    judged: Required[int]
    not_judged: Required[dict[str, int]]
    per_hour: Required[int]
    skipped_steps: Required[int]
    groups: Required[list[_FindingGroup]]
    reached: Required[dict[str, int]]
    promises: Required[dict[str, int]]
    not_exercised: Required[list[str]]
    saturation: list[int]


class _SideRate(TypedDict):
    side: str
    runs: WholeCount
    of: WholeCount
    low: float
    high: float
    first: int | None


class _ComparedGroup(TypedDict):
    signature: str
    finding: _SearchFinding
    weight: Literal["new", "unknown", "known", "not promised"]
    promise: str
    apart: bool
    sides: list[_SideRate]


class _SideResult(TypedDict):
    side: str
    verdict: str
    folder: str
    alone: list[str]


class _DifferingSchedule(TypedDict, total=False):
    number: Required[int]
    sides: Required[list[_SideResult]]
    steps: list[str]
    score: list[_ScoredStep]


class CompareShape(TypedDict):
    """`compare.json`, of a comparison of searches. ``sides`` has their names, each a key of ``plans``."""

    sides: Annotated[list[str], Meta(min_length=2)]
    plans: dict[str, _SearchPlan]
    schedules: WholeCount
    judged: WholeCount
    seconds: float
    groups: list[_ComparedGroup]
    differences: list[_DifferingSchedule]


class _BisectRun(TypedDict):
    version: str
    status: str
    observed: str
    verdict: str
    reasons: list[str]
    seconds: float
    folder: str


class BisectShape(TypedDict):
    """`bisect.json`: the runs in the order in which they ended."""

    scenario: str
    mode: str
    claim: str
    says: str
    versions: list[str]
    """Oldest first."""
    runs: list[_BisectRun]
    last_before: str
    """The last version before the change, as far as it is known; empty: not known yet."""
    first: str
    """The first version after it; empty: not known yet, or nothing changes."""
    over: bool
    problem: str
    """Why it ended without an answer; empty if it did not."""


def require_shape(document: Mapping[str, Any], shape: Any, file: Path, remedy: str = DAMAGED) -> None:
    """Raise BadDataError, naming the file, for a stored document of another shape."""
    try:
        msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise BadDataError(f"{file} is malformed ({error}); {remedy}.") from error


def shaped(file: Path, shape: Any) -> Mapping[str, Any]:
    """A stored document of a shape. Raises BadDataError if it is damaged."""
    document = json_file(file)
    require_shape(document, shape, file)
    return document


class _RemovableStep(_ScoredStep, total=False):
    removed: bool


class _TriedSchedule(TypedDict):
    passes: bool
    hits: WholeCount
    runs: WholeCount
    steps: WholeCount
    size: WholeCount
    seconds: float


class ShrinkShape(TypedDict, total=False):
    """`shrink.json`."""

    finding: Required[str]
    weight: str
    steps_before: Required[WholeCount]
    steps: Required[list[str]]
    score_before: Required[list[_RemovableStep]]
    score: Required[list[_ScoredStep]]
    tests: Required[list[_TriedSchedule]]
    tried: Required[WholeCount]
    runs: Required[WholeCount]
    run: str
    scenario: Required[str]
    scenario_name: str


class _RepeatedFinding(TypedDict):
    weight: Literal["new", "unknown", "known", "not promised"]
    runs: WholeCount
    interval: tuple[float, float]
    example: _SearchFinding


class ReplayShape(TypedDict, total=False):
    """`replay.json`."""

    finding: Required[str]
    hits: Required[WholeCount]
    runs: Required[WholeCount]
    not_judged: Required[WholeCount]
    interval: Required[tuple[float, float]]
    decision: Required[str]
    run: Required[str]
    findings: Required[list[_RepeatedFinding]]
    score: list[_ScoredStep]


RUN, DECLARED, JUDGEMENT = "run.json", "claims.json", "judgement.json"
SEARCH = "search.json"
COMPARE = "compare.json"
SHRINK, REPLAY = "shrink.json", "replay.json"
BISECT, ASSESSMENT = "bisect.json", "assessment.json"
"""The outcomes of a search, a comparison of searches, a shrinking and so on, in their folders."""
SHAPES: Mapping[str, Any] = {RUN: ManifestShape, DECLARED: DeclarationShape, JUDGEMENT: JudgementShape}
