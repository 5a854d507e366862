"""Storage: power cuts, full disks, wiped and damaged replicas."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance_bench import DISKS, FOUR, Bench, case, refused_to

from harness.errors import UnfitError, UsageError
from harness.kafka.wire.produce import one_record_batch
from nemesis.fault import Injection


def write_log(bench: Bench, host: str) -> list[Path]:
    """A replica with three batches that were fsynced and two that were not."""
    data = bench.lab.data_dir(host) / "data"
    folder = data / "t-0"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with (folder / "00000000000000000000.log").open("wb", buffering=0) as log:
        for offset in range(5):
            batch = bytearray(one_record_batch(b"m"))
            struct.pack_into(">q", batch, 0, offset)
            log.write(batch)
            if offset == 2:
                os.fsync(log.fileno())
                for place in (folder, data):
                    handle = os.open(place, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
    return [folder]


def kept(injection: Injection, host: str) -> int:
    size = len(one_record_batch(b"m"))
    evidence: Any = injection.evidence["disks"]
    assert evidence[host]["log_bytes_before"] == {"t/0": 5 * size}
    return int(evidence[host]["log_bytes_after"]["t/0"] / size)


def power_cut_of(bench: Bench, host: str) -> Any:
    """What was fsynced survives, the rest is lost; returns the reason if the machine cannot do it."""
    if host in bench.without_disk:
        return {"unfit": bench.without_disk[host], "needs": DISKS[host]}
    write_log(bench, host)
    with bench.nemesis.storage.power_cut(host, restart=bench.start, how="real") as injection:
        assert kept(injection, host) == 3
        assert injection.fault.name == f"power cut {host}"
        (log,) = (bench.lab.data_dir(host) / "data" / "t-0").glob("*.log")
        seen = bench.lab.execute(host, ("stat", "-c", "%s", bench.lab.inside(host, log)))
        assert int(seen.stdout) == log.stat().st_size, "the host sees another disk than the harness"
    assert bench.moments(injection) == FOUR
    return injection.evidence


@case
def power_cut_of_a_volatile_layer(bench: Bench) -> Any:
    return power_cut_of(bench, "broker1")


@case
def power_cut_of_ext4(bench: Bench) -> Any:
    return power_cut_of(bench, "broker2")


@case
def power_cut_of_xfs(bench: Bench) -> Any:
    return power_cut_of(bench, "broker3")


@case
def power_cut_emulated(bench: Bench) -> Any:
    """All brokers at once; the fault is reported as emulated."""
    hosts = [host.name for host in bench.lab.topology.role("broker")]
    for host in hosts:
        write_log(bench, host)
    options: Any = {"how": "emulated", "flushed": {("t", 0): 3}, "restart": bench.start}
    with bench.nemesis.storage.power_cut("brokers", **options) as injection:
        assert [kept(injection, host) for host in hosts] == [3, 3, 3]
        assert injection.fault.name.endswith("(emulated)")
    assert bench.moments(injection) == FOUR


@case
def full_disk(bench: Bench) -> Any:
    """No file grows, neither from the harness nor from the host itself; afterwards both can write."""
    fits = [host for host in DISKS if host not in bench.without_disk]
    for host in fits:
        log = bench.lab.data_dir(host) / "data" / "growing"
        append = f"head -c 8192 /dev/zero >> {bench.lab.inside(host, log)}"
        with bench.nemesis.storage.fill_disk(host) as injection:
            try:
                log.write_bytes(b"x" * 8192)
            except OSError as error:
                assert error.errno == errno.ENOSPC
            else:
                raise AssertionError("a file could grow")
            refused = bench.lab.execute(host, ("sh", "-c", append))
            assert "No space left" in refused.stderr, refused
        log.write_bytes(b"x" * 8192)
        assert bench.lab.execute(host, ("sh", "-c", append)).status == 0
        assert bench.moments(injection) == FOUR
    if not fits:
        refused_to(UnfitError, "cannot be filled", lambda: bench.nemesis.storage.fill_disk("broker1"))
    return {"disks": fits}


def _timed(act: Callable[[], object]) -> tuple[threading.Thread, list[float]]:
    """The operation in a thread of its own, and how long it took, once it has ended."""
    seconds: list[float] = []
    since = time.monotonic()
    thread = threading.Thread(target=lambda: (act(), seconds.append(time.monotonic() - since)), daemon=True)
    thread.start()
    return thread, seconds


@case
def stalled_and_slow_disk(bench: Bench) -> Any:
    """What is named waits, everything else goes on, and what waited is done when the disk answers again."""
    host = "broker1"
    if host in bench.without_disk:
        return {"unfit": bench.without_disk[host], "needs": DISKS[host]}
    data = bench.lab.data_dir(host) / "data"
    log = data / "held"
    other = data / "other"
    log.write_bytes(b"x")
    other.write_bytes(b"o")
    inside = bench.lab.inside(host, log)
    evidence: dict[str, Any] = {}
    fsyncs = bench.nemesis.storage.stall_disk(host, ["fsyncs"])
    with fsyncs as injection, log.open("ab", buffering=0) as file:
        since = time.monotonic()
        file.write(b"y")
        assert log.read_bytes() == b"xy"
        assert time.monotonic() - since < 0.2, "a write or a read waited"
        waiting, seconds = _timed(lambda: os.fsync(file.fileno()))
        waiting.join(0.5)
        assert waiting.is_alive(), "fsync did not wait"
        injection.heal()
        waiting.join(2)
        assert seconds, "fsync did not end"
        assert seconds[0] >= 0.5, seconds
    assert bench.moments(injection) == FOUR
    evidence["stalled"] = bench.healed(injection)
    assert evidence["stalled"]["held"]["fsyncs"] == 2, evidence  # the probe and ours
    with bench.nemesis.storage.stall_disk(host, ["writes"]) as injection:
        waiting, seconds = _timed(
            lambda: bench.lab.execute(host, ("sh", "-c", f"echo z >> {inside}; mkdir {inside}.d"))
        )
        waiting.join(0.5)
        assert waiting.is_alive(), "a write of the host itself did not wait"
        assert other.read_bytes() == b"o"
        injection.heal()
        waiting.join(2)
        assert seconds, "the write did not end"
        assert log.read_bytes() == b"xyz\n"
        assert log.with_suffix(".d").is_dir()
    with bench.nemesis.storage.slow_disk(host, 100) as injection:
        since = time.monotonic()
        assert log.read_bytes() == b"xyz\n"
        assert 0.1 <= time.monotonic() - since < 2
    assert bench.moments(injection) == FOUR
    evidence["slow"] = bench.healed(injection)
    since = time.monotonic()
    log.read_bytes()
    assert time.monotonic() - since < 0.1, "the disk is slow although it was healed"
    refused_to(UnfitError, "cannot be slowed down", lambda: bench.nemesis.storage.stall_disk("broker2"))
    return evidence


@case
def wiped_and_damaged_replica(bench: Bench) -> None:
    (folder,) = write_log(bench, "broker1")
    wiped = bench.nemesis.storage
    wiped.corrupt("broker1", "t", 3)
    refused_to(UsageError, "kill or stop broker1 first", lambda: wiped.wipe("broker1", "t"))
    with bench.nemesis.kill("broker1", restart=bench.start):
        wiped.wipe("broker1", "t")
        assert not folder.exists()
