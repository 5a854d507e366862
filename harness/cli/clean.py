"""`acked clean`: remove what runs of the Compose lab left behind when their harness was killed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from harness.errors import UnfitError
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import sweep as docker_sweep


def clean(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also what belongs to live runs, and to clusters brought up by hand."),
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Only list; remove nothing.")] = False,
) -> None:
    """Remove labelled containers, networks and volumes of runs whose harness is gone."""
    console = Console(highlight=False)
    try:
        client = docker_engine.connect()
    except UnfitError as error:
        console.print(f"nothing to clean that can be seen: {error.message}", markup=False, soft_wrap=True)
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
                f"left alone: {kept} things of live runs or brought up by hand (--all removes them)"
            )
        if not doomed:
            console.print("nothing to clean")
    finally:
        client.close()
