"""Every codec by every writer on a real cluster: all messages are found on every replica and by consumers."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.kafka.batches import parse
from tests.cluster.codecs import CODECS, COUNT, SENT
from tests.cluster.conftest import acked

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SCENARIO = Path(__file__).with_name("codecs.py")


def codecs_in(file: Path) -> set[str]:
    """The codecs of a segment's batches, as their attributes state them."""
    data, position, codecs = file.read_bytes(), 0, set()
    for batch in parse(data).batches:
        codecs.add(("none", *CODECS)[struct.unpack_from(">h", data, position + 21)[0] & 7])
        position += batch.size_bytes
    return codecs


def test_every_codec_is_read(tmp_path: Path) -> None:
    done = acked("run", SCENARIO, "--runs", tmp_path, "--json")
    assert done.status == 0, done.stderr
    run = tmp_path / "codecs" / "latest"
    for broker in ("broker1", "broker2", "broker3"):
        data = run / "nodes" / broker / "data"
        for topic, expected in ((SENT, set(CODECS)), *((f"by-{codec}", {codec}) for codec in CODECS)):
            assert codecs_in(data / f"{topic}-0" / f"{0:020}.log") == expected, (broker, topic)
    fates = done.json()["fates_by_writer"]
    assert {row["writer_name"]: row["count"] for row in fates if row["fate"] == "kept"} == {
        **{f"java-{codec}": 3 for codec in CODECS},
        **{f"librdkafka-{codec}": COUNT for codec in CODECS},
        **{f"broker-{codec}": COUNT for codec in CODECS},
    }
    reads = pq.read_table(run / "history" / "reads.parquet").to_pylist()
    read = {
        (row["writer"], row["seq"]) for row in reads if row["topic"] == SENT and row["writer"] is not None
    }
    assert len(read) == len(CODECS) * (COUNT + 3)
    damaged = [row for row in pq.read_table(run / "history" / "replicas.parquet").to_pylist() if row["error"]]
    assert [(row["topic"], row["broker"], row["complete"]) for row in damaged] == [("by-zstd", 3, True)]
    assert "(zstd, " in damaged[0]["error"]
