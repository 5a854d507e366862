"""Room on the disk for a recording: enough of it before it begins, and a bound while it grows."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from run.recording.plan import RecordingPlan

_FREE_BYTES = 1 << 28
"""What a recording leaves free on the disk for others."""
_EVERY_S = 2.0


def require_room(runs: Path, plan: RecordingPlan) -> None:
    """Raise UsageError if a recording below ``runs`` would fill the disk."""
    place = next(folder for folder in (runs.resolve(), *runs.resolve().parents) if folder.exists())
    needed = plan.most_own_bytes + _FREE_BYTES
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UsageError(
            f"The recording may need {needed / 1e9:.1f} GB in {runs}, and {free / 1e9:.1f} GB are free; name "
            "another folder with --runs, or record less with --rate or --for."
        )


@dataclass(kw_only=True)
class Room:
    """What a recording may write to its folder, and what the disk must keep free. Looks at most every 2 s."""

    folder: Path
    most_bytes: int
    _looked: float = field(default=0.0, init=False)

    def lacking(self) -> str:
        """Why the recording has to end now, as a clause; empty as long as there is room."""
        if time.monotonic() < self._looked + _EVERY_S:
            return ""
        self._looked = time.monotonic()
        written = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        if written > self.most_bytes:
            return f"its folder has {written / 1e6:.0f} MB, and may have {self.most_bytes / 1e6:.0f}"
        free = shutil.disk_usage(self.folder).free
        # The final logs and the history need less than half of what the journals have.
        if free < _FREE_BYTES + written // 2:
            return f"the disk of its folder has {free / 1e6:.0f} MB left"
        return ""
