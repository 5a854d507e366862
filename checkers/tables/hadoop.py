"""Files behind a URI, through the Hadoop file systems that Spark's driver has: `hdfs://`, `s3a://`, `file:///`.

Only the driver uses this, and only for small data: manifests, footers of Parquet files, tables of evidence.
Spark itself reads and writes all data that grows with the number of messages.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from harness.errors import UnfitError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def hadoop_system(uri: str) -> pafs.PyFileSystem:
    """The file system of a URI, as Arrow sees it; paths inside it are whole URIs.

    Raises UsageError for a scheme that Hadoop does not know, UnfitError when its file system does not answer.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise UnfitError(f"{uri} can only be reached while a Spark session is running; give a path instead.")
    return pafs.PyFileSystem(_Handler(session, uri))


def _refusal(uri: str, error: Any) -> UsageError | UnfitError:
    scheme = uri.partition("://")[0]
    cause, reasons = error.java_exception, []
    while cause is not None:
        reasons.append(f"{cause.getClass().getSimpleName()}: {cause.getMessage()}")
        cause = cause.getCause()
    if any("UnsupportedFileSystemException" in reason for reason in reasons):
        return UsageError(
            f"{uri}: Hadoop knows no file system of scheme {scheme!r}; give a path, file:///, hdfs://, "
            f"s3a:// or another one whose jars Spark loads (spark.jars.packages)."
        )
    if any("ClassNotFound" in reason for reason in reasons):
        hint = " (org.apache.hadoop:hadoop-aws for s3a)" if scheme == "s3a" else ""
        return UnfitError(
            f"{uri}: the jar of Hadoop's file system for {scheme!r} is missing; name it in "
            f"spark.jars.packages of spark-defaults.conf{hint}."
        )
    return UnfitError(f"{uri} cannot be reached through Hadoop ({' '.join(reasons[-1].split())[:300]}).")


class _Handler(pafs.FileSystemHandler):  # type: ignore[misc]
    """What Arrow asks of a file system, answered by Hadoop's over Spark's gateway."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        from py4j.protocol import Py4JJavaError

        assert session._jvm is not None  # it is None only in Spark Connect sessions
        self._jvm: Any = session._jvm
        self._type = self._jvm.org.apache.hadoop.fs.Path
        self._java_error = Py4JJavaError
        try:
            configuration = session._jsparkSession.sessionState().newHadoopConf()
            self._system = self._type(uri).getFileSystem(configuration)
            self._system.exists(self._type(uri))
        except Py4JJavaError as error:
            raise _refusal(uri, error) from None

    def get_type_name(self) -> str:
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        found = []
        for path in paths:
            place = self._type(path)
            if self._system.exists(place):
                found.append(_info(path, self._system.getFileStatus(place)))
            else:
                found.append(pafs.FileInfo(path, pafs.FileType.NotFound))
        return found

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = selector.base_dir.rstrip("/")
        statuses = self._system.listStatus(self._type(base))
        return [_info(f"{base}/{status.getPath().getName()}", status) for status in statuses]

    def open_input_file(self, path: str) -> pa.PythonFile:
        try:
            size = self._system.getFileStatus(self._type(path)).getLen()
            stream = self._system.open(self._type(path))
        except self._java_error as error:
            raise OSError(str(error.java_exception.getMessage())) from None
        return pa.PythonFile(_Reader(self._jvm, stream, size), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.PythonFile:
        return pa.PythonFile(_Writer(self._system.create(self._type(path), True)), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.PythonFile:
        raise NotImplementedError(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._system.mkdirs(self._type(path))

    def delete_dir(self, path: str) -> None:
        self._system.delete(self._type(path), True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError(path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._system.delete(self._type(path), False)

    def move(self, src: str, dest: str) -> None:
        if not self._system.rename(self._type(src), self._type(dest)):
            raise OSError(f"{src} cannot be renamed to {dest}")

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError(src)


def _info(path: str, status: Any) -> pafs.FileInfo:
    if status.isDirectory():
        return pafs.FileInfo(path, pafs.FileType.Directory)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.getLen())


class _Reader(io.RawIOBase):
    """A Hadoop input stream as a Python file."""

    def __init__(self, jvm: Any, stream: Any, size: int) -> None:
        super().__init__()
        self._read_fully = jvm.org.apache.commons.io.IOUtils.readFully
        self._stream, self._size, self._at = stream, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size < 0 else min(size, left)
        if not wanted:
            return b""
        self._stream.seek(self._at)
        data = bytes(self._read_fully(self._stream, wanted))
        self._at += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


class _Writer(io.RawIOBase):
    """A Hadoop output stream as a Python file."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
