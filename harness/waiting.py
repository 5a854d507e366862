"""Waiting for a condition, with a deadline and an error that shows the last observation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from harness.errors import WaitTimeoutError
from harness.processors import ProcessorUse, Starvation

T = TypeVar("T")


@dataclass(frozen=True)
class Wait:
    """Something for which this process is waiting now."""

    awaiting: str
    since: float
    """`time.monotonic` at its beginning."""


_waits: dict[int, Wait] = {}


def current_waits() -> list[Wait]:
    """What the threads of this process wait for, the longest wait first."""
    return sorted(list(_waits.values()), key=lambda one: one.since)


@contextmanager
def waiting_for(awaiting: str) -> Iterator[None]:
    """Let `current_waits` name a wait while it lasts."""
    wait = Wait(awaiting, time.monotonic())
    _waits[id(wait)] = wait
    try:
        yield
    finally:
        del _waits[id(wait)]


POLL_S = 0.05
"""How often a condition is checked by default."""


def wait_until(
    observe: Callable[[], T],
    *,
    within_s: float,
    awaiting: str,
    poll_s: float = POLL_S,
    accept: Callable[[T], bool] = bool,
    abort: Callable[[], None] | None = None,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``observe`` every ``poll_s`` until ``accept`` is true of its result, and return that result.

    ``awaiting`` completes the sentence "Timed out waiting for ...". ``abort`` is called before each poll and
    may raise an error to end the wait early (a process has died, the user has pressed Ctrl-C). If ``observe``
    raises OSError or an error in ``ignoring``, the condition is not met yet.

    Raises WaitTimeoutError, with the last observation, after ``within_s`` seconds. The error blames a busy
    machine only if that explains the time-out: this process itself waited for processors (`Starvation`), and
    the observation does not show that time would not have helped, because it stayed the same for the second
    half of the wait. An error, and an observation that is false, do not show that.
    """
    use, starvation = ProcessorUse(), Starvation()
    last: list[object] = ["nothing"]
    unchanged_since = time.monotonic()
    transient: tuple[type[Exception], ...] = (OSError, *ignoring)

    def attempt() -> tuple[bool, T | None]:
        nonlocal unchanged_since
        if abort is not None:
            abort()
        try:
            seen = observe()
        except transient as error:
            last[0] = f"{type(error).__name__}: {error}"
            unchanged_since = time.monotonic()
            return False, None
        if not seen or seen != last[0]:
            unchanged_since = time.monotonic()
        last[0] = seen
        return accept(seen), seen

    started = time.monotonic()
    retrying = Retrying(
        retry=retry_if_result(lambda outcome: not outcome[0]),
        stop=stop_after_delay(within_s),
        wait=wait_fixed(poll_s),
    )
    try:
        with waiting_for(awaiting):
            outcome = retrying(attempt)
    except RetryError:
        waited = time.monotonic() - started
        stood_still = time.monotonic() - unchanged_since >= waited / 2
        why = (
            f" The processors were {use.percent() or 0} % busy, and this process waited for them: end other "
            "programs."
            if starvation.starved() and not stood_still
            else ""
        )
        raise WaitTimeoutError(
            f"Timed out after {waited:.1f} s waiting for {awaiting}; last observation: {last[0]!r}.{why}"
        ) from None
    return cast(T, outcome[1])
