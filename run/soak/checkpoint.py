"""What a rolling judgement knows and cannot read again, as a file: `soak.npz` in the run folder.

Records are deleted once they are judged, so what was found in them is written first. All else is read again
from the journals of the streams and the files of the brokers. The file holds arrays alone, and text in JSON.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.partition.ledger import MARKER, PART, Ledger
from checkers.partition.logs import CopyArrays
from checkers.partition.rolling import RollingPartition, State, Window
from harness.errors import BadDataError
from harness.kafka.model import TopicPartition
from harness.plain_files import require_file, write_plain

FILE = "soak.npz"
_LOG = ("offset", "epoch", "writer", "seq", "intact", "at_home", "control", "batch_crc")


def save(folder: Path, parts: Mapping[TopicPartition, RollingPartition], taken: Mapping[int, int]) -> None:
    """Write the state of all partitions, atomically."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    about: list[dict[str, Any]] = []
    for number, (key, rolling) in enumerate(parts.items()):
        state = rolling.state()
        about.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "frozen": state.frozen,
                "absent": [[*pair, count] for pair, count in state.absent.items()],
                "windows": [
                    _window(window, f"{number}.{place}", arrays) for place, window in enumerate(state.windows)
                ],
            }
        )
        for name in ("named", "rest", "waiting"):
            arrays[f"{number}.{name}"] = getattr(state, name)
    text = json.dumps({"parts": about, "taken": sorted(taken.items())})
    arrays["about"] = np.frombuffer(text.encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    write_plain(folder / FILE, file.getvalue())


def _window(window: Window, name: str, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    for broker, log in window.records.items():
        for column in _LOG:
            arrays[f"{name}.{broker}.{column}"] = np.asarray(getattr(log, column))
    arrays[f"{name}.starts"], arrays[f"{name}.epochs"] = window.epochs
    ledger = window.ledger
    arrays[f"{name}.parts"], arrays[f"{name}.markers"], arrays[f"{name}.open"] = (
        ledger.parts, ledger.markers, ledger.open,
    )  # fmt: skip
    return {
        **{"low": window.low, "high": window.high, "broker": window.broker},
        **{"digest": window.digest, "size_bytes": window.size_bytes, "equal": sorted(window.equal)},
        "records": sorted(window.records),
        "settled": sorted(window.settled.items()),
        "spans": [[writer, *span] for writer, span in window.spans.items()],
        "highest": sorted(window.highest.items()),
        "producers": [[producer, epochs] for producer, epochs in sorted(ledger.epochs.items())],
    }


def load(folder: Path) -> tuple[dict[TopicPartition, State], dict[int, int]] | None:
    """The state that was written last, and what had been taken; None: there is none. Raises BadDataError."""
    file = folder / FILE
    if not file.exists():
        return None
    require_file(file)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            states = {
                TopicPartition(str(part["topic"]), int(part["partition"])): State(
                    windows=[
                        _read_window(one, f"{number}.{place}", arrays)
                        for place, one in enumerate(part["windows"])
                    ],
                    frozen=int(part["frozen"]),
                    absent=Counter({(int(w), int(o)): int(count) for w, o, count in part["absent"]}),
                    named=arrays[f"{number}.named"].astype(np.int64),
                    rest=arrays[f"{number}.rest"].astype(np.int64),
                    waiting=arrays[f"{number}.waiting"].astype(np.int64),
                )
                for number, part in enumerate(about["parts"])
            }
            return states, {int(writer): int(count) for writer, count in about["taken"]}
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise BadDataError(
            f"{file} is damaged ({type(error).__name__}); what was judged of deleted records is lost with it."
        ) from error


def _read_window(one: Mapping[str, Any], name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Window:
    return Window(
        low=int(one["low"]),
        high=int(one["high"]),
        broker=int(one["broker"]),
        digest=int(one["digest"]),
        size_bytes=int(one["size_bytes"]),
        equal={int(broker) for broker in one["equal"]},
        records={
            int(broker): CopyArrays(**{column: arrays[f"{name}.{broker}.{column}"] for column in _LOG})
            for broker in one["records"]
        },
        epochs=(arrays[f"{name}.starts"], arrays[f"{name}.epochs"]),
        settled=Counter({int(writer): int(count) for writer, count in one["settled"]}),
        spans={int(writer): (int(low), int(high)) for writer, low, high in one["spans"]},
        highest={int(writer): int(seq) for writer, seq in one["highest"]},
        ledger=Ledger(
            parts=arrays[f"{name}.parts"].astype(PART),
            markers=arrays[f"{name}.markers"].astype(MARKER),
            open=arrays[f"{name}.open"].astype(PART),
            epochs={
                int(producer): tuple((int(epoch), int(offset)) for epoch, offset in epochs)
                for producer, epochs in one["producers"]
            },
        ),
    )
