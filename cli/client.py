"""`acked client check`: whether a program speaks the client protocol and tells the truth."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import LAB, RUNS, LabOption, Runs
from harness.console import Progress, echo, tell
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, EXIT_VIOLATED
from harness.lab.registry import lab_kind

if TYPE_CHECKING:
    from harness.errors import AckedError
    from run.conformance import Objection, ProgramCheck

app = typer.Typer(help="Clients of your own.", no_args_is_help=True, add_completion=False)


@app.callback()
def _clients() -> None:
    """Clients of your own (docs/client-protocol.md)."""


@app.command()
def check(
    client: Annotated[
        str,
        typer.Argument(help="java, or a program that speaks the client protocol, with its arguments."),
    ],
    client_version: Annotated[str, typer.Option(help="Version of the Java client.")] = "",
    lab: LabOption = LAB,
    runs: Runs = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check that a client program tells the truth about what it sent and read.

    Starts three brokers, has the program send and read with and without a
    fault, and compares its reports with the brokers' logs. The program is
    wrong if it acknowledges a message that is in no log, reports a message as
    definitely failed that is in a log, reports a wrong offset, or never
    reports the outcome of a message.

    Exit code: 0 nothing is wrong, 1 the program is wrong, 2 the program
    stopped early or the run is invalid, 3 this machine lacks something,
    254 usage error, or the program does not send the protocol's greeting.
    """
    from report import terminal
    from run.client_choice import greet, parse_client, program
    from run.conformance import KAFKA, MODE, ProgramCheck, examine
    from run.folder import RunFolder
    from run.runner import run_scenario
    from run.session import prepare

    choice = parse_client(client, client_version)
    progress = Progress(quiet=as_json)
    started = ProgramCheck()
    options = prepare(started.scenario(), lab=lab, kafka=KAFKA, mode=MODE, client=choice, say=progress.say)
    client_program = program(choice, options.version)
    if client_program is not None:
        hello = greet(client_program)
        started.features, started.lacks = hello.features, hello.lacks
    folder = RunFolder.create(runs, started.scenario().name)

    def work() -> int:
        result = run_scenario(started.scenario(), options, folder, progress)
        objections = examine(folder.path, started)
        if as_json:
            echo(json.dumps(_as_json(started, objections, result.problem), indent=2))
        else:
            _show(started, objections)
            if result.problem is not None:
                terminal.show_error(result.problem)
            progress.say(f"run folder: {folder.path}")
        if objections:
            return EXIT_VIOLATED
        return EXIT_AS_DECLARED if result.problem is None else EXIT_UNKNOWN

    raise typer.Exit(lab_kind(lab).enter(work))


def _show(check: ProgramCheck, objections: list[Objection]) -> None:
    from run.conformance import SENTENCES

    for name, sentence in SENTENCES.items():
        wrong = [objection.sentence for objection in objections if objection.operation == name]
        missing = "-" if name in check.skipped else "?"
        sign = "✗" if wrong else "✓" if name in check.done else missing
        tell(sentence, lead=f" {sign} {name:<13} ")
        for text in wrong:
            tell(text, lead="     ")
        if sign == "-":
            tell("the program does not have this feature", lead="     ")
    count = len(objections)
    echo("Nothing is wrong." if not count else f"{count} problem{'s' * (count > 1)}.")


def _as_json(
    check: ProgramCheck, objections: list[Objection], problem: AckedError | None
) -> dict[str, object]:
    return {
        "operations": check.done,
        "skipped": check.skipped,
        "objections": [asdict(objection) for objection in objections],
        "problem": None if problem is None else problem.message,
    }
