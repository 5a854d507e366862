"""Faults on hosts of others, made and healed while the recording goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError, LabError, UnfitError
from harness.history.journal import Journal
from harness.lab.hosts.lab import HostsLab
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.processes.killing import Restart
from run.attached.cases import END_S, Act, Aim
from run.attached.guard import LOOK_S, Guard

LONGEST_FAULT_S = 45.0
"""How long a fault lasts, unless the hosts file allows less: longer than replica.lag.time.max.ms of 30 s."""
CALM_S = 8.0
"""How long everything runs undisturbed before the first fault, and after the last one."""
RECOVERY_S = 90.0
"""How long the cluster may take to be whole after a fault, before clients are stopped."""
TTL_MARGIN_S = 20.0
"""By how much the dead man's switch waits longer than the fault is meant to last; proofs take time."""
_START_S = END_S + 60.0
"""How long a node may take to end and to start again, for the plan."""


def times_to_live_s(fault_s: float, *, restarts: bool) -> tuple[float, float]:
    """After how many seconds hosts act by themselves if acked is gone.

    The first: until a fault of ``fault_s`` ends. The second: until a node that was ended starts, which
    takes longer where nodes are restarted.
    """
    ttl_s = fault_s + TTL_MARGIN_S
    return ttl_s, max(ttl_s, _START_S + TTL_MARGIN_S) if restarts else ttl_s


@dataclass(kw_only=True)
class _Open:
    """A fault in force."""

    act: Act
    aim: Aim
    injection: Injection
    since_ns: int


