"""Records what coordinators state about share groups, when it changes."""

from __future__ import annotations

import json
from collections.abc import Callable

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import broker_name
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.share_groups import ShareGroup, share_groups


class ShareGroupPoller:
    """Asks one broker about the share groups of the run, and writes rows of `share_groups`."""

    def __init__(
        self, broker: int, connection: Connection, groups: Callable[[], tuple[str, ...]], journal: Journal
    ) -> None:
        """``broker`` is a node id; ``groups`` returns the names of the groups that have had members."""
        self.name = f"{broker_name(broker)}'s share groups"
        self.period_s = 0.5
        self._broker, self._connection = broker, connection
        self._groups, self._journal = groups, journal
        self._stated: dict[str, ShareGroup] = {}

    def poll(self) -> None:
        """Ask once. A broker that does not coordinate a group has nothing to say of it."""
        names = self._groups()
        if not names:
            return
        asked_ns = now_ns()
        try:
            answers = share_groups(self._connection, names)
        except OSError:
            return
        for name, group in answers.items():
            if self._stated.get(name) == group:
                continue
            if not group.error:
                self._journal.write("share_groups", **_row(self._broker, name, group, asked_ns))
            self._stated[name] = group

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _row(broker: int, name: str, group: ShareGroup, asked_ns: int) -> dict[str, object]:
    assigned = {member: [str(part) for part in parts] for member, parts in sorted(group.assigned.items())}
    return {
        "ns": now_ns(),
        "group": name,
        "broker": broker,
        "state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assigned": json.dumps(assigned, separators=(",", ":")),
        "asked_ns": asked_ns,
    }
