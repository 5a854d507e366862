"""How commands get into hosts of others: what a lab of such hosts needs of a connection to one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from harness.lab.model import Control, Pipe, Result


class HostShell(Protocol):
    """Commands in one host, as root. It connects when it is needed, and again after a connection was lost."""

    def reach(self) -> Control | None:
        """Connect, unless it is done. Returns the connection over the host's network that rules must spare.

        Raises UnfitError if the host cannot be reached, or if commands have too few rights there.
        """

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a short command and wait for it. Raises LabError if it does not end, or cannot be run."""

    def program(self, source: str) -> Pipe:
        """Run a program in a Python of the host, over a connection of its own. Raises UnfitError."""

    def listener(self, port: int) -> tuple[str, int] | None:
        """Name and pid of the process that listens on a TCP port; None if there is none."""

    def lost(self) -> str:
        """Why what acked has changed there may not end by itself any more; empty if it does."""

    def resume(self) -> tuple[str, ...]:
        """Resume processes that acked has stopped and that no watchdog resumes any more; what was resumed."""

    def close(self) -> None:
        """End the connection; what was changed ends by itself."""


class Target(Protocol):
    """How one host is reached."""

    @property
    def title(self) -> str:
        """What reaches it, for people: `ssh kafka1`, `container shop_kafka1_1`."""

    def shell(self, host: str) -> HostShell:
        """A connection that is not made yet; ``host`` is its name in messages."""

    def limited(self, abilities: Collection[str]) -> Target:
        """The same, with no more rights than these faults need (`cut`, `one-way`, `pause`, `throttle`)."""

    def apart(self) -> Target:
        """The same host, over a connection that shares nothing with others."""

    def guard(self) -> Target | None:
        """Where a watchdog outlives whatever ends those of `shell`; None if nothing ends those."""
