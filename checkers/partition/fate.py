"""The fates of a message: one list, from which codes, SQL and documents come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MessageFate:
    """What became of a message.

    ``finding``: it is an anomaly. ``loss``: an acknowledged message is gone.
    """

    name: str
    meaning: str
    finding: bool = False
    loss: bool = False

    @property
    def of_message(self) -> bool:
        """Whether each such message is a finding of its own."""
        return self.finding and self.name not in ("misrouted", "undetermined")


FATES = (
    MessageFate("kept", "acknowledged, and in the final log at the offset that was acknowledged"),
    MessageFate("lost", "acknowledged, and on no replica of the final log", finding=True, loss=True),
    MessageFate(
        "lost_after_read",
        "acknowledged, received by a reader, and on no replica of the final log",
        finding=True,
        loss=True,
    ),
    MessageFate("duplicated", "at more than one offset of the final log", finding=True),
    MessageFate("moved", "acknowledged at one offset, found at another", finding=True),
    MessageFate(
        "overwritten",
        "acknowledged, gone, and a record that nobody sent is at its offset",
        finding=True,
        loss=True,
    ),
    MessageFate("diverged", "on a follower, but not in the leader's final log", finding=True, loss=True),
    MessageFate(
        "corrupt", "its bytes in the final log are damaged, and no replica has a good copy", finding=True
    ),
    MessageFate("misrouted", "found in another partition than the one it was sent to", finding=True),
    MessageFate("phantom", "reported as definitely failed, yet in the log of a replica", finding=True),
    MessageFate(
        "failed", "definitely failed, and absent; or of an aborted transaction, and no reader is to see it"
    ),
    MessageFate("unknown_kept", "outcome unknown; it is in the final log"),
    MessageFate("unknown_dropped", "outcome unknown; it is not in the final log"),
    MessageFate("retired", "absent where retention or compaction may have removed it"),
    MessageFate(
        "undetermined", "absent as far as was read, but the read did not reach the log's end", finding=True
    ),
)
"""Every message has exactly one fate; a fate's code is its place in this tuple."""

CODE = {fate.name: code for code, fate in enumerate(FATES)}
LOSSES = tuple(fate.name for fate in FATES if fate.loss)
LOST = tuple(name for name in LOSSES if name != "diverged")
"""Losses of messages that no replica holds."""
TRANSACTION_ENDS = ("committed", "aborted", "unknown")
"""What the application is told about the end of a transaction: values of `transactions.event`."""
BENIGN = tuple(fate.name for fate in FATES if not fate.finding)
