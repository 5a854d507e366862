"""From a judgement to a `ReportModel` without pictures, for reports that need no history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report.model.facts import claim_of, lost_messages, promises_of
from report.model.headline import headline
from report.model.meaning import meaning
from report.model.model import Finding, FindingGroup, ReportModel, Run, Verdict, WriterFates, Zero
from report.words.causes import cause_of, facts_of
from report.words.details import detail_in_words
from report.words.seen import seen_in_words


def judged_model(judgement: Mapping[str, Any]) -> ReportModel:
    """The model of a judgement (`judgement.json`).

    A judgement has a sample of the findings. If that is not all, the groups are marked as `sampled`.
    """
    findings = dict(judgement.get("findings_by_class") or {})
    sample = judgement.get("findings") or ()
    groups = _groups(sample, sampled=len(sample) < sum(findings.values()))
    return ReportModel(
        run=Run(scenario=str(judgement.get("scenario") or ""), folder=str(judgement.get("run") or "")),
        verdict=verdict_of(judgement, groups),
        zero=Zero(str(judgement.get("first_fault") or "")),
        claims=tuple(claim_of(one, None, {}) for one in judgement.get("claims") or ()),
        promises=promises_of(judgement.get("promises") or ()),
        writers=writers_of(judgement),
        findings=findings,
        groups=groups,
    )


def verdict_of(
    judgement: Mapping[str, Any], groups: Sequence[FindingGroup], *, imported: bool = False
) -> Verdict:
    """The verdict of a judgement, and what it means with these findings."""
    verdict = str(judgement.get("verdict") or "not judged")
    fates = dict(judgement.get("fates") or {})
    first = headline(judgement, imported=imported)
    return Verdict(
        verdict=verdict,
        tone=first.tone,
        headline=first.text,
        meaning=meaning(verdict, fates, groups, by_promises=by_promises(judgement), imported=imported),
        reasons=tuple(judgement.get("reasons") or ()),
        messages=int(judgement.get("messages") or 0),
        fates=fates,
        lost=lost_messages(fates),
        seen=seen_in_words(judgement.get("seen")),
    )


def by_promises(judgement: Mapping[str, Any]) -> bool:
    """Whether the promises of Kafka decided the verdict, and not what a scenario declares."""
    return judgement.get("judged_by") == "promises"


def writers_of(judgement: Mapping[str, Any]) -> tuple[WriterFates, ...]:
    """What became of the messages of each producer; producers with the same name, AZ and acks are one."""
    counts_by_writer: dict[tuple[str, str, int | None], dict[str, int]] = {}
    for row in judgement.get("fates_by_writer") or ():
        key = (str(row.get("writer_name") or ""), str(row.get("az") or ""), row.get("acks"))
        counts = counts_by_writer.setdefault(key, {})
        counts[row["fate"]] = counts.get(row["fate"], 0) + int(row["count"])
    ordered = sorted(
        counts_by_writer.items(), key=lambda one: (*one[0][:2], one[0][2] is None, one[0][2] or 0)
    )
    return tuple(
        WriterFates(writer=name, az=az, acks=acks, fates=counts) for (name, az, acks), counts in ordered
    )


def _groups(sample: Sequence[Mapping[str, Any]], *, sampled: bool) -> tuple[FindingGroup, ...]:
    """Findings with the same class and cause, either all expected or none."""
    members: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for row in sample:
        key = (bool(row.get("expected")), row.get("class"), row.get("cause"), row.get("cause_facts"))
        members.setdefault(key, []).append(row)
    groups = []
    for rows in members.values():
        first = rows[0]
        promises: dict[str, int] = {}
        for row in rows:
            if row.get("promise"):
                promises[row["promise"]] = promises.get(row["promise"], 0) + 1
        groups.append(
            FindingGroup(
                name=str(first.get("class")),
                cause=cause_of(first),
                cause_kind=str(first.get("cause") or ""),
                cause_facts=facts_of(first),
                expected=bool(first.get("expected")),
                count=len(rows),
                sampled=sampled,
                promises=promises,
                shown=tuple(finding_of(row, acked_s=row.get("acked_s")) for row in rows),
            )
        )
    return tuple(sorted(groups, key=lambda one: one.rank))


def finding_of(
    row: Mapping[str, Any],
    *,
    acked_s: float | None,
    with_story: frozenset[str] = frozenset(),
    copies: Mapping[tuple[int, int], int] | None = None,
) -> Finding:
    """A row of findings; ``with_story`` names the messages and transactions whose story the model has."""
    writer, seq = row.get("writer"), row.get("seq")
    message = "" if writer is None else f"{writer}/{seq}"
    if writer is not None and row.get("txn") is not None:
        message = transaction_name(writer, row["txn"])
    return Finding(
        name=str(row.get("class")),
        place="" if row.get("topic") is None else f"{row['topic']}/{row.get('partition')}",
        offset=row.get("offset"),
        epoch=row.get("epoch"),
        message=message,
        label=row.get("label") or "",
        acked_s=acked_s,
        acked_by=row.get("acked_by"),
        acks=row.get("acks"),
        during=row.get("acked_during") or "",
        last_broker=row.get("last_broker"),
        brokers=tuple(row.get("brokers") or ()),
        copies=None if writer is None or seq is None else (copies or {}).get((writer, seq)),
        detail=detail_in_words(row),
        promise=row.get("promise") or "",
        story=message in with_story,
    )


def transaction_name(writer: int, txn: int) -> str:
    """How `acked story` and the page name a transaction."""
    return f"txn:{writer}/{txn}"
