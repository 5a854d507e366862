"""One Spark session for all Spark tests, because starting it costs more than most of them; and S3."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import pyarrow.fs as pafs
import pytest

from checkers.spark.session import start_session
from checkers.tables.files import file_system


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    """Where S3 will be: Spark's workers have the environment that there was when Spark started."""
    port = free_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    yield port
    for name, value in before.items():
        if value is None:
            os.environ.pop(name)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def spark(s3_port: int) -> Iterator[Any]:
    session = start_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3(s3_port: int) -> Iterator[pafs.FileSystem]:
    """An S3 server with a bucket `histories`."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else a failed test shows every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=s3_port, verbose=False)
    server.start()
    try:
        system, _ = file_system("s3://histories")
        options = {"endpoint_override": os.environ["AWS_ENDPOINT_URL"], "allow_bucket_creation": True}
        pafs.S3FileSystem(**options).create_dir("histories")
        yield system
    finally:
        server.stop()
