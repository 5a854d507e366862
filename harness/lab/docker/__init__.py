"""The Compose lab: every host is a container on an internal network, driven through the Docker SDK.

Runs in the harness's process. Imports the Docker SDK, which the embedded lab never needs.
"""

from __future__ import annotations

from pathlib import Path

from harness.lab.model import Lab, Topology
from harness.lab.registry import LabKind


def _make(topology: Topology, run_dir: Path) -> Lab:
    from harness.lab.docker.lab import ComposeLab

    return ComposeLab(topology, run_dir)


KIND = LabKind(make=_make, requires=("docker-engine", "docker-compose"))
