"""Resolving into the cache: once, verified, repaired if damaged, and one sentence if it fails."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.clean import clean
from harness.artifacts import ivy, resolve, resolve_all
from harness.artifacts.cache import UNFINISHED
from harness.artifacts.manifest import Checksums
from harness.errors import UnfitError, UsageError
from harness.held_folders import held_folder, remove_abandoned
from harness.lab.docker import engine
from harness.waiting import wait_until
from tests.unit.conftest import running_descendants

pytestmark = pytest.mark.usefixtures("no_process_left")


def _resolve(lines: list[str] | None = None) -> Path:
    return resolve("2.7.1", make_archives=False, say=(lines if lines is not None else []).append).root


def test_a_second_use_downloads_nothing(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    first = resolve("2.7.1", make_archives=False)
    second = resolve("2.7.1", make_archives=False)
    assert java.downloads == 1
    assert first.jars == second.jars == tuple(sorted(first.jars))
    assert first.class_path() == ":".join(str(jar) for jar in first.jars)
    assert first.class_path("/jars") == "/jars/another-1.0.jar:/jars/kafka_2.13-2.7.1.jar"
    assert not list(cache_folder.glob(".new-*"))


def test_checksums_are_in_the_format_of_sha256sum(cache_folder: Path, fake_java) -> None:
    fake_java()
    root = _resolve()
    lines = (root / "SHA256SUMS").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["lib/another-1.0.jar", "lib/kafka_2.13-2.7.1.jar"]


@pytest.mark.parametrize("damage", ["altered", "missing", "cut short"])
def test_a_damaged_jar_is_named_and_downloaded_again(cache_folder: Path, fake_java, damage: str) -> None:
    java = fake_java()
    jar = _resolve() / "lib" / "another-1.0.jar"
    good = jar.read_bytes()
    if damage == "missing":
        jar.unlink()
    else:
        jar.write_bytes(b"x" * len(good) if damage == "altered" else good[:-1])
    lines: list[str] = []
    _resolve(lines)
    assert jar.read_bytes() == good
    assert java.downloads == 2
    assert any(str(jar) in line and "damaged" in line for line in lines)


def test_without_its_stamp_every_jar_is_hashed(cache_folder: Path, fake_java) -> None:
    fake_java()
    root = _resolve()
    jar = root / "lib" / "another-1.0.jar"
    jar.write_bytes(b"x" * jar.stat().st_size)
    (root / "stamp.json").unlink()
    manifest = Checksums.read(root)
    assert manifest is not None
    assert manifest.damaged(root) == ("another-1.0.jar",)


def test_a_touched_jar_is_hashed_and_not_downloaded(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    root = _resolve()
    (root / "lib" / "another-1.0.jar").touch()
    _resolve()
    assert java.downloads == 1


def test_another_jar_of_the_same_name_is_rejected(cache_folder: Path, fake_java) -> None:
    fake_java()
    root = _resolve()
    (root / "lib" / "another-1.0.jar").unlink()
    fake_java(weight=2)
    with pytest.raises(UnfitError, match=r"another-1\.0\.jar was damaged.*remove .*kafka-2\.7\.1"):
        _resolve()


@pytest.mark.parametrize("file", ["SHA256SUMS", "coordinates.txt"])
def test_an_incomplete_folder_is_downloaded_again(cache_folder: Path, fake_java, file: str) -> None:
    java = fake_java()
    root = _resolve()
    (root / file).write_bytes(b"\xff\xfe half")
    assert _resolve() == root
    assert java.downloads == 2


def test_a_download_is_tried_three_times(cache_folder: Path, fake_java) -> None:
    java = fake_java(failures=2)
    _resolve()
    assert java.downloads == 3


def test_a_failed_download_names_the_coordinates(cache_folder: Path, fake_java) -> None:
    java = fake_java(failures=99)
    with pytest.raises(UnfitError, match=r"org\.apache\.kafka:kafka_2\.13:2\.7\.1.*3 times") as caught:
        _resolve()
    assert java.downloads == 3
    assert "module not found" in caught.value.detail
    assert "::" not in caught.value.detail, "Ivy's banners say nothing"
    assert not list(cache_folder.glob("kafka-*"))
    assert not list(cache_folder.glob(".new-*"))


def test_a_download_without_kafka_itself_is_rejected(cache_folder: Path, fake_java) -> None:
    fake_java(jars=("another-1.0.jar",))
    with pytest.raises(UnfitError, match=r"did not bring kafka_2\.13-2\.7\.1\.jar"):
        _resolve()
    assert not list(cache_folder.glob("kafka-*"))


def test_a_cache_that_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_java) -> None:
    fake_java()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ACKED_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UnfitError, match=r"file/cache cannot be written .*ACKED_CACHE"):
        _resolve()


def test_an_unknown_version_is_rejected_before_any_download(cache_folder: Path, fake_java) -> None:
    java = fake_java()
    with pytest.raises(UsageError, match=r"2\.7\.9 has not been tested.*2\.7\.1"):
        resolve("2.7.9")
    assert java.downloads == 0


def test_concurrent_resolvers_download_once(cache_folder: Path, fake_java, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    java = fake_java(gate=str(gate))
    context = multiprocessing.get_context("fork")
    waiting = context.Semaphore(0)

    def resolve_one() -> None:
        resolve(
            "2.7.1", make_archives=False, say=lambda line: waiting.release() if "waiting" in line else None
        )

    workers = [context.Process(target=resolve_one) for _ in range(3)]
    try:
        for worker in workers:
            worker.start()
        for _ in workers[1:]:
            assert waiting.acquire(timeout=60), "two resolvers wait for the third"
        gate.touch()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    assert java.downloads == 1


def test_a_download_that_prints_nothing_is_still_shown(
    cache_folder: Path, fake_java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The download goes on only after it was reported to be still going on."""
    monkeypatch.setattr(ivy, "QUIET_S", 0.05)
    gate = tmp_path / "gate"
    fake_java(gate=str(gate))
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if "still downloading" in line:
            gate.touch()

    resolve("2.7.1", make_archives=False, say=say)
    assert lines[0] == "resolving Kafka 2.7.1 from Maven Central"
    shown = next(line for line in lines if "still downloading" in line)
    assert shown.startswith("still downloading kafka_2.13-2.7.1.jar (")
    assert "downloaded  2 of 2: another-1.0.jar 1" in " ".join(lines)


