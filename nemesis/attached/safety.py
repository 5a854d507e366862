"""What makes faults on hosts of others safe: the canary, the lock, and healing from anywhere.

A rule or pause of acked is known by the beginning of its chain's name or of its watchdog's tag, a limit by
its handle and class. Nothing else is touched.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from harness.errors import AckedError, LabError, UnfitError, UsageError, WaitTimeoutError, quoted
from harness.lab import expiry
from harness.lab.hosts.lab import HostsLab
from harness.lab.model import Host
from harness.waiting import wait_until
from nemesis.network.chains import Chains
from nemesis.network.disciplines import Discipline
from nemesis.network.queues import token_bucket
from nemesis.network.rules import CHAIN_PREFIX, CLASS_MINOR, ChainRule, Ruleset, spared

CANARY_S = 5.0
_LATE_S = 5.0
"""By how much a canary may be late; logins and a busy host take time."""
_CANARY_KBIT = 8.0
NOWHERE = "-s 192.0.2.1/32 -d 192.0.2.1/32 -j DROP"
"""A rule that no packet matches (an address of RFC 5737)."""
LOCK = "acked-lock"
"""A chain that nothing jumps into; its only rule has the holder as its comment. Making a chain is atomic."""
_HELD = 9
_LOCK = f"""iptables -w 5 -N {LOCK} 2>/dev/null || {{ iptables -w 5 -S {LOCK}; exit {_HELD}; }}
iptables -w 5 -A {LOCK} -m comment --comment "$4" || {{ iptables -w 5 -X {LOCK}; exit 1; }}
{expiry.ARM}"""
_REMOVE_LOCK = f"iptables -w 5 -F {LOCK} 2>/dev/null; iptables -w 5 -X {LOCK} 2>/dev/null"
_UNLOCK = f"{_REMOVE_LOCK}; {expiry.DISARM}"

_HEAL = f"""iptables-save -t filter >/dev/null || exit 1
{expiry.WATCHDOGS}
chains() {{ iptables-save -t filter 2>/dev/null | sed -n 's/^:\\({CHAIN_PREFIX}[A-Za-z0-9-]*\\) .*/\\1/p'; }}
queues() {{ tc qdisc show 2>/dev/null | sed -n 's/^qdisc htb \\(ac..:\\) dev \\([^ ]*\\) root .*/\\1 \\2/p' |
    while read -r handle device; do
        tc class show dev "$device" | grep -q "^class htb ${{handle}}{CLASS_MINOR} " && echo "$handle $device"
    done; }}
found=$(watchdogs); before=$(chains); slow=$(queues)
early
tries=0
while [ -n "$(watchdogs)" ] && [ $tries -lt 50 ]; do
    sleep 0.1 2>/dev/null || sleep 1; tries=$((tries + 1))
done
for chain in $(chains); do
    hooks=$(iptables-save -t filter | sed -n "s/^-A \\(.*-j $chain\\)\\$/-D \\1/p")
    printf '%s\\n' '*filter' "$hooks" "-F $chain" "-X $chain" COMMIT | iptables-restore -w 5 --noflush
