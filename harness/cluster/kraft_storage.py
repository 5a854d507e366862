"""Data folders of KRaft nodes: formatted once per version and feature set, then cloned for each node."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.artifacts.cache import locked, writable
from harness.cluster.model import Distribution
from harness.errors import UnfitError
from harness.kafka.config import KRaftNode, kraft_properties
from harness.kafka.java import CLUSTER_ID, FORMAT, JavaProcess, log_config_text, properties_text

METADATA_PARTITION = "__cluster_metadata-0"
FORMAT_S = 60.0


def formatted(distribution: Distribution, features: Mapping[str, str], java: str = "java") -> Path:
    """A formatted data folder to clone from, made with Kafka's own tool when it is first needed.

    Raises UnfitError with the tool's output, for example if the version lacks a feature.
    """
    key = "-".join(f"{name}={level}" for name, level in sorted(features.items())) or "default"
    shelf = writable(distribution.root / "formatted")
    ready = shelf / key
    if ready.is_dir():
        return ready
    with locked(shelf, lambda _text: None):
        if not ready.is_dir():
            _format(distribution, features, java, shelf / f".new-{os.getpid()}", ready)
    return ready


def _format(
    distribution: Distribution,
    features: Mapping[str, str],
    java: str,
    folder: Path,
    ready: Path,
) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    address, syntax = "127.0.0.1", distribution.spec.log_syntax
    node = KRaftNode(
        node_id=1,
        roles=("controller",),
        az="az1",
        address=address,
        data_dir=str(folder / "data"),
        voters={1: address},
    )
    (folder / "server.properties").write_text(properties_text(kraft_properties(node, {})))
    (folder / "log.properties").write_text(log_config_text(str(folder / "server.log"), syntax))
    options = [part for name, level in features.items() for part in ("--feature", f"{name}={level}")]
    command = JavaProcess(
        main_class=FORMAT,
        class_path=distribution.class_path(),
        arguments=("format", "-t", CLUSTER_ID, "-c", str(folder / "server.properties"), *options),
        log_config=str(folder / "log.properties"),
        log_syntax=syntax,
        archive=_text(distribution.archive(FORMAT)),
        java=java,
    ).argv()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FORMAT_S, check=False, stdin=subprocess.DEVNULL
    )
    try:
        if done.returncode != 0 or not (folder / "data" / "meta.properties").is_file():
            asked = f" with {dict(features)}" if features else ""
            raise UnfitError(
                f"Kafka {distribution.version} cannot format a data folder{asked} (exit status "
                f"{done.returncode}); the output of its tool is below.",
                detail=(done.stdout + done.stderr).strip()[-2000:],
            )
        (folder / "data").rename(ready)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clone(
    template: Path, data: Path, node_id: int, cluster_id: str | None = None, *, metadata: bool = True
) -> None:
    """Fill one node's data folder from the formatted one, with its own node id and directory id.

    ``cluster_id`` replaces that of the template. A node has its metadata log in one of its folders. For the
    others, ``metadata`` is False: the tool of 4.4.0 writes a first snapshot, with which no node starts there.

    The folder exists if a disk that can lose power is mounted there. Then the files are flushed to that disk.
    """
    on_its_own_disk = data.exists()
    data.parent.mkdir(parents=True, exist_ok=True)
    left_out = () if metadata else (METADATA_PARTITION,)
    shutil.copytree(template, data, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*left_out))
    own = {"node.id": str(node_id), "directory.id": _short_uuid()}
    if cluster_id is not None:
        own["cluster.id"] = cluster_id
    properties = data / "meta.properties"
    lines = []
    for line in properties.read_text().splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={own[key]}" if key in own else line)
    properties.write_text("\n".join(lines) + "\n")
    if on_its_own_disk:
        for path in (*data.rglob("*"), data):
            _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cast_vote(data: Path, candidate: int, voters: Iterable[int]) -> None:
    """Write into a voter's data folder that it has voted for ``candidate`` in epoch 1, to force who leads.

    The candidate itself starts as candidate of that epoch; the others grant it the same vote again.
    """
    partition = data / METADATA_PARTITION
    partition.mkdir(exist_ok=True)
    state = {
        "clusterId": "",
        "leaderId": -1,
        "leaderEpoch": 1,
        "votedId": candidate,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": number} for number in sorted(voters)],
        "data_version": 0,
    }
    (partition / "quorum-state").write_text(json.dumps(state, separators=(",", ":")))


def _short_uuid() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka avoids those, as they look like options
            return text


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
