"""`acked cluster`: cluster files from what describes a cluster already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.cluster.inventory.model import Inventory

app = typer.Typer(
    help="Write a cluster file from what describes a cluster.", no_args_is_help=True, add_completion=False
)


@app.callback()
def _cluster() -> None:
    """Write a cluster file from what describes a cluster (docs/cluster-file.md)."""


@app.command("from")
def from_sources(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="server.properties files, a docker-compose.yml, Strimzi resources, or a folder of them."
        ),
    ] = None,
    bootstrap: Annotated[str, typer.Option(help="host:port,... of a running cluster; it is only read.")] = "",
    client_config: Annotated[
        Path | None, typer.Option(help="Properties of a client of that cluster, with its TLS and SASL.")
    ] = None,
    kafka: Annotated[str, typer.Option(help="Kafka version, if the sources do not name it.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the cluster file here. Default: print it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --out.")] = False,
) -> None:
    """Write a cluster file from what people have: configurations, or a running cluster.

    acked cluster from broker*.properties --out cluster.toml
    acked cluster from docker-compose.yml --out cluster.toml
    acked cluster from --bootstrap localhost:9092 --out cluster.toml
    acked cluster from --bootstrap kafka1:9093 --client-config client.properties

    Comments in the file say what was assumed and what was left out. Nothing
    in the sources or the cluster is changed.
    """
    from harness.cluster.cluster_file import read_cluster_file
    from harness.cluster.inventory.model import cluster_file
    from harness.console import echo, tell
    from harness.errors import UsageError, quoted
    from harness.plain_files import write_output

    sources = [str(path) for path in paths or ()] + ([f"--bootstrap {bootstrap}"] if bootstrap else [])
    text = cluster_file(_inventory(paths or [], kafka, bootstrap, client_config), sources)
    if out is None:
        echo(text, nl=False)
        return
    if out.exists() and not force:
        raise UsageError(
            f"--out {quoted(str(out), 160)} exists; name another file, or replace it with --force."
        )
    write_output(out, text, "--out")
    read_cluster_file(out)
    tell(f"{out}: acked assess {out} --list shows what each fault would cost")


def _inventory(paths: list[Path], kafka: str, bootstrap: str, client_config: Path | None) -> Inventory:
    """What all sources say together; ``kafka`` takes precedence over the version that they name."""
    from dataclasses import replace

    from harness.cluster.client_config import read_client_config
    from harness.cluster.inventory import files, live
    from harness.cluster.inventory.model import together
    from harness.errors import UsageError
    from harness.kafka.security import PLAINTEXT

    if client_config is not None and not bootstrap:
        raise UsageError("--client-config belongs to --bootstrap; add host:port of a broker.")
    security = read_client_config(client_config).security if client_config else PLAINTEXT
    parts = [files.read(paths)] if paths else []
    parts += [live.read(bootstrap, security)] if bootstrap else []
    if not parts:
        raise UsageError("Name files that describe the cluster, or a running cluster with --bootstrap.")
    if kafka:
        parts = [replace(part, version=kafka) for part in parts]
    return together(parts)
