"""What pages of a replay and of a shrinking begin with; both are about one schedule and one finding.

Work on the documents that `replay.json` and `shrink.json` hold (`report.model.shapes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report.model.model import counted
from report.model.opening import Opening, worst
from report.model.searched import WEIGHT_TONES

RepeatedDocument = Mapping[str, Any]
_DECISIONS = {
    "comes back": ": it does so regularly",
    "does not come back": ": it does so rarely, if at all",
    "undecided": ", which does not decide whether it does so regularly",
}


def replay_opening(document: RepeatedDocument) -> Opening:
    """How often the finding came back."""
    runs, hits, (low, high) = document["runs"], document["hits"], document["interval"]
    weights = [one["weight"] for one in document["findings"]]
    finding = document["finding"]
    answer = (
        f"It came back in {hits} of {counted(runs, 'run')}{_DECISIONS.get(document['decision'], '')}."
        if finding
        else f"{counted(len(weights), 'kind')} of findings in {counted(runs, 'run')}."
    )
    left = f" {document['not_judged']} more were not judged." if document["not_judged"] else ""
    rate = f"The rate is {low:.0%} to {high:.0%} with 95 % confidence." if finding else ""
    return Opening(
        kind="replay",
        tone=worst([WEIGHT_TONES[weight] for weight in weights], none="kept" if runs else "void"),
        word="reproduced" if hits else "not reproduced" if finding else "repeated",
        answer=answer,
        asked=f"Does a schedule show it again? {finding}" if finding else "What does a schedule show?",
        sure=f"{rate}{left}".strip() or "Each run shows one outcome of the schedule.",
        more=[("the schedule", "#schedules"), ("what was found", "#findings")],
    )


def shrink_opening(document: RepeatedDocument) -> Opening:
    """How much smaller the schedule has become."""
    before, left = document["steps_before"], len(document["steps"])
    last = document["tests"][-1:] and max(document["tests"], key=lambda test: (test["passes"], -test["size"]))
    rate = (
        f"The smallest schedule showed it in {last['hits']} of {counted(last['runs'], 'run')}. "
        if last
        else ""
    )
    tried, over = counted(document["tried"], "schedule"), bool(document["scenario"])
    enough = "is enough" if left == 1 else "are enough"
    smaller = "all were needed" if before == left else f"{before - left} were not needed"
    return Opening(
        kind="shrinking",
        tone=WEIGHT_TONES.get(document.get("weight", ""), "cost"),
        word="smallest schedule",
        answer=f"{counted(left, 'step')} of {before} {enough} to show it; {smaller}.",
        asked=f"What is the smallest schedule that shows it? {document['finding']}",
        sure=f"{rate}{tried} and {counted(document['runs'], 'run')} were made. "
        + (
            "Every single reduction of what is left was tried, and did not show it."
            if over
            else "It goes on."
        ),
        more=[
            ("steps removed and left", "#schedules"),
            ("what was tried", "#tried"),
            *([("the scenario file", document["scenario_name"])] if document.get("scenario_name") else []),
        ],
    )
