"""Whatever ends a command, nothing of it stays, and what has a plan goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cluster.kills import kills

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(3600)]


def test_every_command_ended_at_random_moments(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    bad = [str(kill) for kill in kills(tmp_path, 60, seed) if kill.problems]
    assert bad == [], f"seed {seed}"
