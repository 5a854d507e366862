"""Metrics as the text of OpenMetrics, which Prometheus and other collectors read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Sample = tuple[Mapping[str, object], float]
"""Labels, and a value."""


@dataclass(frozen=True)
class Family:
    """A metric: its name without a suffix, and what it means."""

    name: str
    kind: Literal["counter", "gauge"]
    says: str


def exposition(families: Iterable[tuple[Family, Iterable[Sample]]]) -> str:
    """The answer to a collector."""
    return "".join(_lines(family, samples) for family, samples in families) + "# EOF\n"


def _lines(family: Family, samples: Iterable[Sample]) -> str:
    name = family.name + ("_total" if family.kind == "counter" else "")
    lines = [f"# TYPE {family.name} {family.kind}", f"# HELP {family.name} {family.says}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value}" if shown else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
