"""The wall clock of a host's process jumps; the process itself proves it by the date above a thread dump."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime

from harness.clock import Anchor
from harness.errors import InvalidRunError, UnfitError, UsageError, WaitTimeoutError
from harness.host_files import HostFiles
from harness.lab.host_clock import LONGEST_SHIFT_S, Change, note_change, read_shift, write_shift
from harness.lab.model import OUTPUT_LOG, SERVER_LOG, Host
from harness.waiting import wait_until
from nemesis.fault import Evidence, Fault, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault

SMALLEST_S = 10.0
"""A JVM states its clock in whole seconds, and a busy one takes some to answer."""
_ANSWER_S = SMALLEST_S / 2
_NOTICED_S = 10.0
_FIRST_LOOK_S = 30.0
"""Brokers look at retention for the first time so long after their start (`log.initial.task.delay.ms`)."""
_DAYS_AHEAD, _HOURS_BEHIND = 8, 2
"""More than Kafka's `log.retention.hours`, and than its `log.message.timestamp.after.max.ms` (KIP-1030)."""
_DUMP = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\r?\nFull thread dump ")
"""What HotSpot writes to its output when it gets SIGQUIT."""


class ClockShift(ScheduledFault):
    """A wall clock that is ahead or behind from `inject` to `heal`, which sets it back.

    A process that starts meanwhile has the same clock.
    """

    mechanism = "clock_shift"
    undoable = True
    takes = "hosts"
    lasts = True
    roles = ("broker",)
    processes = "running"
    one_host = True
    values = (-3600.0, -60.0, 60.0, 3600.0)
    unit = "s"
    preparation = "clocks"
    on_request = True
    needs = "libfaketime"
    weight = 3
    placements = (
        Placement(
            name="clock-ahead",
            at="node",
            rank=18,
            says=f"the clock of {{}} is {_DAYS_AHEAD} days ahead",
            subject=f"A clock of {{}} that is {_DAYS_AHEAD} days ahead",
            roles=("broker",),
            value=_DAYS_AHEAD * 86_400.0,
            at_least_s=_FIRST_LOOK_S + 5,
            broker_config={"log.retention.check.interval.ms": "1000"},
        ),
        Placement(
            name="clock-back",
            at="node",
            rank=19,
            says=f"the clock of {{}} is {_HOURS_BEHIND} hours behind",
            subject=f"A clock of {{}} that is {_HOURS_BEHIND} hours behind",
            roles=("broker",),
            value=-_HOURS_BEHIND * 3600.0,
        ),
    )

    def __init__(self, registry: FaultRegistry, host: Host, by_s: float) -> None:
        """``by_s``: seconds, ahead if positive.

        Raises UsageError for a shift that is too small or too large, UnfitError for a host without a clock of
        its own.
        """
        if not SMALLEST_S <= abs(by_s) <= LONGEST_SHIFT_S:
            raise UsageError(
                f"shift_clock: by_s={by_s:.10g} cannot be proven; shift the clock of {host.name} by "
                f"{SMALLEST_S:g} to {LONGEST_SHIFT_S:.10g} s, ahead or back (negative)."
            )
        self._files: HostFiles = registry.lab.files(host.name)
        if read_shift(self._files) is None:
            raise UnfitError(
                f"The clock of {host.name} cannot be shifted: it is this machine's; give the host one of its "
                f"own with `Setup(own_clocks=({host.name!r},))`."
            )
        self.name = f"shift the clock of {host.name} by {by_s:+.10g} s"
        self._lab, self._host, self._by_s = registry.lab, host.name, by_s
        self._before_s: float | None = None
        self._stated: Evidence = {}

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the host, by the strength."""
        return cls(registry, aim.hosts[0], aim.value)

    def targets(self) -> Targets:
        """The host, and the shift."""
        return {"hosts": [self._host], "by_s": self._by_s}

    def inject(self) -> None:
        """Shift the clock, and wait until the process has noticed.

        Raises InvalidRunError if the process does not run, or if another fault has shifted its clock.
        """
        shift_s = read_shift(self._files) or 0.0
        if shift_s:
            raise InvalidRunError(
                f"The clock of {self._host} is shifted by {shift_s:+.10g} s already; heal that fault first."
            )
        if not self._lab.alive(self._host):
            raise InvalidRunError(f"{self._host} does not run, so its clock cannot be shifted.")
        self._before_s = shift_s
        self._stated = self._set(self._by_s)

    def verify(self) -> Evidence:
        """What the process stated."""
        return self._stated

    def heal(self) -> None:
        """Set the clock back, and wait until the process, if it runs, has noticed."""
        if self._before_s is not None and read_shift(self._files) != self._before_s:
            self._stated = self._set(self._before_s)

    def verify_healed(self) -> Evidence:
        """What the process stated; nothing if it does not run."""
        return self._stated

    def _set(self, by_s: float) -> Evidence:
        """Shift the clock by so much from the machine's; what the process, if it runs, then states."""
        before_s = read_shift(self._files) or 0.0
        from_ns, from_bytes = Anchor.take().wall_ns, self._files.size(SERVER_LOG) or 0
        write_shift(self._files, by_s)
        try:
            return self._await(by_s) if self._lab.alive(self._host) else {}
        finally:
            change = Change(
                before_s=before_s,
                by_s=by_s,
                from_ns=from_ns,
                until_ns=Anchor.take().wall_ns,
                from_bytes=from_bytes,
                until_bytes=self._files.size(SERVER_LOG) or 0,
            )
            note_change(self._files, change)

    def _await(self, by_s: float) -> Evidence:
        def stated() -> Evidence:
            asked_ns = Anchor.take().wall_ns
            date = self._ask()
            ahead_s = date.timestamp() - asked_ns / 1e9
            return {"stated": f"{date:%Y-%m-%d %H:%M:%S} UTC", "ahead_s": round(ahead_s, 1)}

        try:
            return wait_until(
                stated,
                within_s=_NOTICED_S,
                poll_s=0.25,
                awaiting=f"the clock of {self._host} to be {by_s:+.10g} s off",
                # The date has no fractions, and it may be as old as the question.
                accept=lambda seen: -1.0 <= float(str(seen["ahead_s"])) - by_s <= _ANSWER_S,
            )
        except WaitTimeoutError as error:
            raise InvalidRunError(f"{self.name!r} had no effect: {error.message}") from error

    def _ask(self) -> datetime:
        """The date that the process's own clock shows, above a thread dump that it writes to its output."""
        end = self._files.size(OUTPUT_LOG) or 0
        self._lab.signal(self._host, signal.SIGQUIT)
        dump = wait_until(
            lambda: _DUMP.search(self._files.read(OUTPUT_LOG, end)),
            within_s=_ANSWER_S,
            poll_s=0.01,
            awaiting=f"{self._host} to state its time",
        )
        assert dump is not None
        return datetime.fromisoformat(dump[1].decode()).replace(tzinfo=UTC)
