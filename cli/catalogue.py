"""`acked list` shows the scenarios; `acked new` writes a first scenario of your own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.console import Console, echo, tell
from harness.errors import UsageError, quoted
from report.console import NONE, Column, RowTable
from scenarios.questions import OWN, QUESTIONS, question_of

if TYPE_CHECKING:
    from run.scenario import Scenario

_METADATA = {"zookeeper": "ZK", "kraft": "KRaft", "kraft-combined": "KRaft", "migration": "to KRaft"}
_TEMPLATE = Path(__file__).with_name("new_scenario.py.txt")


def list_scenarios(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Scenarios, globs or scenario files, or words to look for. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scenarios as a JSON array.")] = False,
    long: Annotated[
        bool, typer.Option("--long", help="Also show article, faults and expected outcome.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--claims", help="Also show the claims of each scenario.")] = False,
) -> None:
    """List the scenarios by question: name, Kafka version, and what is found.

    acked list                    all of them
    acked list power              those that speak of power
    acked list 'kraft-*' --long   with article, faults and expected outcome

    Through a pipe, each scenario is one line, with tabs between the columns.
    """
    selected = _selected(words or [])
    if as_json:
        rows = [
            {
                "name": scenario.name,
                "title": scenario.title,
                "faults": list(scenario.faults),
                "kafka": scenario.kafka,
                "mode": scenario.mode,
                "modes": list(scenario.supported_modes),
                "outcome": scenario.outcome,
                **scenario.declared(),
            }
            for scenario in selected
        ]
        echo(json.dumps(rows, indent=2))
    elif not Console().is_terminal and not verbose:
        for scenario in selected:
            echo("\t".join(_fields(scenario, long=long)))
    elif long or verbose:
        _show_long(selected, claims=verbose)
    else:
        _show_by_question(selected)


def _selected(words: Sequence[str]) -> list[Scenario]:
    """Scenarios by name, glob and file; else those in which every word occurs. Raises UsageError."""
    from run.catalogue import known_scenarios, select

    catalogue = list(known_scenarios().values())
    names = {scenario.name for scenario in catalogue}
    by_name = [word for word in words if word in names or "*" in word or "/" in word or word.endswith(".py")]
    searched = [word.lower() for word in words if word not in by_name]
    selected = select(by_name) if by_name else catalogue
    matching = [scenario for scenario in selected if all(word in _text_of(scenario) for word in searched)]
    if not matching:
        raise UsageError(
            f"No scenario speaks of {quoted(' '.join(searched))}; `acked list` shows them all, and "
            f"names, globs, files and words choose among them."
        )
    return matching


def _text_of(scenario: Scenario) -> str:
    """Everything in which a word is looked for, in lower case."""
    return " ".join(
        (
            *(scenario.name, scenario.title, question_of(scenario.name), scenario.outcome),
            *(f"article {scenario.article}", scenario.kafka, scenario.mode, *scenario.faults),
            *(expected.finding for expected in scenario.expected),
        )
    ).lower()


def _fields(scenario: Scenario, *, long: bool) -> list[str]:
    short = [scenario.name, _kafka(scenario), ", ".join(_findings(scenario)) or NONE]
    details = [_article(scenario), ", ".join(scenario.faults), scenario.outcome] if long else []
    return [*short, question_of(scenario.name), *details]


def _kafka(scenario: Scenario) -> str:
    """Version and where the metadata is: `2.7.1 ZK`, `4.3.1 KRaft`, `3.9.1 to KRaft`."""
    return f"{scenario.kafka} {_METADATA[scenario.mode]}"


def _article(scenario: Scenario) -> str:
    return f"{scenario.article} §{scenario.section}" if scenario.section else scenario.article


def _findings(scenario: Scenario) -> list[str]:
    """The classes of the findings that are expected, each once."""
    return list(dict.fromkeys(expected.finding for expected in scenario.expected))


def _show_by_question(selected: Sequence[Scenario]) -> None:
    console = Console(highlight=False)
    names = max(len(scenario.name) for scenario in selected)
    versions = max(len(_kafka(scenario)) for scenario in selected)
    room = min(console.width, 120) - names - versions - 6
    for question in (*QUESTIONS, OWN):
        of_question = [scenario for scenario in selected if question_of(scenario.name) == question]
        if of_question:
            console.print(f"[bold]{question}[/bold]")
            for scenario in of_question:
                findings = _as_many_as_fit(_findings(scenario), room)
                console.print(
                    f"  {scenario.name:<{names}}  {_kafka(scenario):<{versions}}  {findings}", highlight=False
                )
    count = "1 scenario" if len(selected) == 1 else f"{len(selected)} scenarios, each"
    console.paragraph(f"{count} with what it is expected to find (docs/findings.md)")


def _as_many_as_fit(findings: Sequence[str], room: int) -> str:
    """The findings that fit into ``room`` characters, and how many more there are."""
    for count in range(len(findings), 0, -1):
        more = f" +{len(findings) - count}" if count < len(findings) else ""
        text = ", ".join(findings[:count]) + more
        if len(text) <= room or count == 1:
            return text
    return NONE


def _show_long(selected: Sequence[Scenario], *, claims: bool) -> None:
    console = Console(highlight=False)
    headings = ("scenario", "Kafka", "article", "faults", "expected outcome")
    columns = [Column(heading=heading, prose=heading in headings[-2:]) for heading in headings]
    rows = [
        (
            scenario.name,
            _kafka(scenario),
            _article(scenario),
            ", ".join(scenario.faults) or NONE,
            scenario.outcome,
        )
        for scenario in selected
    ]
    if not claims:
        RowTable(columns=columns, rows=rows).show(console)
        return
    for scenario, row in zip(selected, rows, strict=True):
        name, *details, outcome = row
        console.paragraph(f"[bold]{escape(name)}[/]  {escape(', '.join(details))}")
        console.paragraph(escape(outcome), lead="  ")
        for claim in scenario.claims:
            section = f" [dim]({escape(claim.section)})[/]" if claim.section else ""
            console.paragraph(f"{escape(claim.says)}{section}", lead="  • ")


def new(
    name: Annotated[
        str, typer.Argument(help="Name of the scenario: lower-case words with hyphens, such as my-case.")
    ],
) -> None:
    """Write a first scenario of your own: a short file that runs as it is.

    The file is written into the current folder: `acked new my-case` writes
    `my_case.py`, and `acked run ./my_case.py` runs it.
    """
    from run.declaration import NAME

    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a scenario; use lower-case words with hyphens, such as my-case."
        )
    from run.catalogue import known_scenarios

    if name in known_scenarios():
        raise UsageError(f"There is a scenario {name!r} already; choose another name.")
    file = Path(f"{name.replace('-', '_')}.py")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(_TEMPLATE.read_text(encoding="utf-8").replace("NAME", name))
    except FileExistsError:
        raise UsageError(f"{file} exists already; choose another name.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}); change to another folder.") from None
    tell(f"{file} is written; run it with: acked run ./{file}")
