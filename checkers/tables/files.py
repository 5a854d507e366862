"""Files at paths and at URIs alike, in the driver and in Spark's workers: open, list, write, move, remove.

Arrow's own file systems reach this machine's files and S3; fsspec's reaches HDFS through WebHDFS, for which
neither Java nor an installation of Hadoop is needed (docs/decisions/one-file-system-library.md). A place is
text: a path, or a URI with one of `SCHEMES`. Only such texts travel between processes; each process opens a
file system once.
"""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from harness.errors import BadDataError, UnfitError, UsageError
from harness.plain_files import write_plain
from harness.secrets import shown_urls

SCHEMES = ("file", "s3", "s3a", "hdfs", "webhdfs", "swebhdfs")
"""`s3a` is Hadoop's name of `s3`; `swebhdfs` is `webhdfs` over TLS."""
WEBHDFS_PORT = 9870
"""Default port of a name node's HTTP server, by `dfs.namenode.http-address`."""

_CONNECT_S, _ANSWER_S = 10, 60
_REQUESTS = 3
FAILURES = (OSError, RuntimeError, ValueError)
"""What the file systems raise when they cannot do what they are asked: fsspec's WebHDFS passes on answers of
the name node as RuntimeError and ValueError."""


def line_of(error: object) -> str:
    """A message of several lines as part of one sentence."""
    return " ".join(str(error).split())


# ---- places


def is_uri(place: Path | str) -> bool:
    """Whether it names a file system of its own: `s3://…`, `file:///…`."""
    return isinstance(place, str) and "://" in place


def local_path(place: Path | str) -> Path | None:
    """The path of a place on this machine; None if it is elsewhere."""
    if not is_uri(place):
        return Path(place)
    parts = urlsplit(str(place))
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def inside(place: Path | str, name: str) -> str:
    """A file or folder in a folder."""
    return f"{str(place).rstrip('/')}/{name}"


def file_system(place: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a place, as Arrow sees it, and the path inside it.

    Raises UsageError for a scheme that is not among `SCHEMES`, and for a URI with a password.
    """
    path = local_path(place)
    if path is not None:
        return pafs.LocalFileSystem(), str(path)
    scheme, _, rest = place.partition("://")
    host, _, key = rest.partition("/")
    s3 = scheme in ("s3", "s3a")
    if ":" in (host if s3 else host.rpartition("@")[0]):  # a secret key of S3 may have slashes
        raise UsageError(
            f"{shown_urls(place)} has a password in it, which would be stored and shown; leave it out, and "
            f"give credentials in the environment (docs/analysis.md)."
        )
    if s3:
        return _s3(), rest
    if scheme in ("hdfs", "webhdfs", "swebhdfs"):
        return _webhdfs(scheme, host), f"/{key}"
    raise UsageError(
        f"{place}: there is no file system of scheme {scheme!r}; give a path or one of "
        f"{', '.join(f'{name}://' for name in SCHEMES)}."
    )


@cache
def _s3() -> pafs.S3FileSystem:
    """S3 with the credentials, region and end point of this process's environment (`AWS_*`)."""
    return pafs.S3FileSystem(
        endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),
        connect_timeout=_CONNECT_S,
        request_timeout=_ANSWER_S,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_REQUESTS),
    )


@cache
def _webhdfs(scheme: str, host: str) -> pafs.PyFileSystem:
    """The name node of a URI. The port of `hdfs://` is that of another protocol, so it does not count."""
    from fsspec.implementations.webhdfs import WebHDFS

    parts = urlsplit(f"//{host}")
    port = WEBHDFS_PORT if scheme == "hdfs" else parts.port or WEBHDFS_PORT
    user = parts.username or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    system = WebHDFS(
        parts.hostname, port, user=user, use_https=scheme == "swebhdfs", skip_instance_cache=True
    )
    for prefix in ("http://", "https://"):
        system.session.mount(prefix, _adapter())
    return pafs.PyFileSystem(pafs.FSSpecHandler(system))


