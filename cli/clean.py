"""`acked clean`: remove what killed commands left behind, in the cache and in Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from harness.console import Console
from harness.errors import UnfitError


def clean(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also remove what running runs and clusters started by hand use."),
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="List what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove what killed commands left behind.

    In the cache, downloads and archives that were not finished; in Docker,
    containers, networks and volumes of the Compose lab.
    """
    from harness.lab.docker import engine as docker_engine
    from harness.lab.docker import sweep as docker_sweep

    console = Console(highlight=False)
    for path in _unfinished(dry_run=dry_run):
        console.paragraph(escape(f"{'would remove' if dry_run else 'remove'} {path}"))
    try:
        client = docker_engine.connect()
    except UnfitError as error:
        reason = f"no Docker engine, so there is nothing to clean there: {error.message}"
        console.paragraph(escape(reason))
        return
    try:
        leftovers = docker_sweep.leftovers(client)
        for thing in leftovers:
            if everything or not thing.alive:
                console.print(f"{'would remove' if dry_run else 'remove'} {thing.kind} {thing.name}")
        kept = 0 if everything else sum(thing.alive for thing in leftovers)
        doomed = len(leftovers) - kept
        if not dry_run:
            docker_sweep.remove(client, lambda thing: everything or not thing.alive)
            if not docker_sweep.leftovers(client):
                docker_engine.drop_guard_route()
        if kept:
            console.paragraph(
                f"kept: {kept} of running runs or of clusters started by hand (--all removes them too)"
            )
        if not doomed:
            console.print("nothing to clean")
    finally:
        client.close()


def _unfinished(*, dry_run: bool) -> list[Path]:
    """What processes that were killed left unfinished in the cache; removed unless ``dry_run``."""
    from checkers.spark.class_data import remove_unfinished
    from checkers.spark.session import cache_dir as spark_cache
    from harness.artifacts.cache import UNFINISHED, cache_dir
    from harness.held_folders import remove_abandoned

    removed = remove_unfinished(spark_cache(), dry_run=dry_run)
    for below in ("", "*/", "*/*/"):
        removed += remove_abandoned(cache_dir(), f"{below}{UNFINISHED}", dry_run=dry_run)
    return removed
