"""The command line `acked`: its commands, its signals and its exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType
from typing import Annotated

import typer
from typer.exceptions import TyperException

from harness.cli import (
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
from harness.errors import (
    EXIT_INTERRUPTED,
    EXIT_UNFIT,
    EXIT_USAGE,
    INTERRUPTED,
    AckedError,
    StoppedError,
    UnfitError,
    UsageError,
)
from harness.extras import lacks
from harness.run.environment import note_command
from harness.run.scratch import temporary_folder
from report.terminal import show_error


def _show_version(wanted: bool) -> None:
    from harness.version import commit, version

    if wanted:
        built_from = commit()
        typer.echo(f"acked {version()}" + (f" (commit {built_from})" if built_from else ""))
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


_interrupts: list[int] = []
"""Signals that have interrupted the command. Not an Event, whose lock could deadlock in a signal handler."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _interrupts.append(number)
    logging.disable()  # py4j would log a traceback of the interruption
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line and leave with the exit code of `harness.errors`."""
    # Child processes must not look for modules in the current folder: a scenario there may have the name of
    # a package.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    note_command(sys.argv[1:])
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # unless a shell had it ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        with temporary_folder():
            status = app(standalone_mode=False, prog_name="acked")
    except AckedError as error:
        show_error(error)
        sys.exit(error.exit_code)
    except TyperException as error:
        if str(error):  # empty if the command line was empty: the help has been shown
            show_error(UsageError(error.format_message()))
        sys.exit(EXIT_USAGE)
    except ModuleNotFoundError as error:
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        sentence = lacks(error.name or "", command)
        if not sentence:
            raise
        show_error(UnfitError(sentence))
        sys.exit(EXIT_UNFIT)
    except Exception:
        if not _interrupts:
            raise
        status = EXIT_INTERRUPTED  # py4j replaces the interruption with an error of its own
    if status == EXIT_INTERRUPTED:  # Typer and processes in namespaces report nothing else
        show_error(StoppedError(INTERRUPTED))
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
