"""The run folder: its place, its manifest `run.json`, and the link `latest`."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import AckedError, BadDataError, UsageError, cause_of, json_file
from harness.plain_files import require_plain, write_plain

if TYPE_CHECKING:
    from run.scenario import ScenarioFile

MANIFEST = "run.json"
CLAIMS = "claims.json"
SCENARIO = "scenario.py"
"""The user's file that declared the scenario, as it was when the run began."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run; `docs/architecture.md` describes what it holds."""

    path: Path

    @classmethod
    def create(cls, root: Path, scenario: str, file: ScenarioFile | None = None) -> RunFolder:
        """Make `<root>/<scenario>/<UTC time>`, point `latest` at it, and keep the scenario's own file.

        Raises UsageError.
        """
        parent = root / scenario
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path = _unused(parent, stamp)
            latest = parent / f".latest-{os.getpid()}-{path.name}"
            latest.symlink_to(path.name)
            latest.replace(parent / "latest")
            for name in ("journal", "nodes", "history"):
                (path / name).mkdir()
            if file is not None:
                (path / SCENARIO).write_text(file.text, encoding="utf-8")
                origin = {"path": str(file.path), "sha256": file.sha256, "module": file.module}
                write_json(path / MANIFEST, {"scenario_file": origin})
        except OSError as error:
            raise UsageError(
                f"The folder {parent} cannot be written ({error.strerror}); name another one with --runs."
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder. Raises BadDataError if it has no manifest, or an odd file."""
        require_plain(path)
        if not (path / MANIFEST).is_file():
            raise BadDataError(
                f"{path} is not a run folder: it has no {MANIFEST}; name one like runs/<scenario>/latest."
            )
        return cls(path.resolve())

    def manifest(self) -> dict[str, Any]:
        """The manifest. Raises BadDataError if it cannot be read."""
        return json_file(self.path / MANIFEST)

    def update(self, **values: object) -> None:
        """Set values in the manifest, atomically."""
        file = self.path / MANIFEST
        current = json_file(file) if file.exists() else {}
        write_json(file, {**current, **values})

    def ended(self, status: str, error: AckedError | None = None) -> None:
        """Set how the run ended, and because of which error.

        `cause` has what other runs with the same reason have in common (`harness.errors.cause_of`).
        """
        problem, cause = (None, None) if error is None else (error.message, cause_of(error))
        self.update(status=status, problem=problem, cause=cause)

    @property
    def journals(self) -> Path:
        """The folder of all journals."""
        return self.path / "journal"

    def journal(self, name: str) -> Path:
        """The journal file of one process."""
        return self.journals / f"{name}.jsonl"


def _unused(parent: Path, stamp: str) -> Path:
    number = 1
    while True:
        path = parent / (stamp if number == 1 else f"{stamp}.{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        return path.resolve()


def no_room(folder: Path, error: BaseException) -> AckedError | None:
    """The error for a run folder that cannot be written any more; None if ``error`` is another one."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return None
    return AckedError(
        f"{folder} cannot be written ({error.strerror}), and what was to come is lost; make room, and begin "
        "anew with another --runs if need be."
    )


def write_json(file: Path, value: Mapping[str, object]) -> None:
    """Write a JSON object atomically: a reader sees the old or the new one."""
    write_plain(file, json.dumps(value, indent=2, default=str) + "\n")
