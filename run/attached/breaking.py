"""One fault on hosts of others, made and healed while the recording goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.lab.hosts.lab import HostsLab
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from run.attached.cases import Aim
from run.attached.guard import Guard

LONGEST_FAULT_S = 45.0
"""How long a fault lasts, unless the hosts file allows less: longer than replica.lag.time.max.ms of 30 s."""
CALM_S = 8.0
"""How long everything runs undisturbed before it."""
AFTER_S = 20.0
"""How long clients go on after it."""
TTL_MARGIN_S = 20.0
"""By how much the dead man's switch waits longer than the fault is meant to last; proofs take time."""


@dataclass(kw_only=True)
class Breaking:
    """The fault of a run. A recording calls it; see `run.recording.record.Disturbance`."""

    lab: HostsLab
    guard: Guard
    aim: Aim
    fault_s: float
    say: Callable[[str], None]
    _nemesis: Nemesis = field(init=False)
    _injection: Injection | None = field(default=None, init=False)
    _journal: Journal = field(init=False)
    _began_ns: int = field(default=0, init=False)
    _in_force_ns: int = field(default=0, init=False)
    _healed: bool = field(default=False, init=False)

    @property
    def lasts_s(self) -> float:
        """How long the recording goes on, from the first `look`."""
        return CALM_S + self.fault_s + AFTER_S

    @property
    def ttl_s(self) -> float:
        """After how many seconds a fault ends by itself on its host."""
        return self.fault_s + TTL_MARGIN_S

    @contextmanager
    def on(self, journal: Journal) -> Iterator[None]:
        """Meanwhile faults are possible; at the end all are healed, and it is proven."""
        self._journal = journal
        self.guard.start()
        try:
            with Nemesis(self.lab, journal, ttl_s=self.ttl_s) as self._nemesis:
                self._nemesis.warm_up()
                yield
        finally:
            self.guard.stop()

    def look(self) -> None:
        """Do what is due. Raises InvalidRunError, after it has healed, if somebody else is harmed."""
        now = now_ns()
        self._began_ns = self._began_ns or now
        if self._injection is None:
            if (now - self._began_ns) / 1e9 >= CALM_S:
                self._break()
        elif not self._healed:
            if harm := self.guard.harm():
                self._heal()
                raise InvalidRunError(f"The fault was ended at once to spare others: {harm}.")
            if (now - self._in_force_ns) / 1e9 >= self.fault_s:
                self._heal()

    def _break(self) -> None:
        if harm := self.guard.harm():
            raise InvalidRunError(f"Nothing was broken, to spare others: {harm}.")
        self._injection = self.aim.make(self._nemesis)
        self._in_force_ns = now_ns()
        self._injection.inject()
        self._journal.mark("broken", self.aim.title)
        self.say(f"{self.aim.title}: in force, and proven")

    def _heal(self) -> None:
        assert self._injection is not None
        self._healed = True
        try:
            self._injection.heal()
        except AckedError as error:
            raise InvalidRunError(
                f"{self.aim.title} could not be healed in an orderly way "
                f"({error.message.rstrip('.')}); it ends by itself, and `acked heal` proves it."
            ) from error
        self._journal.mark("healed", self.aim.title)
        self.say(f"{self.aim.title}: healed, and proven")
