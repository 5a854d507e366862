"""The command line: `acked list | run | check | doctor | ...`; each command is a thin call into the rooms."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import TyperException

from harness.cli import (
    bisect,
    catalogue,
    clean,
    doctor,
    export,
    judging,
    matrix,
    running,
    sql,
    story,
    versions,
)
from harness.errors import EXIT_INTERRUPTED, EXIT_USAGE, AckedError

app = typer.Typer(
    name="acked",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Did Kafka keep what it acknowledged?

    acked builds a real three-AZ Kafka cluster, breaks it on purpose, records what every client was told and
    what every replica ended up holding, and lets Spark say what became of each write and why.

    Start with `acked doctor`, then `acked list`, then `acked run leader-az-isolated`.
    """,
)
app.command("list")(catalogue.list_scenarios)
app.command("run")(running.run)
app.command("check")(judging.check)
app.command("doctor")(doctor.doctor)
app.command("versions")(versions.versions)
app.command("matrix")(matrix.matrix)
app.command("bisect")(bisect.bisect)
app.command("clean")(clean.clean)
app.command("story")(story.story)
app.command("sql")(sql.sql)
app.command("export")(export.export)


def report_error(error: AckedError, console: Console | None = None) -> None:
    """Print an error as one sentence, with its detail below."""
    console = console or Console(stderr=True, highlight=False)
    console.print(f"[bold red]acked:[/] {escape(error.message)}", soft_wrap=True)
    if error.detail:
        console.print(escape(error.detail), style="dim", soft_wrap=True)


def main() -> None:
    """Run the command line and leave with the exit code of `harness.errors`."""
    try:
        status = app(standalone_mode=False)
    except AckedError as error:
        report_error(error)
        sys.exit(error.exit_code)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        Console(stderr=True).print("acked: interrupted; everything that was started has been ended.")
        sys.exit(EXIT_INTERRUPTED)
    except TyperException as error:
        Console(stderr=True, highlight=False).print(f"[bold red]acked:[/] {escape(str(error))}")
        sys.exit(EXIT_USAGE)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
