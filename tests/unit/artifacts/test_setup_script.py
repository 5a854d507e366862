"""`harness/setup.sh` before anything of the project exists, and what it installs compared with `.ci/run`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import tools
from tests import browser

pytestmark = pytest.mark.usefixtures("no_process_left")

ROOT = Path(__file__).resolve().parents[3]
TOOLS = (
    "bash",
    "sh",
    "cat",
    "cut",
    "dirname",
    "env",
    "flock",
    "grep",
    "head",
    "mktemp",
    "rm",
    "sed",
    "sha256sum",
    "sort",
    "tail",
    "timeout",
)
PROGRAMS = ("chromium", "ip", "iptables", "losetup", "mkfs.ext4", "mkfs.xfs", "mount", "tc")
"""What the script looks for, apart from Python, Java and libfuse."""
SSH = () if Path("/run/systemd/system").is_dir() else ("sshd", "sudo")
"""What it also looks for where no systemd would start an sshd."""
MAKE = {"git", "make", "python3"}
"""What a machine needs before `make setup` can be called."""
ENGINE = {"debootstrap", "docker-compose", "docker.io"}
"""What only the Compose lab needs: `make setup` does not touch a machine's Docker."""
JAVA_17 = "echo 'openjdk version \"17.0.9\"' >&2"
RECORD = '[ "$1" != install ] || for w; do case $w in install|-*) ;; *) echo "$w" >>installed;; esac; done'
"""An apt-get that writes down what it is to install."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what the script reads, and a path with nothing but the tools it needs."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "bin").mkdir()
    script = (ROOT / "harness" / "setup.sh").read_text()
    assert ":/usr/sbin:/sbin" in script
    script = script.replace(":/usr/sbin:/sbin", "").replace(" /usr/{", f" {tmp_path}/usr/{{")
    (tmp_path / "harness" / "setup.sh").write_text(script)
    library = tmp_path / "usr" / "lib" / "faketime" / "libfaketime.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    _user(tmp_path, 1000)
    _script(tmp_path, "python3", 'case "$2" in *print*) echo 3.11;; esac')
    _script(tmp_path, "java", f"{JAVA_17}; echo jdk.compiler@17.0.9")
    for program in PROGRAMS:
        _script(tmp_path, program, "")
    for program in SSH:
        _script(tmp_path, program, "exit 1")
    return tmp_path


def _script(checkout: Path, name: str, body: str) -> None:
    path = checkout / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _user(checkout: Path, uid: int) -> None:
    _script(checkout, "id", f"echo {uid}")


def _installed(checkout: Path) -> list[str]:
    return (checkout / "installed").read_text().split()


def _setup(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(shutil.which("bash")), "harness/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
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


def test_java_without_a_compiler_lacks_the_java_client_alone(checkout: Path) -> None:
    _script(checkout, "java", f"{JAVA_17}; echo java.base@17.0.9")
    _script(checkout, "apt-get", "touch called")
    done = _setup(checkout)
    assert (
        "Going on without the optional openjdk-17-jdk-headless: there will be no Java client." in done.stderr
    )
    assert not (checkout / "called").exists()


def test_no_java_and_no_right_to_install_it(checkout: Path) -> None:
    (checkout / "bin" / "java").unlink()
    _script(checkout, "apt-get", "touch called")
    done = _setup(checkout)
    assert done.returncode == 3
    assert (
        "Not installed: openjdk-17-jdk-headless. Install them with: sudo sh -c 'apt-get update" in done.stderr
    )
    assert not (checkout / "called").exists()


def test_failing_installation_shows_its_end_and_the_command(checkout: Path) -> None:
    (checkout / "bin" / "java").unlink()
    _user(checkout, 0)
    _script(checkout, "apt-get", "echo E: no way out >&2; exit 100")
    done = _setup(checkout)
    assert done.returncode == 3
    assert "E: no way out" in done.stderr
    assert "Installing openjdk-17-jdk-headless failed" in done.stderr


@pytest.mark.parametrize(
    ("program", "package"),
    [("losetup", "mount"), ("mkfs.ext4", "e2fsprogs"), ("mkfs.xfs", "xfsprogs"), ("libfuse", "fuse3")],
)
def test_what_a_disk_needs_does_not_stop_an_ordinary_user(checkout: Path, program: str, package: str) -> None:
    if program == "libfuse":
        _script(checkout, "python3", 'case "$2" in *print*) echo 3.11;; *find_library*) exit 1;; esac')
    else:
        (checkout / "bin" / program).unlink()
    _script(checkout, "apt-get", "touch called")
    said = _setup(checkout).stderr
    assert f"Going on without the optional {package}: some power cuts will be emulated." in said
    assert f"apt-get install -y --no-install-recommends {package}'" in said
    assert "s  making .venv" in said
    assert not (checkout / "called").exists()


def test_without_libfaketime_clocks_cannot_be_shifted(checkout: Path) -> None:
    (checkout / "usr" / "lib" / "faketime" / "libfaketime.so.1").unlink()
    said = _setup(checkout).stderr
    assert "Going on without the optional libfaketime: no fault can shift the clock of a process." in said
    assert "s  making .venv" in said


def test_without_a_browser_the_tests_of_pages_are_what_is_missing(checkout: Path) -> None:
    (checkout / "bin" / "chromium").unlink()
    said = _setup(checkout).stderr
    assert "Going on without the optional chromium: the tests that open pages in a browser" in said
    assert "s  making .venv" in said


def test_required_program_stops_an_ordinary_user_who_learns_the_optional_ones_too(checkout: Path) -> None:
    for program in ("iptables", "mkfs.xfs"):
        (checkout / "bin" / program).unlink()
    _script(checkout, "apt-get", "touch called")
    done = _setup(checkout)
    assert done.returncode == 3
    assert done.stderr.startswith("Not installed: iptables xfsprogs. Install them with: sudo sh -c '")
    assert len(done.stderr.splitlines()) == 1


def test_optional_package_that_a_release_does_not_have_keeps_no_other_away(checkout: Path) -> None:
    for program in ("mkfs.ext4", "mkfs.xfs"):
        (checkout / "bin" / program).unlink()
    _user(checkout, 0)
    missing = 'case "$*" in *e2fsprogs) echo E: Unable to locate package; exit 100;; esac'
    _script(checkout, "apt-get", f"{missing}; {RECORD}")
    said = _setup(checkout).stderr
    assert "going on without the optional package e2fsprogs: E: Unable to locate package" in said
    assert "s  making .venv" in said
    assert _installed(checkout) == ["xfsprogs"]


def _bare(checkout: Path) -> None:
    """Nothing is installed yet, and whoever asks is root."""
    for program in (*PROGRAMS, *SSH, "java"):
        (checkout / "bin" / program).unlink()
    (checkout / "usr" / "lib" / "faketime" / "libfaketime.so.1").unlink()
    _script(
        checkout, "python3", 'case "$2" in *print*) echo 3.11;; *find_library*|*ensurepip*) exit 1;; esac'
    )
    _user(checkout, 0)
    _script(checkout, "apt-get", RECORD)


def test_bare_machine_gets_every_program_that_labs_and_faults_run(checkout: Path) -> None:
    _bare(checkout)
    _setup(checkout)
    for_tests = {browser.PACKAGE, *(["openssh-server", "sudo"] if SSH else [])}
    for_programs = {"python3.11-venv", "openjdk-17-jdk-headless"}
    assert set(tools.PACKAGES.values()) | for_programs | for_tests == set(_installed(checkout))


def test_ci_leaves_to_setup_all_that_is_not_the_engine(checkout: Path) -> None:
    """What only CI installed would be missing where somebody else calls `make test`."""
    _bare(checkout)
    (checkout / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci")
    _script(checkout, "dpkg-query", "exit 1")
    _script(checkout, "make", 'echo "$@" >>made; exit 1')
    ran = subprocess.run(
        [str(shutil.which("bash")), ".ci/run"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    by_ci = set(_installed(checkout))
    assert by_ci >= ENGINE, ran.stderr
    assert by_ci - ENGINE - MAKE == set(), "`make setup` should install these"
    assert (checkout / "made").read_text() == "setup\n"


FAKE_PYTHON = """
echo "python $*" >>calls
case "$*" in
*"pip config list") echo ":env:.find-links='/wheels'"; echo "global.index-url='http://mirror/simple'";;
esac
"""
FAKE_UV = """
echo "uv $UV_DEFAULT_INDEX $*" >>calls
echo "   Building pyspark==4.3.0"
echo " + pyspark==4.3.0"
echo "no way out"
exit {status}
"""


def _with_venv(checkout: Path, *, uv: str) -> None:
    """A virtual environment whose pip writes down what it is to do, and so does its uv, if it has one."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name, body in (("python", FAKE_PYTHON), ("uv", uv)):
        file = checkout / ".venv" / "bin" / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)


