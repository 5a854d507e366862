"""Scripts that run in hosts need no file there: `/tmp` may be full, where some shells put here-documents."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import harness
from harness.lab import expiry

ROOT = Path(harness.__file__).parents[1]
HERE_DOCUMENT = re.compile(r"<<-?\\?['\"{A-Za-z_]")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_script_that_undoes_gets_its_input(shell: str) -> None:
    text = '*filter\n-D INPUT -m comment --comment "it\'s $HOME \\ 100 % `acked`" -j X\nCOMMIT\n'
    done = subprocess.run(
        [shell, "-c", expiry.undo_script("cat", text)], capture_output=True, text=True, check=True
    )
    assert done.stdout == text


@pytest.mark.parametrize("folder", ["harness/lab", "nemesis"])
def test_no_script_has_a_here_document(folder: str) -> None:
    places = [
        f"{path}: {line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text().splitlines()
        if HERE_DOCUMENT.search(line)
    ]
    assert places == []


def test_a_here_document_would_be_seen() -> None:
    for text in ("cat <<'END'", 'cat <<"END"', "cat <<END", "cat <<-END", "cat <<'{mark}'", "cat <<{mark}"):
        assert HERE_DOCUMENT.search(text)
