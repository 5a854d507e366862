"""The folder of a search or of a shrinking: a plan, a cluster file, and lines of JSON."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.cluster.cluster_file import read_cluster_file
from harness.errors import BadDataError, UsageError, WaitTimeoutError
from harness.lab.layout import THREE_AZS
from harness.plain_files import require_plain
from harness.secrets import shown_comments
from harness.waiting import wait_until
from studies.search.fleet import Place
from studies.series.folder import CLUSTER, PLAN, SeriesFolder


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where schedules are carried out, as a plan keeps it."""

    version: str
    mode: str
    settings: dict[str, Any]
    """What the user has set, as data."""
    lab: str = "embedded"
    client: str = ""
    """The client library, as `--client` takes it; empty: librdkafka."""
    cluster: bool = False
    """The folder holds a cluster file."""

    def place(self, folder: Path) -> Place:
        """The same, for the clusters of the plan in ``folder``."""
        file = folder / CLUSTER if self.cluster else None
        layout = read_cluster_file(file).layout if file else THREE_AZS
        return Place(
            version=self.version,
            mode=self.mode,
            topology=layout.topology(self.mode),
            settings=self.settings,
            cluster_file=file,
            lab=self.lab,
            client=self.client,
        )


PlanT = TypeVar("PlanT", bound=Where)
Line = TypeVar("Line")


def create(runs: Path, kind: str, plan: Where, cluster: Path | None) -> SeriesFolder:
    """Make the folder `runs/<kind>/<UTC time>` with its plan. Raises UsageError if it cannot be made."""
    series = SeriesFolder.create(runs, kind)
    write_plan(series, plan, cluster)
    return series


def write_plan(series: SeriesFolder, plan: Where, cluster: Path | None) -> None:
    """Keep a plan and its cluster file in a folder."""
    if cluster is not None:
        series.keep(CLUSTER, shown_comments(cluster.read_text(encoding="utf-8")))
    series.keep(PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())


def resume(
    path: Path, plan: type[PlanT], name: str, line: type[Line], *, what: str, kind: str
) -> tuple[PlanT, list[Line]]:
    """The plan of a folder and the lines of its file ``name``.

    A last line that was cut short when the work was ended is removed, so that others can follow. Raises
    BadDataError if the folder holds no ``what``.
    """
    require_plain(path)
    try:
        found = msgspec.json.decode((path / PLAN).read_bytes(), type=plan)
        data = (path / name).read_bytes() if (path / name).exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        lines = [msgspec.json.decode(one, type=line) for one in whole.splitlines()]
        if len(whole) < len(data):
            os.truncate(path / name, len(whole))
        return found, lines
    except (OSError, ValueError, RecursionError) as error:
        raise BadDataError(
            f"{path} holds no {what} to resume ({error}); name a folder like runs/{kind}/<time>."
        ) from None


@contextmanager
def alone(folder: Path, within_s: float = 5.0) -> Iterator[None]:
    """Keep other processes from working in a folder meanwhile: two would write lines for the same schedules.

    Raises UsageError if another process still works in it after ``within_s``. The processes of one that was
    killed end within a second.
    """
    with (folder / PLAN).open("rb") as plan:
        try:
            wait_until(lambda: _locked(plan), within_s=within_s, awaiting=f"{folder} to be free")
        except WaitTimeoutError:
            raise UsageError(
                f"Another process works in {folder}; end it, or wait until it has ended, and resume then."
            ) from None
        yield


def _locked(file: BufferedReader) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def append(file: Path, line: msgspec.Struct) -> None:
    """Add a line."""
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(line) + b"\n")
