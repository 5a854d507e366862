"""The terminal: consoles that print no control characters, and progress on stderr.

Progress is a line per step with the time since the start, and the current state during waits.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import console as rich_console
from rich.cells import cell_len
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
"""Without a terminal, a wait gets a line after so many seconds, and after each period of so many more."""
_LONGER = 4
"""A long wait gets its next line when it is longer by one part in so many: an hour has 24 lines."""
NARROWEST = 20
"""Columns that a text gets at least, however narrow the terminal is."""
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

    def paragraph(self, text: str | Text, *, lead: str = "", style: str = "") -> None:
        """Print a text with markup after ``lead``.

        A terminal gets it wrapped at words, with its lines below each other; a word that is wider than the
        terminal stays whole. A file or a pipe gets one line.
        """
        begin = self.render_str(lead)
        content = self.render_str(text) if isinstance(text, str) else text
        lines = wrapped(content, self.width - begin.cell_len) if self.is_terminal else [content]
        indent = Text(" " * begin.cell_len)
        aligned = [Text.assemble(indent if number else begin, part) for number, part in enumerate(lines)]
        self.print(Text("\n").join(aligned), style=style or None, soft_wrap=True)


def wrapped(text: Text, width: int) -> Sequence[Text]:
    """The lines of a text, at most ``width`` columns wide; a word that is wider stays whole.

    Spaces that must not be broken (U+00A0) join words, and become usual spaces.
    """
    width = max(width, NARROWEST)
    breaks: list[int] = []
    begin = 0
    for word in re.finditer(r"[^ \n]+", text.plain):
        if word.start() > begin and cell_len(text.plain[begin : word.end()]) > width:
            begin = word.start()
            breaks.append(begin)
    lines = text.divide(breaks)
    for line in lines:
        line.rstrip()
        line.plain = line.plain.replace("\u00a0", " ")
    return list(lines)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text without styles to stdout, or to stderr, with its control characters made visible."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(text) + ("\n" if nl else ""))
    stream.flush()


def tell(text: str, *, lead: str = "") -> None:
    """Print a text without styles to stdout after ``lead``; on a terminal, it is wrapped at words."""
    Console(highlight=False).paragraph(Text(printable(text)), lead=escape(lead))


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
            self.console.paragraph(escape(text), lead=f"[dim]{elapsed:6.1f} s[/dim]  ")

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
        facts = list(state())
        waits = [
            f"waits for {one.awaiting}, {now - one.since:.1f} s so far"
            for one in current_waits()
            if not any(one.awaiting in line for line in facts)
        ]
        times = f"{now - self.started:6.1f} s  "
        indent = " " * len(times)
        lines = [
            (times if number == 0 else indent) + part.plain
            for number, part in enumerate(
                part
                for line in (f"{text}, {now - begun:.0f} s so far", *waits, *facts)
                for part in wrapped(Text(line), self.console.width - len(indent))
            )
        ]
        return Text("\n".join(lines), style="dim", no_wrap=True, overflow="ignore")

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
        """Print a line for each wait that has lasted `WORTH_A_LINE_S`, or long since its last line.

        ``next_line_s`` maps the beginning of each wait to the length at which it gets its next line.
        """
        now = time.monotonic()
        for one in current_waits():
            waited_s = now - one.since
            if waited_s >= next_line_s.get(one.since, WORTH_A_LINE_S):
                next_line_s[one.since] = waited_s + max(WORTH_A_LINE_S, waited_s / _LONGER)
                facts = "; ".join(state())
                since = f"has waited {waited_s:.0f} s for {one.awaiting}"
                self.say(f"{since}{f'; {facts}' if facts else ''}")
