"""Class-data archives of the default version: they fit, and Java does use them."""

from __future__ import annotations

import subprocess

import pytest

from harness.artifacts import KafkaDistribution, resolve
from harness.kafka.java import BROKER, ZOOKEEPER

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def distribution() -> KafkaDistribution:
    return resolve()


@pytest.mark.parametrize("main_class", [BROKER, ZOOKEEPER])
def test_archive_fits_this_java_and_class_path(distribution: KafkaDistribution, main_class: str) -> None:
    archive = distribution.archive(main_class)
    assert archive, distribution.without_archives
    done = subprocess.run(
        [
            distribution.java.path,
            "-Xshare:on",  # refuses to start where the archive does not fit
            f"-XX:SharedArchiveFile={archive}",
            "-XX:+UseSerialGC",
            "-Xlog:class+load",
            *("-cp", distribution.class_path(), "org.apache.kafka.common.utils.AppInfoParser"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if main_class == BROKER:
        assert "AppInfoParser source: shared objects file (top)" in done.stdout
    assert "shared objects file" in done.stdout
    assert "Unable to use shared archive" not in done.stdout + done.stderr
