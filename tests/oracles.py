"""An oracle: what is wrong with a history, by brute force in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = tuple[int, int]
"""writer, seq"""


def model_findings(
    sends: list[dict[str, Any]],
    logs: Mapping[tuple[int, int], list[dict[str, Any]]],
    reads: Sequence[Mapping[str, Any]] = (),
) -> set[tuple[str, int, int | None, int | None, int | None]]:
    """What is wrong, message by message and offset by offset, as plainly as Python allows.

    ``logs`` are the final logs by partition and broker. Brokers are in sync, and none is known to lead, so
    the reference is the log that reached furthest (epoch, offset, lowest number). Every read belongs to a
    separate reader. Returns class, partition, offset, writer, seq.
    """
    homes = {(row["writer"], row["seq"]): row["partition"] for row in sends}
    astray = {
        (record["writer"], record["seq"])
        for (partition, _), log in logs.items()
        for record in log
        if record["intact"] and homes.get((record["writer"], record["seq"]), partition) != partition
    }
    found = set()
    for partition in sorted({row["partition"] for row in sends} | {partition for partition, _ in logs}):
        found |= _ModelPartition(partition, sends, logs, reads, homes, astray).findings()
    return found


class _ModelPartition:
    """One partition of the model."""

    def __init__(
        self,
        number: int,
        sends: list[dict[str, Any]],
        logs: Mapping[tuple[int, int], list[dict[str, Any]]],
        reads: Sequence[Mapping[str, Any]],
        homes: Mapping[Message, int],
        astray: set[Message],
    ) -> None:
        self.number, self.homes, self.astray = number, homes, astray
        self.sends = {(s["writer"], s["seq"]): s for s in sends if s["partition"] == number}
        self.reads = [read for read in reads if read["partition"] == number]
        self.logs = {b: log for (p, b), log in sorted(logs.items()) if p == number and log}
        self.reference = max(
            self.logs,
            key=lambda b: (self.logs[b][-1]["epoch"], self.logs[b][-1]["offset"], -b),
            default=None,
        )
        self.order = sorted(self.logs, key=lambda b: (b != self.reference, b))
        self.owner: dict[int, Message | None] = {}
        self.owner = {o: self.claimant(o) for o in self.unreadable_offsets()}

    def message(self, record: Mapping[str, Any]) -> Message | None:
        """The message of a record, if it is one of this partition."""
        key = (record["writer"], record["seq"])
        if self.homes.get(key) == self.number:
            return key
        return None if record["intact"] else self.owner.get(record["offset"])

    def unreadable_offsets(self) -> set[int]:
        return {
            record["offset"]
            for log in self.logs.values()
            for record in log
            if not record["intact"] and self.message(record) is None
        }

    def claimant(self, offset: int) -> Message | None:
        """The message that an unreadable record at an offset belongs to."""
        for broker in self.order:
            for record in self.logs[broker]:
                if record["offset"] == offset and self.message(record) is not None:
                    return self.message(record)
        claims = []
        for key, send in self.sends.items():
            place = send["offset"]
            if place is None:
                place = max((r["offset"] for r in self.reads if (r["writer"], r["seq"]) == key), default=None)
            intact = any(r["intact"] and self.message(r) == key for log in self.logs.values() for r in log)
            if send["outcome"] != "fail" and place == offset and not intact:
                claims.append((send["seq"], key))  # messages are sent by rising number
        return max(claims)[1] if claims else None

    def held(self, key: Message, broker: int | None, *, intact: bool | None = None) -> list[int]:
        """Offsets at which a replica holds a message."""
        return [
            record["offset"]
            for record in self.logs.get(broker, ())  # type: ignore[call-overload]
            if self.message(record) == key and intact in (None, record["intact"])
        ]

    def fate(self, key: Message) -> tuple[str, int | None]:
        """The fate of a message, and where it was found."""
        send = self.sends[key]
        own = self.held(key, self.reference)
        everywhere = [o for broker in self.logs for o in self.held(key, broker)]
        good = any(self.held(key, broker, intact=True) for broker in self.logs)
        place = send["offset"] if send["offset"] in own else own[0] if own else None
        if send["outcome"] == "fail":
            return ("phantom", place if own else everywhere[0]) if everywhere else ("failed", None)
        if len(own) > 1:
            return "duplicated", place
        if everywhere and not good:
            return "corrupt", place
        if send["outcome"] != "ok":
            return ("unknown_kept" if own else "unknown_dropped"), place
        if own:
            return ("kept" if send["offset"] in (None, place) else "moved"), place
        if everywhere:
            return "diverged", everywhere[0]
        if key in self.astray:
            return "misrouted", None
        there = [r for r in self.logs.get(self.reference, ()) if r["offset"] == send["offset"]]  # type: ignore[call-overload]
        if there and there[0]["intact"] and (there[0]["writer"], there[0]["seq"]) not in self.homes:
            return "overwritten", None
        was_read = any((r["writer"], r["seq"]) == key for r in self.reads)
        return ("lost_after_read" if was_read else "lost"), None

    def findings(self) -> set[tuple[str, int, int | None, int | None, int | None]]:
        """Everything that is wrong with the partition."""
        found = set()
        fates = {key: self.fate(key) for key in self.sends}
        claimed: set[int | None] = set()
        explained: set[int] = set()
        for key, (fate, place) in fates.items():
            reported = self.sends[key]["offset"]
            if fate in (
                "lost",
                "lost_after_read",
                "duplicated",
                "moved",
                "overwritten",
                "corrupt",
                "phantom",
            ):
                found.add((fate, self.number, place if reported is None else reported, *key))
            if fate == "overwritten":
                claimed.add(reported)
            for broker in self.logs:
                if fate == "corrupt":
                    claimed |= set(self.held(key, broker, intact=False))
                if fate == "phantom":
                    explained |= set(self.held(key, broker))
        kept = [(key, place) for key, (fate, place) in fates.items() if fate == "kept"]
        kept = [(key, place) for key, place in kept if self.sends[key]["outcome"] == "ok"]
        for (writer, seq), place in kept:
            if any(w == writer and s > seq and o < place for (w, s), o in kept):  # type: ignore[operator]
                found.add(("out_of_order", self.number, place, writer, seq))
        odd = self.odd()
        found |= {(name, self.number, o, *key) for o, (name, key) in odd.items() if o not in claimed}
        found |= self.diverged({*odd, *claimed, *explained})
        return found | self.readings(fates)

    def odd(self) -> dict[int, tuple[str, Message]]:
        """By offset, the record that is damaged or no message of this partition; the reference's first."""
        found: dict[int, tuple[str, Message]] = {}
        for broker in self.order:
            for record in self.logs[broker]:
                key = (record["writer"], record["seq"])
                home = self.homes.get(key)
                if not record["intact"]:
                    found.setdefault(record["offset"], ("corrupt", key))
                elif home != self.number:
                    found.setdefault(record["offset"], ("foreign" if home is None else "misrouted", key))
        return found

    def diverged(self, told: set[int | None]) -> set[tuple[str, int, int | None, int | None, int | None]]:
        """Offsets at which a follower differs from the reference."""
        at = {record["offset"]: record for record in self.logs.get(self.reference, ())}  # type: ignore[call-overload]
        found: dict[int, Message] = {}
        beyond: list[tuple[int, int, Any]] = []
        for broker, log in self.logs.items():
            mine = {record["offset"]: record for record in log}
            outside = {"head": False, "tail": False}
            for offset in sorted({*at, *mine} - told):
                a, b = at.get(offset), mine.get(offset)
                if a is not None and b is not None:
                    wrong = None if all(a[k] == b[k] for k in ("writer", "seq", "epoch")) else b
                elif a is not None:
                    side = "head" if offset < min(mine) else "tail" if offset > max(mine) else None
                    wrong = a if side is None or not outside[side] else None
                    if side is not None:
                        outside[side] = True
                elif offset > max(at, default=-1):
                    wrong = None
                    beyond.append((offset, broker, b))
                else:
                    wrong = b
                if wrong is not None:
                    found.setdefault(offset, (wrong["writer"], wrong["seq"]))
        if beyond:  # the reference ends early: one finding, where it ends
            offset, _, record = min(beyond, key=lambda one: one[:2])
            found.setdefault(offset, (record["writer"], record["seq"]))
        return {("diverged", self.number, offset, *key) for offset, key in found.items()}

    def readings(
        self, fates: Mapping[Message, tuple[str, int | None]]
    ) -> set[tuple[str, int, int | None, int | None, int | None]]:
        """What is wrong with what readers received; the first read of a message counts."""
        found = set()
        aborted: set[Message] = set()
        for read in self.reads:
            key, offset = (read["writer"], read["seq"]), read["offset"]
            if key not in fates:
                there = [r for log in self.logs.values() for r in log if r["offset"] == offset]
                if not any((r["writer"], r["seq"]) == key or not r["intact"] for r in there):
                    found.add(("aborted_read", self.number, offset, *key))
                continue
            fate, place = fates[key]
            on_follower = any(self.held(key, broker, intact=True) for broker in self.logs)
            if fate == "failed" or (fate == "unknown_dropped" and not on_follower):
                if key not in aborted:
                    found.add(("aborted_read", self.number, offset, *key))
                aborted.add(key)
            settled = fate in ("kept", "unknown_kept", "duplicated", "moved", "phantom")
            own = self.held(key, self.reference)
            if settled and own and offset not in (place, self.sends[key]["offset"], *own):
                found.add(("offset_conflict", self.number, offset, *key))
        return found
