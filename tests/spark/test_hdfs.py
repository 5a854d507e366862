"""A history in a real HDFS, a name node and a data node on loopback: judged in place, through WebHDFS."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from checkers.judge import judge_import
from checkers.run_folder import read_json
from checkers.tables.files import inside, listed, make_folder, remove, write_bytes
from harness.artifacts.cache import cache_dir
from harness.artifacts.ivy import fetch
from harness.artifacts.java import find_java
from harness.errors import UnfitError
from harness.kafka.versions import Coordinates
from harness.waiting import wait_until
from tests.histories import History
from tests.spark.conftest import free_port
from tests.spark.test_uris import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JARS = Path(pyspark.__file__).parent / "jars"
HDFS = "org.apache.hadoop.hdfs.server"
_PROPERTIES = {
    "dfs.replication": "1",
    "dfs.permissions.enabled": "true",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
}


class Hdfs:
    """A name node and a data node of Spark's own Hadoop version, in ``folder``."""

    def __init__(self, folder: Path, servers: Path) -> None:
        """``servers`` is the jar that holds them; clients come with Spark."""
        port = free_port()
        self.uri = f"webhdfs://127.0.0.1:{port}"
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        own = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{free_port()}",
            "dfs.namenode.http-address": f"127.0.0.1:{port}",
            "dfs.namenode.name.dir": f"{folder}/names",
            "dfs.datanode.data.dir": f"{folder}/blocks",
        }
        rows = [
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in {**_PROPERTIES, **own}.items()
        ]
        for name in ("core-site.xml", "hdfs-site.xml"):
            (folder / name).write_text(f"<configuration>{''.join(rows)}</configuration>")
        path = os.pathsep.join((str(folder), str(servers), f"{JARS}/*"))
        self._java = [
            find_java().path,
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            path,
        ]

    def start(self) -> None:
        """Format and start both."""
        self._popen("format", f"{HDFS}.namenode.NameNode", "-format", "-nonInteractive").wait(120)
        self._running["names"] = self._popen("names", f"{HDFS}.namenode.NameNode")
        self._running["blocks"] = self._popen("blocks", f"{HDFS}.datanode.DataNode")

    def kill(self) -> None:
        """End what runs."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def _popen(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*self._java, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )


@pytest.fixture(scope="module")
def servers() -> Path:
    """The jar of HDFS's servers, of the Hadoop version that Spark brings."""
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    place = cache_dir() / f"hadoop-{version}"
    jar = place / f"hadoop-client-minicluster-{version}.jar"
    if not jar.exists():
        servers_jar = Coordinates("org.apache.hadoop", "hadoop-client-minicluster", version)
        try:
            fetch([servers_jar], place, cache_dir() / "ivy", find_java(), print)
        except UnfitError as error:
            pytest.skip(error.message)
    return jar


@contextmanager
def running(folder: Path, servers: Path) -> Iterator[Hdfs]:
    hdfs = Hdfs(folder, servers)
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


def put(here: Path, there: str) -> None:
    """Copy a folder into HDFS, once its data node takes blocks."""

    def copied() -> bool:
        remove(there)  # an attempt without a data node leaves empty files
        make_folder(there)
        for file in here.iterdir():
            write_bytes(inside(there, file.name), file.read_bytes())
        return True

    wait_until(copied, within_s=120, awaiting="HDFS to take files", ignoring=(UnfitError,))


def history() -> History:
    planted = History()
    for seq in range(50):
        planted.send(seq, offset=seq)
    planted.logs([(seq, seq) for seq in range(50) if seq % 10])
    for broker in (1, 2, 3):
        planted.replica(broker, leader=broker == 1, leo=50, log_start=0, in_sync=True)
    return planted


def test_judged_where_it_lies(spark: Any, servers: Path, tmp_path: Path) -> None:
    """The same findings as of a local folder; life, findings and judgement are laid down in HDFS."""
    here = history().write(tmp_path / "run")
    place = tmp_path / "hdfs"
    place.mkdir()
    with running(place, servers) as hdfs:
        there = f"{hdfs.uri}/runs/with blank"
        put(here, there)
        for _ in range(2):  # judging again replaces what was written
            judgement = judge_import(spark, there)
        assert judgement.fates == {"kept": 45, "lost": 5}
        assert judgement.findings_by_class == {"lost": 5}
        assert read_json(inside(there, "judgement.json"))["fates"] == {"kept": 45, "lost": 5}
        names = {entry.base_name for entry in listed(there)}
        in_hdfs = {name: rows_of(inside(there, f"{name}.parquet")) for name in ("life", "findings")}
        assert names == {
            *(file.name for file in here.iterdir()),
            *("life.parquet", "findings.parquet", "judgement.json"),
        }, "what was written in between is gone"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("checkers.judge.SMALL_ROWS", 0)  # as if there were too many rows for the driver
            assert judge_import(spark, there).findings_by_class == {"lost": 5}
    local = judge_import(spark, here)
    assert (local.fates, local.promises) == (judgement.fates, judgement.promises)
    assert in_hdfs == {name: rows_of(str(here / f"{name}.parquet")) for name in in_hdfs}


def test_a_name_node_that_is_gone_is_said_in_a_sentence(spark: Any, servers: Path, tmp_path: Path) -> None:
    with running(tmp_path, servers) as hdfs:
        put(history().write(tmp_path / "run"), f"{hdfs.uri}/run")
        hdfs.kill()
        with pytest.raises(UnfitError, match="cannot be reached") as failure:
            judge_import(spark, f"{hdfs.uri}/run")
    assert hdfs.uri in failure.value.message
