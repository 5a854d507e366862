"""Resolving into the cache: once, verified, mended when damaged, one sentence when it cannot be done."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from harness.artifacts import resolve
from harness.artifacts.manifest import Manifest
from harness.errors import UnfitError, UsageError


def _resolve(said: list[str] | None = None) -> Path:
    return resolve("2.7.1", with_archives=False, say=(said if said is not None else []).append).root


def test_second_use_downloads_nothing(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    first = resolve("2.7.1", with_archives=False)
    second = resolve("2.7.1", with_archives=False)
    assert java.downloads == 1
    assert first.jars == second.jars == tuple(sorted(first.jars))
    assert first.class_path() == ":".join(str(jar) for jar in first.jars)
    assert first.class_path("/jars") == "/jars/another-1.0.jar:/jars/kafka_2.13-2.7.1.jar"
    assert not list(cache_folder.glob(".new-*"))


def test_sums_can_be_checked_by_hand(cache_folder: Path, fake_java) -> None:
    fake_java()
    root = _resolve()
    lines = (root / "SHA256SUMS").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["lib/another-1.0.jar", "lib/kafka_2.13-2.7.1.jar"]


@pytest.mark.parametrize("damage", ["altered", "missing", "cut short"])
def test_damaged_jar_is_named_and_fetched_again(cache_folder: Path, fake_java, damage: str) -> None:
    java = fake_java()
    jar = _resolve() / "lib" / "another-1.0.jar"
    good = jar.read_bytes()
    if damage == "missing":
        jar.unlink()
    else:
        jar.write_bytes(b"x" * len(good) if damage == "altered" else good[:-1])
    said: list[str] = []
    _resolve(said)
    assert jar.read_bytes() == good
    assert java.downloads == 2
    assert any(str(jar) in line and "damaged" in line for line in said)


def test_damage_that_kept_size_and_time_is_found_by_no_stamp(cache_folder: Path, fake_java) -> None:
    """The stamp is only a shortcut: without it, every byte is hashed."""
    fake_java()
    root = _resolve()
    jar = root / "lib" / "another-1.0.jar"
    jar.write_bytes(b"x" * jar.stat().st_size)
    (root / "stamp.json").unlink()
    manifest = Manifest.read(root)
    assert manifest is not None
    assert manifest.damaged(root) == ("another-1.0.jar",)


def test_touched_jar_is_hashed_not_fetched(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    root = _resolve()
    (root / "lib" / "another-1.0.jar").touch()
    _resolve()
    assert java.downloads == 1


def test_other_bytes_under_the_same_name_are_refused(cache_folder: Path, fake_java) -> None:
    fake_java()
    root = _resolve()
    (root / "lib" / "another-1.0.jar").unlink()
    fake_java(weight=2)
    with pytest.raises(UnfitError, match=r"another-1\.0\.jar was damaged.*remove .*kafka-2\.7\.1"):
        _resolve()


@pytest.mark.parametrize("wreck", ["SHA256SUMS", "coordinates.txt"])
def test_half_written_folder_is_made_anew(cache_folder: Path, fake_java, wreck: str) -> None:
    java = fake_java()
    root = _resolve()
    (root / wreck).write_bytes(b"\xff\xfe half")
    assert _resolve() == root
    assert java.downloads == 2


def test_download_is_tried_three_times(cache_folder: Path, fake_java) -> None:
    java = fake_java(failures=2)
    _resolve()
    assert java.downloads == 3


def test_failing_download_names_the_coordinates(cache_folder: Path, fake_java) -> None:
    java = fake_java(failures=99)
    with pytest.raises(UnfitError, match=r"org\.apache\.kafka:kafka_2\.13:2\.7\.1.*3 times") as caught:
        _resolve()
    assert java.downloads == 3
    assert "module not found" in caught.value.detail
    assert not list(cache_folder.glob("kafka-*"))
    assert not list(cache_folder.glob(".new-*"))


def test_download_without_kafka_itself_is_refused(cache_folder: Path, fake_java) -> None:
    fake_java(jars=("another-1.0.jar",))
    with pytest.raises(UnfitError, match=r"brought no kafka_2\.13-2\.7\.1\.jar"):
        _resolve()
    assert not list(cache_folder.glob("kafka-*"))


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_java) -> None:
    fake_java()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ACKED_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UnfitError, match=r"file/cache cannot be written .*ACKED_CACHE"):
        _resolve()


def test_unknown_version_is_refused_before_anything_is_done(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    with pytest.raises(UsageError, match=r"2\.7\.9 was never tried.*2\.7\.1"):
        resolve("2.7.9")
    assert java.downloads == 0


def test_two_resolvers_at_once_download_once(cache_folder: Path, fake_java) -> None:
    java = fake_java(seconds=0.5)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_resolve) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert java.downloads == 1


def test_archives_that_cannot_be_made_are_said_and_done_without(cache_folder: Path, fake_java) -> None:
    fake_java()
    said: list[str] = []
    distribution = resolve("2.7.1", say=said.append)
    assert distribution.archive("kafka.Kafka") is None
    assert distribution.without_archives
    assert any("no class-data archives" in line for line in said)
    said.clear()
    assert resolve("2.7.1", say=said.append).without_archives == distribution.without_archives
    assert not said, "a known failure is not tried at each run"
