"""Compound claims (`both`) split into their parts, and the parts that no mutant of a stored run refutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.runs.mutants import Recorded
from tests.runs.mutants_of_parts import EVERY
from tests.runs.stored import Judging, StoredRun

_HEAD = re.compile(
    r"SELECT s0\.holds(?: AND s\d+\.holds)+ AS holds, "
    r"concat_ws\('; ', s0\.observed(?:, s\d+\.observed)+\) AS observed FROM "
)
_TOKEN = re.compile(r"'(?:[^']|'')*'|[()]")


def parts_of(sentence: str) -> list[str]:
    """The sentences that `both` combined, at every depth; the sentence itself if it is no combination."""
    head = _HEAD.match(sentence)
    if head is None:
        return [sentence]
    parts: list[str] = []
    place, number = head.end(), 0
    while place < len(sentence):
        end = _closing(sentence, place)
        parts += parts_of(sentence[place + 1 : end])
        named = f") s{number}"
        if not sentence.startswith(named, end):
            raise ValueError(f"no part {number} of a combination: {sentence[end:][:40]!r}")
        place, number = end + len(named) + len(" CROSS JOIN "), number + 1
    return parts


def _closing(text: str, opening: int) -> int:
    """Where the bracket that opens at ``opening`` closes; those in literals do not count."""
    depth = 0
    for token in _TOKEN.finditer(text, opening):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return token.start()
    raise ValueError(f"a bracket of {text!r} does not close")


def declared_parts(run: StoredRun) -> Iterator[dict[str, Any]]:
    """Each part of a compound claim of a stored run (no precondition) as a claim: `<claim>/<which>/<number>`.

    ``which`` is `holds`, `erratum`, `either` or `given`. The last two are there also if they are no
    compounds: a mutant that turns the whole claim need not refute them.
    """
    for claim in run.declared["claims"]:
        if claim["name"] not in run.claims:
            continue
        others = {which: (claim.get(which) or {}).get("holds") for which in ("erratum", "either")}
        for which, sentence in {"holds": claim["holds"], **others, "given": claim.get("given")}.items():
            parts = parts_of(sentence) if sentence else []
            several = len(parts) > 1 or which in ("either", "given")
            for number, part in enumerate(parts if several else ()):
                name = f"{claim['name']}/{which}/{number}"
                yield {**claim, "name": name, "holds": part, "given": "", "erratum": None, "either": None}


def unrefuted(
    run: StoredRun, names: Iterable[str] = tuple(EVERY), parts: Iterable[Mapping[str, Any]] | None = None
) -> dict[str, str]:
    """The parts that hold in a stored run and under each of these mutants, with what was observed.

    ``parts`` defaults to all `declared_parts`. A part that only becomes unknown is not refuted.
    """
    claims = list(declared_parts(run) if parts is None else parts)
    if not claims:
        return {}
    judging = Judging({**run.declared, "claims": claims})
    recorded = Recorded(run.tables)
    try:
        left = {one.name: one.observed for one in judging.judge(run.tables) if one.status == "confirmed"}
        for name in names:
            changed = EVERY[name](recorded) if left else None
            if changed is not None:
                refuted = {one.name for one in judging.judge(changed.tables) if one.status == "refuted"}
                left = {part: observed for part, observed in left.items() if part not in refuted}
    finally:
        judging.close()
    return left
