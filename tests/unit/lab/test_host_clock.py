"""A clock of its own: who can have one, and what log lines then say about time."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import tools
from harness.clock import Anchor
from harness.errors import UnfitError
from harness.host_files import Folder
from harness.lab.host_clock import Change, environment, note_change, read_shift, write_shift
from harness.observer.broker_log import read_logs

NOON = dt.datetime(2026, 11, 29, 12, 0, 0, tzinfo=dt.UTC)
NS = 10**9
ANCHOR = Anchor(0, int(NOON.timestamp()) * NS)


def lab(folder: Path, *, shares_files: bool) -> Any:
    return SimpleNamespace(
        kind="some",
        shares_files=shares_files,
        files=lambda host: Folder(folder / host),
        inside=lambda host, path: f"{folder}/{host}/{path}",
    )


def test_a_clock_is_right_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "libfaketime", lambda: "/lib/faketime.so")
    made = environment(lab(tmp_path, shares_files=True), "broker1")
    assert made["LD_PRELOAD"] == "/lib/faketime.so"
    assert Path(made["FAKETIME_TIMESTAMP_FILE"]) == tmp_path / "broker1" / "clock"
    assert made["FAKETIME_DONT_FAKE_MONOTONIC"] == "1"
    assert read_shift(Folder(tmp_path / "broker1")) == 0
    assert read_shift(Folder(tmp_path / "broker2")) is None


@pytest.mark.parametrize(
    ("shares_files", "library", "why"),
    [
        (True, None, r"libfaketime is not installed \(package libfaketime\)"),
        (
            False,
            "/lib/faketime.so",
            "only the embedded lab can preload libfaketime, and this is the some lab",
        ),
    ],
)
def test_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares_files: bool, library: str | None, why: str
) -> None:
    monkeypatch.setattr(tools, "libfaketime", lambda: library)
    with pytest.raises(UnfitError, match=f"^broker1 cannot have a wall clock of its own: {why}.$"):
        environment(lab(tmp_path, shares_files=shares_files), "broker1")


@pytest.mark.parametrize("by_s", [0, -7200, 691_200, 0.5])
def test_each_shift_has_as_many_digits(tmp_path: Path, by_s: float) -> None:
    """Threads of the process read the file at once."""
    write_shift(Folder(tmp_path), by_s)
    assert read_shift(Folder(tmp_path)) == by_s
    assert len((tmp_path / "clock").read_bytes()) == 16


@pytest.mark.parametrize("by_s", [691_200, -7200, -10])
def test_log_lines_have_the_times_of_the_machine(tmp_path: Path, by_s: float) -> None:
    """Lines before a jump, while the process notices it, while it lasts, and after it."""
    folder = tmp_path / "broker1"
    folder.mkdir()
    log = folder / "server.log"
    written: list[int] = []

    def line(second: int, shift_s: float) -> None:
        date = NOON + dt.timedelta(seconds=second + shift_s)
        text = f"{date:%Y-%m-%d %H:%M:%S},000 ERROR at {second} (x)\n"
        log.write_bytes((log.read_bytes() if log.exists() else b"") + text.encode())
        written.append(second)

    def change(before_s: float, to_s: float, from_s: int, during: tuple[tuple[int, float], ...]) -> None:
        from_bytes = log.stat().st_size
        for second, shift_s in during:
            line(second, shift_s)
        base, until = ANCHOR.wall_ns, from_s + 2
        note_change(
            Folder(folder),
            Change(
                before_s=before_s,
                by_s=to_s,
                from_ns=base + from_s * NS,
                until_ns=base + until * NS,
                from_bytes=from_bytes,
                until_bytes=log.stat().st_size,
            ),
        )

    line(1, 0)
    change(0, by_s, 10, ((10, 0), (11, by_s)))
    line(15, by_s)
    change(by_s, 0, 20, ((20, by_s), (21, 0)))
    line(30, 0)
    rows = read_logs(tmp_path, ANCHOR, dt.UTC)
    assert [(row["ns"], row["text"]) for row in rows] == [
        (second * NS, f"at {second} (x)") for second in written
    ]
