"""The user's own builds of Kafka: read, refused with one sentence, copied, found again by their label."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.running import for_git_bisect
from harness.artifacts import builds, stored_build
from harness.artifacts.manifest import Checksums
from harness.doctor import kafka_home
from harness.errors import UsageError
from harness.kafka.versions import kafka_version, version_key

pytestmark = pytest.mark.usefixtures("cache_folder")
JARS = (
    *("kafka_2.13-3.9.1-SNAPSHOT.jar", "kafka-clients-3.9.1.jar", "slf4j-reload4j-1.7.36.jar"),
    *("scala-library-2.13.14.jar", "metrics-core-2.2.0.jar", "zookeeper-3.8.4.jar"),
)


def jar(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("content", text or path.name)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An unpacked release, as far as its files are looked at."""
    for name in JARS:
        jar(tmp_path / "home" / "libs" / name)
    jar(tmp_path / "home" / "libs" / "kafka_2.13-3.9.1-SNAPSHOT-sources.jar")
    return tmp_path / "home"


def test_a_build_is_a_version(home: Path) -> None:
    label = builds.take_in(home=home)
    spec = kafka_version(label)
    assert (spec.version, spec.label, spec.modes) == ("3.9.1", label, kafka_version("3.9.1").modes)
    assert version_key(label) == (3, 9, 1)
    assert set(stored_build.manifest_of(spec).sums) == set(JARS)
    assert stored_build.sources_of(spec) == {"home": str(home), "jars": []}
    assert builds.take_in(home=home) == label


def test_one_changed_byte_is_another_build(home: Path) -> None:
    before = builds.take_in(home=home)
    jar(home / "libs" / "kafka-clients-3.9.1.jar", "changed")
    after = builds.take_in(home=home)
    assert before != after
    assert stored_build.manifest_of(kafka_version(before)) != stored_build.manifest_of(kafka_version(after))


def test_jars_of_the_user_come_first_on_the_class_path(home: Path, tmp_path: Path) -> None:
    patches = [jar(tmp_path / "zzz.jar"), jar(tmp_path / "more" / "aaa.jar")]
    label = builds.take_in(home=home, jars=[patches[0], tmp_path / "more"])
    root = stored_build.folder_of(kafka_version(label))
    assert sorted(path.name for path in (root / "lib").iterdir())[:2] == ["0-00-zzz.jar", "0-01-aaa.jar"]
    assert label != builds.take_in(home=home)


def missing(home: Path) -> Path:
    return home / "elsewhere"


def file(home: Path) -> Path:
    return home / "libs" / "kafka-clients-3.9.1.jar"


def without_jars(home: Path) -> Path:
    return home / "libs"


def without_broker(home: Path) -> Path:
    (home / "libs" / "kafka_2.13-3.9.1-SNAPSHOT.jar").unlink()
    return home


def two_versions(home: Path) -> Path:
    jar(home / "libs" / "kafka_2.13-3.8.1.jar")
    return home


def without_logging(home: Path) -> Path:
    (home / "libs" / "slf4j-reload4j-1.7.36.jar").unlink()
    return home


def without_libraries(home: Path) -> Path:
    for name in ("scala-library-2.13.14.jar", "zookeeper-3.8.4.jar"):
        (home / "libs" / name).unlink()
    return home


def with_half_a_jar(home: Path) -> Path:
    whole = home / "libs" / "metrics-core-2.2.0.jar"
    whole.write_bytes(whole.read_bytes()[:40])
    return home


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (missing, "does not exist; name the folder of an unpacked Kafka release"),
        (file, "is no folder"),
        (without_jars, "has no folder `libs`"),
        (without_broker, "has no jar like kafka_2.13-3.9.1.jar"),
        (two_versions, r"several versions of Kafka \(3.8.1, 3.9.1\)"),
        (without_logging, "no jar of slf4j-log4j12 or slf4j-reload4j"),
        (
            without_libraries,
            r"lacks scala-library-\*.jar, zookeeper-\*.jar, without which Kafka 3.9.1 does not",
        ),
        (with_half_a_jar, "metrics-core-2.2.0.jar is no jar, or a damaged one"),
    ],
)
def test_a_folder_that_is_no_release(home: Path, damage: Callable[[Path], Path], says: str) -> None:
    """The doctor says the same of it."""
    with pytest.raises(UsageError, match=says) as refused:
        builds.take_in(home=damage(home))
    check = kafka_home(damage(home) if damage in (missing, file, without_jars) else home)
    assert (check.ok, f"{check.found}; {check.remedy}.") == (False, refused.value.message)


def test_the_doctor_of_a_complete_folder(home: Path) -> None:
    check = kafka_home(home)
    assert (check.ok, check.found) == (True, f"Kafka 3.9.1, {len(JARS)} jars in {home / 'libs'}")


def test_patches_that_are_no_jars(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    half = tmp_path / "half.jar"
    half.write_bytes(b"PK")
    twice = [jar(tmp_path / "a" / "x.jar"), jar(tmp_path / "b" / "x.jar")]
    for jars, says in (
        ([tmp_path / "none.jar"], "does not exist"),
        ([Path(__file__)], "is no jar"),
        ([half], "half.jar is no jar, or a damaged one"),
        ([tmp_path / "empty"], "holds no jar"),
        (twice, "two files called x.jar"),
    ):
        with pytest.raises(UsageError, match=says):
            builds.take_in(home=home, jars=jars)


def test_a_version_beside_the_folder_must_agree(home: Path) -> None:
    with pytest.raises(UsageError, match="which is Kafka 3.9.1"):
        builds.take_in(home=home, base="3.8.1")


def test_a_build_that_is_gone(home: Path) -> None:
    label = builds.take_in(home=home)
    root = stored_build.folder_of(kafka_version(label))
    (root / "lib" / "kafka-clients-3.9.1.jar").write_bytes(b"damaged")
    with pytest.raises(UsageError, match="not in the cache"):
        stored_build.manifest_of(kafka_version(label))
    assert builds.take_in(home=home) == label
    assert stored_build.manifest_of(kafka_version(label)) == Checksums.read(root)
    assert json.loads((root / stored_build.SOURCES).read_text())["home"] == str(home)


@pytest.mark.parametrize("text", ["3.9.1+abc", "3.9.1+", "3.9.1+0123456789AB"])
def test_a_label_that_no_build_has(text: str) -> None:
    with pytest.raises(UsageError, match="12 hexadecimal digits"):
        kafka_version(text)


def test_exit_codes_for_git_bisect() -> None:
    assert [for_git_bisect(status) for status in (0, 1, 2, 3, 4, 255, 254, 130)] == [
        *(0, 1, 125, 125, 125, 125, 254, 130)
    ]
