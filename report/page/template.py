"""What all pages are made with: templates that escape, files of this folder, signs of verdicts and tones."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from report.model.model import Tone, grouped

_FOLDER = Path(__file__).parent
ICONS = {
    "as declared": "✓",
    "violated": "✗",
    "unknown": "?",
    "invalid": "⊘",
    "crashed": "!",
    "unfit": "–",
}
"""A sign for each verdict, so that nobody has to tell it by colour."""
STATUS_ICONS = {"confirmed": "✓", "refuted": "≠", "not reproduced": "○", "unknown": "?"}
"""A sign for each answer to a claim."""
TONES: Mapping[Tone, tuple[str, str]] = {
    "kept": ("✓", "as documented"),
    "cost": ("◌", "as documented"),
    "broken": ("✗", "promise broken"),
    "undecided": ("?", "not decided"),
    "void": ("⊘", "no result"),
}
"""The sign and the word of each tone."""


@cache
def environment() -> Environment:
    """The templates, which escape everything that they are given."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["size"] = _size
    environment.filters["grouped"] = grouped
    environment.filters["quoted"] = lambda text: re.sub(r"`([^`]*)`", "“\\1”", str(text))
    environment.filters["words"] = lambda text: str(text).replace("_", " ")
    return environment


@cache
def asset(name: str) -> str:
    """A file of this folder as text."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """The digest by which the page's Content-Security-Policy allows a style or a script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _size(size_bytes: int) -> str:
    for unit, factor in (("MB", 1_000_000), ("kB", 1000)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
