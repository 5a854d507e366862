"""Files of a host as a lab provides them: read, written and measured by their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.host_files import Folder, HostFiles, tail, text_of_file
from harness.lab.layout import three_azs
from harness.lab.registry import lab_kind


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    return lab_kind("embedded").make(three_azs("kraft"), tmp_path).files("broker1")


def test_what_was_written_is_read(files: HostFiles, tmp_path: Path) -> None:
    files.write("data/t-0/0.log", b"abcdef")
    assert (tmp_path / "nodes" / "broker1" / "data" / "t-0" / "0.log").read_bytes() == b"abcdef"
    replica = files.below("data").below("t-0")
    assert (replica.names(), replica.size("0.log"), replica.read("0.log", 4)) == (["0.log"], 6, b"ef")
    replica.write("0.log", b"x")
    assert files.read("data/t-0/0.log") == b"x"


def test_files_go_there_and_back(tmp_path: Path) -> None:
    here, files = tmp_path / "run.sh", Folder(tmp_path / "host")
    here.write_bytes(b"abcdef")
    here.chmod(0o755)
    files.path.mkdir()
    files.put(here, "copy.sh")
    assert files.path.joinpath("copy.sh").stat().st_mode & 0o111, "it can be run there"
    assert files.read("copy.sh", 2, 3) == b"cde"
    files.take("copy.sh", tmp_path / "back.sh")
    assert (files.names(), (tmp_path / "back.sh").read_bytes()) == ([], b"abcdef")


def test_what_is_not_there(files: HostFiles) -> None:
    assert (files.names(), files.below("data").names(), files.size("server.log")) == ([], [], None)
    assert tail(files, "server.log") == "(server.log was never written)"
    with pytest.raises(FileNotFoundError):
        files.read("server.log")


def test_a_log_with_any_bytes(tmp_path: Path) -> None:
    files = Folder(tmp_path)
    files.write("server.log", b"\n".join([b"line %d" % number for number in range(20)] + [b"\xff"]))
    assert tail(files, "server.log", 3) == "line 18\nline 19\n\ufffd"
    assert text_of_file(files, "server.log").startswith("line 0\n")
