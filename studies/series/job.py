"""The unit of work of every command that makes many runs, and where it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster.settings import NO_SETTINGS
from harness.lab.registry import EMBEDDED
from run.scenario import ScenarioFile

if TYPE_CHECKING:
    from harness.lab.model import Topology


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to make: a scenario on a Kafka version (`2.7.1@2.6`: with an older protocol) in a metadata mode.

    Jobs of the same scenario, version, mode and client are equal: they repeat each other.
    """

    scenario: str
    """The name of a scenario, or of a case of an assessment."""
    version: str
    mode: str
    file: ScenarioFile | None = field(default=None, compare=False, repr=False)
    """Where the scenario was read from; None for the catalogue."""
    client: str = ""
    """The client library of producers and consumers, as `--client` names it; empty: librdkafka."""
    files: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """What its run folder holds before the run begins, by name: a schedule, for instance."""
    number: int = field(default=0, compare=False, repr=False)
    """The caller's number for the job."""
    parent: int | None = field(default=None, compare=False, repr=False)
    """The number of the job from which this one was mutated."""

    def __str__(self) -> str:
        return f"{self.scenario} on {self.version} {self.mode}" + (f" with {self.client}" * bool(self.client))


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where jobs are carried out: what all their clusters have in common."""

    lab: str = EMBEDDED
    settings: Mapping[str, object] = field(default_factory=NO_SETTINGS.as_json)
    """What the user has set, as data (`Settings.as_json`)."""
    cluster_file: Path | None = None
    """The file that describes the cluster; None: three AZs."""
    upgrade_to: str = ""
    """The version of an assessment's rolling upgrade; empty: none."""

    def topology(self, mode: str) -> Topology:
        """The hosts of each cluster. Raises UsageError for a cluster file that cannot be used."""
        from run.session import layout_of

        return layout_of(str(self.cluster_file) if self.cluster_file else None).topology(mode)
