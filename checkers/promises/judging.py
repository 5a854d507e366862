"""The judgement of findings: the row of the promise table that decides each, and what it says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.messages import Ints
from checkers.promises.bugs import KNOWN
from checkers.promises.case import FindingContext, went_ahead
from checkers.promises.conditions import Answer, ask
from checkers.promises.facts import RunFacts
from checkers.promises.table import ROWS, STRAY, UNEXPLAINED, PromiseRow

PromiseVerdict = Literal["broken", "not promised", "unknown"]

PROMISE_COLUMNS = ("promise", "promise_row", "promise_reason", "known_bug")
"""Columns of `findings` that hold a judgement."""
_KEY = ("class", "topic", "partition", "writer", "acked_by", "cause", "cause_facts", "detail")
"""Columns whose values, with the time of the acknowledgement, decide most findings."""
_LARGEST = 2**62
_BY_REPLICAS = ("diverged", "corrupt", "not_converged", *STRAY)
"""Classes that are judged by the finding's brokers, and by whether its offset is committed."""
_BY_POSITION = ("group_reset",)
"""Classes that are judged by whether the member continued above its position."""
_BY_LOG_START = ("lost", "lost_after_read")
"""Classes that are judged by whether the message was at an offset before the log start offset."""
_BY_MESSAGE = ("aborted_read", "out_of_order", "duplicated")
"""Classes that are judged by the message, if it was looked up."""


class PromiseJudgement(NamedTuple):
    """A finding judged by the table; the fields are those of `PROMISE_COLUMNS`."""

    promise: PromiseVerdict
    row: str | None
    """The row that decides; if that is unknown, the first row that might."""
    reason: str
    known_bug: str | None


def judge(
    finding: Mapping[str, Any], facts: RunFacts, rows: tuple[PromiseRow, ...] = ROWS
) -> PromiseJudgement:
    """Judge one finding, given with every column of `findings`.

    The first row whose conditions hold decides. If an earlier row with the opposite verdict cannot be
    decided, the judgement is `unknown`, and the reason names the fact that is missing.
    """
    case = FindingContext(finding, facts)
    if finding["class"] == "undetermined":
        return PromiseJudgement("unknown", None, "the final read did not reach the end of every log", None)
    open_rows: list[tuple[PromiseRow, Answer]] = []
    for row in rows:
        if finding["class"] not in row.classes:
            continue
        answer = _conjunction(row, case)
        if answer.holds is None:
            open_rows.append((row, answer))
        elif answer.holds:
            against = next((open_row for open_row in open_rows if open_row[0].promised != row.promised), None)
            if against is not None:
                return PromiseJudgement("unknown", against[0].name, against[1].why, None)
            promise: PromiseVerdict = "broken" if row.promised else "not promised"
            return PromiseJudgement(
                promise, row.name, answer.why or row.brief, _known_bug(case, broken=row.promised)
            )
    if open_rows:
        row, answer = open_rows[0]
        return PromiseJudgement("unknown", row.name, answer.why, None)
    return PromiseJudgement("unknown", None, f"no row of the table covers this {finding['class']}", None)


def _conjunction(row: PromiseRow, case: FindingContext) -> Answer:
    """Whether all conditions of a row hold; no as soon as one does not."""
    answers = []
    for name in row.when:
        answer = ask(name, case)
        if answer.holds is False:
            return answer
        answers.append(answer)
    missing = next((answer for answer in answers if answer.holds is None), None)
    if missing is not None:
        return missing
    return Answer(True, "; ".join(answer.why for answer in answers if answer.why))


def _known_bug(case: FindingContext, *, broken: bool) -> str | None:
    versions, mode = case.facts.versions(), case.facts.mode
    for bug in KNOWN:
        if case.finding["class"] not in bug.classes:
            continue
        if not any(bug.may_be_in(version, mode) for version in versions):
            continue
        if (broken or bug.contributes) and all(ask(name, case).holds for name in bug.when):
            return bug.name
    return None


