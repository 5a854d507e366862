"""What the page of a bisect begins with: the Kafka version in which a claim turns out differently.

Works on the document that `bisect.json` holds (`report.model.shapes.BisectShape`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from report.model.model import Tone, counted
from report.model.opening import Opening

BisectDocument = Mapping[str, Any]


def bisect_opening(document: BisectDocument) -> Opening:
    """Where the claim changes."""
    first, over, problem = document["first"], document["over"], document["problem"]
    tone: Tone = "void" if problem else "kept" if over and first else "undecided"
    tried = counted(len(document["runs"]), "run")
    left = len(document["versions"]) - len(document["runs"])
    untried = f"{counted(left, 'version')} not tried" if left else "every version was tried"
    return Opening(
        kind="bisect",
        tone=tone,
        word=_word(document),
        answer=" ".join(_answer(document)),
        asked=f"In which Kafka version does this turn out differently? {document['says']} "
        f"({document['scenario']}, claim {document['claim']}, {document['mode']})",
        sure=f"{tried}, each of another version; {untried}. One run shows one "
        "outcome of a version, and a claim that changes more than once between the ends is not looked for.",
        more=[("runs", "#runs"), ("as data", "bisect.json")],
    )


def _word(document: BisectDocument) -> str:
    if document["problem"]:
        return "no answer"
    if not document["over"]:
        return "under way"
    return f"changes in {document['first']}" if document["first"] else "no change"


def _answer(document: BisectDocument) -> Iterator[str]:
    status = {run["version"]: run["status"] for run in document["runs"]}
    before, first = document["last_before"], document["first"]
    if document["problem"]:
        yield document["problem"]
    elif not document["over"]:
        yield "One run has ended." if len(status) == 1 else f"{counted(len(status), 'run')} have ended."
    elif first:
        yield (
            f"The claim is {status.get(before, 'not known')} up to {before}, and "
            f"{status.get(first, 'not known')} from {first} on."
        )
    else:
        oldest, newest = document["versions"][0], document["versions"][-1]
        same = status.get(oldest, "not known")
        yield f"The claim is {same} in {oldest} and in {newest}; nothing between them was tried."
