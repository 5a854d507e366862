"""`acked compose`: the Compose file of a layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compose(
    cluster: Annotated[Path, typer.Argument(help="Cluster file (TOML).")],
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the file's own.")
    ] = None,
) -> None:
    """Print the Compose file with which the compose lab brings up a cluster file's hosts.

    acked compose examples/clusters/five-azs.toml --mode kraft > compose.yaml

    Its comments name the variables that it takes; `docs/compose.md` shows how
    to bring a cluster up by hand.
    """
    from harness.cluster.cluster_file import read_cluster_file
    from harness.console import echo
    from harness.lab.docker.project import compose_text

    described = read_cluster_file(cluster)
    echo(compose_text(described.layout.topology(mode or described.mode or "zookeeper")), nl=False)
