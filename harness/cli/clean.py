"""`acked clean`: remove what killed runs of the Compose lab left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.console import Console
from harness.errors import UnfitError


def clean(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also remove what running runs and clusters started by hand use."),
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="List what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove containers, networks and volumes that killed runs of the Compose lab left behind."""
    from harness.lab.docker import engine as docker_engine
    from harness.lab.docker import sweep as docker_sweep

    console = Console(highlight=False)
    try:
        client = docker_engine.connect()
    except UnfitError as error:
        reason = f"no Docker engine, so there is nothing to clean: {error.message}"
        console.print(reason, markup=False, soft_wrap=True)
        return
    try:
        found = docker_sweep.leftovers(client)
        for thing in found:
            if everything or not thing.alive:
                console.print(f"{'would remove' if dry_run else 'remove'} {thing.kind} {thing.name}")
        kept = 0 if everything else sum(thing.alive for thing in found)
        doomed = len(found) - kept
        if not dry_run:
            docker_sweep.remove(client, lambda thing: everything or not thing.alive)
            if not docker_sweep.leftovers(client):
                docker_engine.drop_guard_route()
        if kept:
            console.print(
                f"kept: {kept} of running runs or of clusters started by hand (--all removes them too)"
            )
        if not doomed:
            console.print("nothing to clean")
    finally:
        client.close()
