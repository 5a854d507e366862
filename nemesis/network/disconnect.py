"""Hosts that the container engine takes off their network, interface and all: a fault, but not a partition.

Unlike with a cut, the host notices: its own calls fail at once instead of timing out, its address is gone, so
nothing can bind to it, and the harness, which observes from the same network, does not reach it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from harness.clock import now_ns
from harness.errors import InvalidRunError, UnfitError
from harness.history.mechanisms import MECHANISMS, Kind
from harness.lab.model import Host, Lab
from harness.waiting import wait_until
from nemesis.context import RETRY_WITHIN_S
from nemesis.fault import Evidence, Targets
from nemesis.network import links
from nemesis.network.rules import Ruleset
from nemesis.proof.link_proof import LinkProof
from nemesis.registry import FaultRegistry

_ADDRESSES = ("ip", "-4", "-o", "address", "show", "scope", "global")


@runtime_checkable
class Detachable(Protocol):
    """A lab that can take a host off its network; both calls may be repeated."""

    def disconnect(self, host: str) -> None:
        """Take the host's interface away."""

    def reconnect(self, host: str) -> None:
        """Give it back, with the same address."""


def detachable(lab: Lab) -> Detachable:
    """``lab`` as one that can disconnect hosts. Raises UnfitError if it cannot."""
    if isinstance(lab, Detachable):
        return lab
    raise UnfitError(
        f"No host of the {lab.kind} lab can be disconnected, because only a container engine can "
        f"do that: isolate it instead, or run with --lab compose."
    )


class Disconnect:
    """Hosts without a network from `inject` to `heal`."""

    mechanism = "disconnect"
    kind: Kind = MECHANISMS[mechanism].kind
    undoable = True
    ends_processes = False

    def __init__(self, registry: FaultRegistry, hosts: Sequence[Host]) -> None:
        """Raises UnfitError if the lab cannot disconnect hosts."""
        self.name = f"disconnect {', '.join(host.name for host in hosts)}"
        self._context, self._number, self._hosts = registry.context, registry.next_number(), tuple(hosts)
        self._lab = detachable(registry.lab)
        topology = registry.topology
        self._links = links.ordered(link for host in hosts for link in links.isolate(topology, host.name))
        self._proof = LinkProof(self._context, self._number, self.name, self._links)
        self._times: dict[str, int] = {}

    def targets(self) -> Targets:
        """The hosts."""
        return {"hosts": [host.name for host in self._hosts]}

    def inject(self) -> None:
        """Probe all links, hold connections over those that will die, and disconnect the hosts."""
        context = self._context
        with context.lock:
            self._proof.record_before()
            # Without rules: other faults only need to know that these links are dead.
            context.cuts[self._number] = (Ruleset("", "", {}), self._links)
            for host in self._hosts:
                self._lab.disconnect(host.name)
            self._times["disconnected_ns"] = now_ns()

    def verify(self) -> Evidence:
        """Check that the addresses are gone, and that all links of the hosts are dead, held ones too."""
        context = self._context
        with context.lock:
            kept = [host.name for host in self._hosts if host.address in self._addresses(host)]
            if kept:
                raise InvalidRunError(
                    f"{self.name!r} had no effect: hosts that kept their address are {', '.join(kept)}."
                )
            result, cut_off = self._proof.verify_dead(refused=False)
        dead = [result.new[call] for call in cut_off]
        return {
            **self._times,
            "dead": {state: dead.count(state) for state in sorted(set(dead))},
            "alive": len(result.new) - len(dead),
            "held": self._proof.held_states(result),
        }

    def heal(self) -> None:
        """Connect the hosts again."""
        with self._context.lock:
            if self._context.cuts.pop(self._number, None) is None:
                return
            for host in self._hosts:
                self._lab.reconnect(host.name)
            self._times["reconnected_ns"] = now_ns()

    def verify_healed(self) -> Evidence:
        """Check that every host has its address again, and that every link that lived before lives again."""
        context = self._context
        with context.lock:
            for host in self._hosts:
                wait_until(
                    lambda host=host: self._addresses(host),  # type: ignore[misc]
                    accept=lambda addresses, host=host: host.address in addresses,  # type: ignore[misc]
                    within_s=RETRY_WITHIN_S,
                    awaiting=f"{host.name} to have its address {host.address} again",
                )
            alive = self._proof.verify_alive()
        return {"reconnected_ns": self._times["reconnected_ns"], "alive": alive}

    def _addresses(self, host: Host) -> tuple[str, ...]:
        lines = self._context.lab.execute(host.name, _ADDRESSES).stdout.splitlines()
        return tuple(line.split()[3].partition("/")[0] for line in lines)
