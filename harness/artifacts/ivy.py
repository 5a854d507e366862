"""Downloading by Maven coordinates with the Ivy that PySpark contains, so that Maven is not needed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from harness.artifacts.java import Java
from harness.errors import UnfitError
from harness.extras import install
from harness.kafka.versions import Coordinates
from harness.lab.embedded.namespaces import with_parent

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="${ivy.home}/cache" lockStrategy="artifact-lock-nio"/>
  <resolvers><ibiblio name="central" m2compatible="true" checksums="sha1,md5"/></resolvers>
</ivysettings>
"""
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="acked" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_FOUND = re.compile(r"^\s*found ")
_BEGUN = re.compile(r"^\s*downloading \S*/(\S+)")
_DONE = re.compile(r"\[SUCCESSFUL \] [^#]+#([^;]+);([^!]+)!")
_PROBLEM = re.compile(
    r"UNRESOLVED|FAILED|not found|Server access error|problem|invalid (sha1|md5)|Exception", re.I
)
_BANNER = re.compile(r"^\s*::.*::\s*$")

FILES = ("ivysettings.xml", "ivy.xml")
"""Files that a download leaves beside its folder of jars."""
ATTEMPTS = 3
FIRST_WAIT_S = 1.0
STILL = "still"
"""The first word of a line about a step that is still running."""
QUIET_S = 3.0
"""Longest time without a line of progress."""


class _DownloadError(Exception):
    """One attempt failed; the message holds the problems that Ivy reported."""


def ivy_jar() -> Path:
    """The Ivy jar in the installed PySpark. Raises UnfitError if there is none."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        jars = sorted(Path(folder).glob("jars/ivy-*.jar"))
        if jars:
            return jars[-1]
    raise UnfitError(f"PySpark, or the Ivy jar in it, is not installed; {install('lab')} installs it.")


def fetch(
    coordinates: Sequence[Coordinates],
    into: Path,
    home: Path,
    java: Java,
    say: Callable[[str], None],
) -> None:
    """Download ``wanted`` and their dependencies to ``into``. ``home`` is Ivy's cache of earlier downloads.

    Several processes may use the cache at a time. Ivy checks each file against its published SHA-1. Raises
    UnfitError, with the coordinates, after three failed attempts.
    """
    home.mkdir(parents=True, exist_ok=True)
    name = f"{coordinates[0].name}-{coordinates[0].revision}"
    into.parent.mkdir(parents=True, exist_ok=True)
    settings, module = (into.parent / file for file in FILES)
    settings.write_text(_SETTINGS)
    lines = "\n".join(_dependency(entry) for entry in coordinates)
    module.write_text(_MODULE.format(name=name, dependencies=lines))
    command = [
        java.path,
        f"-Divy.home={home}",
        "-jar",
        str(ivy_jar()),
        *("-settings", str(settings), "-ivy", str(module), "-confs", "default"),
        *("-retrieve", f"{into}/{_PATTERN}"),
    ]

    def announce(state: RetryCallState) -> None:
        wait_s = state.next_action.sleep if state.next_action else 0.0
        say(f"attempt {state.attempt_number} of {ATTEMPTS} failed; trying again in {wait_s:.0f} s")

    try:
        for attempt in Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=FIRST_WAIT_S, max=10),
            retry=retry_if_exception_type(_DownloadError),
            before_sleep=announce,
            reraise=True,
        ):
            with attempt:
                _run(command, say)
    except _DownloadError as error:
        names = ", ".join(str(entry) for entry in coordinates)
        raise UnfitError(
            f"Downloading {names} failed {ATTEMPTS} times; check that Maven Central is reachable from here.",
            detail=str(error),
        ) from None


def _dependency(entry: Coordinates) -> str:
    return (
        f'    <dependency org="{entry.organisation}" name="{entry.name}" rev="{entry.revision}" '
        'transitive="true" conf="default->default"/>'
    )


def _run(command: Sequence[str], say: Callable[[str], None]) -> None:
    with subprocess.Popen(
        with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            problems = _follow(process.stdout, say)
        except BaseException:
            process.kill()  # Ctrl-C must not leave a download behind
            raise
    if process.returncode != 0:
        raise _DownloadError("\n".join(problems) or f"Ivy ended with status {process.returncode}")


def _follow(output: Iterable[str], say: Callable[[str], None]) -> Sequence[str]:
    """Report Ivy's progress to ``say``, also while it prints nothing; returns the problems it reported."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        for line in output:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, name="ivy", daemon=True).start()
    problems: deque[str] = deque(maxlen=8)
    modules = downloaded = 0
    step, begun = "looking up modules", time.monotonic()
    quiet_until = begun + QUIET_S
    while True:
        now = time.monotonic()
        if now >= quiet_until:
            say(f"{STILL} {step} ({now - begun:.0f} s)")
            quiet_until = now + QUIET_S
        try:
            line = lines.get(timeout=quiet_until - now)
        except Empty:
            continue
        if line is None:
            return problems
        if _FOUND.search(line):
            modules += 1
            step = f"looking up modules, {modules} so far"
        elif done := _DONE.search(line):
            downloaded += 1
            say(f"downloaded {downloaded:2d} of {modules}: {done[1]} {done[2]}")
            quiet_until = time.monotonic() + QUIET_S
        elif begin := _BEGUN.search(line):
            step, begun = f"downloading {begin[1]}", time.monotonic()
        elif _PROBLEM.search(line) and not _BANNER.match(line):
            problems.append(line.strip(" :\t\n"))
