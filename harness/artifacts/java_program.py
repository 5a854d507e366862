"""Java source files as a program in the cache: compiled once for each version of Java and of its libraries.

The cache holds a jar with the classes, and a class-data archive that halves the time to start.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.cache import UNFINISHED, locked, writable
from harness.artifacts.java import INSTALL, Java
from harness.errors import LabError, UnfitError
from harness.held_folders import held_folder
from harness.lab.embedded.namespaces import with_parent

_COMPILE_S = 120.0
_TRAINING_S = 60.0
_OPTIONS = ("-Xss512k", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")


@dataclass(frozen=True, kw_only=True)
class JavaProgram:
    """Source files, and what they need."""

    sources: tuple[Path, ...]
    about: str
    """Names it in lines of progress and in errors: `the Java client of Kafka 3.9.1`."""
    java: Java
    jars: tuple[Path, ...]
    """Its class path."""
    main: str
    """The class to start."""
    heap_mib: tuple[int, int]
    """The size of its heap at first, and the size to which it may grow."""
    training_input: str = ""
    """Standard input of a run that loads the classes of an ordinary run; the run ends when the input ends."""

    def argv(self, shelf: Path, say: Callable[[str], None]) -> tuple[str, ...]:
        """The command line up to the main class, compiling the sources where the cache folder lacks them.

        The paths in it are those of the cache, which every host sees. Raises UnfitError if there is no
        compiler, and LabError for sources that do not compile.
        """
        content = [source.read_bytes() for source in self.sources]
        build_inputs = repr((_OPTIONS, self.heap_mib, list(map(str, self.jars)), content))
        key = hashlib.sha256(build_inputs.encode()).hexdigest()[:12]
        folder = shelf / f"{self.java.build}-{key}"
        if not (folder / "agent.jar").is_file():
            with locked(writable(shelf), say):
                if not (folder / "agent.jar").is_file():
                    say(f"compiling {self.about}, once for this Java")
                    self._make(folder)
        return self._command(folder)

    def _command(self, folder: Path, *more: str) -> tuple[str, ...]:
        archive = folder / "agent.jsa"
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        class_path = ":".join(map(str, (folder / "agent.jar", *self.jars)))
        heap = (f"-Xms{self.heap_mib[0]}m", f"-Xmx{self.heap_mib[1]}m")
        return (self.java.path, *heap, *_OPTIONS, *shared, *more, "-cp", class_path)

    def _make(self, folder: Path) -> None:
        compiler = Path(self.java.path).resolve().with_name("javac")
        if not compiler.is_file():
            raise UnfitError(
                f"There is no Java compiler beside {self.java.path}, and {self.about} has to be compiled; "
                f"install one with `{INSTALL}`."
            )
        with held_folder(folder.parent, UNFINISHED) as new:
            (new / "classes").mkdir()
            self._compile([str(compiler), "-nowarn", "--release", "11", "-d", str(new / "classes")])
            with zipfile.ZipFile(new / "agent.jar", "w", zipfile.ZIP_DEFLATED) as jar:
                for file in sorted((new / "classes").iterdir()):
                    jar.write(file, file.name)
            shutil.rmtree(new / "classes")
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
        self._train(folder)  # in its final place: the archive holds the class path

    def _compile(self, command: Sequence[str]) -> None:
        command = [*command, "-cp", ":".join(map(str, self.jars)), *map(str, self.sources)]
        try:
            done = subprocess.run(
                with_parent(command), capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"Compiling {self.about} did not end within {_COMPILE_S:.0f} s.") from None
        if done.returncode != 0:
            raise LabError(
                f"{self.sources[0]} does not compile against {self.jars[0].name}.", detail=done.stderr[-2000:]
            )

    def _train(self, folder: Path) -> None:
        """Leave a class-data archive of the classes that the training run loads.

        Without one the program only starts more slowly.
        """
        archive = folder / "agent.jsa"
        new = folder / "new.jsa"
        try:
            subprocess.run(
                with_parent((*self._command(folder, f"-XX:ArchiveClassesAtExit={new}"), self.main)),
                input=self.training_input,
                capture_output=True,
                text=True,
                timeout=_TRAINING_S,
                check=False,
            )
            if new.is_file():
                new.rename(archive)
        except subprocess.TimeoutExpired:
            new.unlink(missing_ok=True)
