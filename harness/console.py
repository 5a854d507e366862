"""Progress on stderr: a line per step with the time since the start, and a spinner on terminals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape


def _on_stderr() -> Console:
    return Console(stderr=True, highlight=False)


@dataclass
class Progress:
    """Prints what is going on, and measures how long each phase takes.

    With ``quiet`` (for `--json`) it only measures.
    """

    quiet: bool = False
    console: Console = field(default_factory=_on_stderr)
    started: float = field(default_factory=time.monotonic)
    durations: dict[str, float] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Print a line."""
        if not self.quiet:
            elapsed = time.monotonic() - self.started
            self.console.print(f"[dim]{elapsed:6.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    @contextmanager
    def phase(self, name: str, text: str) -> Iterator[None]:
        """Measure a phase under ``name``; a terminal shows ``text`` while it lasts."""
        begun = time.monotonic()
        try:
            if self.quiet or not self.console.is_terminal:
                yield
            else:
                with self.console.status(escape(text)):
                    yield
        finally:
            self.durations[name] = self.durations.get(name, 0.0) + time.monotonic() - begun
