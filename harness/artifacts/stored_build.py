"""A build of Kafka that the cache holds, copied there by `harness.artifacts.builds`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.artifacts.cache import cache_dir
from harness.artifacts.manifest import Checksums
from harness.errors import UsageError
from harness.kafka.versions import KafkaVersion

SOURCES = "sources.json"
"""File of a copied build: where its jars came from."""


def folder_of(spec: KafkaVersion) -> Path:
    """Where the cache keeps a build."""
    return cache_dir() / f"build-{spec.build}"


def manifest_of(spec: KafkaVersion) -> Checksums:
    """The manifest of a build in the cache. Raises UsageError if it is not there or damaged."""
    root = folder_of(spec)
    manifest = Checksums.read(root)
    if manifest is None or manifest.damaged(root):
        raise UsageError(
            f"The Kafka build {spec.label} is not in the cache ({root}) any more; give its folder again with "
            f"--kafka-home or --kafka-jars."
        )
    return manifest


def sources_of(spec: KafkaVersion) -> Mapping[str, object]:
    """Where a build came from: `home` and `jars`, as paths."""
    try:
        sources = json.loads((folder_of(spec) / SOURCES).read_text())
    except (OSError, ValueError):
        return {}
    return sources if isinstance(sources, dict) else {}
