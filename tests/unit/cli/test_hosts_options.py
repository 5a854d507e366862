"""Commands about hosts that acked did not set up, without such hosts: what is refused, and how."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import typer.main

from cli import commands
from cli.main import main
from harness.errors import EXIT_UNFIT, EXIT_USAGE

BUILT = typer.main.get_command(commands.app)
FILE = """[kafka]
bootstrap = "127.0.0.1:1"
[[host]]
ssh = "kafka1"
address = "198.18.0.11"
az = "a"
id = 1
ports = { kafka = [9092] }
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "leader-az-isolated", "--plan"], "go with --hosts"),
        (["run", "leader-az-isolated", "--yes"], "go with --hosts"),
        (["run", "leader-az-isolated", "--cluster-id", "c"], "go with --hosts"),
        (["run", "--hosts", "FILE"], "name one scenario"),
        (["run", "--all", "--hosts", "FILE"], "name one scenario"),
        (["run", "leader-az-isolated", "--repeat", "2", "--hosts", "FILE"], "name one scenario"),
        (["run", "leader-az-isolated", "--kafka", "3.9.1", "--hosts", "FILE"], "the cluster runs already"),
        (
            ["run", "leader-az-isolated", "--set", "broker.num.io.threads=4", "--hosts", "FILE"],
            "the cluster runs already",
        ),
        (["run", "leader-az-isolated", "--client", "java", "--hosts", "FILE"], "the cluster runs already"),
        (["run", "leader-az-isolated", "--lab", "compose", "--hosts", "FILE"], "the cluster runs already"),
        (["run", "power-cut", "--hosts", "FILE"], "with --hosts, use leader-az-isolated"),
        (["run", "leader-az-isolated", "--hosts", "FILE", "--yes"], "also give --cluster-id"),
        (["run", "leader-az-isolated", "--hosts", "FILE"], "no broker answers"),
        (["run", "leader-az-isolated", "--hosts", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["attach", "check", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["attach", "check"], "Name a hosts file or a Compose project"),
        (["heal", "FILE", "--compose-project", "shop"], "and only one of them"),
        (["run", "power-cut", "--compose-project", "shop"], "with --hosts, use leader-az-isolated"),
        (["run", "leader-az-isolated", "--compose-project", "shop", "--yes"], "also give --cluster-id"),
        (["run", "leader-az-isolated", "--compose-project", "shop", "--kafka", "3.9.1"], "runs already"),
        (["assess", "--compose-project", "shop"], "that names the project as [compose]"),
        (["heal", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_begins(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
) -> None:
    """In one sentence, with the exit code of usage errors."""
    file = tmp_path / "hosts.toml"
    file.write_text(FILE)
    monkeypatch.setattr(typer.main, "get_command", lambda _: BUILT)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["acked", *(str(file) if word == "FILE" else word for word in words)])
    with pytest.raises(SystemExit) as end:
        main()
    err = capsys.readouterr().err
    assert end.value.code == EXIT_USAGE and said in " ".join(err.split()), err
    assert len(" ".join(err.split())) < 400


def test_without_an_engine_no_compose_project_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says how to reach one."""
    monkeypatch.setattr(typer.main, "get_command", lambda _: BUILT)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(sys, "argv", ["acked", "heal", "--compose-project", "shop"])
    with pytest.raises(SystemExit) as end:
        main()
    err = capsys.readouterr().err
    assert end.value.code == EXIT_UNFIT and "or set DOCKER_HOST" in err, err
