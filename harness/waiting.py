"""Waiting for an observed condition: with a deadline, a sentence, and the last observation on time-out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from harness.errors import WaitTimeoutError

T = TypeVar("T")


def wait_until(
    observe: Callable[[], T],
    *,
    within_s: float,
    awaiting: str,
    poll_s: float = 0.05,
    accept: Callable[[T], bool] = bool,
    abort: Callable[[], None] | None = None,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``observe`` until ``accept`` likes what it returns, and return that.

    ``awaiting`` finishes the sentence "waited ... for"; ``abort`` is called before each poll and may
    raise to end the wait early (a process died, the user pressed Ctrl-C).
    Connection errors of ``observe``, and those in ``ignoring``, count as "not yet".

    Raises WaitTimeoutError with the last observation after ``within_s`` seconds.
    """
    last: list[object] = ["nothing yet"]
    transient: tuple[type[Exception], ...] = (OSError, *ignoring)

    def attempt() -> tuple[bool, T | None]:
        if abort is not None:
            abort()
        try:
            seen = observe()
        except transient as error:
            last[0] = f"{type(error).__name__}: {error}"
            return False, None
        last[0] = seen
        return accept(seen), seen

    started = time.monotonic()
    retrying = Retrying(
        retry=retry_if_result(lambda outcome: not outcome[0]),
        stop=stop_after_delay(within_s),
        wait=wait_fixed(poll_s),
    )
    try:
        outcome = retrying(attempt)
    except RetryError:
        waited = time.monotonic() - started
        raise WaitTimeoutError(
            f"Waited {waited:.1f} s for {awaiting}, in vain; last seen: {last[0]!r}."
        ) from None
    return cast(T, outcome[1])