def with_promises(findings: pa.Table, facts: RunFacts, *, decisive: bool = False) -> pa.Table:
    """Findings with `PROMISE_COLUMNS` filled. Findings that the same facts decide are judged together.

    If promises are ``decisive``, findings that Kafka does not promise to prevent are expected.
    """
    if not findings.num_rows:
        return findings
    groups = _groups(findings, facts)
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    judged = [judge(row, facts) for row in findings.take(pa.array(first)).to_pylist()]
    place = pa.array(inverse.reshape(-1))
    for name, values in zip(PROMISE_COLUMNS, zip(*judged, strict=True), strict=True):
        column = pa.array(values, pa.string()).take(place)
        findings = findings.set_column(findings.schema.get_field_index(name), name, column)
    return _without_promise_expected(findings) if decisive else findings


def _without_promise_expected(findings: pa.Table) -> pa.Table:
    about_promises = pc.invert(pc.is_in(findings["class"], pa.array(UNEXPLAINED)))
    expected = pc.or_(
        findings["expected"], pc.and_(about_promises, pc.equal(findings["promise"], "not promised"))
    )
    return findings.set_column(
        findings.schema.get_field_index("expected"), findings.schema.field("expected"), expected
    )


def _groups(findings: pa.Table, facts: RunFacts) -> Ints:
    """A number for each finding; findings with the same number have the same judgement."""
    acked = findings["acked_ns"].fill_null(-1).to_numpy()
    edges = np.array(facts.edges, dtype=np.int64)
    codes: Ints = np.searchsorted(edges, acked, side="right").astype(np.int64) * 2 + (acked < 0)
    columns = [_codes(findings[name]) for name in _KEY]
    columns += [_codes(findings[name].is_null()) for name in ("offset", "txn")]
    columns.append(_particulars(findings, facts))
    for column in columns:
        size = int(column.max()) + 1
        if size == 1:
            continue
        if int(codes.max()) >= _LARGEST // size:
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
        codes = codes * size + column
    return codes


def _particulars(findings: pa.Table, facts: RunFacts) -> Ints:
    """A number for the facts that matter only to some classes; 0 for the others."""
    particulars = np.zeros(findings.num_rows, dtype=np.int64)
    shortened = any((replica.log_start or 0) > 0 for some in facts.replicas.values() for replica in some)
    classes = (*_BY_REPLICAS, *_BY_POSITION, *_BY_MESSAGE, *(_BY_LOG_START if shortened else ()))
    concerned = pa.compute.is_in(findings["class"], pa.array(classes))
    places = np.flatnonzero(concerned.to_numpy(zero_copy_only=False))
    if not len(places):
        return particulars
    names = ("class", "topic", "partition", "offset", "brokers", "writer", "seq", "found_offset")
    some = findings.select(names).take(pa.array(places))
    numbers_by_key: dict[Hashable, int] = {}
    for place, row in zip(
        places.tolist(), zip(*(some[name].to_pylist() for name in names), strict=True), strict=True
    ):
        name, topic, partition, offset, brokers, writer, seq, found_offset = row
        key: Hashable
        if name in _BY_MESSAGE:
            key = facts.messages.get((writer, seq))
        elif name in _BY_POSITION:
            key = went_ahead({"offset": offset, "found_offset": found_offset})
        elif name in _BY_LOG_START:
            start = facts.log_start(topic, partition)
            key = start is not None and offset is not None and offset < start
        else:
            mark = facts.high_watermark(topic, partition)
            key = (tuple(brokers or ()), mark is not None and offset is not None and offset >= mark)
        particulars[place] = numbers_by_key.setdefault(key, len(numbers_by_key) + 1)
    return particulars


def _codes(column: pa.ChunkedArray) -> Ints:
    encoded = column.combine_chunks().dictionary_encode()
    codes: Ints = encoded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    return codes
