"""Downloading by Maven coordinates, with the Ivy that PySpark carries: no Maven, no host named here."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from harness.artifacts.java import Java
from harness.errors import UnfitError
from harness.kafka.versions import Coordinates

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="${ivy.home}/cache"/>
  <resolvers><ibiblio name="central" m2compatible="true" checksums="sha1,md5"/></resolvers>
</ivysettings>
"""
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="acked" module="resolved"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_FOUND = re.compile(r"^\s*found ")
_DONE = re.compile(r"\[SUCCESSFUL \] [^#]+#([^;]+);([^!]+)!")
_PROBLEM = re.compile(
    r"UNRESOLVED|FAILED|not found|Server access error|problem|invalid (sha1|md5)|Exception", re.I
)

ATTEMPTS = 3
FIRST_WAIT_S = 1.0


class _DownloadError(Exception):
    """One attempt did not bring everything; the message holds what Ivy said."""


def ivy_jar() -> Path:
    """The Ivy jar inside the installed PySpark. Raises UnfitError where there is none."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        jars = sorted(Path(folder).glob("jars/ivy-*.jar"))
        if jars:
            return jars[-1]
    raise UnfitError("PySpark and the Ivy jar in it are not installed; run `make setup`.")


def fetch(
    wanted: Sequence[Coordinates],
    into: Path,
    home: Path,
    java: Java,
    say: Callable[[str], None],
) -> None:
    """Download ``wanted`` and all they depend on into ``into``; ``home`` keeps what was downloaded before.

    Ivy checks each file against the SHA-1 that was published with it. Three attempts, then
    UnfitError with the coordinates.
    """
    home.mkdir(parents=True, exist_ok=True)
    settings, module = home / "settings.xml", home / "module.xml"
    settings.write_text(_SETTINGS)
    module.write_text(_MODULE.format(dependencies="\n".join(_dependency(entry) for entry in wanted)))
    command = [
        java.path,
        f"-Divy.home={home}",
        "-jar",
        str(ivy_jar()),
        *("-settings", str(settings), "-ivy", str(module), "-confs", "default"),
        *("-retrieve", f"{into}/{_PATTERN}"),
    ]

    def again(state: RetryCallState) -> None:
        say(f"attempt {state.attempt_number} of {ATTEMPTS} failed, trying again")

    try:
        for attempt in Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=FIRST_WAIT_S, max=10),
            retry=retry_if_exception_type(_DownloadError),
            before_sleep=again,
            reraise=True,
        ):
            with attempt:
                _run(command, say)
    except _DownloadError as error:
        names = ", ".join(str(entry) for entry in wanted)
        raise UnfitError(
            f"Downloading {names} failed {ATTEMPTS} times; is Maven Central reachable from here?",
            detail=str(error),
        ) from None


def _dependency(entry: Coordinates) -> str:
    return (
        f'    <dependency org="{entry.organisation}" name="{entry.name}" rev="{entry.revision}" '
        f'conf="default->default"/>'
    )


def _run(command: Sequence[str], say: Callable[[str], None]) -> None:
    problems: deque[str] = deque(maxlen=8)
    looked_up = count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                done = _DONE.search(line)
                if _FOUND.search(line):
                    looked_up += 1
                    if looked_up % 10 == 0:
                        say(f"looked up {looked_up} modules")
                elif done:
                    count += 1
                    say(f"fetched {count:2d} of {looked_up}: {done[1]} {done[2]}")
                elif _PROBLEM.search(line):
                    problems.append(line.strip())
        except BaseException:
            process.kill()  # Ctrl-C: leave no download behind
            raise
    if process.returncode != 0:
        raise _DownloadError("\n".join(problems) or f"Ivy ended with status {process.returncode}")
