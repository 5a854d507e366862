"""What became of a fault's links: seen before it, while it is in force, and when it is healed."""

from __future__ import annotations

from nemesis.ground import Ground
from nemesis.network.links import Link
from nemesis.proof.reachability import Call, Look, blocked, may_hold


class Witness:
    """Looks at the reachability matrix for one fault; callers hold the ground's lock."""

    def __init__(self, ground: Ground, number: int, what: str, links: tuple[Link, ...]) -> None:
        """``what`` names the fault in errors, ``number`` is its number in the run, ``links`` are to die."""
        self._ground, self._number, self._what, self._links = ground, number, what, links
        self._before: set[Call] = set()
        self._held: set[Call] = set()

    def before(self) -> None:
        """Look at all links, and keep connections open over those that will die."""
        elsewhere = self._ground.links_in_force(without=self._number)
        wanted = [call for call in self._ground.calls(self._links) if not blocked(elsewhere, call)]
        to_hold = [call for call in wanted if blocked(self._links, call) and may_hold(call)]
        look = self._ground.look(wanted, keep=to_hold)
        self._before = look.alive()
        self._held = {call for call in to_hold if look.new[call] == "open"}

    def dead(self, *, refused: bool) -> tuple[Look, list[Call]]:
        """The fault's links are dead, new and established, all others live: the look, and the dead calls.

        A link that another fault cuts as well is tried too, so that this fault counts by itself. Raises
        InvalidRunError.
        """
        elsewhere = self._ground.links_in_force(without=self._number)
        wanted = [
            call
            for call in self._ground.calls(self._links)
            if blocked(self._links, call) or not blocked(elsewhere, call)
        ]
        look = self._ground.look(wanted, check=self._held)
        self._ground.check_bite(self._what, look, self._links, refused)
        self._ground.check_others(self._what, self._before, look)
        return look, [call for call in wanted if blocked(self._links, call)]

    def held(self, look: Look) -> dict[str, int]:
        """What requests on kept connections met, counted."""
        met = [look.held[call] for call in self._held]
        return {state: met.count(state) for state in sorted(set(met))}

    def alive_again(self) -> int:
        """Every link that lived before lives again; returns how many. Raises InvalidRunError."""
        elsewhere = self._ground.links_in_force()
        wanted = [call for call in self._ground.calls(self._links) if not blocked(elsewhere, call)]
        look = self._ground.look([call for call in wanted if blocked(self._links, call)])
        self._ground.check_others(self._what, self._before, look)
        self._ground.prober.release()
        self._held = set()
        return len(look.alive())
