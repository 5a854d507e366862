"""`acked bisect`: the first Kafka version in which a claim turns out differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.options import PlaceOptions, ScenarioName
from cli.pages import INDEX, add_page, page_links
from harness.console import Console, Progress, echo
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, InvalidRunError
from run.catalogue import find
from studies.series.bisect import ClaimChange, bisect_document, candidates, search, status_in
from studies.series.fleet import SCENARIOS, Fleet
from studies.series.folder import SeriesFolder
from studies.series.job import Job, Place
from studies.series.plan import parse_versions
from studies.series.planned import alone
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

    The claim itself is judged, not its erratum. The folder runs/bisect/<time>
    keeps the runs as lines, the answer (bisect.json), and a page.

    Exit code: 0 found, 2 no change between the oldest and the newest version.
    """
    from harness.artifacts import resolve_all
    from report.bisect import show_bisect
    from report.model.shapes import BISECT
    from report.page.bisect import bisect_page
    from run.claims import require_sql
    from run.session import prepare, require_lab

    scenario = find(name)
    wanted_mode = scenario.mode if mode is None else mode
    asked = () if versions is None else parse_versions(versions)
    candidate_versions = candidates(scenario, claim, asked, wanted_mode)
    labels = [version.label for version in candidate_versions]
    progress = Progress(quiet=as_json)
    require_lab(place.lab)
    resolve_all(candidate_versions, say=progress.say)
    for version in labels:
        prepare(scenario, lab=place.lab, kafka=version, mode=wanted_mode, say=progress.say)
    require_sql([scenario], say=progress.say)
    series = SeriesFolder.create(place.runs, "bisect")

    def keep(change: ClaimChange | None = None, problem: str = "") -> dict[str, Any]:
        document = bisect_document(scenario, wanted_mode, claim, labels, series.runs, change, problem)
        series.keep(BISECT, json.dumps(document, indent=2))
        series.keep(INDEX, bisect_page(document, page_links(series.path / INDEX)))
        return document

    def state() -> list[str]:
        return [f"{len(series.runs)} of {len(labels)} versions were tried"]

    with (
        alone(series.path),
        progress.phase("runs", "searching", state),
        Fleet(SCENARIOS, Place(lab=place.lab), place.runs, parallel=1) as fleet,
    ):

        def run(version: str) -> RunSummary:
            progress.say(f"running {scenario.name} on {version} {wanted_mode}")
            job = Job(scenario=scenario.name, version=version, mode=wanted_mode, file=scenario.file)
            summary = fleet.run(job).summary
            series.add(summary)
            add_page(Path(summary.folder), progress.say)
            status = status_in(summary, claim)
            progress.say(f"{version}: {claim} is {status} ({summary.observed.get(claim, '')})")
            keep()
            return summary

        try:
            keep()
            document = keep(search(claim, labels, run))
        except InvalidRunError as error:
            keep(problem=error.message)
            raise
        except KeyboardInterrupt:
            keep(problem="The search was interrupted before it had an answer.")
            raise
    if as_json:
        echo(json.dumps(document, indent=2))
    else:
        show_bisect(document, Console(highlight=False))
        progress.say(f"kept in {series.path}")
    raise typer.Exit(EXIT_AS_DECLARED if document["first"] else EXIT_UNKNOWN)
