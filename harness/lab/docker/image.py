"""The image of every host: built once, and found again by a hash of its content.

    python -m harness.lab.docker.image      # build it if it is missing, and print its tag

Base image: ACKED_BASE_IMAGE if set, else the one that `compose/base-image.sh` made, else the public slim
image.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from os import environ
from pathlib import Path

import docker
from docker.errors import BuildError, ImageNotFound

from harness.errors import AckedError, LabError, UnfitError, as_printed
from harness.lab.docker.engine import connect

COMPOSE_DIR = Path(__file__).resolve().parents[3] / "compose"
LOCAL_BASE = "acked/base:bookworm"
PUBLIC_BASE = "debian:bookworm-slim"
LABEL_CONTENT = "acked.content"
_LIBRARIES = frozenset(
    {
        *("confluent-kafka", "kafka-python", "aiokafka", "cramjam", "kazoo", "msgspec", "tenacity"),
    }
)
_PYTHON = "3.11"
"""Python of Debian bookworm, independent of the version that runs the harness."""


def ensure(client: docker.DockerClient, say: Callable[[str], None] = lambda _text: None) -> str:
    """Tag of the image, which is built if it is missing. Raises LabError with the build's output."""
    base = base_image(client)
    machine = str(client.info()["Architecture"])
    digest = _content(base, machine)
    tag = f"acked/node:{digest}"
    try:
        client.images.get(tag)
    except ImageNotFound:
        say(f"building the hosts' image {tag} on {base} (once; about half a minute)")
        _build(client, tag, base, machine, digest)
    return tag


def base_image(client: docker.DockerClient) -> str:
    """The base image."""
    chosen = environ.get("ACKED_BASE_IMAGE")
    if chosen:
        return chosen
    try:
        client.images.get(LOCAL_BASE)
    except ImageNotFound:
        return PUBLIC_BASE
    return LOCAL_BASE


def requirements() -> list[str]:
    """The client libraries of the image, in the versions that are installed here."""
    return [f"{name}=={importlib.metadata.version(name)}" for name in sorted(_LIBRARIES)]


def _content(base: str, machine: str) -> str:
    parts = [base, machine, *requirements()]
    parts += [(COMPOSE_DIR / name).read_text() for name in ("Dockerfile", "entry.sh")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _build(client: docker.DockerClient, tag: str, base: str, machine: str, digest: str) -> None:
    with tempfile.TemporaryDirectory(prefix="acked-image-") as folder:
        context = Path(folder)
        for name in ("Dockerfile", "entry.sh"):
            shutil.copy(COMPOSE_DIR / name, context / name)
        (context / "entry.sh").chmod(0o755)
        _install_libraries(context / "site", machine)
        try:
            client.images.build(
                path=folder,
                tag=tag,
                rm=True,
                forcerm=True,
                buildargs={"BASE_IMAGE": base},
                labels={LABEL_CONTENT: digest},
            )
        except BuildError as error:
            lines = [str(entry.get("stream") or entry.get("error") or "") for entry in error.build_log]
            output = "".join(lines).strip().splitlines()[-12:]
            raise LabError(
                f"Building {tag} on {base} failed: {error.msg}; where no registry can be reached, make a "
                f"base with compose/base-image.sh, or name one in ACKED_BASE_IMAGE.",
                detail="\n".join(output),
            ) from error


def _install_libraries(target: Path, machine: str) -> None:
    """Install wheels for the image's Python into ``target``; independent of the harness's interpreter."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in (36, 34, 28, 17)] + [
        f"manylinux2014_{machine}"
    ]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", _PYTHON),
        *(word for name in platforms for word in ("--platform", name)),
        *requirements(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise UnfitError(
            "The client libraries of the image could not be fetched with pip; see below.",
            detail="\n".join(done.stderr.strip().splitlines()[-8:]),
        )
    shutil.rmtree(target / "bin", ignore_errors=True)


def main() -> int:
    """Build the image if it is missing, and print its tag."""
    try:
        tag = ensure(connect(), lambda text: print(text, file=sys.stderr))  # noqa: T201
    except AckedError as error:
        sys.stderr.write(as_printed(error))
        return error.exit_code
    sys.stdout.write(f"{tag}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
