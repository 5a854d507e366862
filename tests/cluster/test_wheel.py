"""The built wheel, in a virtual environment of its own and outside the checkout: what a new user installs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from harness.kafka.versions import VERSIONS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.long

Acked = Callable[..., subprocess.CompletedProcess[str]]


def _do(*command: str | Path, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    # What conftest.py and the checkout set must not reach the installed package.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | settings
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, timeout=500, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in a virtual environment with what the command line needs, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    # In the checkout's folder `build`, modules of earlier builds may lie, which setuptools would pack again.
    extra = folder / "extra.cfg"
    extra.write_text(f"[build]\nbuild_base = {folder / 'build'}\n")
    wheel = ("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    built = _do(*pip, *wheel, cwd=folder, DIST_EXTRA_CONFIG=str(extra))
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("acked-*.whl")
    venv.create(folder / "venv", with_pip=True)
    inner = folder / "venv" / "bin" / "python"
    base = ("--constraint", ROOT / "constraints.txt", wheel)
    done = _do(inner, *pip[1:], "install", *base, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "venv"


@pytest.fixture
def acked(installed: Path, tmp_path: Path) -> Acked:
    """The command `acked` of the virtual environment, called in an empty folder."""
    return lambda *words: _do(installed / "bin" / "acked", *words, cwd=tmp_path)


def test_the_wheel_holds_every_module_of_every_package(installed: Path) -> None:
    """And no module of another package, such as the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["importlinter"]["root_packages"]
    modules = {path.relative_to(ROOT).as_posix() for name in packages for path in (ROOT / name).rglob("*.py")}
    (wheel,) = installed.parent.glob("acked-*.whl")
    names = ZipFile(wheel).namelist()
    assert {name for name in names if name.endswith(".py")} == modules
    assert {f"harness/artifacts/pinned_jars/kafka-{version}.txt" for version in VERSIONS} <= set(names)


def test_the_base_installation_says_which_extra_it_lacks(acked: Acked) -> None:
    version = acked("--version")
    assert version.stdout.startswith("acked 0.1.0 (commit "), version
    for words, extra in (("check", "x"), "check"), (("run", "no-fault"), "lab"):
        done = acked(*words)
        assert done.returncode == 3, done
        (line,) = done.stderr.splitlines()
        assert line.endswith(f"pip install 'acked[{extra}]'")


@pytest.fixture
def extras(installed: Path) -> None:
    """The packages of the extras, without installing them again: the folder's own .pth files are not read."""
    (site,) = installed.glob("lib/python*/site-packages")
    (site / "extras.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")


@pytest.mark.cluster
@pytest.mark.usefixtures("extras")
def test_a_new_scenario_runs_as_it_is(acked: Acked, tmp_path: Path) -> None:
    """From an empty folder to a verdict; also below folders that have the names of acked's own packages."""
    for name in ("scenarios", "report", "harness"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not the one of acked')\n")
    assert acked("new", "my-case").returncode == 0
    done = acked("run", "./my_case.py")
    assert done.returncode == 0, done
    assert "Verdict: as declared" in done.stdout
    run = (tmp_path / "runs" / "my-case" / "latest").resolve()
    assert (run / "scenario.py").read_text() == (tmp_path / "my_case.py").read_text()
    (tmp_path / "my_case.py").unlink()
    judged = acked("check", str(run))
    assert judged.returncode == 0, judged


PACKAGE = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "orders-under-fire"
version = "1"

[project.entry-points."acked.scenarios"]
orders = "orders_under_fire.cases"
"""


@pytest.mark.cluster
@pytest.mark.usefixtures("extras")
def test_an_installed_package_offers_scenarios(acked: Acked, installed: Path, tmp_path: Path) -> None:
    """Its scenario is listed and runs by its name, in an empty folder, until the package is uninstalled."""
    source = tmp_path / "source"
    (source / "orders_under_fire").mkdir(parents=True)
    (source / "orders_under_fire" / "__init__.py").touch()
    (source / "pyproject.toml").write_text(PACKAGE)
    assert acked("new", "orders-case").returncode == 0
    (tmp_path / "orders_case.py").rename(source / "orders_under_fire" / "cases.py")
    pip = (installed / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    done = _do(*pip, "install", "--no-deps", source, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = acked("list").stdout
    assert "orders-case" in listed
    assert "leader-az-isolated" in listed, "the catalogue is an entry point of acked itself"
    run = acked("run", "orders-case")
    assert run.returncode == 0, run
    assert "Verdict: as declared" in run.stdout
    assert _do(*pip, "uninstall", "--yes", "orders-under-fire", cwd=tmp_path).returncode == 0
    assert "orders-case" not in acked("list").stdout
