"""What a fault did, as a clause, from its mechanism and what it was asked to hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from harness.history.mechanisms import MECHANISMS
from report.words.lists import listed

Details = Mapping[str, Any]
"""The `targets` of a fault; another program may have written values of any types under the same keys."""


def clause(mechanism: str, details: Details) -> str:
    """What a fault did; empty for one that has no words, which reports quote by its name.

    `hosts`, `partitions` and `links` of ``details`` are sequences of texts.
    """
    mechanism_words = MECHANISMS.get(mechanism)
    if mechanism_words is not None and mechanism_words.clause and details.get("hosts"):
        names = sorted(details["hosts"], key=_by_number)
        words, several = mechanism_words.clause, len(names) > 1
        if several and words.startswith("{hosts} was "):
            words = words.replace("{hosts} was ", "{hosts} were ")
        return words.format(hosts=listed(names), partitions=listed(details.get("partitions") or ()))
    say = _CLAUSES.get(mechanism)
    return "" if say is None else say(details)


def _cut(details: Details) -> str:
    if "isolated" in details:
        return f"{details['isolated']} was cut off from everything else"
    if "without_zookeeper" in details:
        return f"{details['without_zookeeper']} could not reach ZooKeeper"
    ends = _plain_ends(details)
    if not ends:
        return ""
    first = ends[0]
    if len(ends) == 1 and not first["both"]:
        return f"Nothing that {first['from']} sent to {first['to']} arrived"
    if all(end["both"] and end["from"] == first["from"] for end in ends):
        return f"{first['from']} was cut off from {listed([end['to'] for end in ends])}"
    return ""


def _flap(details: Details) -> str:
    ends = _plain_ends(details)
    if len(ends) != 1 or not ends[0]["both"]:
        return ""
    return f"{ends[0]['from']} and {ends[0]['to']} lost and regained each other many times"


def _loss(details: Details) -> str:
    ends = _plain_ends(details)
    if len(ends) != 1 or ends[0]["both"]:
        return ""
    percent = details.get("percent")
    if not isinstance(percent, int | float):
        return ""
    return f"{percent:g} % of what {ends[0]['from']} sent to {ends[0]['to']} was lost"


def _damage(details: Details) -> str:
    if not (details["partitions"] and details["hosts"]):
        return ""
    return (
        f"The record at offset {details.get('offset')} of {listed(details['partitions'])} was damaged on "
        f"{listed(details['hosts'])}"
    )


def _hold(details: Details) -> str:
    links = details.get("links") or []
    if "request" in details or len(links) != 1:
        return ""
    source, _, destination = links[0].partition(" -> ")
    return f"What {source} sent to {destination} was held back"


def _plain_ends(details: Details) -> Sequence[Details]:
    """The ends of the links that were asked for; none if a service of a host is among them."""
    ends = details.get("ends")
    if not isinstance(ends, list) or not all(map(_is_end, ends)):
        return ()
    return () if any(":" in end["to"] for end in ends) else ends


def _is_end(value: object) -> bool:
    return (
        isinstance(value, dict)
        and "both" in value
        and isinstance(value.get("from"), str)
        and isinstance(value.get("to"), str)
    )


_CLAUSES: Mapping[str, Callable[[Details], str]] = {
    "cut": _cut,
    "flap": _flap,
    "loss": _loss,
    "damage": _damage,
    "hold": _hold,
}


def _by_number(name: str) -> tuple[str, int, str]:
    """Sorts broker2 before broker10."""
    stem = name.rstrip("0123456789")
    return stem, len(name), name


def is_state(value: object) -> TypeGuard[Details]:
    """Whether it is a partition's state as an operator's action observes it."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("leader"), int)
        and isinstance(value.get("isr"), list)
        and "leader_epoch" in value
    )


def state_in_words(state: Details) -> str:
    """A partition's state in words: `leader broker1, epoch 3, ISR 2, 1`."""
    leader = "no leader" if state["leader"] < 0 else f"leader broker{state['leader']}"
    isr = ", ".join(map(str, state["isr"])) or "empty"
    return f"{leader}, epoch {state['leader_epoch']}, ISR {isr}"
