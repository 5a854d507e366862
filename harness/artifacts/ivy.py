"""Downloading by Maven coordinates with the Ivy that PySpark contains, so that Maven is not needed.

`fetch` resolves modules and their dependencies: it reads some hundred small files, one after the other.
`download` gets modules that are known already, several at a time.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from harness.artifacts.java import Java
from harness.artifacts.manifest import sha256
from harness.artifacts.pinned import PinnedJar
from harness.errors import UnfitError
from harness.extras import install
from harness.kafka.versions import Coordinates
from harness.lab.embedded.namespaces import with_parent

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="${{ivy.home}}/cache" lockStrategy="artifact-lock-nio"/>
  <resolvers><ibiblio name="central" m2compatible="true" {options}/></resolvers>
</ivysettings>
"""
_RESOLVING = 'checksums="sha1,md5"'
_EXACT = 'usepoms="false" checksums=""'
"""Nothing is looked up, and the caller has the checksums."""
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

JARS_AT_ONCE = 4
"""How many jars are downloaded at the same time, each by an Ivy of its own."""
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
ATTEMPTS = 3
_COORDINATES_NAMED = 3
"""How many coordinates an error names."""
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
    *,
    pattern: str = _PATTERN,
) -> None:
    """Download modules and their dependencies to ``into``. ``home`` is Ivy's cache of earlier downloads.

    Several processes may use the cache at a time. Ivy checks each file against its published SHA-1. Raises
    UnfitError, with the coordinates, after three failed attempts.
    """
    with _requests([coordinates], into, home, java, _RESOLVING, pattern) as commands:
        _attempt(lambda: _run(commands, _Report(say)), coordinates, say)


def download(
    jars: Sequence[PinnedJar], into: Path, home: Path, java: Java, say: Callable[[str], None]
) -> None:
    """Download these jars to ``into``, and nothing else; each must have its checksum.

    Raises UnfitError, with the coordinates, after three failed attempts.
    """
    by_size = sorted(jars, key=lambda jar: jar.size, reverse=True)
    portions = [by_size[number::JARS_AT_ONCE] for number in range(min(JARS_AT_ONCE, len(jars)))]

    def once() -> None:
        _run(commands, _Report(say, jars))
        wrong = [jar for jar in jars if not _is_whole(into / jar.name, jar)]
        for jar in wrong:
            forget(home, jar.name)
            (into / jar.name).unlink(missing_ok=True)
        if wrong:
            names = ", ".join(str(jar.coordinates) for jar in wrong)
            raise _DownloadError(f"does not have the checksum that acked knows: {names}")

    requests = [[jar.coordinates for jar in portion] for portion in portions]
    with _requests(requests, into, home, java, _EXACT, _PATTERN) as commands:
        _attempt(once, [jar.coordinates for jar in jars], say)


def _is_whole(file: Path, jar: PinnedJar) -> bool:
    return file.is_file() and file.stat().st_size == jar.size and sha256(file) == jar.sha256


def forget(home: Path, name: str) -> None:
    """Remove a jar from Ivy's own cache, which may be damaged too."""
    for copy in home.glob(f"cache/*/*/*/{name}"):
        copy.unlink()


