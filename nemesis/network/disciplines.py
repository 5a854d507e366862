"""A queueing discipline on the interface of hosts, which a watchdog removes after a time-to-live.

In labs of acked's own it is the root of the interface, so everything that a host sends passes through it. In
hosts of others it is below a class of HTB, to which firewall rules assign packets (`classify_rules`); all
others pass at once. There it is added only to an interface whose disciplines are those of the kernel itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import LabError, UnfitError, quoted
from harness.lab import expiry
from harness.lab.model import Host, Lab
from nemesis.network.rules import CLASS_MINOR

_KERNELS = "0:"
"""The handle of disciplines that nobody has added: the kernel has."""
_BESIDE_ROOT = ("ingress", "clsact")
"""Kinds that are beside the root, and stay when it is replaced."""
_CLASS = "htb rate 10gbit quantum 60000"
"""A class that limits nothing itself: the discipline below it does."""
ROUTES = 'for address in "$@"; do ip -o route get "$address"; done'
"""Shell text that tells over which interfaces addresses are reached; see `interfaces`."""
Entry = Mapping[str, object]
"""What `tc -s -j qdisc show` tells of one discipline."""


def interfaces(routes: str) -> list[str]:
    """Those over which `ROUTES` lead; a discipline needs one, and not `lo`."""
    return sorted(set(re.findall(r" dev (\S+)", routes)))


def is_one(devices: Sequence[str]) -> bool:
    """Whether they are one interface that can have a discipline."""
    return len(devices) == 1 and devices != ["lo"]


def entries_of(told: str, host: str) -> list[Entry]:
    """What `tc -j qdisc show` told in a host. Raises LabError for anything else."""
    try:
        entries = json.loads(told or "[]")
    except ValueError:
        entries = None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise LabError(f"tc in {host} tells no list of queueing disciplines: {quoted(told[:80])}.")
    return entries


def added_by_owner(entries: Sequence[Entry]) -> Entry | None:
    """The first discipline that is not the kernel's, which one at the root would replace."""
    own = (one for one in entries if one.get("handle") != _KERNELS and one.get("kind") not in _BESIDE_ROOT)
    return next(own, None)


@dataclass(frozen=True)
class _On:
    """Where it is in one host."""

    device: str
    watchdog: str
    before: tuple[Entry, ...]


@dataclass(kw_only=True)
class Discipline:
    """One discipline, on none or some of the hosts."""

    lab: Lab
    title: str
    """The fault, for messages."""
    number: int
    """Tells it from those of other faults."""
    words: tuple[str, ...]
    """Kind and parameters, as arguments of `tc`."""
    ttl_s: float
    _on: dict[str, _On] = field(default_factory=dict, init=False)

    @property
    def root(self) -> str:
        """Handle of what is at the root."""
        return f"ac{self.number:02x}:"

    @property
    def handle(self) -> str:
        """Handle of the discipline itself."""
        return f"ad{self.number:02x}:" if self.lab.of_others else self.root

    @property
    def tag(self) -> str:
        """That of its watchdogs."""
        return f"acked-queue-{self.number}"

    def add(self, host: Host) -> None:
        """Add it. Raises UnfitError if the kernel lacks it, or if the owner has disciplines of his own."""
        device = self.device(host)
        before = self._settings(host.name, device)
        own = added_by_owner(before)
        if self.lab.of_others and own is not None:
            raise UnfitError(
                f"{device} of {host.name} has a queueing discipline of its own ({own['kind']} "
                f"{own['handle']}), which {self.title!r} would replace; leave `throttle` out of `allow`."
            )
        adding, undo = self.commands(device)
        script = f"{adding} || exit 1; {expiry.ARM}"
        result = self.lab.execute(host.name, ("sh", "-c", script, "add", self.tag, f"{self.ttl_s:g}", undo))
        if result.status != 0:
            raise self._refused(host.name, result.stderr)
        self._on[host.name] = _On(device, result.stdout.strip(), before)

    def commands(self, device: str) -> tuple[str, str]:
        """What adds it to an interface, and what removes it, as shell text."""
        words, dev = " ".join(self.words), f"dev {device}"
        undo = f"tc qdisc del {dev} root handle {self.root}"
        if not self.lab.of_others:
            return f"tc qdisc add {dev} root handle {self.root} {words}", undo
        one = f"{self.root}{CLASS_MINOR}"
        adding = (
            f"tc qdisc add {dev} root handle {self.root} htb && {{ "
            f"tc class add {dev} parent {self.root} classid {one} {_CLASS} && "
            f"tc qdisc add {dev} parent {one} handle {self.handle} {words} || {{ {undo}; false; }}; }}"
        )
        return adding, undo

    def remove(self, host: str) -> None:
        """Remove exactly it, if it is there."""
        if (on := self._on.get(host)) is not None and on.watchdog:
            script = f"tc qdisc del dev {on.device} root handle {self.root}; {expiry.DISARM}"
            self.lab.execute(host, ("sh", "-c", script, "heal", self.tag, on.watchdog))
            self._on[host] = _On(on.device, "", on.before)

    def left(self, host: str) -> str:
        """What is not as it was before, in words; empty if nothing is."""
        if (on := self._on.get(host)) is None:
            return ""
        now = self._settings(host, on.device)
        if any(one["handle"] == self.root for one in now):
            return f"{self.title!r} left a queueing discipline in {host}"
        if not self.lab.of_others or now == on.before:
            return ""
        return f"the disciplines of {host} are not as before {self.title!r}: {now}"

    def entry(self, host: str) -> Entry | None:
        """What the kernel tells of it: `bytes`, `overlimits` and more; None if it is gone."""
        on = self._on.get(host)
        entries = [] if on is None else self._entries(host, on.device)
        return next((one for one in entries if one["handle"] == self.handle), None)

    def _refused(self, host: str, stderr: str) -> LabError | UnfitError:
        reason = (stderr.strip().splitlines() or ["no reason given"])[0]
        if "unknown" not in reason and "No such file" not in reason:
            return LabError(f"tc in {host} refused {' '.join(self.words)!r}: {reason}")
        kind = f"htb or {self.words[0]}" if self.lab.of_others else self.words[0]
        return UnfitError(
            f"{self.title!r} needs the kernel's {kind}, which is missing ({reason}): load "
            f"{' or '.join(f'sch_{one}' for one in kind.split(' or '))} or use another kernel, or leave this "
            "fault out."
        )

    def device(self, host: Host) -> str:
        """The interface over which it reaches the other hosts. Raises UnfitError unless it is one."""
        peers = [one.address for one in self.lab.topology.hosts if one.address not in ("", host.address)]
        devices = interfaces(self.lab.execute(host.name, ("sh", "-c", ROUTES, "routes", *peers)).stdout)
        if not is_one(devices):
            raise UnfitError(
                f"{host.name} reaches the other hosts over {quoted(', '.join(devices) or 'no interface')}, "
                f"and {self.title!r} needs one interface for all of them."
            )
        return devices[0]

    def _entries(self, host: str, device: str) -> Sequence[Entry]:
        result = self.lab.execute(host, ("tc", "-s", "-j", "qdisc", "show", "dev", device))
        return entries_of(result.stdout, host)

    def _settings(self, host: str, device: str) -> tuple[Entry, ...]:
        kept = ("kind", "handle", "parent", "root", "options")
        return tuple({key: one[key] for key in kept if key in one} for one in self._entries(host, device))