@dataclass(kw_only=True)
class Breaking:
    """The faults of a run. A recording calls it; see `run.recording.record.Disturbance`.

    Faults are made and undone in a thread of their own, so that the recording goes on looking. What harms
    others is healed at once.
    """

    lab: HostsLab
    guard: Guard
    acts: Sequence[Act]
    start: Restart
    """Starts a node again, and returns when the cluster knows it."""
    say: Callable[[str], None]
    skips: bool = False
    """An act that is not possible when it is due is left out; otherwise the run proves nothing."""
    fits: Callable[[Sequence[Aim]], None] = lambda aims: None
    """Raises UnfitError if these faults may not be in force at the same time."""
    window_left_s: Callable[[], float] = lambda: float("inf")
    """Seconds until faults must be over."""
    facts: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    """What marks say when everything begins, by their names."""
    _nemesis: Nemesis = field(init=False)
    _journal: Journal = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _work: Future[None] | None = field(default=None, init=False)
    _open: list[_Open] = field(default_factory=list, init=False)
    _slow: bool = field(default=False, init=False)
    """Whether the thread waits for a fault to begin, or for a node to start."""
    _done: int = field(default=0, init=False)
    """How many acts have begun, or were left out."""
    _began_ns: int = field(default=0, init=False)
    _last_ns: int = field(default=0, init=False)
    """When the last act began; before the first, when everything began."""
    _healed_ns: int = field(default=0, init=False)
    _looked_ns: int = field(default=0, init=False)
    _whole_ns: int = field(default=0, init=False)
    _marked: set[str] = field(default_factory=set, init=False)

    @property
    def fault_s(self) -> float:
        """The longest of its faults."""
        return max(act.lasts_s for act in self.acts)

    @property
    def lasts_s(self) -> float:
        """How long the recording goes on at most, from the first `look`."""
        each = (act.after_s + act.lasts_s + _START_S * (act.lasts_s == 0) for act in self.acts)
        return CALM_S + sum(each) + RECOVERY_S

    @property
    def times_to_live_s(self) -> tuple[float, float]:
        """After how many seconds a fault ends by itself on its host, and a node that was ended starts."""
        return times_to_live_s(self.fault_s, restarts=any(act.lasts_s == 0 for act in self.acts))

    @property
    def over(self) -> bool:
        """Whether all faults are over and the cluster has been whole for a while."""
        if not self._finished():
            return False
        now = now_ns()
        calm = self._whole_ns and (now - self._whole_ns) / 1e9 >= CALM_S
        return bool(calm) or (now - self._healed_ns) / 1e9 >= RECOVERY_S

    @contextmanager
    def on(self, journal: Journal) -> Iterator[None]:
        """Meanwhile faults are possible; at the end all are healed, and it is proven."""
        self._journal = journal
        self.guard.start()
        self._pool = ThreadPoolExecutor(1, "faults")
        try:
            with Nemesis(self.lab, journal, ttl_s=self.times_to_live_s[0]) as self._nemesis:
                self._nemesis.warm_up()
                try:
                    yield
                finally:
                    self._pool.shutdown(wait=True)
        finally:
            self.guard.stop()

    def look(self) -> None:
        """Do what is due. Raises InvalidRunError, after it has healed, if somebody else is harmed."""
        now = now_ns()
        if not self._began_ns:
            self._began_ns = self._last_ns = now
            for name, each in self.facts.items():
                for facts in each:
                    self._journal.mark(name, "", **facts)
            self._mark("begin", "the first fault is next")
        if (self._open or self._done < len(self.acts)) and (harm := self.guard.harm()):
            self._end_at_once(harm)
        if self._work is not None:
            if not self._work.done():
                if self._slow:  # a node that ends or starts may wait for a cut to be over: what is due ends
                    # The thread itself heals what it made for no time.
                    due = self._open if self.window_left_s() <= 0 else self._due(now)
                    for one in [one for one in due if one.act.lasts_s and not one.aim.ends]:
                        self._heal(one)
                return
            work, self._work = self._work, None
            work.result()
        if self._open and (now - self._looked_ns) / 1e9 >= LOOK_S:
            self._looked_ns = now
            self._work = self._pool.submit(self._require_in_force)
        elif self.window_left_s() <= 0 and not self._finished():
            self.say("the window of the day is over: no further fault")
            self._done = len(self.acts)
            self._work = self._pool.submit(self._heal_all)
        elif due := self._due(now):
            self._work = self._pool.submit(self._heal, min(due, key=lambda one: one.aim.ends))
        elif self._done < len(self.acts) and self._is_due(self.acts[self._done], now):
            self._last_ns = now
            self._work = self._pool.submit(self._begin, self.acts[self._done])
        elif self._finished() and not self._whole_ns and self.guard.whole_ns > self._healed_ns:
            self._whole_ns = self.guard.whole_ns
            self._mark("recovered", "every partition has a leader and a full ISR")

    def _due(self, now: int) -> list[_Open]:
        rest = (
            self._work is None and self._done == len(self.acts) and all(one.act.spans for one in self._open)
        )
        return [
            one
            for one in self._open
            if (now - one.since_ns) / 1e9 >= one.act.lasts_s or (rest and one.act.spans)
        ]

    def _finished(self) -> bool:
        return self._done == len(self.acts) and not self._open and self._work is None

    def _is_due(self, act: Act, now: int) -> bool:
        if (now - self._last_ns) / 1e9 < (act.after_s if self._done else CALM_S):
            return False
        if act.waits == "whole":
            return not self._open and self.guard.whole_ns > self._healed_ns
        if act.waits and any(not one.act.lasts_s for one in self._open):
            return False
        since_ns = max(self._healed_ns, self._last_ns)
        return act.waits != "room" or self.guard.has_room(act.aim().hosts, since_ns)

    def _begin(self, act: Act) -> None:
        self._slow = True
        try:
            self._make(act)
        finally:
            self._slow = False

    def _make(self, act: Act) -> None:
        number = self._done = self._done + 1
        self._mark(f"step-{number}", act.says)
        if harm := self.guard.harm():
            raise InvalidRunError(f"Nothing was broken, to spare others: {harm}.")
        try:
            aim = act.aim()
            self._require_free(aim)
            together = [*(one.aim for one in self._open), aim]
            self.fits(together)
            if not self._open and (number == 1 or not self.skips):
                self.guard.require_whole_now()
            self.guard.require_room_for(together)
            self.guard.require_room_now(aim)
            injection = aim.make(self._nemesis, self.start)
            one = _Open(act=act, aim=aim, injection=injection, since_ns=now_ns())
            injection.inject()
        except (UnfitError, InvalidRunError) as error:
            if not self.skips:
                raise
            self._journal.mark(f"skipped-{number}", f"{act.says}: {error.message}", skipped=number)
            self.say(f"{act.says}: left out: {error.message}")
            return
        self._open.append(one)
        self._mark("injected", "the fault is in force")
        self._journal.mark("broken", aim.title)
        self.say(f"{aim.title}: in force, and proven")
        if not act.lasts_s:
            self._heal(one)

    def _require_free(self, aim: Aim) -> None:
        """Raise InvalidRunError if another fault in force has its process or its interface already."""
        names = {host.name for host in aim.hosts}
        for before in (one.aim for one in self._open if aim.takes and one.aim.takes == aim.takes):
            for host in before.hosts:
                if host.name in names:
                    raise InvalidRunError(f"{before.title} is in force, and {host.name} has one {aim.takes}.")

    def _heal(self, one: _Open) -> None:
        self._open.remove(one)
        if one.aim.ends:
            self._slow = True
        self._mark("heal", "the fault is about to be healed")
        try:
            one.injection.heal()
            for host in one.aim.hosts if one.aim.ends else ():
                self.lab.disarm(host.name)
        except AckedError as error:
            raise InvalidRunError(
                f"{one.aim.title} could not be healed in an orderly way "
                f"({error.message.rstrip('.')}); it ends by itself, and `acked heal` proves it."
            ) from error
        finally:
            self._healed_ns = now_ns()
            if one.aim.ends:
                self._slow = False
        self._journal.mark("healed", one.aim.title)
        self.say(f"{one.aim.title}: healed, and proven")

    def _heal_all(self) -> None:
        self._healed_ns = self._healed_ns or now_ns()
        while self._open:  # a node may not start before cuts are over
            self._heal(min(reversed(self._open), key=lambda one: one.aim.ends))

    def _end_at_once(self, harm: str) -> None:
        """Heal everything, what is being made now included, and raise InvalidRunError."""
        in_force = bool(self._open or self._work)
        self._done = len(self.acts)
        self._heal_all()
        if self._work is not None:
            with suppress(AckedError):
                self._work.result()
            self._heal_all()
        if in_force:
            raise InvalidRunError(f"The fault was ended at once to spare others: {harm}.")
        raise InvalidRunError(f"Nothing was broken, to spare others: {harm}.")

    def _require_in_force(self) -> None:
        """Raise InvalidRunError if somebody has ended a fault, or what would end it by itself."""
        if lost := self.lab.lost():
            self._done = len(self.acts)
            self._heal_all()
            raise InvalidRunError(f"The fault was ended at once, because it might not end by itself: {lost}.")
        try:
            gone = self._nemesis.vanished()
            for one in [one for one in self._open if one.aim.ends]:
                if all(self.lab.alive(host.name) for host in one.aim.hosts):  # its service manager was faster
                    self._heal(one)
        except LabError:
            return  # who does not answer now may do so later, and the proof of the heal looks again
        if gone:
            self._done = len(self.acts)
            with suppress(InvalidRunError):
                self._heal_all()
            raise InvalidRunError(
                f"Somebody has ended the fault before its time ({'; '.join(gone[:3])}): `acked heal`, or a "
                "change of rules; nothing is left of it."
            )

    def _mark(self, name: str, text: str) -> None:
        """Once."""
        if name not in self._marked:
            self._marked.add(name)
            self._journal.mark(name, text)
