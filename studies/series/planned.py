"""The folder of a command that can be continued: a plan, a cluster file, and lines of JSON."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.errors import BadDataError, UsageError, WaitTimeoutError
from harness.lab.registry import EMBEDDED
from harness.plain_files import require_plain
from harness.secrets import shown_comments
from harness.waiting import wait_until
from studies.series.folder import CLUSTER, PLAN, SeriesFolder
from studies.series.job import Job, Place


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What all jobs of a plan have in common; stored, so that an interrupted command can be continued."""

    version: str
    mode: str
    settings: Mapping[str, Any]
    """What the user has set, as `Settings.as_json` gives it."""
    lab: str = EMBEDDED
    client: str = ""
    """The client library, as `--client` takes it; empty: librdkafka."""
    cluster: bool = False
    """The folder holds a cluster file; otherwise the cluster has three AZs."""

    def place(self, folder: Path) -> Place:
        """Where the jobs of the plan in ``folder`` are carried out."""
        file = folder / CLUSTER if self.cluster else None
        return Place(lab=self.lab, settings=self.settings, cluster_file=file)

    def job(self, scenario: str, **fields: Any) -> Job:
        """A job of the plan; ``fields`` are further ones of the job."""
        return Job(scenario=scenario, version=self.version, mode=self.mode, client=self.client, **fields)


PlanT = TypeVar("PlanT", bound=Plan)
LineT = TypeVar("LineT")


def create(runs: Path, kind: str, plan: Plan, cluster: Path | None) -> SeriesFolder:
    """Make the folder `runs/<kind>/<UTC time>` with its plan. Raises UsageError if it cannot be made."""
    series = SeriesFolder.create(runs, kind)
    write_plan(series, plan, cluster)
    return series


def write_plan(series: SeriesFolder, plan: Plan, cluster: Path | None) -> None:
    """Keep a plan and its cluster file in a folder."""
    if cluster is not None:
        series.keep(CLUSTER, shown_comments(cluster.read_text(encoding="utf-8")))
    series.keep(PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())


def read_plan(path: Path, plan: type[PlanT], *, what: str, kind: str) -> PlanT:
    """The plan of a folder. Raises BadDataError if it holds no ``what``."""
    require_plain(path)
    try:
        return msgspec.json.decode((path / PLAN).read_bytes(), type=plan)
    except (OSError, ValueError, RecursionError) as error:
        raise _not_resumable(path, what, kind, error) from None


def read_lines(path: Path, name: str, line: type[LineT], *, what: str, kind: str) -> list[LineT]:
    """The lines of the file ``name`` of a folder.

    A last line that was cut short when the work was ended is removed, so that others can follow. Raises
    BadDataError for other lines than those of a ``what``.
    """
    file = path / name
    try:
        data = file.read_bytes() if file.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        lines = [msgspec.json.decode(text, type=line) for text in whole.splitlines()]
        if len(whole) < len(data):
            os.truncate(file, len(whole))
        return lines
    except (OSError, ValueError, RecursionError) as error:
        raise _not_resumable(path, what, kind, error) from None


def _not_resumable(path: Path, what: str, kind: str, error: Exception) -> BadDataError:
    return BadDataError(f"{path} holds no {what} to resume ({error}); name a folder like runs/{kind}/<time>.")


@contextmanager
def alone(folder: Path, within_s: float = 5.0) -> Iterator[None]:
    """Keep other processes from working in a folder meanwhile: two would write lines for the same jobs.

    The folder itself is locked, because its files are replaced. Raises UsageError if another process still
    works in it after ``within_s``. The processes of one that was killed end within a second. A command holds
    the folder until its last page is written; what it calls may ask for the folder again.
    """
    place = folder.resolve()
    if place in _HELD:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            wait_until(lambda: _locked(descriptor), within_s=within_s, awaiting=f"{folder} to be free")
        except WaitTimeoutError:
            raise UsageError(
                f"Another process works in {folder}; end it, or wait until it has ended, and resume then."
            ) from None
        _HELD.add(place)
        yield
    finally:
        _HELD.discard(place)
        os.close(descriptor)


_HELD: set[Path] = set()
"""The folders that this process works in."""


def worked_in(folder: Path) -> bool:
    """Whether a process works in a folder now (`alone`)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def append(file: Path, line: msgspec.Struct) -> None:
    """Add a line."""
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(line) + b"\n")
