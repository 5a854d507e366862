"""A step of a schedule: one fault, what it acts on, when it begins, and when it ends.

A step begins some time after the beginning of the previous one, or on an event that is observed. A step that
lasts ends in the same way. A host is named by itself (`broker1`), by its AZ (`az1`), or by a role that is
looked up when the step begins (`leader`, `az-of-leader`).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from nemesis.catalogue import FAULTS

Event = Literal[
    "",
    "leader-elected",
    "no-leader",
    "isr-shrunk",
    "isr-full",
    "controller-elected",
    "acknowledged",
    "refused",
    "marker-written",
]
"""What may be observed; empty: nothing, only time counts.

| event | since the previous step began |
|---|---|
| `leader-elected` | a partition has another leader |
| `no-leader` | a partition has no leader (now) |
| `isr-shrunk` | the ISR of a partition has become smaller |
| `isr-full` | the ISRs of all partitions are complete (now) |
| `controller-elected` | another controller is active |
| `acknowledged` | a message of every producer that runs was acknowledged |
| `refused` | a message ended without an acknowledgement |
| `marker-written` | a replica has another transaction marker |
"""
EVENTS: tuple[str, ...] = get_args(Event)[1:]
Arrow = Literal["<->", "->", "<-"]
ROLES = (
    *("leader", "follower", "controller", "quorum-leader"),
    *("coordinator", "group-coordinator", "share-coordinator"),
)
"""Hosts that are looked up when a step begins: of the step's partition, or of the cluster. The coordinator is
that of all transactions; there is one if a producer is transactional. The group-coordinator is that of all
groups, and the share-coordinator that of the stored states of share groups, if there is one."""
AZ_OF = "az-of-"
OTHERS = "others"
"""Every host that the other side of a link does not name."""
OTHER_AZS = "other-azs"
"""Every host in an AZ in which the other side of a link has no host."""
OTHER_CONTROLLERS = "other-controllers"
"""Every member of the KRaft quorum that the other side of a link does not name."""
SIDES = (OTHERS, OTHER_AZS, OTHER_CONTROLLERS)
"""What the other side of a link may be besides hosts, AZs and roles."""

LONGEST_S = 600
"""The longest time of a moment."""
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]


class Moment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time, or an observed event; with an event, the time is the longest wait for it."""

    after_s: Seconds = 0.0
    """Seconds, at most 600."""
    event: Event = ""
    """What is observed, such as `leader-elected` (see `docs/search.md`); empty: nothing."""


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault or operator action."""

    fault: str
    """What it does, such as `cut` or `kill` (see `docs/search.md`)."""
    targets: tuple[str, ...] = ()
    """Hosts; of links, one side."""
    toward: tuple[str, ...] = ()
    """Of links: the other side."""
    arrow: Arrow = "<->"
    """Of links: `<->`, `->` or `<-`, from the targets to the other side."""
    partition: int = 0
    """The partition of the schedule that the step is about, counted through all topics."""
    value: float = 0.0
    """Of faults with a strength: percent, kbit/s or seconds."""
    when: Moment = Moment()
    """When it begins, counted from the beginning of the previous step."""
    until: Moment = Moment(after_s=5.0)
    """When it ends, counted from its own beginning; ignored for a step that acts once."""


_NAMES = {
    "leader": "the leader",
    "follower": "a follower",
    "controller": "the controller",
    "quorum-leader": "the leader of the metadata quorum",
    "coordinator": "the transaction coordinator",
    "group-coordinator": "the group coordinator",
    "share-coordinator": "the share coordinator",
    OTHERS: "all other hosts",
    OTHER_AZS: "all other AZs",
    OTHER_CONTROLLERS: "all other controllers",
}
_OBSERVED = {
    "leader-elected": "a partition has another leader",
    "no-leader": "a partition has no leader",
    "isr-shrunk": "an ISR has shrunk",
    "isr-full": "all ISRs are full",
    "controller-elected": "another controller is active",
    "acknowledged": "every producer got an acknowledgement",
    "refused": "a message was refused",
    "marker-written": "a transaction marker was written",
}
_BETWEEN = {
    "<->": "the links between {one} and {other}",
    "->": "the links from {one} to {other}",
    "<-": "the links from {other} to {one}",
}
_ACTIONS = {
    "cut": "cut {links}",
    "flap": "cut and restore {links} by turns, every {value:g} s",
    "loss": "drop {value:g} % of the packets on {links}",
    "throttle": "limit {hosts} to {value:g} kbit/s",
    "delay": "delay the packets of {hosts} by {value:g} ms",
    "kill": "kill {hosts}",
    "stop": "stop {hosts}",
    "pause": "pause {hosts}",
    "power_cut": "cut the power of {hosts}",
    "wipe": "kill {hosts} and erase partition {partition} there",
    "restart": "restart the brokers one after the other",
    "elect_preferred": "elect the preferred leader of partition {partition}",
    "elect_unclean": "elect a leader of partition {partition}, in sync or not",
    "reassign": "reassign partition {partition}",
    "configure": "change the configuration of the topic of partition {partition}",
    "move_controller": "elect another controller",
    "disk_full": "fill the disk of {hosts}",
    "disk_stalled": "stall the disk of {hosts}",
    "clock_shift": "shift the clock of {hosts} by {value:+g} s",
    "reassign_to_others": "take the last replica of partition {partition} from its broker",
    "move_replica": "move partition {partition} to another log directory of {hosts}",
    "remove_voter": "remove {hosts} from the voters of the metadata quorum",
    "disk_slow": "delay each operation on the disk of {hosts} by {value:g} ms",
}
"""By kind of fault; partitions count through all topics."""


def described(step: Step) -> str:
    """A step in words, such as `at once: cut the links from the controller to all other AZs, for 5 s`."""
    one, other = _named(step.targets), _named(step.toward)
    action = _ACTIONS[step.fault].format(
        links=_BETWEEN[step.arrow].format(one=one, other=other),
        hosts=one,
        partition=step.partition,
        value=step.value,
    )
    begins, ends = step.when, step.until
    if begins.event:
        start = f"when {_OBSERVED[begins.event]}, after {begins.after_s:g} s at the latest"
    else:
        start = f"after {begins.after_s:g} s" if begins.after_s else "at once"
    if not FAULTS[step.fault].lasts:
        return f"{start}: {action}"
    if ends.event:
        return f"{start}: {action}, until {_OBSERVED[ends.event]}, for {ends.after_s:g} s at most"
    return f"{start}: {action}, for {ends.after_s:g} s"


def _named(names: tuple[str, ...]) -> str:
    """Hosts, AZs and roles in words."""
    words = [
        f"the AZ of {_NAMES[name.removeprefix(AZ_OF)]}" if name.startswith(AZ_OF) else _NAMES.get(name, name)
        for name in names
    ]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def link_title(step: Step) -> str:
    """Both sides of a step's links: `leader <-> others`."""
    return f"{' + '.join(step.targets)} {step.arrow} {' + '.join(step.toward)}"
