"""The command line: `acked list | run | check | doctor | ...`; each command is a thin call into the rooms."""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType

import typer
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
from harness.errors import EXIT_INTERRUPTED, EXIT_USAGE, AckedError, StoppedError, UsageError
from report.terminal import show_error

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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    logging.disable()  # the library that talks to Spark's JVM would show where it was interrupted
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line and leave with the exit code of `harness.errors`."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell had it ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        status = app(standalone_mode=False)
    except AckedError as error:
        show_error(error)
        sys.exit(error.exit_code)
    except TyperException as error:
        if str(error):  # empty where the command line was: then the help has been shown
            show_error(UsageError(error.format_message()))
        sys.exit(EXIT_USAGE)
    if status == EXIT_INTERRUPTED:  # which is all that Typer, or a process in namespaces, reports
        show_error(StoppedError("interrupted; everything that was started has been ended."))
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
