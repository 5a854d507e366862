"""The life of a fault: inject, verify, heal, verify.

`Injection` is a context manager for that life, and records its four moments in the history. A fault is
recorded as injected only after its effect was observed. A fault that has no effect, or that cannot be healed,
raises InvalidRunError: such a run proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Literal, Protocol, Self

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError, UsageError
from harness.history.journal import Journal
from harness.history.mechanisms import MECHANISMS, Kind

Targets = Mapping[str, object]
"""What a fault acts on, by exact names. `hosts` (`broker1`), `links` (`broker1 -> broker2:9092`) and
`partitions` (`t/0`) are lists; further keys hold details (a signal, a percentage). Written as JSON."""
FaultState = Literal["new", "injecting", "injected", "healing", "healed", "failed"]
Evidence = Mapping[str, object]


class Fault(Protocol):
    """One fault. `Injection` calls its methods in the order inject, verify, heal, verify_healed."""

    @property
    def name(self) -> str:
        """For example `isolate az1`."""

    @property
    def kind(self) -> Kind:
        """Its family, as in the `faults` table."""

    @property
    def mechanism(self) -> str:
        """What it does: one of `harness.history.mechanisms.MECHANISMS`."""

    @property
    def undoable(self) -> bool:
        """Whether it can be healed now. A killed process that nobody restarts cannot, nor can wiped data."""

    @property
    def ends_processes(self) -> bool:
        """Whether it is over as soon as the processes that it ended run again, whoever starts them."""

    def targets(self) -> Targets:
        """The hosts, links or partitions that it acts on."""

    def inject(self) -> None:
        """Act."""

    def verify(self) -> Evidence:
        """Return the proof of its effect. Raises InvalidRunError if it has none."""

    def heal(self) -> None:
        """Undo. Must also work a second time, after an `inject` that failed half-way, and without one."""

    def verify_healed(self) -> Evidence:
        """Return the proof that nothing is left of it. Raises InvalidRunError if something is."""


class Injection:
    """One fault of one run. `with` injects and heals; `inject` and `heal` do the same by hand."""

    def __init__(self, number: int, fault: Fault, journal: Journal) -> None:
        """``number`` is the fault's number in the run. Raises UsageError for an unknown mechanism."""
        if fault.mechanism not in MECHANISMS:
            raise UsageError(
                f"The fault {fault.name!r} has the mechanism {fault.mechanism!r}; use one of "
                f"{', '.join(MECHANISMS)}."
            )
        self.number = number
        self.fault = fault
        self.state: FaultState = "new"
        self.evidence: Evidence = {}
        """The proof of its effect, once it is injected."""
        self._journal = journal

    def inject(self) -> Self:
        """Inject, verify, record. Has no effect while the fault is in force."""
        if self.state == "injected":
            return self
        self._moment("injecting")
        done = False
        failure: Evidence = {"reason": "interrupted"}
        try:
            self.fault.inject()
            in_force_ns = now_ns()
            self.evidence = self.fault.verify()
            json.dumps(self.evidence)  # evidence must be data: a function, for example, is refused
            done = True
        except AckedError as error:
            failure = _failure(error)
            raise
        finally:
            if not done:
                self._moment("failed", failure)
                self._undo_quietly()
        self._moment("injected", self.evidence, in_force_ns)
        return self

    def heal(self) -> None:
        """Heal, verify, record. Has no effect if the fault is not in force or cannot be undone."""
        if self.state == "failed":
            self.fault.heal()
        if self.state != "injected" or not self.fault.undoable:
            return
        self._moment("healing")
        done = False
        failure: Evidence = {"reason": "interrupted"}
        evidence: Evidence = {}
        try:
            self.fault.heal()
            undone_ns = now_ns()
            evidence = self.fault.verify_healed()
            done = True
        except AckedError as error:
            failure = _failure(error)
            raise
        finally:
            if not done:
                self._moment("failed", failure)
        self._moment("healed", evidence, undone_ns)

    def __enter__(self) -> Self:
        return self.inject()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.heal()
            return
        try:
            self.heal()
        except AckedError as second:
            error.add_note(f"Healing {self.fault.name!r} failed as well: {second.message}")

    def _undo_quietly(self) -> None:
        try:
            self.fault.heal()
        except AckedError as error:
            self._moment("failed", {"reason": f"undoing failed as well: {error.message}"})

    def _moment(self, moment: FaultState, evidence: Evidence | None = None, ns: int | None = None) -> None:
        """Record a moment that is now or, if its proof took time, was at ``ns``."""
        row: dict[str, object] = {"targets": json.dumps(self.fault.targets())}
        if evidence is not None:
            row["evidence"] = json.dumps(evidence)
        self.state = moment
        self._journal.write(
            "faults",
            ns=now_ns() if ns is None else ns,
            fault=self.number,
            name=self.fault.name,
            kind=self.fault.kind,
            mechanism=self.fault.mechanism,
            moment=moment,
            **row,
        )


def _failure(error: AckedError) -> Evidence:
    """What a failed moment records: the reason and, of a cut, the links on which it had no effect."""
    links = error.links if isinstance(error, InvalidRunError) else ()
    return {"reason": error.message, **({"links": list(links)} if links else {})}


class Action:
    """A fault made of callables. It acts once and is never undone: operator actions, damaged data."""

    undoable = False
    ends_processes = False

    def __init__(
        self,
        name: str,
        *,
        kind: Kind,
        mechanism: str,
        targets: Targets,
        act: Callable[[], None],
        verify: Callable[[], Evidence],
    ) -> None:
        """``verify`` must raise InvalidRunError if ``act`` had no effect."""
        self.name = name
        self.kind: Kind = kind
        self.mechanism = mechanism
        self._targets, self._act, self._verify = targets, act, verify

    def targets(self) -> Targets:
        """As given."""
        return self._targets

    def inject(self) -> None:
        """Call ``act``."""
        self._act()

    def verify(self) -> Evidence:
        """Call ``verify``."""
        return self._verify()

    def heal(self) -> None:
        """Nothing."""

    def verify_healed(self) -> Evidence:
        """Nothing."""
        return {}
