"""Pinned jars: nothing is looked up, several are downloaded at a time, and each must have its checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import ivy, pinned, resolve
from harness.artifacts.java_client import has_applications, streams_modules
from harness.artifacts.pinned import PinnedJar, pinned_jars
from harness.errors import UnfitError
from harness.kafka.versions import VERSIONS, Coordinates, kafka_version
from tests.unit.artifacts.conftest import FakeJava

pytestmark = pytest.mark.usefixtures("no_process_left")

KAFKA = Coordinates("org.apache.kafka", "kafka_2.13", "2.7.1")
OTHERS = tuple(Coordinates("org", f"other{number}", "1.0") for number in range(8))


def jar(coordinates: Coordinates, *, weight: int = 1) -> PinnedJar:
    """A jar as the fake Java makes it."""
    content = f"{coordinates.name}-{coordinates.revision}.jar".encode() * weight
    return PinnedJar(coordinates, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def pin(cache_folder: Path, fake_java: Callable[..., FakeJava]) -> Callable[..., list[PinnedJar]]:
    """Pins jars for Kafka 2.7.1, whose file names the fake Java writes into them."""

    def pin(*jars: PinnedJar) -> list[PinnedJar]:
        pinned.FOLDER.mkdir(exist_ok=True)
        chosen = list(jars) or [jar(one) for one in (KAFKA, *OTHERS)]
        pinned.write("kafka-2.7.1", kafka_version("2.7.1").coordinates, chosen)
        return chosen

    return pin


def test_pinned_jars_are_downloaded_side_by_side(pin, fake_java) -> None:
    """Each by one of several Ivys, which get modules without their dependencies."""
    java, jars = fake_java(), pin()
    lines: list[str] = []
    distribution = resolve("2.7.1", make_archives=False, say=lines.append)
    assert java.downloads == ivy.JARS_AT_ONCE
    assert distribution.sums == {one.name: one.sha256 for one in jars}
    assert lines[0] == "downloading Kafka 2.7.1 from Maven Central: 9 jars, 0 MB"
    assert len([line for line in lines if line.startswith("downloaded")]) == 9
    assert any(line.endswith(" of 9: kafka_2.13 2.7.1 (0 kB)") for line in lines)
    assert sorted(path.name for path in distribution.root.iterdir()) == [
        *("SHA256SUMS", "coordinates.txt", "lib", "stamp.json")
    ]
    resolve("2.7.1", make_archives=False)
    assert java.downloads == ivy.JARS_AT_ONCE, "the second use downloads nothing"


def test_jar_with_another_checksum_is_downloaded_again_and_then_refused(pin, fake_java, cache_folder) -> None:
    """Also where Ivy's own cache has a damaged copy."""
    pin(jar(KAFKA), jar(OTHERS[0], weight=2))
    java = fake_java()
    copy = cache_folder / "ivy" / "cache" / "org" / "other0" / "jars" / "other0-1.0.jar"
    copy.parent.mkdir(parents=True)
    copy.write_text("damaged")
    with pytest.raises(
        UnfitError, match=r"org\.apache\.kafka:kafka_2\.13:2\.7\.1, org:other0:1\.0 .*3 times"
    ) as caught:
        resolve("2.7.1", make_archives=False)
    assert caught.value.detail == "does not have the checksum that acked knows: org:other0:1.0"
    assert java.downloads == 2 * ivy.ATTEMPTS
    assert not copy.exists()
    assert not list(cache_folder.glob("*kafka-2.7.1-*"))


def test_damaged_jar_alone_is_downloaded_again(pin, fake_java) -> None:
    java = fake_java()
    pin()
    root = resolve("2.7.1", make_archives=False).root
    (root / "lib" / "other3-1.0.jar").write_text("x")
    lines: list[str] = []
    resolve("2.7.1", make_archives=False, say=lines.append)
    assert java.downloads == ivy.JARS_AT_ONCE + 1
    assert (root / "lib" / "other3-1.0.jar").read_text() == "other3-1.0.jar"
    assert "from Maven Central: 1 jars" in " ".join(lines)


def test_cache_with_other_jars_than_the_list_is_replaced(pin, fake_java) -> None:
    """A folder of an earlier release, or one that somebody filled."""
    fake_java()
    pin()
    root = resolve("2.7.1", make_archives=False).root
    pin(jar(KAFKA), jar(OTHERS[0]))
    assert resolve("2.7.1", make_archives=False).root == root
    assert len(list((root / "lib").iterdir())) == 2


def test_list_for_other_modules_does_not_count(pin, fake_java) -> None:
    """After a change of a version's modules, the version is resolved until its list is written again."""
    java = fake_java()
    pin()
    file = pinned.FOLDER / "kafka-2.7.1.txt"
    file.write_text(file.read_text().replace("# org.slf4j", "# org.other"))
    distribution = resolve("2.7.1", make_archives=False)
    assert java.downloads == 1
    assert "another-1.0.jar" in distribution.sums


@pytest.mark.parametrize(
    "spec", [*filter(has_applications, VERSIONS.values())], ids=lambda spec: spec.version
)
def test_every_version_with_applications_has_the_list_of_kafka_streams(spec) -> None:
    coordinates = streams_modules(spec).coordinates
    names = {one.coordinates.name for one in pinned_jars(f"streams-{spec.version}", coordinates)}
    assert {"kafka-streams", "kafka-clients", "rocksdbjni"} <= names


@pytest.mark.parametrize("spec", VERSIONS.values(), ids=lambda spec: spec.version)
def test_every_known_version_has_its_list(spec) -> None:
    """`python -m harness.artifacts.pin VERSION` writes it."""
    jars = pinned_jars(f"kafka-{spec.version}", spec.coordinates)
    names = [one.name for one in jars]
    assert f"kafka_{spec.scala}-{spec.version}.jar" in names
    assert {f"{one.name}-{one.revision}.jar" for one in spec.coordinates} <= set(names)
    assert len(names) == len(set(names))
    assert all(len(one.sha256) == 64 and one.size > 1000 for one in jars)
