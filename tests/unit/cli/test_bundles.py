"""Dataclasses of options as parameters of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from cli.bundles import spread
from cli.commands import COMMANDS, loaded
from cli.options import SeriesOptions


@dataclass(frozen=True, kw_only=True)
class Colours:
    ink: Annotated[str, typer.Option(help="Of the text.")] = "black"
    wash: Annotated[bool, typer.Option("--wash", help="Colour the paper.")] = False


@dataclass(frozen=True, kw_only=True)
class Clash:
    title: str = ""


def draw(title: str, *, colours: Colours, copies: int = 1) -> None:
    """Draw."""
    typer.echo(f"{title} {colours} {copies}")


def called(*words: str) -> str:
    app = typer.Typer(add_completion=False)
    app.command()(spread(draw))
    return CliRunner().invoke(app, words, catch_exceptions=False).output


def test_a_command_gets_its_options_as_objects() -> None:
    assert called("map") == "map Colours(ink='black', wash=False) 1\n"
    assert called("map", "--ink", "red", "--copies", "2", "--wash") == "map Colours(ink='red', wash=True) 2\n"


def test_the_help_shows_each_option_in_its_place() -> None:
    shown = called("--help")
    assert "Draw." in shown
    assert shown.index("--ink") < shown.index("--wash") < shown.index("--copies")
    assert "[default: black]" in shown


def test_an_option_of_two_objects_is_a_mistake() -> None:
    def command(title: str, *, clash: Clash) -> None: ...

    with pytest.raises(AssertionError, match="two options title"):
        spread(command)


def test_no_option_of_a_series_is_given_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are None and not empty, so that a run without options is a single one."""
    given: list[SeriesOptions] = []

    def many(*, options: SeriesOptions) -> None:
        given.append(options)

    app = typer.Typer(add_completion=False)
    app.command()(spread(many))
    CliRunner().invoke(app, ["--parallel", "2"], catch_exceptions=False)
    CliRunner().invoke(app, ["--earlier", "a"], catch_exceptions=False)
    assert [options.given for options in given] == [False, True]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_two_options_of_one_name(name: str) -> None:
    names = [flag for parameter in loaded(name).params for flag in parameter.opts]
    assert len(names) == len(set(names))
