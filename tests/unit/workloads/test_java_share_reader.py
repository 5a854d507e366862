"""What the Java client tells of a record that it has renewed and that comes again: is it a delivery?"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.distribution import resolve
from harness.artifacts.java_client import SOURCES, libraries_among
from harness.artifacts.java_program import JavaProgram
from harness.kafka.versions import kafka_version

pytestmark = pytest.mark.long  # it may download a version of Kafka
_TRIAL = Path(__file__).parent / "ShareReaderTrial.java"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command of the trial."""
    kafka = resolve(kafka_version("4.4.0"), say=print, make_archives=False)
    readers = [file for file in sorted(SOURCES.glob("*.java")) if file.name != "StreamsInstance.java"]
    program = JavaProgram(
        sources=(*readers, _TRIAL),
        about="the trial of a share reader",
        java=kafka.java,
        jars=tuple(libraries_among(kafka.jars)),
        main="ShareReaderTrial",
        heap_mib=(16, 64),
    )
    return (*program.argv(tmp_path_factory.mktemp("trial"), print), program.main)


def lines(trial: Sequence[str], outcome: str, kind: str) -> list[dict[str, Any]]:
    """What the client prints of a kind of event."""
    done = subprocess.run((*trial, outcome), capture_output=True, text=True, timeout=60, check=True)
    return [line[kind] for line in map(json.loads, done.stdout.splitlines()) if kind in line]


def test_a_renewed_record_that_comes_again_is_no_delivery(trial: Sequence[str]) -> None:
    """KIP-1222: the next poll returns it, so that the application can say what becomes of it."""
    deliveries = [line["records"] for line in lines(trial, "renewed", "acquired")]
    assert deliveries == [[["t", 0, 0, 1, "a"]], []]
    assert [line["answer"] for line in lines(trial, "renewed", "acknowledged")] == ["renew", "accept"]


def test_after_a_renewal_without_an_answer_it_is_a_delivery(trial: Sequence[str]) -> None:
    """By the next leader, which knows of no renewal and counts the delivery as the first one."""
    deliveries = [line["records"] for line in lines(trial, "unanswered", "acquired")]
    assert deliveries == [[["t", 0, 0, 1, "a"]], [["t", 0, 0, 1, "a"]]]
    assert [line["answer"] for line in lines(trial, "unanswered", "acknowledged")] == ["renew", "renew"]
