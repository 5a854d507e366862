"""A history in a real HDFS, a name node and a data node on loopback: judged in place, by its URI."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from py4j.protocol import Py4JJavaError

from checkers.judge import judge_import
from checkers.run_folder import read_json
from checkers.tables.source import inside
from harness.artifacts.cache import cache_dir
from harness.artifacts.ivy import fetch
from harness.artifacts.java import find_java
from harness.errors import AckedError, UnfitError
from harness.kafka.versions import Coordinates
from harness.waiting import wait_until
from tests.histories import History

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JARS = Path(pyspark.__file__).parent / "jars"
HDFS = "org.apache.hadoop.hdfs.server"
_PROPERTIES = {
    "dfs.replication": "1",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
}


class Hdfs:
    """A name node and a data node of Spark's own Hadoop version, in ``folder``."""

    def __init__(self, folder: Path, servers: Path) -> None:
        """``servers`` is the jar that holds them; clients come with Spark."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.uri = f"hdfs://127.0.0.1:{probe.getsockname()[1]}"
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        own = {
            "fs.defaultFS": self.uri,
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
        wanted = Coordinates("org.apache.hadoop", "hadoop-client-minicluster", version)
        try:
            fetch([wanted], place, cache_dir() / "ivy", find_java(), print)
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


def put(spark: Any, here: Path, there: str) -> None:
    """Copy a folder into HDFS, once its data node takes blocks."""
    path = spark._jvm.org.apache.hadoop.fs.Path
    configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def copied() -> bool:
        system = path(there).getFileSystem(configuration)
        system.delete(path(there), True)  # an attempt without a data node leaves empty files
        system.copyFromLocalFile(False, True, path(f"file://{here}"), path(there))
        return True

    wait_until(copied, within_s=120, awaiting="HDFS to take files", ignoring=(Py4JJavaError,))


def names(spark: Any, folder: str) -> list[str]:
    """What a folder in HDFS holds."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return [status.getPath().getName() for status in system.listStatus(path)]


def history() -> History:
    found = History()
    for seq in range(50):
        found.send(seq, offset=seq)
    found.logs([(seq, seq) for seq in range(50) if seq % 10])
    for broker in (1, 2, 3):
        found.replica(broker, leader=broker == 1, leo=50, log_start=0, in_sync=True)
    return found


def test_judged_where_it_lies(spark: Any, servers: Path, tmp_path: Path) -> None:
    """The same findings as of a local folder; life, findings and judgement are laid down in HDFS."""
    here = history().write(tmp_path / "run")
    place = tmp_path / "hdfs"
    place.mkdir()
    with running(place, servers) as hdfs:
        there = f"{hdfs.uri}/run"
        put(spark, here, there)
        judgement = judge_import(spark, there)
        assert judgement.fates == {"kept": 45, "lost": 5}
        assert judgement.findings_by_class == {"lost": 5}
        assert read_json(inside(there, "judgement.json"))["fates"] == {"kept": 45, "lost": 5}
        assert spark.read.parquet(inside(there, "life.parquet")).count() == 50
        assert spark.read.parquet(inside(there, "findings.parquet")).count() == 5
        assert sorted(names(spark, there)) == sorted(
            [*(file.name for file in here.iterdir()), "life.parquet", "findings.parquet", "judgement.json"]
        ), "what was written in between is gone"
        local = judge_import(spark, here)
    assert local.fates == judgement.fates
    assert pq.read_table(here / "findings.parquet").num_rows == 5


def test_a_name_node_that_is_gone_is_said_in_a_sentence(spark: Any, servers: Path, tmp_path: Path) -> None:
    with running(tmp_path, servers) as hdfs:
        put(spark, history().write(tmp_path / "run"), f"{hdfs.uri}/run")
        hdfs.kill()
        with pytest.raises(AckedError) as failure:
            judge_import(spark, f"{hdfs.uri}/run")
    assert hdfs.uri in failure.value.message
    assert "cannot be reached through Hadoop" in failure.value.message
