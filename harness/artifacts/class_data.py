"""Application class-data archives, which halve the time a cluster takes to start.

They are created once, by a training run of the processes (`harness.artifacts.training_run`). An archive fits
one Java build and one class path; Java ignores an archive that does not fit (`-Xshare:auto`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.artifacts.cache import UNFINISHED, locked
from harness.artifacts.java import Java
from harness.held_folders import held_folder
from harness.kafka.versions import KafkaVersion
from harness.lab.embedded.namespaces import with_parent

TRAINING_S = 120.0
_FAILED = "failed.txt"


@dataclass(frozen=True)
class Archives:
    """Archives by main class, or why there are none."""

    files: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""


def stored(root: Path, java: Java) -> Archives:
    """The archives of a distribution for this Java, if there are any."""
    return _stored_archives(_folder(root, java)) or Archives(problem="they have not been made yet")


def _folder(root: Path, java: Java) -> Path:
    return root / "class-data" / java.build


def archives(
    spec: KafkaVersion,
    root: Path,
    class_path: str,
    java: Java,
    say: Callable[[str], None],
    *,
    retry: bool = False,
) -> Archives:
    """The archives of a distribution for this Java. Creates them if that was never tried.

    A failure is reported to ``say`` and is never fatal: the cluster only starts more slowly. It is
    remembered, and the next call does not try again unless ``retry`` is set.
    """
    folder = _folder(root, java)
    archived = _stored_archives(folder)
    if archived is not None and (archived.files or not retry):
        return archived
    try:
        # Training runs side by side on few processors would all run into their time limit.
        with locked(root, say), locked(root.parent, say, "training"):
            archived = _stored_archives(folder)  # another process may have created them meanwhile
            if archived is not None and (archived.files or not retry):
                return archived
            say(f"creating class-data archives of Kafka {spec.version}, once for this Java; some 20 s")
            return _create(spec, folder, class_path, java, say)
    except OSError as error:
        return Archives(problem=f"{folder} cannot be written ({error.strerror})")


def _stored_archives(folder: Path) -> Archives | None:
    if not folder.is_dir():
        return None
    files = {archive.stem: archive for archive in folder.glob("*.jsa")}
    if files:
        return Archives(files)
    note = folder / _FAILED
    return Archives(problem=note.read_text()) if note.is_file() else None


def _create(
    spec: KafkaVersion, folder: Path, class_path: str, java: Java, say: Callable[[str], None]
) -> Archives:
    folder.parent.mkdir(exist_ok=True)
    with held_folder(folder.parent, UNFINISHED) as new:
        problem = _train(spec, new, class_path, java)
        if problem:
            say(f"no class-data archives for Kafka {spec.version}, so it starts more slowly: {problem}")
            for part in new.glob("*.jsa"):
                part.unlink()
            (new / _FAILED).write_text(problem)
        shutil.rmtree(new / "run", ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    return _stored_archives(folder) or Archives(problem="the training run left no archive")


def _train(spec: KafkaVersion, new: Path, class_path: str, java: Java) -> str:
    """Run the training run; returns why it failed, or an empty string."""
    command = [
        *(sys.executable, "-m", "harness.artifacts.training_run"),
        *(str(new), class_path, java.path, spec.default_mode, spec.log_syntax),
    ]
    try:
        done = subprocess.run(
            with_parent(command),
            capture_output=True,
            text=True,
            timeout=TRAINING_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"the training run did not end within {TRAINING_S:.0f} s"
    if done.returncode != 0 or not any(new.glob("*.jsa")):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return last[0]
    return ""
