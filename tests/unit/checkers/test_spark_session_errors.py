"""Why Spark's JVM has ended, in a sentence with the remedy; and flags that survive any path."""

from __future__ import annotations

import re
import resource
import shlex
import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from checkers.spark.errors import no_session
from checkers.spark.session import java_flags


@pytest.mark.parametrize(
    ("status", "said", "sentence"),
    [
        (None, "library initialization failed - unable to allocate file descriptor table\n", "it says: "),
        (None, "java.io.IOException: Too many open files\n\tat a.b(C.java)\n", "`ulimit -n 4096`"),
        (None, "[Errno 24]\nToo many open files", "`ulimit -n 4096`"),
        (None, "Exception: java.lang.UnsupportedClassVersionError: x\n", "too old: install Java 17"),
        (
            None,
            "/x/bin/spark-class: line 71: /no/bin/java: No such file or directory\n",
            "there is no `java`",
        ),
        (None, "JAVA_HOME is not set\n", "there is no `java`"),
        (None, "OpenJDK: There is insufficient memory for the Java Runtime\n", "2 GB of memory"),
        (None, "java.io.IOException: No space left on device\n", "set TMPDIR to another"),
        (None, "", "something ended it"),
        (-9, "", r"has ended \(SIGKILL\): something ended it"),
        (1, "", "has ended: something ended it"),
    ],
)
def test_what_ended_a_jvm(status: int | None, said: str, sentence: str) -> None:
    error = no_session(status, said)
    assert error.exit_code == 3
    assert re.search(sentence, error.message), error.message


def test_a_shell_that_allows_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Java says then."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    error = no_session(
        None, "java.lang.InternalError: Error loading java.security file\n\tat java.base/a.b(C)"
    )
    assert "only 256 open files, and `ulimit -n 4096`" in error.message


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a,b", "a$b", "aéb", "a%b", "a\\b", "a{b}"])
def test_flags_survive_any_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's launcher takes them apart as a shell does, and Log4j takes a list of URLs."""
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    flags = dict(flag.partition("=")[::2] for flag in shlex.split(java_flags(folder / "cache")))
    assert flags["-Djava.io.tmpdir"] == str(folder)
    settings = flags["-Dlog4j2.configurationFile"]
    assert unquote(settings.removeprefix("file://")) == str(folder / "cache" / "log4j2.properties")
    assert not set(settings) & set(" ,${}\"'")
