"""A wall clock of its own for the main process of a host, which the harness can set while the process runs.

The process preloads libfaketime, which adds a shift to CLOCK_REALTIME. It reads the shift from a file, when a
second of the machine's clock begins. Its other clocks, and so its waits, are the machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from harness import tools
from harness.errors import UnfitError
from harness.host_files import Folder, HostFiles
from harness.lab.model import Lab

SHIFT, CHANGES = "clock", "clock.changes"
"""Files of a host: what libfaketime reads, and each change of the shift (`Change`), one per line."""
LONGEST_SHIFT_S = 10**9
"""32 years. The shift has a fixed number of digits, so that threads that read it at once agree on them."""
_BOUND_NS = 10**9
"""A log line may be so much older than its place in the log says."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the shift of a clock, with the part of the process's log that was written meanwhile."""

    before_s: float
    by_s: float
    """The shift before it, and after it."""
    from_ns: int
    until_ns: int
    """On the machine's wall clock: the process may have noticed it at any time in between."""
    from_bytes: int
    until_bytes: int
    """The sizes of the log at these times."""


def environment(lab: Lab, host: str) -> dict[str, str]:
    """The environment in which the main process of a host has a clock of its own, which is right at first.

    Raises UnfitError if this lab or this machine cannot give it one.
    """
    library = tools.libfaketime()
    if not lab.shares_files or library is None:
        why = (
            tools.not_installed("libfaketime")
            if lab.shares_files
            else f"only the embedded lab can preload libfaketime, and this is the {lab.kind} lab"
        )
        raise UnfitError(f"{host} cannot have a wall clock of its own: {why}.")
    write_shift(lab.files(host), 0)
    return preloading(library, Path(lab.inside(host, SHIFT)))


def environments(lab: Lab, hosts: Sequence[str]) -> dict[str, dict[str, str]]:
    """The environments of the hosts with clocks of their own. Raises UnfitError as `environment`.

    libfaketime leaves files in shared memory that are named after process ids, so that is the run's own.
    """
    by_host = {host: environment(lab, host) for host in hosts}
    if by_host:
        from harness.lab.embedded.namespaces import own_shared_memory

        own_shared_memory(lab.run_dir)
    return by_host


def preloading(library: str, shift: Path) -> dict[str, str]:
    """The environment of a process whose shift is in a file."""
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_CACHE_DURATION": "0",  # in whole seconds; without a cache, each call reads the file
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Otherwise waits on conditions, which the JVM times by CLOCK_MONOTONIC, end at once.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",  # it would shift the times of files that were written before
        "TZ": "UTC",  # of the dates that the process states
    }


def write_shift(files: HostFiles, by_s: float) -> None:
    """Shift the clock of a host's process by so much from its next second on."""
    text = f"{by_s:+015.3f}\n".encode()
    if isinstance(files, Folder) and files.size(SHIFT) == len(text):
        with (files.path / SHIFT).open("r+b") as file:  # in place: the process never reads an empty file
            file.write(text)
    else:
        files.write(SHIFT, text)


def read_shift(files: HostFiles) -> float | None:
    """The shift of a host's clock, in seconds; None if it has no clock of its own."""
    return None if files.size(SHIFT) is None else float(files.read(SHIFT))


def note_change(files: HostFiles, change: Change) -> None:
    """Add a change to those of a host's clock."""
    before = b"" if files.size(CHANGES) is None else files.read(CHANGES)
    files.write(CHANGES, before + msgspec.json.encode(change) + b"\n")


class Shifts:
    """The changes of one host's clock, for reading the times of its log lines."""

    def __init__(self, changes: tuple[Change, ...]) -> None:
        """In order."""
        self._changes = changes

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Those of the host whose files are in ``folder``; none if it had no clock of its own."""
        try:
            lines = (folder / CHANGES).read_bytes().splitlines()
        except FileNotFoundError:
            return cls(())
        return cls(tuple(msgspec.json.decode(line, type=Change) for line in lines))

    def true_ns(self, stated_ns: int, at_bytes: int) -> int:
        """When a line that stands ``at_bytes`` in the log was written, by the machine's wall clock."""
        shift_s = 0.0
        for change in self._changes:
            if at_bytes >= change.until_bytes:
                shift_s = change.by_s
            elif at_bytes >= change.from_bytes:
                late = stated_ns - round(change.by_s * 1e9)
                within = change.from_ns - _BOUND_NS <= late <= change.until_ns + _BOUND_NS
                shift_s = change.by_s if within else change.before_s
        return stated_ns - round(shift_s * 1e9)