def test_archives_that_cannot_be_created_are_reported_once(cache_folder: Path, fake_java) -> None:
    fake_java()
    lines: list[str] = []
    distribution = resolve("2.7.1", say=lines.append)
    assert distribution.archive("kafka.Kafka") is None
    assert distribution.without_archives
    assert any("no class-data archives" in line for line in lines)
    lines.clear()
    assert resolve("2.7.1", say=lines.append).without_archives == distribution.without_archives
    assert not lines, "a known failure is not repeated at every run"


TWO = ("kafka_2.13-2.7.1.jar", "kafka_2.13-2.8.2.jar")


def test_versions_are_resolved_side_by_side(cache_folder: Path, fake_java, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    java = fake_java(jars=TWO, gate=str(gate))
    lines: list[str] = []
    with ThreadPoolExecutor() as pool:
        done = pool.submit(resolve_all, ["2.7.1", "2.8.2"], say=lines.append)
        wait_until(lambda: java.downloads == 2, within_s=30, awaiting="both downloads to begin")
        assert not done.done()
        gate.touch()
        done.result()
    assert {line.partition(":")[0] for line in lines} == {"2.7.1", "2.8.2"}
    assert (cache_folder / "kafka-2.7.1").is_dir()
    assert (cache_folder / "kafka-2.8.2").is_dir()


def test_the_first_failure_ends_all_downloads(
    cache_folder: Path, fake_java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate never opens: without the end of the others, this would not return."""
    monkeypatch.setattr(ivy, "QUIET_S", 0.05)
    fake_java(jars=TWO, gate=str(tmp_path / "never"))
    with pytest.raises(UsageError, match=r"1\.2\.3"):
        resolve_all(["2.7.1", "2.8.2", "1.2.3"])
    assert not list(cache_folder.glob(".new-*"))


RESOLVE = "from harness.artifacts import resolve; resolve('2.7.1', make_archives=False)"


def test_a_killed_download_ends_and_leaves_nothing_for_long(
    cache_folder: Path, fake_java, tmp_path: Path
) -> None:
    """Its Java ends with it, and the next download removes what it left."""
    gate = tmp_path / "gate"
    java = fake_java(gate=str(gate))
    with subprocess.Popen([sys.executable, "-c", RESOLVE]) as owner:
        try:
            wait_until(lambda: java.downloads >= 1, within_s=60, awaiting="the download to begin")
        finally:
            owner.kill()
    wait_until(
        lambda: [line for line in running_descendants().values() if str(java.path) in line],
        within_s=10,
        accept=lambda left: not left,
        awaiting="its Java to end",
    )
    assert list(cache_folder.glob(".new-*"))
    assert remove_abandoned(cache_folder, UNFINISHED, dry_run=True) == list(cache_folder.glob(".new-*"))
    gate.touch()
    _resolve()
    assert not list(cache_folder.glob(".new-*"))


def test_a_download_in_progress_is_not_taken_for_a_killed_one(cache_folder: Path) -> None:
    cache_folder.mkdir()
    with held_folder(cache_folder, UNFINISHED) as folder:
        assert remove_abandoned(cache_folder, UNFINISHED) == []
        assert folder.is_dir()
    assert not folder.exists()


def test_clean_removes_what_is_unfinished_and_of_nobody(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [
        cache_folder / ".new-kafka-2.7.1-77",
        cache_folder / "kafka-2.7.1" / "class-data" / ".new-77",
        cache_folder / "builds" / ".new-abc-77",
        cache_folder / "java-client-2.7.1" / ".new-77",
    ]
    for folder in left:
        (folder / "lib").mkdir(parents=True)
    (cache_folder / "spark").mkdir()
    archive = cache_folder / "spark" / f"classes-4.0.0-abc.{2**22 + 1}.new"
    archive.write_text("")
    own_file = archive.with_suffix("").with_suffix(f".{os.getpid()}.new")
    own_file.write_text("")
    monkeypatch.setattr(engine, "connect", lambda: (_ for _ in ()).throw(UnfitError("none")))
    clean(dry_run=True)
    assert all(path.exists() for path in (*left, archive))
    clean()
    assert not any(path.exists() for path in (*left, archive))
    assert own_file.exists()
    assert (cache_folder / "kafka-2.7.1" / "class-data").is_dir()
    said = capsys.readouterr().out
    assert all(said.count(f"remove {path}\n") == 2 for path in (*left, archive))
