"""Loads rule sets into hosts and removes them: one command per host, all hosts at once, with a time-to-live.

Each host with rules also has a detached watchdog. It removes the chain after the time-to-live, so no rules
remain if the harness is killed. In hosts of others, rules also end by the kernel's own clock, a little later:
nobody may be left there to remove them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress

from harness.errors import AckedError, LabError
from harness.lab import expiry
from harness.lab.model import Lab, Result
from nemesis.network.rules import CHAIN_PREFIX, Ruleset, foreign, normalised

_RESTORE = "iptables-restore -w 5 --noflush"
_LOAD = f"{_RESTORE} || exit 1; {expiry.ARM}"
_ENDS = "@ENDS@"
_LOAD_UNTIL = f"""rules=$(cat)
ends=$(date -u -d "@$(($(date +%s) + $4))" +%Y-%m-%dT%H:%M:%S)
printf '%s\\n' "$rules" | sed "s/{_ENDS}/$ends/" | {_RESTORE} 2>/dev/null ||
    printf '%s\\n' "$rules" | grep -v {_ENDS} | {_RESTORE} || exit 1
{expiry.ARM}"""
# The time is that of the host, whose clock may differ. A kernel without xt_time gets the other rules alone.
_LATER_S = 5
"""By how much the kernel's end of rules is later than that of their watchdog, which also removes them."""


def clock_s(ttl_s: float) -> int:
    """After how many seconds the kernel ends rules with a time-to-live in hosts of others."""
    return math.ceil(ttl_s) + _LATER_S


_HEAL = f"{_RESTORE}; status=$?; {expiry.DISARM}; exit $status"
# If the exact removal fails, remove whatever exists of this one chain.
_REMOVE_REMAINS = """chain=$1; at=$2; shift 2
while iptables -w 5 -D $at "$@" 2>/dev/null; do :; done
iptables -w 5 -F $chain 2>/dev/null; iptables -w 5 -X $chain 2>/dev/null; exit 0"""
_LIST = ("iptables-save", "-c", "-t", "filter")


class Chains:
    """The rule sets in force, and their watchdogs."""

    def __init__(self, lab: Lab, ttl_s: float) -> None:
        """``ttl_s``: seconds after which a watchdog removes rules, whatever became of the harness."""
        self._lab = lab
        self.ttl_s = ttl_s
        self._watchdogs: dict[tuple[str, str], str] = {}

    def load(self, rules: Ruleset, hosts: Iterable[str] | None = None) -> None:
        """Load ``rules`` into all their hosts (or only into ``hosts``); if one does not answer, into none."""
        heal = expiry.undo_script(_RESTORE, rules.heal_text())
        names = rules.hosts if hosts is None else tuple(hosts)
        script, ends = (_LOAD_UNTIL, _ENDS) if self._lab.of_others else (_LOAD, "")
        words = ("sh", "-c", script, "load", rules.chain, f"{self.ttl_s:g}", heal, str(clock_s(self.ttl_s)))
        commands = {host: (words, rules.load_text(host, ends)) for host in names}
        try:
            results = self._lab.execute_all(commands)
        except AckedError:
            for host in names:
                with suppress(AckedError):  # that host's watchdog removes them
                    self.remove_remains(rules, [host])
            raise
        for host, result in results.items():
            if result.status == 0:
                self._watchdogs[host, rules.chain] = result.stdout.strip()
        for host, result in results.items():
            if result.status != 0:
                raise LabError(
                    f"iptables in {host} refused the rules of {rules.chain} (status {result.status}).",
                    detail=result.stderr.strip(),
                )

    def remove(self, rules: Ruleset) -> tuple[str, ...]:
        """Remove ``rules``. Returns the hosts in which some or all of them were missing."""
        heal = rules.heal_text()
        guarded = [host for host in rules.hosts if (host, rules.chain) in self._watchdogs]
        commands = {
            host: (("sh", "-c", _HEAL, "heal", rules.chain, self._watchdogs[host, rules.chain]), heal)
            for host in guarded
        }
        missing = [host for host, result in self._lab.execute_all(commands).items() if result.status != 0]
        self.remove_remains(rules, missing)
        for host in guarded:
            del self._watchdogs[host, rules.chain]
        return tuple(missing)

    def reload(self, rules: Ruleset, host: str) -> None:
        """Load ``rules`` again into a host that has lost some or all of them."""
        pid = self._watchdogs.pop((host, rules.chain), "")
        self._lab.execute(host, ("sh", "-c", expiry.DISARM, "end", rules.chain, pid))
        self.remove_remains(rules, [host])
        self.load(rules, [host])

    def remove_remains(self, rules: Ruleset, hosts: Iterable[str]) -> None:
        """Remove whatever exists of this chain in ``hosts``."""
        argv = ("sh", "-c", _REMOVE_REMAINS, "remove-remains", rules.chain, rules.at, *rules.hook_words())
        self._lab.execute_all({host: (argv, "") for host in hosts})

    def listings(self, hosts: Iterable[str] | None = None) -> dict[str, str]:
        """The filter table of each host, with counters."""
        names = [host.name for host in self._lab.topology.hosts] if hosts is None else list(hosts)
        results: Mapping[str, Result] = self._lab.execute_all({host: (_LIST, "") for host in names})
        for host, result in results.items():
            if result.status != 0:
                raise LabError(
                    f"`{shlex.join(_LIST)}` failed in {host} (status {result.status}).",
                    detail=result.stderr.strip(),
                )
        return {host: result.stdout for host, result in results.items()}

    def sweep(self) -> dict[str, tuple[str, ...]]:
        """Remove chains that an earlier run has left behind, and return the listings without them."""
        listings = {host: normalised(listing) for host, listing in self.listings().items()}
        for host, lines in listings.items():
            left = [line for line in lines if CHAIN_PREFIX in line]
            if left:
                self._lab.execute(host, ("sh", "-c", _unhook(left)))
        return {host: foreign(lines) for host, lines in listings.items()}


def _unhook(lines: list[str]) -> str:
    hooks = [line.removeprefix("-A ") for line in lines if line.startswith(("-A INPUT", "-A OUTPUT"))]
    chains = [line[1:].split()[0] for line in lines if line.startswith(":")]
    steps = [f"iptables -w 5 -D {hook}" for hook in hooks]
    steps += [f"iptables -w 5 -F {chain}; iptables -w 5 -X {chain}" for chain in chains]
    return "; ".join(steps)
