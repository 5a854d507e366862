"""`--client`: what it accepts, and the error for a program without a greeting."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.artifacts.java_client import java_client, libraries_among
from harness.errors import UsageError
from harness.host_files import Folder
from harness.kafka.versions import kafka_version
from harness.lab.model import Lab
from harness.waiting import wait_until
from run.catalogue import find
from run.client_choice import LIBRDKAFKA, greet, inside, parse_client, parse_clients
from studies.series.plan import plan, remaining
from studies.series.summary import RunSummary, grid
from workloads.protocol.spec import ClientProgram

PROGRAM = Path(__file__).parents[1] / "workloads" / "program.py"


def greeter(code: str) -> ClientProgram:
    return ClientProgram(via="program", argv=(sys.executable, "-c", code), name="./agent")


def test_what_a_client_may_be_called() -> None:
    assert parse_client("librdkafka") is LIBRDKAFKA
    java = parse_client("java", "3.6.2")
    assert (java.via, java.version, java.label) == ("java", "3.6.2", "java@3.6.2")
    assert parse_client(java.text) == java
    assert [one.library for one in (LIBRDKAFKA, java)] == ["librdkafka", "java"]
    own = parse_client(f"{sys.executable} {PROGRAM} good")
    assert own.library == "librdkafka"
    assert (own.via, own.label.split()[1:]) == ("program", ["program.py", "good"])
    assert [one.via for one in parse_clients("librdkafka, java")] == ["librdkafka", "java"]


@pytest.mark.parametrize(
    ("text", "version", "sentence"),
    [
        ("./no-such-agent", "", "'./no-such-agent' is neither a file nor on the path"),
        (str(PROGRAM), "", "is not executable"),
        ("", "", "--client is empty"),
        ("'", "", "not a command line"),
        ("librdkafka", "3.6.2", "--client-version 3.6.2 is for --client java"),
        ("java", "x", "'x'"),
    ],
)
def test_what_it_may_not(text: str, version: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_client(text, version)
    assert sentence in caught.value.message


def test_a_list_of_no_clients() -> None:
    with pytest.raises(UsageError, match="names no client"):
        parse_clients(" , ")


def test_a_program_that_greets() -> None:
    greeted = greet(ClientProgram(via="program", argv=(sys.executable, str(PROGRAM)), name="./agent"))
    assert (greeted.client, greeted.protocol) == ("none", 1)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; sys.exit('no library')", "ended before its first line (exit status 1): no library."),
        ("print('Hello!')", "it is not JSON; its first line is 'Hello!'."),
        ('print(\'{"hello": {"protocol": 9, "client": "c", "version": "1"}}\')', "version 9 of the protocol"),
        ("import time; time.sleep(600)", "wrote nothing within 0.5 s"),
        ("import sys; sys.exit('no login: password=abc')", "(exit status 1): no login: password=[hidden]."),
        ("print('\ufeff{}')", "its first line is '\ufffd{}'."),
        ("import sys; sys.stderr.write(10**6 * 'x'); sys.exit(1)", "(exit status 1): xxxx"),
    ],
)
def test_a_program_that_does_not(code: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        greet(greeter(code), within_s=0.5 if "sleep" in code else 20.0)
    assert sentence in caught.value.message


def test_what_a_program_has_started_ends_with_it(tmp_path: Path) -> None:
    """It keeps the standard error open, on which nothing may wait."""
    file = tmp_path / "pid"
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)\n"
        f"open({str(file)!r}, 'w').write(str(child.pid))\n"
        "sys.exit('gone')"
    )
    with pytest.raises(UsageError, match=r"\(exit status 1\): gone\."):
        greet(greeter(code))
    stat = Path(f"/proc/{file.read_text()}/stat")
    wait_until(
        lambda: not stat.exists() or ") Z " in stat.read_text(), within_s=5.0, awaiting="its child's end"
    )


def test_the_jars_of_a_client_are_found_in_releases_and_in_builds() -> None:
    """A revision or a qualifier may follow the version."""
    needed = ["kafka-clients-3.9.1-SNAPSHOT.jar", "slf4j-api-1.7.36.jar", "zstd-jni-1.4.5-6.jar"]
    others = ["kafka_2.13-3.9.1-SNAPSHOT.jar", "0-00-kafka-clients-fix.jar", "slf4j-reload4j-1.7.36.jar"]
    greeted = libraries_among(Path("/lib") / name for name in sorted([*needed, *others]))
    assert [jar.name for jar in greeted] == needed


def test_a_java_client_that_is_too_old_for_applications() -> None:
    with pytest.raises(UsageError, match="need Kafka Streams 3.9 or newer, not 3.8.1"):
        java_client(kafka_version("3.8.1"), streams=True)


def test_a_java_client_that_is_too_old() -> None:
    with pytest.raises(UsageError, match=r"Kafka 1\.1\.1 is too old.*2\.4 on with --client-version"):
        java_client(kafka_version("1.1.1"))


def test_a_container_gets_a_copy_of_the_users_files(tmp_path: Path) -> None:
    lab = cast(
        Lab,
        SimpleNamespace(
            shares_files=False, files=lambda host: Folder(tmp_path), inside=lambda host, path: f"/data/{path}"
        ),
    )
    program = ClientProgram(via="program", argv=("/usr/bin/env", str(PROGRAM), "good"), name="p")
    assert inside(program, lab, "client1").argv == ("/usr/bin/env", "/data/client-program.py", "good")
    assert (tmp_path / "client-program.py").read_text() == PROGRAM.read_text()
    java = ClientProgram(via="java", argv=("/opt/jdk/bin/java", "-cp", "x"), name="java")
    assert inside(java, lab, "client1").argv == ("java", "-cp", "x")


def test_a_matrix_of_clients() -> None:
    scenario = find("no-fault")
    jobs = plan([scenario], (kafka_version("2.7.1"),), ("zookeeper",), 2, ["librdkafka", "java"])
    assert [job.client for job in jobs] == ["librdkafka", "java"] * 2
    assert str(jobs[1]) == "no-fault on 2.7.1 zookeeper with java"
    runs = [
        RunSummary(
            scenario="no-fault", version="2.7.1", mode="zookeeper", verdict="as declared", client=client
        )
        for client in ("java", "librdkafka")
    ]
    assert remaining(jobs, [run.job for run in runs]) == jobs[2:]
    assert list(grid(runs).lines) == [("no-fault", "zookeeper, java"), ("no-fault", "zookeeper, librdkafka")]
