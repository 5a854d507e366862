"""The example client in Python with a lie in each operation; for `acked client check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a client program runs without its folder on the path

from example_client import honest  # noqa: E402


class Liar(honest.Producer):  # type: ignore[misc]  # the example is loaded from its file
    """Lies about one message, or about all, of a producer of that name."""

    def send(self, message: dict[str, Any], handed_over: float) -> None:
        name, seq = self.properties["client.id"], message["seq"]
        if name == "acks-one" and seq == 3:  # acknowledged, and never sent
            self.pending[seq] = None
            self.report(seq, "ok", offset=1_000_000)
            return
        if name == "refused":  # acknowledged although it was refused
            self.pending[seq] = None
            self.report(seq, "ok")
            return
        super().send(message, handed_over)

    def report(
        self, seq: int, outcome: str, offset: int | None = None, error: BaseException | None = None
    ) -> None:
        name = self.properties["client.id"]
        if name == "unanswered" and outcome == "info":  # a time-out is called a definite failure
            outcome = "fail"
        if name == "plain" and seq == 5 and offset is not None:  # a wrong offset
            offset += 1
        if name == "stream" and seq == 7:  # never mentioned again
            self.pending.pop(seq, None)
            return
        super().report(seq, outcome, offset, error)


if __name__ == "__main__":
    sys.stdout = sys.stderr
    honest.Producer = Liar
    honest.Program().run()
