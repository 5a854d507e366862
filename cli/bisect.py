"""`acked bisect`: the first Kafka version in which a claim turns out differently."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from cli.options import PlaceOptions, ScenarioName
from harness.console import Progress, echo, tell
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN
from run.catalogue import find
from studies.series.bisect import candidates, search
from studies.series.fleet import SCENARIOS, Fleet
from studies.series.job import Job, Place
from studies.series.plan import parse_versions
from studies.series.summary import RunSummary


def bisect(
    name: ScenarioName,
    claim: Annotated[str, typer.Option(help="Name of a claim, as `acked list --json` shows it.")],
    versions: Annotated[
        str | None, typer.Option(help="Kafka versions, comma-separated. Default: the scenario's own.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the scenario's own.")
    ] = None,
    *,
    place: PlaceOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the first Kafka version in which a claim changes (binary search).

    The claim itself is judged, not its erratum.

    Exit code: 0 found, 2 no change between the oldest and the newest version.
    """
    from harness.artifacts import resolve_all
    from run.claims import require_sql
    from run.session import prepare, require_lab

    scenario = find(name)
    wanted_mode = scenario.mode if mode is None else mode
    asked = () if versions is None else parse_versions(versions)
    candidate_versions = candidates(scenario, claim, asked, wanted_mode)
    progress = Progress(quiet=as_json)
    require_lab(place.lab)
    resolve_all(candidate_versions, say=progress.say)
    for version in candidate_versions:
        prepare(scenario, lab=place.lab, kafka=version.label, mode=wanted_mode, say=progress.say)
    require_sql([scenario], say=progress.say)

    with Fleet(SCENARIOS, Place(lab=place.lab), place.runs, parallel=1) as fleet:

        def run(version: str) -> RunSummary:
            progress.say(f"running {scenario.name} on {version} {wanted_mode}")
            job = Job(scenario=scenario.name, version=version, mode=wanted_mode, file=scenario.file)
            summary = fleet.run(job).summary
            status = summary.claims.get(claim, "missing")
            progress.say(f"{version}: {claim} is {status} ({summary.observed.get(claim, '')})")
            return summary

        answer = search(claim, [version.label for version in candidate_versions], run)
    if as_json:
        echo(json.dumps(asdict(answer), indent=2))
    else:
        tell(answer.sentence())
    raise typer.Exit(EXIT_AS_DECLARED if answer.first else EXIT_UNKNOWN)