@contextmanager
def _requests(
    requests: Sequence[Sequence[Coordinates]], into: Path, home: Path, java: Java, options: str, pattern: str
) -> Iterator[list[list[str]]]:
    """The command lines of Ivy for some requests, whose files exist while the context lasts."""
    home.mkdir(parents=True, exist_ok=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ivy-", dir=into.parent) as folder:
        settings = Path(folder, "ivysettings.xml")
        settings.write_text(_SETTINGS.format(options=options))
        commands = []
        for number, coordinates in enumerate(requests):
            module = Path(folder, f"ivy-{number}.xml")
            name = f"{coordinates[0].name}-{coordinates[0].revision}"
            lines = "\n".join(_dependency(entry, exact=options == _EXACT) for entry in coordinates)
            module.write_text(_MODULE.format(name=name, dependencies=lines))
            commands.append(
                [
                    *(java.path, *_SMALL, f"-Divy.home={home}", "-jar", str(ivy_jar())),
                    *("-settings", str(settings), "-ivy", str(module), "-confs", "default"),
                    *("-retrieve", f"{into}/{pattern}"),
                ]
            )
        yield commands


def _attempt(
    once: Callable[[], None], coordinates: Sequence[Coordinates], say: Callable[[str], None]
) -> None:
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
                once()
    except _DownloadError as error:
        names = ", ".join(map(str, coordinates[:_COORDINATES_NAMED]))
        names += (
            f" and {len(coordinates) - _COORDINATES_NAMED} more"
            if len(coordinates) > _COORDINATES_NAMED
            else ""
        )
        raise UnfitError(
            f"Downloading {names} failed {ATTEMPTS} times; check that Maven Central is reachable from here.",
            detail=str(error),
        ) from None


def _dependency(entry: Coordinates, *, exact: bool) -> str:
    transitive = "false" if exact else "true"
    return (
        f'    <dependency org="{entry.organisation}" name="{entry.name}" rev="{entry.revision}" '
        f'transitive="{transitive}" conf="default->default"/>'
    )


class _Report:
    """Reports the progress of one or more Ivys to ``say``, also while they print nothing."""

    def __init__(self, say: Callable[[str], None], jars: Sequence[PinnedJar] = ()) -> None:
        """``jars`` are what is downloaded, if it is known; else it is counted as it is found."""
        self.problems: deque[str] = deque(maxlen=8)
        self._say = say
        self._sizes = {(jar.coordinates.name, jar.coordinates.revision): jar.size for jar in jars}
        self._modules = len(jars)
        self._downloaded = 0
        self._step, self._begun = ("starting" if jars else "looking up modules"), time.monotonic()
        self._quiet_until = self._begun + QUIET_S

    @property
    def quiet_s(self) -> float:
        """Seconds until something must be said."""
        return self._quiet_until - time.monotonic()

    def still(self) -> None:
        """Report what is going on, if nothing has been said for long."""
        if self.quiet_s <= 0:
            self._tell(f"{STILL} {self._step} ({time.monotonic() - self._begun:.0f} s)")

    def line(self, line: str) -> None:
        """Take a line of output."""
        if _FOUND.search(line):
            if not self._sizes:
                self._modules += 1
                self._step = f"looking up modules, {self._modules} so far"
        elif done := _DONE.search(line):
            self._downloaded += 1
            size = self._sizes.get((done[1], done[2]))
            shown = "" if size is None else f" ({_in_words(size)})"
            self._tell(f"downloaded {self._downloaded:2d} of {self._modules}: {done[1]} {done[2]}{shown}")
        elif begin := _BEGUN.search(line):
            self._step, self._begun = f"downloading {begin[1]}", time.monotonic()
        elif _PROBLEM.search(line) and not _BANNER.match(line):
            self.problems.append(line.strip(" :\t\n"))

    def _tell(self, text: str) -> None:
        self._say(text)
        self._quiet_until = time.monotonic() + QUIET_S


def _in_words(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def _run(commands: Sequence[Sequence[str]], report: _Report) -> None:
    """Run the commands side by side. Raises _DownloadError if one fails."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_started(command)) for command in commands]
        try:
            _follow([process.stdout for process in processes if process.stdout], report)
        except BaseException:
            for process in processes:
                process.kill()  # Ctrl-C must not leave a download behind
            raise
    failed = [process.returncode for process in processes if process.returncode != 0]
    if failed:
        raise _DownloadError("\n".join(report.problems) or f"Ivy ended with status {failed[0]}")


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _follow(outputs: Sequence[Iterable[str]], report: _Report) -> None:
    """Pass every line to ``report``, until all outputs have ended."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def read(output: Iterable[str]) -> None:
        for line in output:
            lines.put(line)
        lines.put(None)

    for output in outputs:
        threading.Thread(target=read, args=(output,), name="ivy", daemon=True).start()
    open_outputs = len(outputs)
    while open_outputs:
        report.still()
        try:
            line = lines.get(timeout=max(0.0, report.quiet_s))
        except Empty:
            continue
        if line is None:
            open_outputs -= 1
        else:
            report.line(line)
