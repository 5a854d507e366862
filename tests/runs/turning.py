"""Finds for each claim of the catalogue a mutant that makes it false: `tests/runs/mutants.toml`.

`python -m tests.runs.turning [SCENARIO...]` tries the mutants, one after the other, on the stored runs of
these scenarios (default: all) until every claim is turned, and records which mutant turned it first. A
claim is *turned* if it is as declared in the stored run and decided otherwise under the mutant: its sentence
is refuted, or, if it has an erratum, its sentence is confirmed or neither holds. A claim that only becomes
*unknown* or *not reproduced* is not turned.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping

from checkers.claims.evaluate import ClaimResult
from tests.runs.mutants import MUTANTS, Recorded
from tests.runs.store import STORED
from tests.runs.stored import Judging, StoredRun, all_stored, read_stored

FILE = STORED / "mutants.toml"
Turned = dict[str, str]
"""Name of a mutant by the claim that it turns."""


def is_turned(claim: ClaimResult) -> bool:
    """Whether a judged claim is decided, and not as declared."""
    return not claim.as_declared and claim.status in ("refuted", "confirmed")


def judge_mutants(run: StoredRun, names: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    """Judge a stored run under mutants; returns each with the claims (no preconditions) that it turns.

    A mutant that changes nothing is left out.
    """
    judging = Judging(run.declared)
    recorded = Recorded(run.tables)
    try:
        judging.judge(run.tables)
        for name in names:
            changed = MUTANTS[name](recorded)
            if changed is not None:
                judged = judging.judge(changed.tables)
                yield name, {claim.name for claim in judged if claim.name in run.claims and is_turned(claim)}
    finally:
        judging.close()


def turned_by(run: StoredRun, names: Iterable[str] = tuple(MUTANTS)) -> Turned:
    """For each claim of a stored run the first mutant that turns it; stops once every claim is turned."""
    turned_claims: Turned = {}
    for name, turned in judge_mutants(run, names):
        turned_claims |= dict.fromkeys(turned - set(turned_claims), name)
        if len(turned_claims) == len(run.claims):
            break
    return {claim: turned_claims[claim] for claim in run.claims if claim in turned_claims}


def read_turned() -> dict[str, Turned]:
    """The file's contents, by scenario."""
    return tomllib.loads(FILE.read_text()) if FILE.exists() else {}


def write_turned(found: Mapping[str, Turned]) -> None:
    """Write the file."""
    lines = ["# Written by `python -m tests.runs.turning`: a mutant that makes the claim false, by claim."]
    for scenario in sorted(found):
        key = f'"{scenario}"' if "/" in scenario else scenario
        lines += ["", f"[{key}]", *(f'{claim} = "{name}"' for claim, name in found[scenario].items())]
    FILE.write_text("\n".join(lines) + "\n")


def renew(scenarios: Iterable[str]) -> bool:
    """Judge these scenarios anew and write the file; returns whether every claim is turned by a mutant."""
    whole = True
    for scenario in scenarios:
        run = read_stored(scenario)
        turned = turned_by(run)
        stored_turned = {name: claims for name, claims in read_turned().items() if name in all_stored()}
        write_turned({**stored_turned, scenario: turned})
        unmoved = [claim for claim in run.claims if claim not in turned]
        if unmoved:
            whole = False
            print(
                f"{scenario}: no mutant turns {', '.join(unmoved)}; write one, or mend the claim", flush=True
            )
    return whole


if __name__ == "__main__":
    sys.exit(0 if renew(sys.argv[1:] or all_stored()) else 1)
