"""The program of a fork that collects garbage while its own files are open, for `test_fork_server`."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Open as many files in a folder as the garbage has descriptors, collect, and write to all."""
    folder, count = Path(arguments[0]), int(arguments[1])
    with ExitStack() as stack:
        files = [stack.enter_context((folder / str(number)).open("wb")) for number in range(count)]
        gc.collect()
        for file in files:
            file.write(b"written")
    return 0
