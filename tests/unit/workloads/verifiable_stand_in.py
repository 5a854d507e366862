"""Stands in for the JVM: prints what VerifiableProducer 3.9.1 with `Feeder`, and VerifiableConsumer, print.

The label of a message decides its outcome. Started with the command line that the tools are started with.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

tool, *options = sys.argv[1:]
given = dict(zip(options[::2], options[1::2], strict=False))


def say(name: str, **fields: Any) -> None:
    print(json.dumps({"timestamp": 1795376241000, "name": name, **fields}), flush=True)


def failed(number: int, exception: str, text: str | None) -> None:
    said = {"exception": f"class {exception}", "message": text}
    say("producer_send_error", key=None, value=str(number), topic="unused", **said)


def produce() -> None:
    properties = Path(given["--producer.config"]).read_text()
    if "acks=2" in properties:
        sys.exit('Exception in thread "main" org.apache.kafka.common.config.ConfigException: Invalid value 2')
    print("Option --producer.config has been deprecated.", flush=True)
    say("startup_complete")
    errors = "org.apache.kafka.common.errors"
    looks = 0
    for number, line in enumerate(sys.stdin):
        topic, *words = line.split()
        if not words:
            looks += 1
            failed(number, "Feeder$Connected" if looks > 1 and topic == "t" else "Feeder$NotLed", None)
            continue
        label = base64.b64decode(words[1]).decode().split()[4]
        if label == "refused":
            failed(number, f"{errors}.NotEnoughReplicasException", "Messages are rejected")
        elif label == "expired":
            failed(number, f"{errors}.TimeoutException", "Expiring 1 record(s) for t-0:1501 ms has passed")
        elif label == "dies":
            sys.exit(7)
        elif label != "owed":
            place = {"topic": topic, "partition": int(words[0]), "offset": 40 + number}
            say("producer_send_success", key=None, value=str(number), **place)
    say("shutdown_complete")
    say("tool_data", sent=0, acked=0, target_throughput=-1, avg_throughput=0.0)


def consume() -> None:
    def leave(*_: object) -> None:
        say("partitions_revoked", partitions=[place])
        say("shutdown_complete")
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    place = {"topic": given["--topic"], "partition": 0}
    say("startup_complete")
    say("partitions_assigned", partitions=[place])
    for offset in (5, 6):
        say("record_data", key=None, value="é" if offset == 6 else None, **place, offset=offset)
    say("records_consumed", count=2, partitions=[{**place, "count": 2, "minOffset": 5, "maxOffset": 6}])
    say("offsets_committed", offsets=[{**place, "offset": 7}], success=True)
    say("offsets_committed", offsets=[{**place, "offset": 7}], success=False, error="too late")
    while True:
        time.sleep(60)


produce() if tool.endswith("VerifiableProducer") else consume()
