"""Finding the Java that runs Kafka, and its version."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from harness.errors import UnfitError

MIN_JAVA = 17
INSTALL = "sudo apt-get install -y openjdk-17-jdk-headless"


@dataclass(frozen=True)
class Java:
    """A Java runtime. Two that cannot share class-data archives differ in ``build``, a short key."""

    path: str
    major: int
    version: str
    build: str


def parse_major(text: str) -> tuple[int, str] | None:
    """Major and full version in the output of `java -version`; None if it has neither.

    >>> parse_major('openjdk version "1.8.0_392"')
    (8, '1.8.0_392')
    """
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', text)
    return (int(match[2]), match[1]) if match else None


def find_java(minimum: int = MIN_JAVA) -> Java:
    """The Java of `JAVA_HOME` if that is set, else the one on the path.

    Raises UnfitError if there is none, if it does not run, or if it is too old.
    """
    home = os.environ.get("JAVA_HOME", "")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None:
        place = f"in JAVA_HOME={home}" if home else "on the path"
        raise UnfitError(
            f"No Java {place}: Kafka needs Java {minimum} or newer; install it with `{INSTALL}`."
        )
    java = _java_at(path)
    if java.major < minimum:
        raise UnfitError(
            f"Java {java.version} at {path} is too old: Kafka needs Java {minimum} or newer; "
            f"install it with `{INSTALL}`, or set JAVA_HOME to one."
        )
    return java


@cache
def _java_at(path: str) -> Java:
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnfitError(f"Java at {path} cannot be run ({error}); install it with `{INSTALL}`.") from error
    text = done.stderr + done.stdout
    parsed = parse_major(text)
    if done.returncode != 0 or parsed is None:
        first = text.strip().splitlines()[:1] or [f"exit status {done.returncode}"]
        raise UnfitError(
            f"Java at {path} does not report its version ({first[0]}); install it with `{INSTALL}`."
        )
    return Java(path, parsed[0], parsed[1], f"java{parsed[1]}-{build_key(text)}")


def build_key(version_text: str) -> str:
    """A short key of the build that `java -version` names, regardless of the modes and options it prints."""
    named = re.findall(r'version "[^"]*"|^.*\bbuild [^,)\s]+', version_text, re.MULTILINE)
    return hashlib.sha256("\n".join(named).encode()).hexdigest()[:8]
