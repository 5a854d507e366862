"""The proof that a fault acts on its links: they are probed before it, while it is in force, and after it."""

from __future__ import annotations

from nemesis.context import FaultContext
from nemesis.network.links import Link
from nemesis.proof.reachability import Call, ProbeResult, blocked, may_hold


class LinkProof:
    """Probes the reachability matrix for one fault; callers hold the lock of the context."""

    def __init__(self, context: FaultContext, number: int, fault: str, links: tuple[Link, ...]) -> None:
        """``fault`` and ``number`` are its name and its number in the run; ``links`` are those that die."""
        self._context, self._number, self._fault, self._links = context, number, fault, links
        self._before: set[Call] = set()
        self._held: set[Call] = set()

    def record_before(self) -> None:
        """Probe all links before the fault, and hold connections open over those that will die."""
        elsewhere = self._context.links_in_force(without=self._number)
        calls = [call for call in self._context.calls(self._links) if not blocked(elsewhere, call)]
        to_hold = [call for call in calls if blocked(self._links, call) and may_hold(call)]
        result = self._context.probe(calls, keep=to_hold)
        self._before = result.alive()
        self._held = {call for call in to_hold if result.new[call] == "open"}

    def verify_dead(self, *, refused: bool) -> tuple[ProbeResult, list[Call]]:
        """Check that the links are dead for new and held connections, and that all others live.

        A link that another fault cuts as well is probed too, so that this fault's rules count a packet.
        Returns the result and the dead calls. Raises InvalidRunError.
        """
        elsewhere = self._context.links_in_force(without=self._number)
        calls = [
            call
            for call in self._context.calls(self._links)
            if blocked(self._links, call) or not blocked(elsewhere, call)
        ]
        result = self._context.probe(calls, check=self._held)
        self._context.check_effect(self._fault, result, self._links, refused)
        self._context.check_unaffected(self._fault, self._before, result)
        return result, [call for call in calls if blocked(self._links, call)]

    def held_states(self, result: ProbeResult) -> dict[str, int]:
        """How many held connections were found in each state."""
        states = [result.held[call] for call in self._held]
        return {state: states.count(state) for state in sorted(set(states))}

    def verify_alive(self) -> int:
        """Check that every link that lived before lives again; returns how many. Raises InvalidRunError."""
        elsewhere = self._context.links_in_force()
        calls = [call for call in self._context.calls(self._links) if not blocked(elsewhere, call)]
        result = self._context.probe([call for call in calls if blocked(self._links, call)])
        self._context.check_unaffected(self._fault, self._before, result)
        self._context.prober.release()
        self._held = set()
        return len(result.alive())
