"""Memory of a process that lives for hours goes back to the operating system when it is freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa

_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of mallopt(3)."""
_LARGE_BYTES = 128 << 10
"""What it is at first."""


def return_large_buffers() -> None:
    """Have each large buffer mapped by itself, those of Arrow too, so that its memory goes when it is freed.

    glibc raises the size from which on it does so with each such buffer that is freed. Answers of some MiB
    then come from the arenas of threads, between small objects that stay. Without glibc nothing changes.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def return_free_memory() -> None:
    """Give back the pages of all arenas that nothing uses: a few milliseconds."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
