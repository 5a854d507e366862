"""What a verdict means for a run, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from report.model.facts import lost_messages
from report.model.model import FindingGroup, counted
from report.model.other_findings import clauses, others

_OF_PROMISES = {
    "violated": "A promise of Kafka was broken, or something happened that no fault explains.",
    "unknown": "The history does not decide whether Kafka kept all its promises.",
}
_OF_DECLARATION = {
    "violated": "Something happened that the scenario does not declare.",
    "unknown": "The history does not decide everything that the scenario declares.",
}
_OF_IMPORT = {
    "violated": "Something happened that does not happen to a healthy cluster; the findings say what.",
    "unknown": "The history does not decide what became of every message.",
}


def meaning(
    verdict: str,
    fates: Mapping[str, int],
    groups: Sequence[FindingGroup],
    *,
    by_promises: bool = False,
    imported: bool = False,
) -> str:
    """What the verdict means for a run, so that nobody overlooks an expected loss.

    Empty for a run that says nothing about Kafka, which the headline says.

    With ``by_promises``, the promises of Kafka decided, and not a scenario's declaration. An ``imported``
    history declares nothing.
    """
    if verdict != "as declared":
        of = _OF_IMPORT if imported else _OF_PROMISES if by_promises else _OF_DECLARATION
        return of.get(verdict, "")
    if imported:
        return "Nothing went wrong, and no acknowledged message was lost."
    begin = "Kafka kept what it promises" if by_promises else "Everything happened as the scenario declares"
    lost = lost_messages(fates)
    besides = "; ".join(clauses(other for other in others(groups, lost) if other.expected))
    if lost:
        loss = f"the loss of {counted(lost, 'acknowledged message')}"
        also = f" Besides, {besides}." if besides else ""
        if by_promises:
            return f"{begin}: it does not promise to prevent {loss}.{also}"
        return f"{begin}, and that includes {loss}.{also}"
    if besides:
        return f"{begin}: no acknowledged message was lost, but {besides}."
    return f"{begin}, and no acknowledged message was lost."