def _adapter() -> Any:
    """Requests that do not wait for ever."""
    from requests.adapters import HTTPAdapter

    class Impatient(HTTPAdapter):
        def send(self, *args: Any, **options: Any) -> Any:
            options["timeout"] = options.get("timeout") or (_CONNECT_S, _ANSWER_S)
            return super().send(*args, **options)

    return Impatient()


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Raise UnfitError, naming the place, for what its file system fails to do."""
    try:
        yield
    except FAILURES as error:
        hint = ""
        if place.startswith("hdfs://"):
            hint = f"; it is reached through WebHDFS at port {WEBHDFS_PORT}, else give webhdfs://HOST:PORT/…"
        raise UnfitError(f"{place} cannot be reached ({line_of(error)[:150]}){hint}.") from error


# ---- files and folders


def _info(place: str) -> pafs.FileInfo:
    system, inner = file_system(place)
    with reaching(place):
        return system.get_file_info(inner)


def exists(place: str) -> bool:
    """Whether a file or folder exists."""
    return bool(_info(place).type != pafs.FileType.NotFound)


def is_folder(place: str) -> bool:
    """Whether a folder exists."""
    return bool(_info(place).type == pafs.FileType.Directory)


def listed(folder: str) -> list[pafs.FileInfo]:
    """What lies directly in a folder, by name; nothing if there is no such folder."""
    system, inner = file_system(folder)
    with reaching(folder):
        infos = system.get_file_info(pafs.FileSelector(inner, recursive=False, allow_not_found=True))
    return sorted(infos, key=lambda info: str(info.base_name))


def parquet_files(folder: str) -> list[str]:
    """Parquet files directly in a folder, by name."""
    return [inside(folder, info.base_name) for info in listed(folder) if info.base_name.endswith(".parquet")]


def make_folder(folder: str) -> None:
    """Make a folder, and those above it, unless it exists."""
    system, inner = file_system(folder)
    with reaching(folder):
        system.create_dir(inner, recursive=True)


def remove(place: str) -> None:
    """Remove a file, a link, or a folder with all that is in it, if it exists."""
    path = local_path(place)
    if path is not None and path.is_symlink():
        path.unlink()
        return
    system, inner = file_system(place)
    kind = _info(place).type
    with reaching(place):
        if kind == pafs.FileType.Directory:
            system.delete_dir(inner)
        elif kind != pafs.FileType.NotFound:
            system.delete_file(inner)


def move(source: str, target: str) -> None:
    """Give a file another place in the same file system; nothing may be there yet."""
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None:
        shutil.move(here, there)
        return
    system, inner = file_system(source)
    with reaching(target):
        system.move(inner, file_system(target)[1])
        if not exists(target):  # a name node answers that it did not rename; fsspec drops its answer
            raise OSError(f"it refused to rename {inner}")


def read_bytes(place: str) -> bytes:
    """All of a small file."""
    system, inner = file_system(place)
    with system.open_input_stream(inner) as stream:
        content: bytes = stream.read()
    return content


def write_bytes(place: str, data: bytes) -> None:
    """Write a small file; it replaces an earlier one, and on this machine a link in its place as well."""
    path = local_path(place)
    if path is not None:
        with reaching(place):
            write_plain(path, data)
        return
    system, inner = file_system(place)
    with reaching(place), system.open_output_stream(inner) as stream:
        stream.write(data)


# ---- Parquet


@contextmanager
def open_parquet(place: str, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read from. Raises BadDataError when it, or what is read of it, is damaged.

    Columns in ``coded`` that the file has are read as dictionaries.
    """
    system, inner = file_system(place)
    try:
        with system.open_input_file(inner) as handle:
            parquet = pq.ParquetFile(handle)
            present = [name for name in coded if name in parquet.schema_arrow.names]
            if present:
                parquet = pq.ParquetFile(handle, metadata=parquet.metadata, read_dictionary=present)
            yield parquet
    except (pa.ArrowException, *FAILURES) as error:
        raise BadDataError(f"{place} cannot be read as Parquet: {line_of(error)}") from error


def read_parquet(place: str, schema: pa.Schema, condition: pc.Expression | None = None) -> pa.Table:
    """The rows of a file that the checker wrote, those that meet ``condition``."""
    parts = [schema.empty_table()]
    with open_parquet(place) as parquet:
        if condition is None:
            return parquet.read(columns=schema.names).cast(schema)
        for batch in parquet.iter_batches(columns=schema.names):
            parts.append(pa.Table.from_batches([batch]).filter(condition).cast(schema))
    return pa.concat_tables(parts)


def write_parquet(place: str, table: pa.Table, **options: Any) -> None:
    """Write a table as one file; it replaces an earlier one."""
    system, inner = file_system(place)
    with reaching(place), system.open_output_stream(inner) as stream:
        pq.write_table(table, stream, **options)


@contextmanager
def parquet_writer(place: str, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
    """A Parquet file to write tables to; it replaces an earlier one."""
    system, inner = file_system(place)
    with (
        reaching(place),
        system.open_output_stream(inner) as stream,
        pq.ParquetWriter(stream, schema, **options) as writer,
    ):
        yield writer
