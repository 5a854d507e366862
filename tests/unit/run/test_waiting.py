"""Waiting returns the accepted observation; a time-out shows the last one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from harness import waiting
from harness.errors import ProcessDiedError, WaitTimeoutError
from harness.processors import ProcessorUse, Starvation
from harness.waiting import current_waits, wait_until, waiting_for


def test_the_accepted_observation_is_returned() -> None:
    """The result is the observation itself, not only that it was accepted."""
    count = itertools.count()
    seen = wait_until(lambda: next(count), accept=lambda n: n > 3, within_s=5, awaiting="x", poll_s=0.001)
    assert seen == 4


def test_the_last_observation_is_shown() -> None:
    """The error names what was awaited and what was observed instead."""
    with pytest.raises(
        WaitTimeoutError, match=r"waiting for the ISR to shrink; last observation: \[1, 2, 3\]"
    ):
        wait_until(
            lambda: [1, 2, 3], accept=lambda isr: len(isr) == 2, within_s=0.05, awaiting="the ISR to shrink"
        )


def _advice(monkeypatch: pytest.MonkeyPatch, observe: Callable[[], object], waited: int) -> bool:
    """Whether a time-out blames a machine that is 95 % busy; this thread ran 10 ns and waited ``waited``."""
    stats = iter(("cpu 0 0 0 0 0 0 0 0 0 0", "cpu 95 0 0 5 0 0 0 0 0 0"))
    times = iter(("0 0 0", f"10 {waited} 1"))
    monkeypatch.setattr(waiting, "ProcessorUse", lambda: ProcessorUse(lambda: next(stats)))
    monkeypatch.setattr(waiting, "Starvation", lambda: Starvation(lambda: next(times)))
    with pytest.raises(WaitTimeoutError) as error:
        wait_until(observe, accept=lambda _: False, within_s=0.05, awaiting="it", poll_s=0.001)
    said = "The processors were 95 % busy, and this process waited for them: end other programs."
    assert ("busy" in error.value.message) == (said in error.value.message)
    return said in error.value.message


def _refused() -> object:
    raise ConnectionRefusedError("no")


@pytest.mark.parametrize(("waited", "blamed"), [(0, False), (19, False), (20, True), (900, True)])
def test_a_busy_machine_is_blamed_if_this_process_did_not_get_to_run(
    monkeypatch: pytest.MonkeyPatch, waited: int, blamed: bool
) -> None:
    """Busy processors that serve every thread at once explain nothing."""
    assert _advice(monkeypatch, lambda: False, waited) is blamed


@pytest.mark.parametrize(
    ("observe", "blamed"),
    [
        (lambda: "ISR (2, 3) of (1, 2)", False),
        (lambda: [0, 462], False),
        (partial(next, itertools.count()), True),
        (lambda: None, True),
        (_refused, True),
    ],
    ids=["the same answer all the time", "the same counts", "progress", "nothing yet", "refused"],
)
def test_a_busy_machine_is_not_blamed_for_what_stands_still(
    monkeypatch: pytest.MonkeyPatch, observe: Callable[[], object], blamed: bool
) -> None:
    """More time would not have helped: a partition that was moved waited for its old replicas."""
    assert _advice(monkeypatch, observe, 900) is blamed


def test_a_kernel_that_counts_no_waiting_blames_nobody() -> None:
    def absent() -> str:
        raise FileNotFoundError

    assert not Starvation(absent).starved()
    assert not Starvation(lambda: "").starved()


def test_connection_errors_count_as_not_yet() -> None:
    """A node that is starting refuses connections for a while."""
    answers = iter([ConnectionRefusedError("no"), ConnectionRefusedError("no"), "up"])

    def observe() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_until(observe, within_s=5, awaiting="it", poll_s=0.001) == "up"


def test_other_errors_do_not() -> None:
    """An error in the condition must not look like a condition that is never met."""
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, within_s=5, awaiting="it")


def test_a_condition_must_be_called_not_named() -> None:
    """Another harness waited for a function object, which is always true; here its result is tested."""
    calls: list[int] = []

    def healed() -> bool:
        calls.append(1)
        return len(calls) > 2

    assert wait_until(healed, within_s=5, awaiting="it", poll_s=0.001) is True
    assert len(calls) == 3


def test_a_death_ends_the_wait_at_once() -> None:
    """``abort`` is called before each poll."""

    def died() -> None:
        raise ProcessDiedError("broker1 ended by itself")

    with pytest.raises(ProcessDiedError):
        wait_until(lambda: False, within_s=60, awaiting="it", abort=died)


def test_what_is_awaited_is_known_while_it_lasts() -> None:
    """The longest wait comes first; a wait that ended, in whatever way, is forgotten."""
    seen = []

    def observe() -> bool:
        seen.append([one.awaiting for one in current_waits()])
        return True

    with waiting_for("client1 to answer Send"):
        wait_until(observe, within_s=1, awaiting="the ISR to shrink")
        with pytest.raises(WaitTimeoutError):
            wait_until(lambda: False, within_s=0.01, awaiting="nothing", poll_s=0.001)
        assert [one.awaiting for one in current_waits()] == ["client1 to answer Send"]
    assert seen == [["client1 to answer Send", "the ISR to shrink"]]
    assert current_waits() == []


def test_how_much_longer_than_alone_a_thread_takes() -> None:
    """From the start of the thread; where the kernel does not count, it is taken to be alone."""
    assert Starvation(lambda: "1000 3000 7", from_start=True).slowdown() == 4.0
    times = iter(["1000 3000 7", "3000 4000 9"])
    assert Starvation(lambda: next(times)).slowdown() == 1.5
    assert Starvation(lambda: "", from_start=True).slowdown() == 1.0
