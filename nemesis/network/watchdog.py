"""A time-to-live for whatever is done inside a host: shell text, nothing more.

The watchdog is detached from everything and counts monotonic time (`sleep`), so that it does its work even
if the harness was killed. Scripts get `$1` a tag unique to the fault, `$2` a number, `$3` the undoing script.
"""

from __future__ import annotations

START = 'setsid sh -c \'sleep "$2" && sh -c "$3"\' watch "$1" "$2" "$3" </dev/null >/dev/null 2>&1 & echo $!'
"""`$2` is the time-to-live in seconds; prints the watchdog's pid."""

END = 'if [ -n "$2" ] && grep -qs -- "$1" "/proc/$2/cmdline"; then kill -9 "-$2"; fi'
"""`$2` is the watchdog's pid; a pid that now belongs to somebody else is left alone."""


def undo_text(command: str, stdin: str) -> str:
    """A script that runs ``command`` with a text as its input."""
    return f"{command} <<'_END_'\n{stdin}_END_\n"
