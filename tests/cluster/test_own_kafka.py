"""A build of Kafka with one patched class, on a real cluster: told apart by its checksum and by a claim."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from harness.artifacts import resolve
from tests.cluster.conftest import acked

pytestmark = [pytest.mark.cluster, pytest.mark.long]
VERSION = "2.7.1"
RELEASED, PATCHED = b" starts at leader epoch ", b" begins at leader epoch "


def patch(folder: Path) -> Path:
    """A jar with those classes of the release that log an election, which now use another word.

    Its bytes are the same each time, so that the cache keeps one build of it.
    """
    (broker,) = (jar for jar in resolve(VERSION).jars if jar.name.startswith("kafka_"))
    patched = folder / "other-words.jar"
    with zipfile.ZipFile(broker) as release, zipfile.ZipFile(patched, "w") as jar:
        for name in release.namelist():
            code = release.read(name)
            if name.endswith(".class") and RELEASED in code:
                jar.writestr(zipfile.ZipInfo(name), code.replace(RELEASED, PATCHED))
    return patched


def test_a_patched_class_shows_in_checksums_and_in_a_claim(runs: Path, tmp_path: Path) -> None:
    name, claim = "leader-az-isolated", "told-to-follow"
    jar = patch(tmp_path)
    words = ("matrix", name, "--versions", VERSION, "--kafka-jars", jar, "--runs", runs, "--json")
    run = acked(*words, timeout_s=550)
    release, build = sorted(json.loads(run.stdout), key=lambda row: len(row["version"]))
    assert release["version"] == VERSION
    assert build["version"].startswith(f"{VERSION}+")
    assert release["verdict"] == "as declared", run.stderr
    assert release["claims"][claim] == "confirmed"
    assert build["verdict"] != "as declared"
    assert build["claims"][claim] != "confirmed"
    manifests = [json.loads((Path(row["folder"]) / "run.json").read_text()) for row in (release, build)]
    ours, theirs = (manifest["jars"] for manifest in manifests)
    assert set(theirs) - set(ours) == {"0-00-other-words.jar"}
    assert {key: theirs[key] for key in ours} == ours
    assert manifests[1]["kafka_build"]["jars"] == [str(jar)]
