"""What failures with one reason have in common, as data: it decides whether an assessment goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import (
    AckedError,
    InvalidRunError,
    ProcessDiedError,
    WaitTimeoutError,
    cause_of,
)
from harness.waiting import wait_until
from run.folder import RunFolder


def wait_for(host: str, abort: Callable[[], None] | None = None) -> None:
    wait_until(lambda: 0, within_s=0.01, poll_s=0.001, awaiting=f"{host} to be up", abort=abort)


def wait_elsewhere() -> None:
    wait_until(lambda: 0, within_s=0.01, poll_s=0.001, awaiting="broker1 to be up")


def not_before_the_fault() -> None:
    try:
        wait_for("broker3")
    except WaitTimeoutError as error:
        raise InvalidRunError("The cluster did not work before the first step") from error


def died() -> None:
    raise ProcessDiedError("broker1 ended by itself", facts={"role": "broker", "status": "1"})


def caught(act: Callable[[], None]) -> AckedError:
    with pytest.raises(AckedError) as raised:
        act()
    return raised.value


def test_the_cause_is_the_class_and_the_function_that_waited() -> None:
    """Not the sentence, which names hosts and times; and not the module that waits for all others."""
    one, other = (caught(lambda host=host: wait_for(host)) for host in ("broker1", "broker2"))  # type: ignore[misc]
    assert one.message != other.message
    expected = {"error": "WaitTimeoutError", "place": f"{__name__}.wait_for"}
    assert cause_of(one) == cause_of(other) == expected
    assert cause_of(caught(wait_elsewhere)) != expected


def test_the_error_that_led_to_another_one_is_the_cause() -> None:
    """So a run that is invalid since its cluster did not work is told from one whose fault had no effect."""
    assert cause_of(caught(not_before_the_fault)) == cause_of(caught(lambda: wait_for("broker9")))


def test_an_error_adds_its_own_facts() -> None:
    """Also one that ends a wait."""
    expected = {"error": "ProcessDiedError", "place": f"{__name__}.died", "role": "broker", "status": "1"}
    assert cause_of(caught(died)) == expected
    assert cause_of(caught(lambda: wait_for("broker1", died))) == expected


def test_a_run_folder_keeps_it(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    folder.ended("crashed", caught(died))
    manifest = folder.manifest()
    assert (manifest["status"], manifest["problem"]) == ("crashed", "broker1 ended by itself")
    assert manifest["cause"] == cause_of(caught(died))
    folder.ended("complete")
    assert (folder.manifest()["problem"], folder.manifest()["cause"]) == (None, None)
