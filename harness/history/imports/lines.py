"""Text files of other programs, line by line: what is no text, or too long, is refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import BadDataError, closed, quoted
from harness.plain_files import require_file

LONGEST_IMPORTED = 16 << 20
"""Bytes of a line. A poll of 100,000 records takes 3 MB."""
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MAX_OFFSET = MAX_NS = 2**62
"""Offsets and times with room for sums and differences that fit 64 bits."""
NS_OF_MS = 10**6
LONGEST_LABEL = 100
"""Characters of a message's value that are shown as its name."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


class Place:
    """Where a reader is: a file, and the number of the line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.line = 0

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    def refusal(self, problem: str, remedy: str) -> BadDataError:
        """The error that says what is wrong at this place, and what to do about it."""
        return BadDataError(f"{self}: {problem}; {closed(remedy)}")

    def number(self, value: object, what: str, *, least: int = 0, most: int = MAX_LONG) -> int:
        """A whole number, also as text. Raises BadDataError for anything else, and outside of the bounds."""
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refusal(
                f"{what} is {quoted(value)}, not a whole number from {least} to {most}",
                "is this a file of this format?",
            )
        return value

    def topic(self, value: object) -> str:
        """The name of a topic, as Kafka allows it. Raises BadDataError."""
        if not isinstance(value, str) or not _TOPIC.fullmatch(value):
            raise self.refusal(
                f"topic {quoted(value)} is no name of a topic", "is this a file of this format?"
            )
        return value


def lines_of(place: Place, *, errors: str = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; ``place`` follows.

    ``errors`` is that of `bytes.decode`. Raises BadDataError for a file that cannot be read, a line of more
    than `LONGEST_IMPORTED` bytes, and bytes that are not UTF-8.
    """
    require_file(place.file, "name a file")
    try:
        with place.file.open("rb") as opened:
            while data := opened.readline(LONGEST_IMPORTED + 1):
                place.line += 1
                if len(data) > LONGEST_IMPORTED:
                    raise place.refusal(
                        f"the line has more than {LONGEST_IMPORTED >> 20} MiB", "is this a text file?"
                    )
                try:
                    yield data.decode("utf-8", errors).rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise place.refusal(
                        f"byte {error.start + 1} is not UTF-8", "convert the file to UTF-8"
                    ) from None
    except OSError as error:
        raise BadDataError(f"{place.file} cannot be read ({error.strerror}); name a readable file.") from None
