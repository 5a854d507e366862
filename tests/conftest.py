"""Shared by all tests: which tests can run here, and an artifact cache for tests."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler.loadfile import LoadFileScheduling

from harness import doctor
from harness.lab.docker import engine as docker_engine
from tests import browser
from tests.sampling import in_share

settings.register_profile("acked", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("acked")


@cache
def _unfit(marker: str) -> str:
    """Why tests of this marker cannot run on this machine; empty when they can."""
    if marker == "compose":
        return docker_engine.problem()
    if marker == "browser":
        return browser.problem()
    missing = [check for check in doctor.diagnose(doctor.required("embedded")) if not check.ok]
    return "; ".join(f"{check.name}: {check.found}" for check in missing)


def pytest_configure(config: pytest.Config) -> None:
    """Ignore warnings about kafka-python's use of a deprecated function: 400 warnings per worker."""
    for name in ("read_text", "open_text"):
        config.addinivalue_line("filterwarnings", f"ignore:{name} is deprecated:DeprecationWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and leave out of later ones what was collected.

    The modules and items of all tests are a million objects, none of which becomes garbage.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _handlers_of_signals() -> Iterator[None]:
    """The command line, when a test calls it in this process, leaves Ctrl-C ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_unconfigure() -> None:
    """DuckDB complains of objects that are left when Python ends."""
    gc.unfreeze()


class _OneSession(LoadFileScheduling):  # type: ignore[misc]
    """As `--dist loadfile`, but one worker runs all Spark tests: starting and warming up a JVM takes longer
    than most of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _SPARK if file.startswith(f"{_SPARK}/") else file


_SPARK = "tests/spark"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _OneSession | None:
    """Which worker runs which tests, with the options of `make test`."""
    return _OneSession(config, log) if config.getvalue("dist") == "loadfile" else None


_LONGEST_FIRST = ("spark", "property", "runs", "independent", "unit")
"""Folders of tests without clusters, by the time that one of their files takes."""
_CLUSTERS_WITHIN = 0.6
"""In which part of the files those with clusters stand. If a file of minutes began last, the other workers
would be idle."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers take files in this order: files with clusters among the others.

    If every worker ran a cluster, brokers would lose their ZooKeeper sessions on a slow machine.
    """
    if share := os.environ.get("ACKED_TEST_SHARE"):
        others = [item for item in items if not in_share(item, share)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if in_share(item, share)]
    files = list(dict.fromkeys(item.path for item in items))
    clusters = [file for file in files if _folder(file) == "cluster"]
    others = sorted((file for file in files if file not in clusters), key=lambda file: _rank(_folder(file)))
    place = {file: _CLUSTERS_WITHIN * number / len(clusters) for number, file in enumerate(clusters)}
    place |= {file: (number + 0.5) / len(others) for number, file in enumerate(others)}
    items.sort(key=lambda item: place[item.path])


def _folder(file: Path) -> str:
    return file.relative_to(Path(__file__).parent).parts[0]


def _rank(folder: str) -> int:
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what this machine cannot run."""
    os.environ.pop("PYTHONSAFEPATH", None)  # set by `acked` in this process
    if time.time() > float(os.environ.get("ACKED_TEST_UNTIL", "inf")):
        pytest.skip("the time for this share of the long tests is over")
    for marker in ("cluster", "compose", "browser"):
        if item.get_closest_marker(marker) and (reason := _unfit(marker)):
            pytest.skip(f"{marker} tests cannot run here: {reason}")


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty artifact cache that only this test uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ACKED_CACHE", str(folder))
    return folder
