"""A fake Java: a script that reports a version, and acts as Ivy as a test requires."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.artifacts import ivy, pinned

SCRIPT = """#!{python}
import pathlib, re, sys, time
calls, args = pathlib.Path({calls!r}), sys.argv[1:]
if args == ["-version"]:
    print({version!r}, file=sys.stderr)
    sys.exit(0)
if "-retrieve" not in args:
    sys.exit(7)
with calls.open("a") as file:
    file.write("call\\n")
if len(calls.read_text().split()) <= {failures}:
    print(":: UNRESOLVED DEPENDENCIES ::")
    print("module not found: org.apache.kafka#kafka_2.13;2.7.1")
    sys.exit(1)
folder = pathlib.Path(args[args.index("-retrieve") + 1]).parent
request = pathlib.Path(args[args.index("-ivy") + 1]).read_text()
exact = re.findall(r'name="(\\S+)" rev="(\\S+)" transitive="false"', request)
jars = [name + "-" + revision + ".jar" for name, revision in exact] or {jars!r}
print("downloading https://host/" + jars[0] + " ...", flush=True)
while {gate!r} and not pathlib.Path({gate!r}).exists():
    time.sleep(0.01)
folder.mkdir(parents=True, exist_ok=bool(exact))
for name in jars:
    module = ";".join(exact[jars.index(name)]) if exact else name + ";1"
    print("\\tfound org#" + module)
    print("\\t[SUCCESSFUL ] org#" + module + "!" + name + ".jar (3ms)")
    (folder / name).write_bytes(name.encode() * {weight})
"""
JARS = ("kafka_2.13-2.7.1.jar", "another-1.0.jar")


@dataclass(frozen=True)
class FakeJava:
    """Its path, and a file with a line per run as Ivy."""

    path: Path
    calls: Path

    @property
    def downloads(self) -> int:
        """Runs as Ivy so far."""
        return len(self.calls.read_text().split()) if self.calls.exists() else 0


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeJava]:
    """Puts a fake `java` first on the path; as Ivy, it waits until the file ``gate`` exists."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(ivy, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(pinned, "FOLDER", tmp_path / "pinned")  # no version has a list
    made = 0

    def make(
        version: str = 'openjdk version "17.0.9"',
        *,
        failures: int = 0,
        jars: tuple[str, ...] = JARS,
        weight: int = 1,
        gate: str = "",
    ) -> FakeJava:
        nonlocal made
        made += 1
        folder = tmp_path / f"bin{made}"
        folder.mkdir()
        java = FakeJava(folder / "java", folder / "calls")
        java.path.write_text(
            SCRIPT.format(
                python=sys.executable,
                calls=str(java.calls),
                version=version,
                failures=failures,
                jars=jars,
                weight=weight,
                gate=gate,
            )
        )
        java.path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return java

    return make