def test_dependencies_are_installed_by_uv_from_the_index_of_pip(checkout: Path) -> None:
    """Every step says when it begins, uv's own lines appear, and its list of packages does not."""
    _with_venv(checkout, uv=FAKE_UV.format(status=0))
    done = _setup(checkout)
    assert done.returncode == 0, done.stderr
    calls = (checkout / "calls").read_text().splitlines()
    by_uv = [call for call in calls if call.startswith("uv ")]
    begun = f"uv http://mirror/simple --cache-dir {checkout}/.cache/acked/uv "
    assert by_uv == [
        f"{begun}pip install --python .venv/bin/python --constraint constraints.txt --editable .[dev]",
        f"{begun}cache prune --ci",
    ]
    assert not any("--editable" in call for call in calls if call not in by_uv)
    assert calls[-1] == "python -m harness.artifacts --without-archives"
    lines = done.stderr.splitlines()
    assert all(re.match(r"setup: +\d+ s  \S", line) for line in lines), lines
    assert any(line.endswith("s  Building pyspark==4.3.0") for line in lines)
    assert not any(" + pyspark" in line for line in lines)


def test_pip_installs_what_uv_cannot(checkout: Path) -> None:
    _with_venv(checkout, uv=FAKE_UV.format(status=2))
    done = _setup(checkout)
    assert done.returncode == 0, done.stderr
    assert "uv could not install them (no way out); trying pip" in done.stderr
    calls = (checkout / "calls").read_text()
    assert (
        "pip install --disable-pip-version-check --constraint constraints.txt --quiet --editable .[dev]"
        in calls
    )


