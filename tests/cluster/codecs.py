"""Every codec by every writer: librdkafka, the Java client, and brokers that recompress.

A scenario of its own: `acked run tests/cluster/codecs.py`.
"""

from acked import Claim, Expected, Scenario, Setup, Stage, StreamLoad, Topic, wait_until
from acked.claims import messages
from acked.steps import settle

CODECS = ("gzip", "snappy", "lz4", "zstd")
SENT = "from-clients"
COUNT = 200
LOAD = {"rate": 400.0, "size_bytes": 2000, "max_count": COUNT}


def body(stage: Stage) -> None:
    """Clients write with each codec; brokers compress uncompressed batches; one byte is flipped."""
    streams = []
    for codec in CODECS:
        compressed = {"compression.type": codec, "linger.ms": 100}
        load = StreamLoad(topic=SENT, **LOAD)
        streams.append(stage.start_stream("az1", f"librdkafka-{codec}", load, compressed))
        plain = {"compression.type": "none", "linger.ms": 100}
        streams.append(
            stage.start_stream("az2", f"broker-{codec}", StreamLoad(topic=f"by-{codec}", **LOAD), plain)
        )
        java = stage.producer("az3", f"java-{codec}", via="java", config={"compression.type": codec})
        for number in range(3):
            java.must_send(SENT, f"{number}-" + "x" * 300)
    for stream in streams:
        wait_until(
            stream.counts, within_s=30, awaiting="a stream's end", accept=lambda counts: not counts.running
        )
    stage.stop_streams()
    settle(stage)
    stage.nemesis.storage.corrupt("broker3", "by-zstd", offset=0)
    stage.mark("altered", "one byte of a compressed batch on broker3 is not what was written")


SCENARIO = Scenario(
    name="codecs",
    title="Every codec by every writer",
    body=body,
    setup=Setup(
        topics=(
            Topic(SENT, (1, 2, 3)),
            *(Topic(f"by-{codec}", (2, 3, 1), config={"compression.type": codec}) for codec in CODECS),
        ),
        stream_rate=0.0,
    ),
    claims=(
        Claim(
            name="all-kept",
            says="Every message is found on every replica, whichever client or broker compressed its batch.",
            holds=messages(topic=SENT).held_by(1, 2, 3),
        ),
    ),
    expected=(Expected("corrupt", "topic = 'by-zstd'", "the byte that the scenario altered"),),
    faults=("corrupt one byte",),
    outcome="every message is kept, whichever client or broker compressed it",
)
