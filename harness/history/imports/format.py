"""What a format of recordings states about itself, and the files that it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.errors import UsageError, quoted
from harness.history.imports.recording import Recording


@dataclass(frozen=True)
class GivenFile:
    """An argument of `acked import`: a file, and the name before its `=`, if it has one."""

    path: Path
    name: str = ""

    @classmethod
    def parse(cls, argument: str) -> GivenFile:
        """`FILE` or `NAME=FILE`; a file with `=` in its name needs its folder before it (`./a=b`)."""
        name, separator, path = argument.partition("=")
        if not separator or "/" in name or "." in name:
            return cls(Path(argument))
        return cls(Path(path), name)


class Format(ABC):
    """A format of recordings."""

    name: ClassVar[str]
    source: ClassVar[str]
    """What writes it."""
    files: ClassVar[str]
    """The files that it takes."""
    gives: ClassVar[str]
    lacks: ClassVar[str]
    """What stays not known."""

    @abstractmethod
    def read(self, files: Sequence[GivenFile]) -> Recording:
        """Read a recording. Raises UsageError for other files than it takes, BadDataError for bad ones."""


def unnamed(files: Sequence[GivenFile], form: type[Format]) -> list[Path]:
    """The files without a name, one or more. Raises UsageError."""
    paths = [file.path for file in files if not file.name]
    if not paths:
        raise UsageError(f"acked import {form.name} needs {form.files}; name one.")
    return paths


def single(files: Sequence[GivenFile], form: type[Format], what: str) -> Path:
    """The only file, which has no name. Raises UsageError with ``what`` the format takes one of."""
    refuse_named(files, form)
    path, *more = unnamed(files, form)
    if more:
        raise UsageError(f"acked import {form.name} takes one {what}, and {more[0]} is a second file.")
    return path


def refuse_named(files: Sequence[GivenFile], form: type[Format]) -> None:
    """Raise UsageError for a file with a name where the format knows none."""
    for file in files:
        if file.name:
            raise UsageError(
                f"{quoted(f'{file.name}={file.path}', 120)}: acked import {form.name} takes {form.files}; "
                f"name only such files."
            )
