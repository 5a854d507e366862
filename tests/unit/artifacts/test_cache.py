"""The cache folder is shared by concurrent runs, which may have equal process ids."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.artifacts.cache import writable


def test_processes_with_the_same_id_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Threads share a process id, as runs in different PID namespaces may."""
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: writable(tmp_path / "cache"), range(800))) == {tmp_path / "cache"}
    assert list((tmp_path / "cache").iterdir()) == []
