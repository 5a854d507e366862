"""`acked run`: build a cluster, break it, record, judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.console import Progress
from harness.errors import UsageError
from harness.lab.namespaces import run_inside

LABS = ("embedded", "compose")


def run(
    name: Annotated[str, typer.Argument(help="Scenario, as `acked list` names it.")],
    lab: Annotated[str, typer.Option(help="Where hosts live: embedded (no daemon) or compose.")] = "embedded",
    kafka: Annotated[str, typer.Option(help="Kafka version; the scenario's own by default.")] = "",
    mode: Annotated[str, typer.Option(help="zookeeper, kraft or kraft-combined.")] = "",
    force: Annotated[bool, typer.Option(help="Try a Kafka version that is not known.")] = False,
    rate: Annotated[
        float | None, typer.Option(help="Background messages a second in each AZ; 0 for none.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder that run folders are made in.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
) -> None:
    """Run one scenario on a real cluster and judge it.

    Exit code: 0 as declared, 1 violated, 2 unknown or invalid, 3 this machine cannot, 254 usage, 255 crash.
    """
    from harness.run.catalogue import find
    from harness.run.folder import RunFolder
    from harness.run.session import prepare, run_and_judge

    scenario = find(name)
    if lab not in LABS:
        raise UsageError(f"There is no lab {lab!r}; say {' or '.join(LABS)}.")
    progress = Progress(quiet=as_json)
    options = prepare(scenario, lab=lab, kafka=kafka, mode=mode, rate=rate, force=force, say=progress.say)
    folder = RunFolder.create(runs, scenario.name)

    def work() -> int:
        return run_and_judge(scenario, options, folder, progress, as_json=as_json)

    raise typer.Exit(run_inside(work) if lab == "embedded" else work())
