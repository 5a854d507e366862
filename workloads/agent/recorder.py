"""What a client writes into the history: each producer first, each message before it leaves."""

from __future__ import annotations

import json
import threading
from typing import Any

from harness.clock import now_ns
from harness.errors import UsageError
from harness.history.journal import Journal
from workloads.protocol.spec import Writer


class Recorder:
    """One agent's writers and their sequence numbers on top of its journal. Thread-safe."""

    def __init__(self, journal: Journal, host: str, az: str) -> None:
        """Rows of writers name ``host`` and ``az``."""
        self.journal = journal
        self._host = host
        self._az = az
        self._lock = threading.Lock()
        self._writers: dict[int, Writer] = {}
        self._next_seq: dict[int, int] = {}

    def register(self, writer: Writer) -> bool:
        """Record ``writer`` unless it is known already; returns whether it is new.

        Raises UsageError when its number was used with other settings.
        """
        with self._lock:
            known = self._writers.get(writer.number)
            if known is not None:
                if known != writer:
                    raise UsageError(
                        f"Writer {writer.number} was used with other settings before ({known.name!r}, now "
                        f"{writer.name!r}); give every producer a number of its own."
                    )
                return False
            self._writers[writer.number] = writer
            self._next_seq[writer.number] = 0
        librdkafka = writer.via == "librdkafka"
        config: dict[str, Any] = (
            writer.settings()
            if librdkafka
            else {
                "broker": writer.brokers[0],
                "request.timeout.ms": int(writer.request_timeout_s * 1000),
                "produce_version": writer.produce_version,
            }
        )
        self.journal.write(
            "writers",
            writer=writer.number,
            name=writer.name,
            host=self._host,
            az=self._az,
            role=writer.role,
            client=writer.via,
            acks=int(config.get("acks", writer.acks)),
            idempotent=bool(config.get("enable.idempotence", False)),
            retries=int(config.get("retries", 0)),
            config=json.dumps(config),
        )
        return True

    def take_seqs(self, number: int, count: int) -> int:
        """Reserve ``count`` sequence numbers of a registered writer; returns the first."""
        with self._lock:
            first = self._next_seq[number]
            self._next_seq[number] = first + count
        return first

    def sent(
        self, number: int, topic: str, partition: int, *, label: str = "", txn: int | None = None
    ) -> tuple[int, int]:
        """Record one message that is about to leave; returns its sequence number and the time."""
        seq = self.take_seqs(number, 1)
        at = now_ns()
        self.journal.write(
            "sent",
            topic=topic,
            partition=partition,
            writer=number,
            seq=seq,
            sent_ns=at,
            label=label or None,
            txn=txn,
        )
        return seq, at

    def done(
        self,
        number: int,
        seq: int,
        done_ns: int,
        outcome: str,
        error: int,
        *,
        offset: int | None = None,
        attempts: int | None = None,
        broker: int | None = None,
    ) -> None:
        """Record what the client was told about one message."""
        self.journal.write(
            "done",
            writer=number,
            seq=seq,
            done_ns=done_ns,
            outcome=outcome,
            error=error,
            offset=offset,
            attempts=attempts,
            broker=broker,
        )
