"""`acked run`: build a cluster, break it, record, judge."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.console import Progress
from harness.errors import UsageError
from harness.lab.embedded.namespaces import run_inside

LABS = ("embedded", "compose")


def run(
    name: Annotated[str, typer.Argument(help="Scenario, as `acked list` names it.")] = "",
    lab: Annotated[str, typer.Option(help="Where hosts live: embedded (no daemon) or compose.")] = "embedded",
    kafka: Annotated[str, typer.Option(help="Kafka version; the scenario's own by default.")] = "",
    mode: Annotated[str, typer.Option(help="zookeeper, kraft or kraft-combined.")] = "",
    force: Annotated[bool, typer.Option(help="Try a Kafka version that is not known.")] = False,
    rate: Annotated[
        float | None, typer.Option(help="Background messages a second in each AZ; 0 for none.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder that run folders are made in.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Run the whole catalogue.")] = False,
    pattern: Annotated[str, typer.Option("--filter", help="With --all: scenarios of this glob.")] = "",
    repeat: Annotated[int, typer.Option(help="Run it, or each of them, so often.")] = 1,
    parallel: Annotated[int, typer.Option(help="Clusters side by side; 0 for three.")] = 0,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with an interrupted series: its folder, runs/all/<time>.")
    ] = None,
) -> None:
    """Run one scenario on a real cluster and judge it; or many, several clusters side by side.

    Of many runs each leaves a line in `runs.jsonl` of the series' folder, also if the series is interrupted.
    Exit code: 0 as declared, 1 violated, 2 unknown or invalid, 3 this machine cannot, 254 usage, 255 crash.
    """
    from harness.run.catalogue import find
    from harness.run.folder import RunFolder
    from harness.run.session import prepare, run_and_judge
    from harness.series.cell import speaking

    if lab not in LABS:
        raise UsageError(f"There is no lab {lab!r}; say {' or '.join(LABS)}.")
    if everything or pattern or repeat != 1 or resume:
        if kafka or mode or rate is not None:
            raise UsageError("--kafka, --mode and --rate are for a single run; `acked matrix` varies them.")
        raise typer.Exit(_many(name, pattern, everything, repeat, parallel, lab, runs, as_json, resume))
    if not name:
        raise UsageError("Say which scenario to run (`acked list` shows them), or --all.")
    scenario = find(name)
    progress = Progress(quiet=as_json)
    options = prepare(scenario, lab=lab, kafka=kafka, mode=mode, rate=rate, force=force, say=progress.say)
    folder = RunFolder.create(runs, scenario.name)

    def work() -> int:
        return run_and_judge(speaking(scenario, options.version), options, folder, progress, as_json=as_json)

    if lab != "embedded":
        raise typer.Exit(work())
    # What runs inside is killed with its namespaces, Spark's JVM too, and cannot tidy up behind itself.
    with tempfile.TemporaryDirectory(prefix="acked-run-") as tempfile.tempdir:
        status = run_inside(work)
    raise typer.Exit(status)


def _many(
    name: str,
    pattern: str,
    everything: bool,
    repeat: int,
    parallel: int,
    lab: str,
    runs: Path,
    as_json: bool,
    resume: Path | None,
) -> int:
    """Several runs side by side; the worst verdict gives the exit code."""
    from rich.console import Console

    from checkers.verdict import VERDICTS
    from harness.run.catalogue import find
    from harness.run.session import prepare
    from harness.series import rows
    from harness.series import series as many
    from harness.series.pool import SIDE_BY_SIDE

    if name and (everything or pattern):
        raise UsageError(f"Either {name!r} or --all; --filter takes a glob for a part of the catalogue.")
    scenarios = [find(name)] if name else many.select(pattern)
    side_by_side = parallel or SIDE_BY_SIDE
    progress = Progress(quiet=as_json)
    planned = many.cells(scenarios, repeat)
    for version, mode in sorted({(one.kafka, one.mode) for one in scenarios}):
        example = next(one for one in scenarios if (one.kafka, one.mode) == (version, mode))
        prepare(example, lab=lab, say=progress.say)
    series = many.Series.begin(runs, "all", resume)
    left = rows.remaining(planned, series.rows)
    progress.say(f"{len(left)} runs, {side_by_side} side by side; a line for each in {series.file}")
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    interrupted = False
    try:
        with many.live(console, scenarios, repeat, series.rows) as done:
            many.run_series(
                left,
                series,
                parallel=side_by_side,
                lab=lab,
                runs=runs,
                say=(lambda text: None) if console.is_terminal else progress.say,
                done=done,
            )
    except KeyboardInterrupt:
        interrupted = True
    facts = {
        "parallel": side_by_side,
        "repeat": repeat,
        "interrupted": interrupted,
        "seconds": round(time.monotonic() - progress.started, 1),
    }
    ended = series.rows
    if ended:
        many.keep(ended, series.folder, facts)
    series.close()
    if as_json:
        typer.echo(many.as_json(ended))
    else:
        if not console.is_terminal:
            console.print(many.table(scenarios, ended, repeat))
        for row in ended:
            if row.verdict != "as declared":
                console.print(f"{row.scenario}: {'; '.join(row.reasons)}", markup=False)
        if ended:
            progress.say(f"{len(ended)} runs: {rows.worst(ended)}; kept in {series.folder}")
    if interrupted:
        raise series.stopped(len(ended), len(planned))
    return VERDICTS[rows.worst(ended)]
