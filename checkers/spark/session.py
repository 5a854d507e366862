"""The Spark session: local, quiet, no UI, loopback only, and warmed up while a scenario still runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import AckedError, UnfitError

_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "acked",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.log.level": "ERROR",
}

_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.shuffle.compress": "false",
}

_FOR_LITTLE: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n
logger.python.name = org.apache.spark.api.python
logger.python.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.task.name = org.apache.spark.scheduler
logger.task.level = off
logger.util.name = org.apache.spark.util
logger.util.level = off
"""


_SILENT = ("-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=error:stderr")
"""The JVM announces what it thinks of shared files and archives on stdout, where our answer is to stand."""


def cache_dir() -> Path:
    """Folder that outlives a run: class-data archives and the like."""
    return Path(os.environ.get("ACKED_CACHE", "~/.cache/acked")).expanduser() / "spark"


def java_flags(cache: Path) -> str:
    """JVM flags for a short life: serial collector, quiet, with the class-data archive where there is one."""
    flags = [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=192m",
        *_SILENT,
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={tempfile.gettempdir()}",
    ]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        logging = cache / "log4j2.properties"
        if not logging.exists() or logging.read_text() != _QUIET:
            logging.write_text(_QUIET)
        flags.append(f"-Dlog4j2.configurationFile=file:{logging}")
    except OSError:
        pass
    archive = archive_path(cache)
    if archive.exists():
        flags += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    return " ".join(flags)


def archive_path(cache: Path) -> Path:
    """Where the class-data archive of this PySpark and this Java is to lie (`checkers.spark.class_data`)."""
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    build = ""
    with suppress(OSError):
        java = java.resolve(strict=True)
        # An upgrade in place leaves the name, and fits no archive of before.
        build = str(java.stat().st_mtime_ns)
    key = hashlib.sha256(f"{pyspark.__file__} {java} {build}".encode()).hexdigest()[:12]
    return cache / f"classes-{pyspark.__version__}-{key}.jsa"


def start_session(
    *,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    driver_memory: str = "2g",
    warm: bool = True,
) -> Any:
    """Start (or join) the Spark session. Takes some seconds cold; may be called in a background thread.

    Unless told otherwise it also judges a tiny history, so that the next judgement takes little time.

    Raises UnfitError when the JVM does not come up.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # The launcher is a Java process of its own, and what it prints beside a command line is passed on.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(("-XX:TieredStopAtLevel=1", *_SILENT)))
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    chosen = {"spark.master": master, **_SETTINGS, **(_LOCAL if local else {})}
    if local:
        chosen["spark.driver.memory"] = driver_memory
        chosen["spark.driver.extraJavaOptions"] = java_flags(cache_dir())
        chosen["spark.local.dir"] = tempfile.gettempdir()
        chosen["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir()) / "acked-warehouse")
    # In a thread of its own, because a JVM whose start is interrupted half-way outlives us; at its end the
    # interpreter waits for that thread, and the JVM ends with the pipe between them.
    starting = ThreadPoolExecutor(1, thread_name_prefix="spark")
    try:
        wanted = {**chosen, **(settings or {})}
        starting.submit(_begin, wanted).result()
        session = SparkSession.builder.config(map=dict(wanted)).getOrCreate()  # the active one of this thread
        if warm:
            from checkers.spark.warm import warm_up

            warm_up(session)
        return session
    except (PySparkException, RuntimeError, OSError) as error:
        raise UnfitError(
            f"Spark did not start ({error}); it needs Java 17 or later as `java` or in JAVA_HOME, "
            f"and 2 GB of memory."
        ) from error
    finally:
        starting.shutdown(wait=False)


def _begin(settings: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one, and Spark in it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAll(list(settings.items()))
    if SparkContext._gateway is None:
        # What the JVM and Spark's launcher announce is no news to a user; what goes wrong later comes back
        # as exceptions.
        with tempfile.TemporaryFile() as aside:
            gateway = launch_gateway(conf, {"stderr": aside})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
    SparkContext.getOrCreate(conf)


@contextmanager
def asked_of_little(session: Any, wanted: bool) -> Iterator[None]:
    """Queries of little data: one task a stage, planned once, interpreted; to compile them takes longer."""
    chosen = _FOR_LITTLE if wanted else {}
    before = {key: session.conf.get(key, None) for key in chosen}
    try:
        for key, value in chosen.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


@contextmanager
def failing_in_words(doing: str) -> Iterator[None]:
    """What goes wrong inside Spark is one sentence: what was being done, and the cause. Raises AckedError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        cause = (causes or lines or [type(error).__name__])[-1 if causes else 0]
        raise AckedError(f"Spark failed while {doing}: {cause[:300]}", detail="\n".join(lines[:8])) from error
