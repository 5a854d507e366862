"""An installation has what it needs: each import is brought by the base or an extra, and each is pinned."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli import commands
from cli.main import main
from harness.extras import EXTRAS, OF_STORED_RUNS, PREPARED, install, lacks
from tests.runs.judged import judged_run
from tests.unit.test_floors import PACKAGES, imports

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULE_OF = {
    **{"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "pyyaml": "yaml"},
    "hdrhistogram": "hdrh",
}
"""Where a distribution is not named like its module."""


INSTALLERS = ("uv",)
"""Used by `harness/setup.sh` alone."""


def _names(requirements: list[str]) -> list[str]:
    return [re.split(r"[^\w.-]", line)[0].lower() for line in requirements if not line.startswith("acked[")]


def test_extras_bring_what_they_say() -> None:
    for extra, modules in EXTRAS.items():
        wanted = _names(PROJECT["optional-dependencies"][extra])
        assert sorted(MODULE_OF.get(name, name) for name in wanted) == sorted(modules)


def test_every_import_is_brought_by_the_base_or_an_extra() -> None:
    """`py4j` comes with PySpark, and `markupsafe` with Jinja."""
    base = _names(PROJECT["dependencies"])
    own = {*PACKAGES, "benchmarks", "tests"}
    known = {*base, *EXTRAS["check"], *EXTRAS["lab"], "py4j", "markupsafe", *sys.stdlib_module_names, *own}
    found = {
        name.partition(".")[0]
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in imports(path.read_text())
    }
    assert found - known == set()


def test_the_command_line_begins_with_the_base_alone() -> None:
    """`acked --version`, `acked list` and the sentence about a missing extra need none of the extras."""
    names = sorted({*EXTRAS["check"], *EXTRAS["lab"]})
    code = f"import sys, cli.commands; print(*(name for name in {names} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_package_has_a_tested_version_within_its_range() -> None:
    """`constraints.txt` pins each of them; the metadata has ranges."""
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pins = dict(line.lower().split("==") for line in lines if line)
    extras = PROJECT["optional-dependencies"].values()
    wanted = _names([line for lines in (PROJECT["dependencies"], *extras) for line in lines])
    assert sorted(pins) == sorted([*wanted, *INSTALLERS])
    assert not any(
        "==" in line for line in [*PROJECT["dependencies"], *(one for some in extras for one in some)]
    )


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("check", "pyspark.sql", "check"),
        ("story", "pyarrow", "check"),
        ("run", "kazoo.client", "lab"),
        ("matrix", "pyarrow", "lab"),
        ("check", "kazoo", "lab"),
    ],
)
def test_a_missing_extra_is_named(
    command: str,
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lacking(**_: object) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(commands, "app", lacking)
    monkeypatch.setattr(sys, "argv", ["acked", command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"of the extra '{extra}', which is not installed; run `{install(extra)}`.")
    assert module.partition(".")[0] in line


def test_an_environment_that_setup_made_is_brought_up_to_date_by_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f".venv/{PREPARED}" in (ROOT / "harness" / "setup.sh").read_text()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install("check") == "pip install 'acked[check]'"
    (tmp_path / PREPARED).touch()
    assert install("check") == "make setup"


def test_a_module_of_no_extra_is_a_mistake_of_the_program() -> None:
    assert lacks("harness.no_such_module", "run") == ""
    assert set(OF_STORED_RUNS) <= set(commands.COMMANDS)


def test_a_shell_completes_the_names_of_scenarios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["acked"])
    variables = {"_ACKED_COMPLETE": "complete_bash", "COMP_WORDS": "acked run leader-az-i", "COMP_CWORD": "2"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == ["leader-az-isolated", "leader-az-isolated-acks-all"]


@pytest.mark.long
@pytest.mark.spark
def test_commands_of_stored_runs_need_only_the_extra_check(tmp_path: Path) -> None:
    """Each of them runs with the packages of the extra `lab` out of reach."""
    run = tmp_path / "run"
    judged_run("no-fault", run)
    calls = [
        ["check", str(run)],
        ["story", "1/0", str(run)],
        ["sql", "SELECT count(*) AS n FROM marks", str(run)],
        ["report", str(run), "--output", str(tmp_path / "page.html")],
        ["export", str(run), "--to", str(tmp_path / "history.edn")],
        ["import", "jepsen", str(tmp_path / "history.edn"), "--to", str(tmp_path / "imported")],
        ["compare", str(run), str(run)],
        ["runs", "--runs", str(tmp_path)],
    ]
    for call in calls:
        code = _WITHOUT.format(lab=sorted(EXTRAS["lab"]), argv=["acked", *call])
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{call[0]}: {done.stdout}\n{done.stderr}"


_WITHOUT = """
import importlib.machinery, sys

class Others(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {lab} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Others
sys.argv = {argv}
from cli.main import main
main()
"""
"""The command line on a machine without the packages of the extra `lab`."""
