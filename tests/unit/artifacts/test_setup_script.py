"""`harness/setup.sh` before anything of the project exists: one sentence and exit 3, or nothing to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = (
    "bash",
    "sh",
    "cat",
    "cut",
    "flock",
    "head",
    "id",
    "mktemp",
    "rm",
    "sed",
    "sha256sum",
    "sort",
    "tail",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what the script reads, and a path with nothing but the tools it needs."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "harness" / "setup.sh", tmp_path / "harness")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for tool in (*TOOLS, "dirname"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    _script(tmp_path, "python3", 'case "$2" in *print*) echo 3.11;; esac')
    _script(tmp_path, "java", "echo 'openjdk version \"17.0.9\"' >&2")
    _script(tmp_path, "iptables", "")
    _script(tmp_path, "ip", "")
    return tmp_path


def _script(checkout: Path, name: str, body: str) -> None:
    path = checkout / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _setup(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(shutil.which("bash")), "harness/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_python_too_old(checkout: Path) -> None:
    _script(checkout, "python3", 'case "$2" in *print*) echo 3.9;; *) exit 1;; esac')
    done = _setup(checkout)
    assert done.returncode == 3
    assert done.stderr.startswith("Python 3.9 at ")
    assert "3.11 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_python(checkout: Path) -> None:
    (checkout / "bin" / "python3").unlink()
    done = _setup(checkout)
    assert done.returncode == 3
    assert done.stderr.startswith("No python3 on the path")


def test_java_too_old(checkout: Path) -> None:
    _script(checkout, "java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    done = _setup(checkout)
    assert done.returncode == 3
    assert done.stderr.startswith("Java 8 is too old: Kafka needs Java 17 or newer")
    assert len(done.stderr.splitlines()) == 1


def test_no_java_and_no_right_to_install_it(checkout: Path) -> None:
    (checkout / "bin" / "java").unlink()
    (checkout / "bin" / "id").unlink()
    _script(checkout, "id", "echo 1000")
    _script(checkout, "apt-get", "touch called")
    done = _setup(checkout)
    assert done.returncode == 3
    assert (
        "Not installed: openjdk-17-jre-headless. Install them with: sudo sh -c 'apt-get update" in done.stderr
    )
    assert not (checkout / "called").exists()


def test_failing_installation_shows_its_end_and_the_command(checkout: Path) -> None:
    (checkout / "bin" / "java").unlink()
    (checkout / "bin" / "id").unlink()
    _script(checkout, "id", "echo 0")
    (checkout / "bin" / "env").symlink_to(str(shutil.which("env")))
    _script(checkout, "apt-get", "echo E: no way out >&2; exit 100")
    done = _setup(checkout)
    assert done.returncode == 3
    assert "E: no way out" in done.stderr
    assert "Installing openjdk-17-jre-headless failed" in done.stderr


def test_second_run_does_nothing(checkout: Path) -> None:
    """The stamp counts only for this very folder and these very dependencies."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    _script(checkout, "python3", "exit 1")  # whoever asks it fails
    inner = checkout / ".venv" / "bin" / "python"
    inner.write_text("#!/bin/sh\nexit 0\n")
    inner.chmod(0o755)
    command = "{ pwd; cat pyproject.toml harness/setup.sh; } | sha256sum | cut -d' ' -f1"
    key = subprocess.run(
        ["sh", "-c", command], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    (checkout / ".venv" / ".ready").write_text(key)
    assert _setup(checkout).returncode == 0
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# another dependency\n")
    assert _setup(checkout).returncode == 3
