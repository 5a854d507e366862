"""The list of commands says of each what its own help says, and imports none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.commands import COMMANDS, loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_help_of_a_command_begins_with(name: str) -> None:
    help_text = " ".join((loaded(name).help or "").split("\n\n")[0].split())
    assert help_text == COMMANDS[name].summary


def test_help_imports_no_command() -> None:
    modules = {source.place.partition(":")[0] for source in COMMANDS.values()}
    code = f"""
import sys
from typer.testing import CliRunner
from cli.commands import app
assert "Judge and analyse histories" in CliRunner().invoke(app, ["--help"]).output
print(*({modules!r} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
