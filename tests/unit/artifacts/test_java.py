"""Finding Java: its version in all the shapes it comes in, and one sentence when it will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.java import build_key, find_java, parse_major
from harness.errors import UnfitError


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "11.0.22" 2024-01-16', 11),
    ],
)
def test_major_version(said: str, major: int) -> None:
    parsed = parse_major(said)
    assert parsed is not None
    assert parsed[0] == major


SAID = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, mixed mode, sharing)
"""


def test_the_key_of_a_build_is_that_of_the_build_alone() -> None:
    """An archive that was made is found next time too, whatever mode the JVM runs in and what it notes."""
    key = build_key(SAID)
    assert build_key(SAID.replace(", sharing", "")) == key
    assert build_key("NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\n" + SAID) == key
    assert build_key(SAID.replace("+6", "+7")) != key


def test_no_version_at_all() -> None:
    assert parse_major("The operation couldn't be completed. Unable to locate a Java Runtime.") is None


def test_too_old_java_is_named(fake_java) -> None:
    java = fake_java('openjdk version "11.0.22" 2024-01-16')
    with pytest.raises(UnfitError, match=r"Java 11\.0\.22 at .*java is too old.*17.*apt-get install"):
        find_java()
    assert str(java.path)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnfitError, match="No Java on the path.*apt-get install"):
        find_java()


def test_java_home_comes_first(fake_java, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(UnfitError, match="No Java in JAVA_HOME=.*nowhere"):
        find_java()


def test_java_that_does_not_answer(fake_java) -> None:
    fake_java("Segmentation fault")
    with pytest.raises(UnfitError, match=r"does not tell its version \(Segmentation fault\)"):
        find_java()


def test_builds_of_one_version_are_told_apart(fake_java) -> None:
    one = find_java_after(fake_java, 'openjdk version "17.0.9"\nbuild 17.0.9+9-Debian')
    other = find_java_after(fake_java, 'openjdk version "17.0.9"\nbuild 17.0.9+9-Ubuntu')
    assert one != other


def find_java_after(fake_java, said: str) -> str:
    fake_java(said)
    return find_java().build
