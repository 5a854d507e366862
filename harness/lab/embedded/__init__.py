"""The embedded lab: every host is a network namespace; it needs no daemon and no root.

`namespaces` enters the fresh namespaces in which the harness's process itself then runs.
Runs in the harness's process. Imports the lab's protocol and the helpers for waiting and forking.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.lab.model import Lab, Topology
from harness.lab.registry import LabKind


def _make(topology: Topology, run_dir: Path) -> Lab:
    from harness.lab.embedded.lab import EmbeddedLab

    return EmbeddedLab(topology, run_dir)


def _enter(work: Callable[[], int]) -> int:
    from harness.lab.embedded.namespaces import run_inside

    return run_inside(work)


KIND = LabKind(make=_make, enter=_enter, requires=("namespaces", "iproute2", "iptables"))
