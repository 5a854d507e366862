"""The commands of the command line `acked`, in the groups in which `acked --help` shows them.

A command's module is imported when the command is carried out, because all of them together take longer to
import than most commands to run.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from cli.bundles import spread
from harness.console import echo
from harness.errors import EXIT_AS_DECLARED
from run.environment import note_command
from run.scratch import temporary_folder


@dataclass(frozen=True)
class CommandSource:
    """Where a command is, and what the list of commands says about it."""

    place: str
    """Module and function; of a group of commands, module and Typer application."""
    summary: str
    """The first sentence of its help."""


GROUPS: Mapping[str, Mapping[str, CommandSource]] = {
    "Run scenarios": {
        "list": CommandSource(
            "cli.catalogue:list_scenarios",
            "List the scenarios by question: name, Kafka version, and what is found.",
        ),
        "new": CommandSource(
            "cli.catalogue:new", "Write a first scenario of your own: a short file that runs as it is."
        ),
        "run": CommandSource(
            "cli.running:run", "Run one scenario on a real cluster and judge it, or many side by side."
        ),
        "matrix": CommandSource(
            "cli.matrix:matrix", "Run scenarios on several Kafka versions and compare the results."
        ),
        "bisect": CommandSource(
            "cli.bisect:bisect", "Find the first Kafka version in which a claim changes (binary search)."
        ),
    },
    "Ask what faults cost, and search": {
        "assess": CommandSource("cli.assess:assess", "Find out what each fault would cost a cluster."),
        "soak": CommandSource(
            "cli.soak:soak", "Load a cluster for hours, break it again and again, and judge meanwhile."
        ),
        "search": CommandSource(
            "cli.search:search", "Search for broken promises with random schedules of faults."
        ),
        "replay": CommandSource(
            "cli.replay:replay", "Repeat a schedule: how often does its finding come back?"
        ),
        "shrink": CommandSource(
            "cli.replay:shrink", "Find the smallest schedule that still shows a finding."
        ),
    },
    "Record a cluster of yours": {
        "record": CommandSource(
            "cli.record:record",
            "Record a cluster that acked did not start, while somebody breaks it, and judge it.",
        ),
        "mark": CommandSource("cli.record:mark", "Note what people do in the recording that is under way."),
    },
    "Break a cluster of yours": {
        "attach": CommandSource("cli.attach:app", "Hosts that acked did not set up."),
        "heal": CommandSource(
            "cli.attach:heal",
            "Remove whatever acked has left in these hosts, and prove that nothing is left.",
        ),
    },
    "Look at stored runs": {
        "runs": CommandSource("cli.runs:app", "List, open, compare or remove stored runs."),
        "serve": CommandSource(
            "cli.serve:serve",
            "Browse stored runs, and watch those under way: the list, all pages, comparisons, downloads.",
        ),
        "report": CommandSource(
            "cli.report:report",
            "Write the page of a judged run: what happened, who believed what, the logs, the claims, the "
            "findings.",
        ),
        "story": CommandSource(
            "cli.story:story",
            "Tell what happened to one message: who acknowledged it, where it appeared and vanished, "
            "and why.",
        ),
        "compare": CommandSource(
            "cli.compare:compare",
            "Compare two judged runs, or two assessments, as before and after a change of settings.",
        ),
        "summary": CommandSource(
            "cli.summary:summary", "Summarize series that ran elsewhere, such as the shards of a night."
        ),
    },
    "Judge and analyse histories": {
        "check": CommandSource(
            "cli.judging:check",
            "Judge one or many stored runs by Spark alone. The worst verdict gives the exit code.",
        ),
        "sql": CommandSource(
            "cli.sql:sql", "Query stored runs: all tables of all runs, told apart by the column `run`."
        ),
        "import": CommandSource(
            "cli.importing:import_",
            "Turn a recording of another program into a history, for `acked check --import`.",
        ),
        "export": CommandSource(
            "cli.export:export",
            "Write a stored history in the form of Jepsen's Kafka workload, as described in "
            "docs/analysis.md.",
        ),
    },
    "Set up": {
        "doctor": CommandSource(
            "cli.doctor:doctor", "Check what runs need on this machine, and say how to get it."
        ),
        "versions": CommandSource(
            "cli.versions:versions", "Show the Kafka versions that were tried, and how they differ."
        ),
        "client": CommandSource("cli.client:app", "Clients of your own."),
        "cluster": CommandSource("cli.cluster:app", "Write a cluster file from what describes a cluster."),
        "compose": CommandSource(
            "cli.compose:compose",
            "Print the Compose file with which the compose lab brings up a cluster file's hosts.",
        ),
        "clean": CommandSource("cli.clean:clean", "Remove what killed commands left behind."),
    },
}
COMMANDS: Mapping[str, CommandSource] = {
    name: source for commands in GROUPS.values() for name, source in commands.items()
}
"""All commands by name."""


@cache
def loaded(name: str) -> Any:
    """The command of this name, its module imported: a command of Typer."""
    module, _, attribute = COMMANDS[name].place.partition(":")
    declared = getattr(importlib.import_module(module), attribute)
    if not isinstance(declared, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(spread(declared))
        declared = alone
    command = get_command(declared)
    command.name = name
    return command


class _Commands(TyperGroup):
    """Knows of each command what help and suggestions say of it, and imports the one that is asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=source.summary, rich_help_panel=group)
            for group, commands in GROUPS.items()
            for name, source in commands.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None else loaded(str(command.name)), rest


def _show_version(requested: bool) -> None:
    from harness.version import commit, version

    if requested:
        built_from = commit()
        echo(f"acked {version()}" + (f" (commit {built_from})" if built_from else ""))
        raise typer.Exit


app = typer.Typer(
    name="acked",
    cls=_Commands,
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