done
queues | while read -r handle device; do tc qdisc del dev "$device" root handle "$handle"; done
iptables -w 5 -n -L {LOCK} >/dev/null 2>&1 && {{ {_REMOVE_LOCK}; echo "lock"; }}
for chain in $before; do echo "chain $chain"; done
printf '%s\\n' "$slow" | sed -n 's/.* /queue of /p'
for pid in $found; do echo "watchdog $pid"; done
for pid in $(watchdogs); do echo "left watchdog $pid"; done
for chain in $(chains); do echo "left chain $chain"; done
queues | sed 's/.* /left queue of /'
exit 0"""


@dataclass(frozen=True, kw_only=True)
class Healed:
    """What `heal` has done in one host."""

    host: str
    removed: tuple[str, ...] = ()
    """What was there: `chain NAME`, `queue of DEVICE`, `watchdog PID`, `lock`, `pause of PID`."""
    left: tuple[str, ...] = ()
    """What is still there."""
    problem: str = ""
    """Why the host could not be healed."""


def heal(lab: HostsLab, host: Host) -> Healed:
    """Remove what acked has left in a host, whoever has made it, and look whether anything is left."""
    try:
        lab.reach(host)
        result = lab.execute(host.name, ("sh", "-c", _HEAL), timeout_s=60.0)
        lines = result.stdout.splitlines()
        resumed = lab.resume(host.name) if "lock" in lines else ()  # nobody else has paused a locked host
        stopped = lab.stopped(host.name)
    except AckedError as error:
        return Healed(host=host.name, problem=error.message)
    if result.status != 0:
        return Healed(host=host.name, problem=f"iptables-save failed there ({quoted(result.stderr, 120)}).")
    left = [line.removeprefix("left ") for line in lines if line.startswith("left ")]
    if stopped is not None:
        left.append(f"process {stopped} is stopped, perhaps by somebody else (SIGSTOP)")
    removed = [line for line in lines if line.startswith(("chain ", "queue ", "watchdog ", "lock"))]
    return Healed(
        host=host.name,
        removed=(*removed, *resumed),
        left=tuple(left),
    )


def prove_dead_man(lab: HostsLab, *, throttles: bool = False) -> Mapping[str, float]:
    """Load a rule without effect into each host, end that login, and wait until the rule is gone by itself.

    With ``throttles``, each interface also has a limit that no packet is assigned to. Returns the seconds
    that they lived, by host. Raises UnfitError if a host keeps something: nothing may be broken there.
    """
    chain = f"{CHAIN_PREFIX}canary-{secrets.token_hex(2)}"
    hosts = [host.name for host in lab.topology.hosts]
    rules = {host: (*spared(lab.topology, host), ChainRule(NOWHERE)) for host in hosts}
    canary = Ruleset(chain, f"acked canary {chain}", rules)
    apart = lab.apart()
    limit = Discipline(
        lab=apart, title="the canary", number=0, words=token_bucket(_CANARY_KBIT), ttl_s=CANARY_S
    )
    try:
        apart.up()
        for one in lab.topology.hosts if throttles else ():
            limit.add(one)
        Chains(apart, CANARY_S).load(canary)
        began = time.monotonic()
    finally:
        apart.down()
    limit.lab, chains, lived = lab, Chains(lab, CANARY_S), dict[str, float]()

    def all_gone() -> bool:
        for host, listing in chains.listings([one for one in hosts if one not in lived]).items():
            if chain not in listing and not limit.left(host):
                lived[host] = round(time.monotonic() - began, 1)
        return len(lived) == len(hosts)

    try:
        if chain not in "".join(chains.listings(hosts).values()):
            raise UnfitError(
                "The canary rule was gone at once: watchdogs do not wait; see `sleep` on the hosts."
            )
        wait_until(all_gone, within_s=CANARY_S + _LATE_S, poll_s=0.2, awaiting="the canary rule to vanish")
    except WaitTimeoutError:
        kept = [host for host in hosts if host not in lived]
        chains.remove_remains(canary, kept)
        for host in kept:
            limit.remove(host)
        raise UnfitError(
            f"A rule with a life of {CANARY_S:g} s did not vanish by itself on {', '.join(kept)}, so "
            "nothing may be "
            "broken there: processes of a login may be ended with it (KillUserProcesses). It was removed."
        ) from None
    return lived


@contextmanager
def locked(lab: HostsLab, ttl_s: float) -> Iterator[None]:
    """Meanwhile no other harness may break these hosts. The lock ends by itself after ``ttl_s``.

    Raises UsageError if another one has it.
    """
    holder = f"acked on {socket.gethostname()[:60]} pid {os.getpid()} {secrets.token_hex(3)}"
    watchdogs: dict[str, str] = {}
    undo = _REMOVE_LOCK
    try:
        for host in (one.name for one in lab.topology.hosts):  # in this order everywhere, so that one wins
            words = ("sh", "-c", _LOCK, "lock", LOCK, f"{ttl_s:g}", undo, holder)
            result = lab.execute(host, words)
            if result.status == _HELD and LOCK in result.stdout:
                raise UsageError(
                    f"{host} is in use by {quoted(_comment(result.stdout), 120)}; wait until that has "
                    f"ended, or, if it is dead, run `acked heal` with this file. The lock ends by itself."
                )
            if result.status != 0:
                raise LabError(f"{host} could not be locked (status {result.status}).", detail=result.stderr)
            watchdogs[host] = result.stdout.strip()
        yield
    finally:
        for host, watchdog in watchdogs.items():
            with suppress(AckedError):  # it ends by itself
                lab.execute(host, ("sh", "-c", _UNLOCK, "unlock", LOCK, watchdog))


def _comment(listing: str) -> str:
    _, _, text = listing.partition("--comment ")
    return text.splitlines()[0].strip('" ') if text else "another acked"
