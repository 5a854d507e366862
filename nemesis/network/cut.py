"""Links that are cut, once or again and again."""

from __future__ import annotations

import threading
from types import MappingProxyType

from harness.clock import now_ns
from harness.errors import AckedError, InvalidRunError, UsageError
from nemesis.fault import Evidence, Fault, Targets
from nemesis.network.links import Link
from nemesis.network.rules import CutAction, Ruleset, cut_rules
from nemesis.proof.link_proof import LinkProof
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault

_SHORTEST_HALF_PERIOD_S = 0.5


class Cut(ScheduledFault):
    """Links that are cut from `inject` to `heal`."""

    mechanism = "cut"
    undoable = True
    takes = "links"
    lasts = True
    weight = 14
    placements = (
        Placement(name="isolate", at="isolated AZ", rank=1, says="{} isolated", subject="Isolating {}"),
        Placement(
            at="two AZs",
            rank=4,
            says="{} and {} cut from each other",
            subject="Cutting {} and {} from each other",
            roles=(),
            parts_sessions=True,
        ),
        Placement(
            name="one-way",
            at="one way",
            rank=10,
            says="{} → {} cut (one way)",
            subject="Cutting {} → {} (one way)",
            parts_sessions=True,
        ),
    )

    def __init__(
        self,
        registry: FaultRegistry,
        name: str,
        links: tuple[Link, ...],
        action: CutAction = "drop",
        asked: Targets = MappingProxyType({}),
    ) -> None:
        """Cut ``links``; ``action`` is `drop` (silence) or `reject` (a TCP reset).

        ``asked`` says as data what the caller asked for, for example ``{"isolated": "az1"}``.
        """
        self.name = name
        self._context, self._number, self._action = registry.context, registry.next_number(), action
        self._links, self._asked = links, asked
        self._rules: Ruleset = cut_rules(registry.topology, registry.next_chain(), links, action)
        self._proof = LinkProof(self._context, self._number, name, links)
        self._vanished: tuple[str, ...] = ()
        self._times: dict[str, int] = {}

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the links."""
        name = f"isolate {aim.isolated}" if aim.isolated else f"cut {aim.title}"
        asked = {"isolated": aim.isolated} if aim.isolated else {"ends": aim.ends}
        return cls(registry, name, aim.links, asked=asked)

    def targets(self) -> Targets:
        """The links, and what happens to their packets."""
        return {"links": [str(link) for link in self._links], "action": self._action, **self._asked}

    def inject(self) -> None:
        """Probe all links, hold connections over those to be cut, and load the rules."""
        with self._context.lock:
            self._proof.record_before()
            self.load()

    def load(self) -> None:
        """Load the rules, without probing first."""
        context = self._context
        with context.lock:
            context.cuts[self._number] = (self._rules, self._links)
            self._times["loading_ns"] = now_ns()
            context.chains.load(self._rules)
            self._times["loaded_ns"] = now_ns()

    def verify(self) -> Evidence:
        """Check that the links are dead, for new and held connections, and all others live."""
        context = self._context
        with context.lock:
            result, dead = self._proof.verify_dead(refused=self._action == "reject")
            packets = context.check_counters(self.name, self._rules, self._links)
        return {
            **self._times,
            "dead": len(dead),
            "alive": len(result.new) - len(dead),
            "held": self._proof.held_states(result),
            "packets": packets,
            "hosts": list(self._rules.hosts),
        }

    def heal(self) -> None:
        """Remove the rules from every host."""
        context = self._context
        with context.lock:
            if self._number not in context.cuts:
                return
            self._vanished = context.chains.remove(self._rules)
            del context.cuts[self._number]
            self._times["removed_ns"] = now_ns()

    def verify_healed(self) -> Evidence:
        """Check that no line of the chain is left, and that every link that lived before lives again."""
        context = self._context
        with context.lock:
            if self._vanished:
                raise InvalidRunError(
                    f"The rules of {self.name!r} were gone from {', '.join(self._vanished)} before the cut "
                    f"was healed: it did not last; was its time-to-live too short, or were they flushed?"
                )
            context.check_gone(self.name, self._rules)
            return {"removed_ns": self._times["removed_ns"], "alive": self._proof.verify_alive()}


class Flapping(ScheduledFault):
    """Links that are cut for half of every period and restored for the other half. Changes are verified."""

    mechanism = "flap"
    undoable = True
    takes = "links"
    lasts = True
    values = (1.0, 2.0, 4.0)
    unit = "s"
    weight = 3
    placements = (
        Placement(
            at="two AZs",
            rank=12,
            says="link between {} and {} flaps",
            subject="A flapping link between {} and {}",
            roles=("broker",),
            value=2.0,
            varies="whether TCP happens to send again while the link works",
        ),
    )

    def __init__(self, cut: Cut, period_s: float) -> None:
        """``cut`` is loaded and removed again and again, starting with a cut."""
        if period_s < 2 * _SHORTEST_HALF_PERIOD_S:
            raise UsageError(
                f"A link cannot flap with a period of {period_s:g} s, because each change is verified; "
                f"say at least {2 * _SHORTEST_HALF_PERIOD_S:g} s."
            )
        self.name = f"flapping {cut.name}"
        self._cut, self._half_s = cut, period_s / 2
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: AckedError | None = None
        self._flips: list[dict[str, object]] = []

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the links; the strength is the period."""
        return cls(Cut(registry, aim.title, aim.links), aim.value)

    def targets(self) -> Targets:
        """The links, and the period."""
        return {**self._cut.targets(), "period_s": self._half_s * 2}

    def inject(self) -> None:
        """Cut for the first time."""
        self._cut.inject()

    def verify(self) -> Evidence:
        """Check the effect of the first cut, and start the thread that makes the further changes."""
        evidence = self._cut.verify()
        self._stop.clear()
        self._thread = threading.Thread(target=self._flap, name=self.name, daemon=True)
        self._thread.start()
        return evidence

    def heal(self) -> None:
        """Stop flapping and restore the links."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._cut.heal()

    def verify_healed(self) -> Evidence:
        """As for a cut; also raises if a change in between had no effect or did not heal."""
        if self._error is not None:
            raise InvalidRunError(f"A change of {self.name!r} failed: {self._error.message}") from self._error
        if not self._flips:
            raise InvalidRunError(
                f"{self.name!r} was healed before its first change, so it was a plain cut; wait at least "
                f"{self._half_s:g} s, or use a cut."
            )
        return {**self._cut.verify_healed(), "flips": self._flips}

    def _flap(self) -> None:
        down = True
        due_ns = now_ns()
        try:
            while True:
                due_ns += int(self._half_s * 1e9)
                if self._stop.wait(max(0.0, (due_ns - now_ns()) / 1e9)):
                    return
                if down:
                    self._cut.heal()
                    evidence = self._cut.verify_healed()
                    self._flips.append({"up_ns": evidence["removed_ns"]})
                else:
                    self._cut.load()
                    evidence = self._cut.verify()
                    self._flips.append({"down_ns": evidence["loaded_ns"], "packets": evidence["packets"]})
                down = not down
        except AckedError as error:
            self._error = error
