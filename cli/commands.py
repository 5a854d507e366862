"""The commands of the command line `acked`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli import (
    assess,
    bisect,
    catalogue,
    clean,
    client,
    compare,
    compose,
    doctor,
    export,
    judging,
    matrix,
    replay,
    report,
    running,
    runs,
    search,
    sql,
    story,
    summary,
    versions,
)
from harness.console import echo
from harness.errors import EXIT_AS_DECLARED
from run.environment import note_command
from run.scratch import temporary_folder


def _show_version(wanted: bool) -> None:
    from harness.version import commit, version

    if wanted:
        built_from = commit()
        echo(f"acked {version()}" + (f" (commit {built_from})" if built_from else ""))
        raise typer.Exit


app = typer.Typer(
    name="acked",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="""Did Kafka keep what it acknowledged?

    acked starts a real three-AZ Kafka cluster, injects faults, records which
    writes were acknowledged and what each replica holds at the end, and
    reports with Spark what became of every message and why.

    Start with `acked doctor`, then `acked list`, then
    `acked run leader-az-isolated`.
    """,
)
app.command("list")(catalogue.list_scenarios)
app.command("new")(catalogue.new)
app.command("run")(running.run)
app.command("assess")(assess.assess)
app.command("search")(search.search)
app.command("replay")(replay.replay)
app.command("shrink")(replay.shrink)
app.command("check")(judging.check)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.add_typer(runs.app, name="runs")
app.add_typer(client.app, name="client")
app.command("doctor")(doctor.doctor)
app.command("versions")(versions.versions)
app.command("matrix")(matrix.matrix)
app.command("bisect")(bisect.bisect)
app.command("summary")(summary.summary)
app.command("clean")(clean.clean)
app.command("story")(story.story)
app.command("sql")(sql.sql)
app.command("export")(export.export)
app.command("compose")(compose.compose)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print version and commit."),
    ] = False,
) -> None:
    pass


def carry_out() -> int:
    """Carry out the command of `sys.argv`; returns its exit code. Raises whatever ends the command early."""
    note_command(sys.argv[1:])
    with temporary_folder():
        status = app(standalone_mode=False, prog_name="acked")
    return status if isinstance(status, int) else EXIT_AS_DECLARED
