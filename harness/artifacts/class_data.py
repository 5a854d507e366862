"""Application class-data archives: made once by really running the processes, they halve a cluster's start.

An archive fits one Java build and one class path; Java ignores one that does not fit (`-Xshare:auto`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.artifacts.cache import locked
from harness.artifacts.java import Java
from harness.kafka.versions import KafkaVersion

REHEARSAL_S = 120.0
_FAILED = "failed.txt"


@dataclass(frozen=True)
class Made:
    """Archives by main class, or why there are none."""

    files: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""


def archives(
    spec: KafkaVersion,
    root: Path,
    class_path: str,
    java: Java,
    say: Callable[[str], None],
    *,
    retry: bool = False,
) -> Made:
    """Archives of a distribution for this Java; made now when they were never tried.

    A failure is said, remembered beside them (``retry`` forgets it) and never fatal: start-up is just slower.
    """
    folder = root / "class-data" / java.build
    found = _found(folder)
    if found is not None and (found.files or not retry):
        return found
    try:
        with locked(root, say):
            found = _found(folder)  # another process may just have made them
            if found is not None and (found.files or not retry):
                return found
            say(f"making class-data archives of Kafka {spec.version} for Java {java.version}")
            return _make(spec, folder, class_path, java, say)
    except OSError as error:
        return Made(problem=f"{folder} cannot be written ({error.strerror})")


def _found(folder: Path) -> Made | None:
    if not folder.is_dir():
        return None
    files = {archive.stem: archive for archive in folder.glob("*.jsa")}
    if files:
        return Made(files)
    note = folder / _FAILED
    return Made(problem=note.read_text()) if note.is_file() else None


def _make(spec: KafkaVersion, folder: Path, class_path: str, java: Java, say: Callable[[str], None]) -> Made:
    new = folder.parent / f".new-{os.getpid()}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        problem = _rehearse(spec, new, class_path, java)
        if problem:
            say(f"no class-data archives for Kafka {spec.version} ({problem}); it starts slower without")
            for part in new.glob("*.jsa"):
                part.unlink()
            (new / _FAILED).write_text(problem)
        shutil.rmtree(new / "run", ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return _found(folder) or Made(problem="the rehearsal left nothing")


def _rehearse(spec: KafkaVersion, new: Path, class_path: str, java: Java) -> str:
    """Run the processes in namespaces of their own; returns what went wrong, or nothing."""
    command = [
        *(sys.executable, "-m", "harness.artifacts.rehearsal"),
        *(spec.version, str(new), class_path, java.path, spec.default_mode, spec.log_syntax),
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=REHEARSAL_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"the rehearsal did not end within {REHEARSAL_S:.0f} s"
    if done.returncode != 0 or not any(new.glob("*.jsa")):
        said = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return said[0]
    return ""
