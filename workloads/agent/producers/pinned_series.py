"""A series of raw writes pinned to one broker: how long a deposed leader still takes them after a heal."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from workloads.agent.producers.raw import raw_send
from workloads.agent.recorder import Recorder
from workloads.protocol.results import SendResult, ZombieResult
from workloads.protocol.spec import Writer


class ZombieWrites:
    """A raw write every ``every_s`` on one broker, until stopped or until an error that ends it."""

    def __init__(
        self,
        recorder: Recorder,
        writer: Writer,
        place: tuple[str, int],
        *,
        every_s: float,
        max_count: int,
        stop_on: Collection[int] | None,
    ) -> None:
        """Starts at once. ``stop_on`` are the error codes that end it; None: any error; empty: none."""
        recorder.register(writer)
        self._recorder = recorder
        self._writer = writer
        self._place = place
        self._every_s = every_s
        self._max_count = max_count
        self._stop_on = stop_on
        self._results: list[SendResult] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"zombie-{writer.number}", daemon=True)
        self._thread.start()

    def stop(self, within_s: float) -> ZombieResult:
        """Stop after the attempt under way."""
        self._stop.set()
        return self.wait(within_s)

    def wait(self, within_s: float) -> ZombieResult:
        """What was written so far, once it has ended or ``within_s`` has passed."""
        self._thread.join(within_s)
        results = list(self._results)
        good = [result for result in results if result.ok]
        return ZombieResult(
            sent=len(results),
            ok=len(good),
            last_error=results[-1].error if results else 0,
            first_ok_ns=good[0].done_ns if good else None,
            last_ok_ns=good[-1].done_ns if good else None,
            offsets=tuple(result.offset for result in good if result.offset is not None),
            running=self._thread.is_alive(),
        )

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set() and len(self._results) < self._max_count:
            sent = self._recorder.sent(self._writer.number, *self._place)
            result = raw_send(self._recorder, self._writer, *self._place, "", sent)
            self._results.append(result)
            if result.error and (self._stop_on is None or result.error in self._stop_on):
                return
            due = max(due + self._every_s, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))
