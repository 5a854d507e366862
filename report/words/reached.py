"""What a search reached (`studies.search.reached`), in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from report.words.lists import listed

_CHANGES = {
    "L": "another leader",
    "l": "a new epoch of the same leader",
    "0": "no leader",
    "-": "a smaller ISR",
    "+": "a larger ISR",
}
_ROLES = {"leader": "the leader", "follower": "a follower", "controller": "the controller"}
_WITHOUT_HOSTS = (
    *("elect_preferred", "elect_unclean", "reassign", "reassign_to_others", "configure", "move_controller"),
    *("delete_records", "delete_topic", "create_topic", "add_partitions", "alter_offsets"),
)
_UNKNOWN = "info"
"""The outcome of a send of which the client does not know whether it was written."""


def reached_in_words(name: str) -> str:
    """What was reached, from its name; a name of another version is shown as it is."""
    for pattern, words in _WORDS:
        match = re.fullmatch(pattern, name)
        if match:
            return words(match)
    return name


def _order(match: re.Match[str]) -> str:
    changes = [_CHANGES[sign] for sign in match[1]]
    return f"a partition with {', then '.join(changes)}" if changes else "a partition that never changed"


def _elections(match: re.Match[str]) -> str:
    return "a partition without an election" if match[1] == "0" else f"elections of a partition: {match[1]}"


def _isr(match: re.Match[str]) -> str:
    return f"an ISR of {match[1]} {'with' if match[2] == 'led' else 'without'} a leader"


def _fault(match: re.Match[str]) -> str:
    fault, roles = match[1].replace("_", " "), match[2].split()
    if roles == ["others"]:
        return fault if match[1] in _WITHOUT_HOSTS else f"{fault} of other hosts"
    if roles[0] == "all":
        return f"{fault} of all brokers" + (" and the controller" if "controller" in roles else "")
    return f"{fault} of {listed([_ROLES.get(role, role) for role in roles])}"


def _error(match: re.Match[str]) -> str:
    acks = "all" if match[3] == "-1" else match[3]
    outcome = "without a known outcome" if match[2] == _UNKNOWN else "refused"
    return f"a message {outcome} (error {match[1]}, acks={acks})"


def _transaction(match: re.Match[str]) -> str:
    return f"a transaction {match[1]}" + (f" with error {match[2]}" if match[2] != "0" else "")


def _share_answer(match: re.Match[str]) -> str:
    refused = "was carried out" if match[2] == "0" else f"ended with error {match[2]}"
    return f"a share group's `{match[1]}` that {refused}"


_WORDS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"order ([Ll0+-]*)", _order),
    (r"elections (.+)", _elections),
    (r"ISR of (\d+), (led|no leader)", _isr),
    (r"fault (\S+) hits (.+)", _fault),
    (r"error (-?\d+) \((\w+), acks (.+)\)", _error),
    (r"transaction (\w+), error (-?\d+)", _transaction),
    (r"share answer (\w+), error (-?\d+)", _share_answer),
    (r"share delivery (\d+)", lambda match: f"delivery {match[1]} of a record to a share group"),
    (r"fate unknown_(\w+)", lambda match: f"a message without a known outcome that was {match[1]}"),
    (r"fate (\w+)", lambda match: f"a message that was {match[1].replace('_', ' ')}"),
    (r"finding (\w+), (.*)", lambda match: f"finding {match[1].replace('_', ' ')} ({match[2]})"),
    (r"log (\w+) \((\w+)\)", lambda match: f"a {match[2]} that logged {match[1].replace('_', ' ')}"),
)
