"""A process in a new session gets the nice value of the scheduling group of the process that started it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.lab.embedded.priority import follow

OWN = os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.parametrize(
    ("group", "given"),
    [
        ("/autogroup-7 nice -10\n", "-10"),
        ("", str(OWN)),  # a descendant of init without a session of its own is in no group
    ],
)
def test_the_nice_value_of_the_group_is_passed_on(tmp_path: Path, group: str, given: str) -> None:
    for process in ("self", "12"):
        (tmp_path / process).mkdir()
        (tmp_path / process / "autogroup").write_text(group)
    follow(12, tmp_path)
    assert (tmp_path / "12" / "autogroup").read_text() == given


def test_a_kernel_without_groups_is_no_error(tmp_path: Path) -> None:
    follow(12, tmp_path)
    assert not list(tmp_path.iterdir())
