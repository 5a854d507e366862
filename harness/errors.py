"""One exception class for each cause of failure, with the exit code that it leads to.

A message is one sentence: what is wrong, the value, where it was found, and what to do about it.
`sentence` and `printable` are what a terminal may show of it: values come from anywhere.
`json_value`, `json_object` and `json_file` read stored JSON; whatever is wrong with it is a `BadDataError`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.secrets import shown_urls

EXIT_AS_DECLARED = 0
EXIT_VIOLATED = 1
EXIT_UNKNOWN = 2
EXIT_UNFIT = 3
EXIT_BAD_DATA = 4
EXIT_INTERRUPTED = 130
EXIT_USAGE = 254
EXIT_CRASHED = 255
INTERRUPTED = "interrupted; everything that was started has been ended."


class AckedError(Exception):
    """Base of all failures that the command line reports in one sentence, without a traceback."""

    exit_code = EXIT_CRASHED

    def __init__(self, message: str, *, detail: str = "", facts: Mapping[str, str] | None = None) -> None:
        """``message`` is the sentence; ``detail`` is shown below it, for example the end of a log.

        ``facts`` tell it from other errors of its class and place (`cause_of`), without names and times.
        """
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.facts = facts or {}


class UsageError(AckedError):
    """A command, option or scenario that makes no sense. Nothing was started."""

    exit_code = EXIT_USAGE


class UnfitError(AckedError):
    """This machine, or the chosen client, lacks what is needed (Java, iptables, memory; transactions)."""

    exit_code = EXIT_UNFIT


class BadDataError(AckedError):
    """A stored file is damaged or does not follow its schema: a history, a run folder, `runs.jsonl`."""

    exit_code = EXIT_BAD_DATA


class InvalidRunError(AckedError):
    """A precondition of the scenario did not hold, or a fault had no effect: the run proves nothing."""

    exit_code = EXIT_UNKNOWN

    def __init__(self, message: str, *, detail: str = "", links: Sequence[str] = ()) -> None:
        """``links`` are the links, ``broker1 -> broker2``, on which a cut had no effect."""
        super().__init__(message, detail=detail)
        self.links = tuple(links)


class StoppedError(AckedError):
    """The user ended the command early (Ctrl-C, SIGTERM)."""

    exit_code = EXIT_INTERRUPTED


class WaitTimeoutError(AckedError):
    """A condition did not become true before its deadline; the message shows the last observation."""


class ProcessDiedError(AckedError):
    """A process of the cluster ended by itself; the detail is the end of its log."""


class LabError(AckedError):
    """The lab failed, for example a command in a host."""


LONGEST_SENTENCE = 290
"""Characters of an error's sentence, without `acked: ` before it."""
_SHORTEST_WORD = 40
_LONGEST_TEXT = 1 << 16
_VISIBLE = {**{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}, 0x7F: 0x2421}
"""Control characters, which change what a terminal shows, and the visible characters that stand for them."""


def printable(text: str) -> str:
    """The text with control characters and half surrogate pairs made visible; line ends and tabs stay."""
    if text.isprintable():
        return text
    text = text.translate(_VISIBLE).encode(errors="replace").decode()
    return "".join(letter if _harmless(letter) else "\ufffd" for letter in text)


def _harmless(letter: str) -> bool:
    """Whether it is visible, a space or a line end: not one that hides, turns round or joins others."""
    return letter.isprintable() or letter in "\n\t" or unicodedata.category(letter) == "Zs"


def shortened(text: str, longest: int) -> str:
    """The text, with an ellipsis for its middle if it has more than ``longest`` characters."""
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - head - 1) :]}"


def sentence(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """One printable line of at most ``longest`` characters; long words, which are values, give way first.

    Whatever it quotes, it shows no password of a URL.
    """
    words = " ".join(printable(shown_urls(shortened(text, _LONGEST_TEXT))).splitlines()).split(" ")
    for place in sorted(range(len(words)), key=lambda place: -len(words[place])):
        excess = sum(map(len, words)) + len(words) - 1 - longest
        if excess <= 0 or len(words[place]) <= _SHORTEST_WORD:
            break
        words[place] = shortened(words[place], max(_SHORTEST_WORD, len(words[place]) - excess))
    return shortened(" ".join(words), longest)


def as_printed(error: AckedError) -> str:
    """What a process without a terminal of its own writes to stderr: the sentence, and the detail below."""
    detail = f"{printable(error.detail).rstrip()}\n" if error.detail else ""
    return f"acked: {sentence(error.message)}\n{detail}"


def cause_of(error: BaseException) -> dict[str, str]:
    """What an error has in common with others that have the same reason, whatever their sentences say.

    `error` is the class of the error that led to it, `place` the function that raised or awaited it, as
    `harness.cluster.kraft_start.StartedKRaftCluster.boot`. An error's own facts follow.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    place, entry = "", error.__traceback__
    while entry is not None:
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != "tenacity" and module != "harness.waiting":
            place = f"{module}.{entry.tb_frame.f_code.co_qualname}"
        entry = entry.tb_next
    return {"error": type(error).__name__, "place": place, **getattr(error, "facts", {})}


def text_of(error: BaseException) -> str:
    """The message of an exception of any class; empty if the class cannot even say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - code of a user
        return ""


def crashed(error: BaseException) -> AckedError:
    """What a process shows for an unforeseen exception: its name and place; the detail is its traceback."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
    about = sentence(text_of(error), 120).rstrip(".")
    return AckedError(
        f"{type(error).__name__} at {place}{f' ({about})' if about else ''}: a mistake of acked itself; "
        f"please report it with the traceback below.",
        detail="".join(traceback.format_exception(error)).rstrip(),
    )


DAMAGED = "the run folder is damaged"
"""What a message says instead of a remedy about a file that nobody writes by hand."""


def quoted(value: object, longest: int = 60) -> str:
    """A value as a message shows it: its first ``longest`` characters, quoted if it is a text."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= longest else f"{text[:longest]}…"
    return repr(cut) if isinstance(value, str) else cut


def some(names: Sequence[str], most: int = 4) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def json_value(text: str | bytes, place: object, remedy: str = DAMAGED) -> Any:
    """The value that a stored JSON text holds. Raises BadDataError with ``place`` and ``remedy``.

    Half a surrogate pair, which JSON may hold and UTF-8 may not, becomes a question mark.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        value = json.loads(text)
        if text.isascii() and "\\ud" not in text and "\\uD" not in text:
            return value
        return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except ValueError as error:
        raise BadDataError(f"{place} is not valid JSON ({error}); {closed(remedy)}") from error
    except RecursionError as error:
        raise BadDataError(f"{place} is JSON that is nested too deeply; {closed(remedy)}") from error


def closed(remedy: str) -> str:
    """A remedy with its full stop, unless it is a question."""
    return remedy if remedy.endswith("?") else f"{remedy}."


def json_object(text: str | bytes, place: object, remedy: str = DAMAGED) -> dict[str, Any]:
    """The object that a stored JSON text holds. Raises BadDataError like `json_value`."""
    value = json_value(text, place, remedy)
    if not isinstance(value, dict):
        raise BadDataError(f"{place} holds no JSON object; {remedy}.")
    return value


def json_file(file: Path, remedy: str = DAMAGED) -> dict[str, Any]:
    """The object that a JSON file holds. Raises BadDataError like `json_value`."""
    if file.exists() and not file.is_file():
        raise BadDataError(f"{file} is no file; {remedy}.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadDataError(
            f"{file} cannot be read ({error.strerror}); is this the folder of a run?"
        ) from error
    return json_object(data, file, remedy)
