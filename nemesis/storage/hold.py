"""What the harness and the daemon of a volatile disk tell each other in files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal, get_args

import msgspec

Operation = Literal["reads", "writes", "fsyncs"]
"""What a program asks of a disk. `reads` are those that the page cache does not answer. `writes` change files
or names; on a real disk they wait if the kernel holds too much unwritten data, or if its journal is stuck."""
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
FULL, HOLD, HELD = "full", "hold", "held"
"""Files in the folder through which the harness tells the daemon what to do, and the daemon what it did."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that take longer; the file `hold`."""

    number: int
    """Another one is another hold."""
    operations: tuple[Operation, ...]
    delay_s: float | None = None
    """How much longer; None: until the hold is over."""
    until_ns: int
    """The monotonic time of this machine at which it is over, even if nobody says so."""

    @classmethod
    def read(cls, path: Path) -> Hold | None:
        """The present one; None if there is none, or it is over."""
        try:
            hold = msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        return hold if time.monotonic_ns() < hold.until_ns else None

    def write(self, path: Path) -> None:
        """Make it the present one."""
        _replace(path, msgspec.json.encode(self))

    def lasts(self, waited_s: float) -> bool:
        """Whether an operation that has waited so long goes on waiting."""
        return self.delay_s is None or waited_s < self.delay_s


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How many operations a hold has made wait; the file `held`."""

    waiting: int = 0
    """Operations that wait now."""
    counts: dict[Operation, int] = msgspec.field(default_factory=dict)
    """Operations that waited or wait, by kind."""
    longest_s: float = 0.0
    """The longest wait that has ended."""

    @classmethod
    def read(cls, path: Path) -> Held:
        """What the daemon has counted; nothing if there is no file."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()

    def counted(self, operation: Operation, *, began: bool, seconds: float = 0.0) -> Held:
        """With one operation more, which has begun to wait, or has waited for ``seconds``."""
        more = {operation: self.counts.get(operation, 0) + began}
        return Held(
            waiting=self.waiting + (1 if began else -1),
            counts={**self.counts, **more},
            longest_s=max(self.longest_s, seconds),
        )

    def write(self, path: Path) -> None:
        """Keep it."""
        _replace(path, msgspec.json.encode(self))


def _replace(path: Path, content: bytes) -> None:
    """So that nobody reads half of it."""
    part = path.with_suffix(".new")
    part.write_bytes(content)
    part.replace(path)
