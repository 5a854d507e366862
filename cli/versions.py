"""`acked versions`: the known Kafka versions and how they differ."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from harness.artifacts.cache import cache_dir
from harness.console import Console, echo
from harness.kafka.versions import DEFAULT, VERSIONS, KafkaVersion
from report.console import NONE, Column, RowTable


def versions(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the versions as JSON, with all their properties.")
    ] = False,
) -> None:
    """Show the Kafka versions that were tried, and how they differ.

    A version is downloaded when a run first uses it
    (`acked run NAME --kafka VERSION`).
    """
    cached = {name: (cache_dir() / f"kafka-{name}").is_dir() for name in VERSIONS}
    if as_json:
        document = [{**asdict(entry), "cached": cached[name]} for name, entry in VERSIONS.items()]
        echo(json.dumps(document, indent=2))
        return
    rows = [
        (
            f"{name} (default)" if name == DEFAULT else name,
            ", ".join(entry.modes),
            entry.zookeeper or NONE,
            _traits(entry) or NONE,
            "yes" if cached[name] else "no",
        )
        for name, entry in VERSIONS.items()
    ]
    columns = (
        Column(heading="Kafka"),
        Column(heading="modes", prose=True),
        Column(heading="ZooKeeper"),
        Column(heading="properties", prose=True),
        Column(heading="downloaded"),
    )
    RowTable(columns=columns, rows=rows).show(Console(highlight=False))


def _traits(entry: KafkaVersion) -> str:
    kraft = "kraft" in entry.modes
    traits = (
        ("followers truncate to the high watermark", not entry.epoch_truncation),
        ("replica logs only as files", entry.replica_log == "files"),
        ("leader changes the ISR itself", not entry.alter_isr),
        ("old message formats", entry.message_format_config),
        ("no unclean election by configuration", not entry.unclean_config),
        ("zombie controller keeps leading", kraft and not entry.resigns_when_cut_off),
        ("cut-off controller resigns", entry.resigns_when_cut_off),
        ("pre-vote", entry.pre_vote),
        ("eligible leader replicas", entry.eligible_leader_replicas),
        ("voters of the quorum change", entry.dynamic_quorum),
    )
    return ", ".join(text for text, holds in traits if holds)
