"""The Spark session: by default on this machine, on loopback only, without a UI and without log output."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.spark.errors import no_session, reason
from harness.errors import UnfitError
from harness.held_folders import lock_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.log.level": "ERROR",
}

_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.shuffle.compress": "false",
    "spark.python.daemon.module": "checkers.spark.daemon",
}

_FOR_SMALL_DATA: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
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


_FRUGAL = ("-Xms32m", "-Xmn24m")
"""A heap that begins small and is collected often. Workers judge; Spark only hands out tasks and results."""
_SILENT = ("-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=error:stderr")
"""Keep the JVM's messages about shared files and archives off stdout, where the command prints its result."""


END_S = 2.0
"""How long a JVM whose connection has broken may take to end."""
_LONGEST_OUTPUT = 1 << 16


def cache_dir() -> Path:
    """Folder for what is kept between runs, such as class-data archives."""
    return Path(os.environ.get("ACKED_CACHE", "~/.cache/acked")).expanduser() / "spark"


def java_flags(cache: Path) -> str:
    """JVM flags for a short-lived process: serial collector, no messages, the class-data archive if any."""
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
        settings = cache / "log4j2.properties"
        if not settings.exists() or settings.read_text() != _QUIET:
            settings.write_text(_QUIET)
        flags.append(f"-Dlog4j2.configurationFile={settings.absolute().as_uri()}")  # a list, with commas
    except OSError:
        pass
    archive = archive_path(cache)
    if archive.exists():
        flags += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    return shlex.join(flags)  # Spark's launcher takes them apart as a shell does


def archive_path(cache: Path) -> Path:
    """Path of the class-data archive for this PySpark and this Java (`checkers.spark.class_data`)."""
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    build = ""
    with suppress(OSError):
        java = java.resolve(strict=True)
        # After an upgrade in place the path is the same, but an older archive no longer fits.
        build = str(java.stat().st_mtime_ns)
    key = hashlib.sha256(f"{pyspark.__file__} {java} {build}".encode()).hexdigest()[:12]
    return cache / f"classes-{pyspark.__version__}-{key}.jsa"


def start_session(
    *,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    driver_memory: str = "2g",
    frugal: bool = False,
) -> SparkSession:
    """Start the Spark session, or join the running one. May be called in a background thread.

    A cold start takes some seconds, and so does the first judgement (see `checkers.spark.warm`). A ``frugal``
    session needs a third less memory: it has one worker instead of two, and a small heap.

    Raises UnfitError when the JVM does not come up.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark's launcher is a Java process of its own; what it prints would become part of the command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(("-XX:TieredStopAtLevel=1", *_SILENT)))
    # PySpark logs every failed query with its Java stack; we report it as one sentence.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if frugal:
        master = "local[1]"
    chosen = {"spark.master": master, **_SETTINGS, **(_LOCAL if local else {})}
    if local:
        chosen["spark.driver.memory"] = driver_memory
        flags = java_flags(cache_dir())
        chosen["spark.driver.extraJavaOptions"] = " ".join((flags, *_FRUGAL)) if frugal else flags
        chosen["spark.local.dir"] = tempfile.gettempdir()
        chosen["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir()) / "acked-warehouse")
    # In a thread of its own: a JVM whose start is interrupted would outlive this process. The interpreter
    # waits for the thread when it exits, and the JVM ends when the pipe between them closes.
    starting = ThreadPoolExecutor(1, thread_name_prefix="spark")
    try:
        all_settings = {**chosen, **(settings or {})}
        starting.submit(_begin, all_settings).result()
        # In this thread: each thread has its own active session.
        return SparkSession.builder.config(map=dict(all_settings)).getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        if (lost := session_lost()) is not None:
            raise lost from error
        hint = "" if local else " Does a Spark master answer there?"
        raise UnfitError(f"Spark did not start on {master}: {reason(error)}{hint}") from error
    finally:
        starting.shutdown(wait=False)


def _begin(settings: Mapping[str, str]) -> None:
    """Start Spark, and the JVM for it if none runs yet. Raises UnfitError for a JVM that does not start."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if "," in tempfile.gettempdir():
        raise UnfitError(
            f"Spark takes a comma for the end of a folder's name, and temporary files are in "
            f"{tempfile.gettempdir()}; set TMPDIR to another folder."
        )
    conf = SparkConf().setAll(list(settings.items()))
    if SparkContext._gateway is None:
        # Messages of the JVM and of Spark's launcher are discarded; later errors arrive as exceptions.
        # A JVM whose parent is killed while it starts writes a file there before it sees that. It would stay
        # for ever if the folder were gone.
        lock = lock_of(Path(tempfile.gettempdir()))
        held = () if lock is None else (lock,)
        with tempfile.TemporaryFile() as aside:
            try:
                gateway = launch_gateway(conf, {"stderr": aside, "pass_fds": held})  # type: ignore[no-untyped-call]
            except (PySparkRuntimeError, OSError) as error:
                aside.seek(0)
                said = aside.read(_LONGEST_OUTPUT).decode(errors="replace")
                raise no_session(
                    None, f"{said}\n{error.strerror or ''}" if isinstance(error, OSError) else said
                ) from error
            SparkContext._ensure_initialized(gateway=gateway)
    server = SparkContext.getOrCreate(conf)._accumulatorServer
    if server is not None:
        # It would print the end of its connection as a traceback when the JVM ends before this process.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]


def session_ended(within_s: float = 0.0) -> bool:
    """Whether the JVM of the session has ended, or ends ``within_s``."""
    with suppress(subprocess.TimeoutExpired):
        process = _jvm()
        return process is not None and process.wait(within_s) is not None
    return False


def session_lost() -> UnfitError | None:
    """The error for a JVM that has ended by itself; None if it runs."""
    process = _jvm()
    if process is None or not session_ended(END_S):
        return None
    return no_session(process.poll(), "")


def _jvm() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def forget_session() -> None:
    """Let the next `start_session` start another JVM, because the present one has ended or fails."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with suppress(Exception):  # py4j raises errors of many kinds about a JVM that has ended
            gateway.shutdown()
        with suppress(OSError, AttributeError):
            gateway.proc.stdin.close()  # the JVM ends with it


@contextmanager
def settings_for_small_data(session: SparkSession) -> Iterator[None]:
    """Set Spark up for queries over few rows: one task a stage, planned once, and interpreted.

    Compiling such a query takes longer than running it.
    """
    before: dict[str, str | None] = {key: session.conf.get(key, None) for key in _FOR_SMALL_DATA}
    try:
        for key, value in _FOR_SMALL_DATA.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, earlier)
