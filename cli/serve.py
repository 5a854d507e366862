"""`acked serve`: a web server over the folder of runs."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from cli.options import RUNS, Runs
from harness.console import echo
from harness.errors import UsageError


def serve(
    runs: Runs = RUNS,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0: any that is free.")] = 8080,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. On any but loopback, only who has the token of the printed address "
            "is answered."
        ),
    ] = "127.0.0.1",
    open_page: Annotated[bool, typer.Option("--open", help="Open the list in the browser.")] = False,
) -> None:
    """Browse stored runs, and watch those under way: the list, all pages, comparisons, downloads.

    Nothing that is stored can be changed through it. Ctrl-C ends it.
    """
    import uvicorn

    from studies.browse.app import application
    from studies.browse.shelf import Shelf

    if not runs.is_dir():
        raise UsageError(f"There is no folder {runs}; name the one that holds the runs with --runs.")
    token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/{f'?token={token}' if token else ''}"
    config = uvicorn.Config(
        application(Shelf(Path(runs)), host=host, token=token),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    echo(f"Runs: {address}")
    if open_page:
        import webbrowser

        webbrowser.open(address)
    uvicorn.Server(config).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    """Whether an address is of the loopback interface. Raises UsageError for what is no address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise UsageError(
            f"--host {host[:80]} is no IP address; give one of this machine, or 0.0.0.0."
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"Port {port} of {host} cannot be listened on ({error.strerror}); give another one with --port."
        ) from None
    return listening
