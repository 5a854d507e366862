"""A folder of a search names a client program only as data, until the user trusts it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import cli.replay
from cli.commands import app
from harness.errors import UsageError
from run.client_choice import require_trusted
from studies.search.repeat import Origin

PROGRAM = "sh -c 'touch x'"


def test_only_a_program_needs_trust() -> None:
    for choice in ("", "librdkafka", "java"):
        require_trusted(choice, "runs/x", trust=False)
    require_trusted(PROGRAM, "runs/x", trust=True)
    with pytest.raises(UsageError, match="runs/x names a client program, .*--trust"):
        require_trusted(PROGRAM, "runs/x", trust=False)


class _WentOnError(Exception):
    """The command went on to describe the cluster."""


@pytest.mark.parametrize("command", ["replay", "shrink"])
@pytest.mark.parametrize("trust", [False, True])
def test_a_program_of_a_folder_is_started_only_with_trust(
    command: str, trust: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SimpleNamespace(folder=tmp_path, finding="lost", schedule=None)
    origin = Origin(kafka="2.7.1", mode="zookeeper", client=PROGRAM)

    def describe(*_: Any, **__: Any) -> None:
        raise _WentOnError

    monkeypatch.setattr("studies.search.repeat.source_of", lambda *_: source)
    monkeypatch.setattr("studies.search.repeat.origin_of", lambda _: origin)
    monkeypatch.setattr("studies.assess.series.describe", describe)
    monkeypatch.setattr(cli.replay, "check_place", describe)
    done = CliRunner().invoke(app, [command, str(tmp_path), *(["--trust"] if trust else [])])
    assert isinstance(done.exception, _WentOnError if trust else UsageError), done.exception