def test_dependencies_that_nothing_can_install_end_setup(checkout: Path) -> None:
    _with_venv(checkout, uv="exit 1")
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(python.read_text() + 'case "$*" in *install*) echo E: no index; exit 1;; esac\n')
    done = _setup(checkout)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        "E: no index",
        "Installing the dependencies failed; check that the package index is reachable from here.",
    ]
    assert not (checkout / ".venv" / ".ready").exists()


@pytest.mark.timeout(60)
def test_step_that_prints_nothing_is_said_to_be_still_going_on(checkout: Path) -> None:
    """It ends only after that was said."""
    _with_venv(checkout, uv='[ "$3" != pip ] || read -r _ <"$GATE"')
    script = checkout / "harness" / "setup.sh"
    script.write_text(script.read_text().replace("read -rt 10", "read -rt 0.2"))
    os.mkfifo(checkout / "gate")
    with subprocess.Popen(
        [str(shutil.which("bash")), "harness/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout), "GATE": str(checkout / "gate")},
        stderr=subprocess.PIPE,
        text=True,
    ) as setup:
        assert setup.stderr is not None
        assert any("still installing (" in line for line in setup.stderr)
        (checkout / "gate").write_text("go\n")
        rest = setup.stderr.read()
    assert setup.returncode == 0, rest
    assert rest.splitlines()[-1].endswith("s  ready")


def test_second_run_does_nothing(checkout: Path) -> None:
    """The stamp counts only for this very folder and these very dependencies."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    _script(checkout, "python3", "exit 1")  # fails if it is called
    inner = checkout / ".venv" / "bin" / "python"
    inner.write_text("#!/bin/sh\nexit 0\n")
    inner.chmod(0o755)
    command = "{ pwd; cat pyproject.toml constraints.txt harness/setup.sh; } | sha256sum | cut -d' ' -f1"
    key = subprocess.run(
        ["sh", "-c", command], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    (checkout / ".venv" / ".ready").write_text(key)
    assert _setup(checkout).returncode == 0
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# another dependency\n")
    assert _setup(checkout).returncode == 3
