"""The terminal: consoles that print no control characters, and progress on stderr.

Progress is a line per step with the time since the start, and the current state during waits.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from harness.errors import printable
from harness.waiting import current_waits

REFRESH_S = 1.0
"""Seconds between two displays of the state on a terminal."""
WORTH_A_LINE_S = 10.0
"""Without a terminal, a wait gets a line after each period of so many seconds."""
State = Callable[[], Sequence[str]]
"""The lines that show how a run stands."""


class Console(rich_console.Console):
    """Rich's console, except that control characters in what it prints are made visible.

    Names, keys and messages come from files and programs of others, and may hold escape sequences.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as Rich measures and prints it: what stands for a control character has a width."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of an object; only Rich's own control segments keep control characters."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(printable(text), style, control)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text without styles to stdout, or to stderr, with its control characters made visible."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text) + ("\n" if nl else ""))
    stream.flush()


def _on_stderr() -> Console:
    return Console(stderr=True, highlight=False)


@dataclass
class Progress:
    """Prints what is going on, and measures how long each phase takes.

    With ``quiet`` it only measures.
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
    def phase(self, name: str, text: str, state: State = tuple) -> Iterator[None]:
        """Measure a phase under ``name``.

        While it lasts, a terminal shows ``text``, the current waits and the lines of ``state``. Without a
        terminal, only waits of `WORTH_A_LINE_S` and more are reported.
        """
        begun = time.monotonic()
        try:
            if self.quiet:
                yield
            elif self.console.is_terminal:
                with Live(
                    get_renderable=lambda: self._present(text, begun, state),
                    console=self.console,
                    refresh_per_second=1 / REFRESH_S,
                    transient=True,
                ):
                    yield
            else:
                with self._reporting(state):
                    yield
        finally:
            self.durations[name] = self.durations.get(name, 0.0) + time.monotonic() - begun

    def _present(self, text: str, begun: float, state: State) -> RenderableType:
        now = time.monotonic()
        facts = [f"          {line}" for line in state()]
        waits = [
            f"          waits for {one.awaiting} ({now - one.since:.1f} s)"
            for one in current_waits()
            if not any(one.awaiting in line for line in facts)
        ]
        lines = [f"{now - self.started:6.1f} s  {text} ({now - begun:.0f} s)", *waits, *facts]
        return Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis")

    @contextmanager
    def _reporting(self, state: State) -> Iterator[None]:
        ended = threading.Event()
        next_line_s: dict[float, float] = {}

        def report() -> None:
            while not ended.wait(REFRESH_S):
                self.report_long_waits(next_line_s, state)

        thread = threading.Thread(target=report, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def report_long_waits(self, next_line_s: dict[float, float], state: State = tuple) -> None:
        """Print a line for each wait that has lasted `WORTH_A_LINE_S` since its beginning or its last line.

        ``told`` maps the beginning of each wait to the length at which it gets its next line.
        """
        now = time.monotonic()
        for one in current_waits():
            if now - one.since >= next_line_s.get(one.since, WORTH_A_LINE_S):
                next_line_s[one.since] = now - one.since + WORTH_A_LINE_S
                facts = "; ".join(state())
                since = f"has waited {now - one.since:.0f} s for {one.awaiting}"
                self.say(f"{since}{f'; {facts}' if facts else ''}")
