"""Which acked this is: its version, and the commit it was built from or runs from."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

_BUILT_FROM = Path(__file__).with_name("COMMIT")
"""Written when a package is built (`setup.py`)."""
_DESCRIBE = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def version() -> str:
    """The version of the installed package."""
    return metadata.version("acked")


def commit() -> str:
    """The commit, with `-dirty` if files have changed since then; empty if it is not known."""
    if _BUILT_FROM.is_file():
        return _BUILT_FROM.read_text(encoding="utf-8").strip()
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            _DESCRIBE, cwd=checkout, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
