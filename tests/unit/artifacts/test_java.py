"""Finding Java: the forms of its version, and one sentence if there is none that fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.java import build_key, find_java, parse_major
from harness.errors import UnfitError


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "11.0.22" 2024-01-16', 11),
    ],
)
def test_major_version(text: str, major: int) -> None:
    parsed = parse_major(text)
    assert parsed is not None
    assert parsed[0] == major


OUTPUT = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, mixed mode, sharing)
"""


def test_the_key_of_a_build_depends_on_the_build_alone() -> None:
    """An archive is found again regardless of the mode of the JVM and the notes that it prints."""
    key = build_key(OUTPUT)
    assert build_key(OUTPUT.replace(", sharing", "")) == key
    assert build_key("NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\n" + OUTPUT) == key
    assert build_key(OUTPUT.replace("+6", "+7")) != key


def test_output_without_a_version() -> None:
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


def test_java_that_does_not_report_its_version(fake_java) -> None:
    fake_java("Segmentation fault")
    with pytest.raises(UnfitError, match=r"does not report its version \(Segmentation fault\)"):
        find_java()


def test_builds_of_one_version_have_different_keys(fake_java) -> None:
    one = build_of(fake_java, 'openjdk version "17.0.9"\nbuild 17.0.9+9-Debian')
    other = build_of(fake_java, 'openjdk version "17.0.9"\nbuild 17.0.9+9-Ubuntu')
    assert one != other


def build_of(fake_java, version_text: str) -> str:
    fake_java(version_text)
    return find_java().build
