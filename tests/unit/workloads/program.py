"""A client program without Kafka: it acknowledges messages at once, or misbehaves as its argument says."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

mode = sys.argv[1] if len(sys.argv) > 1 else "good"


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def outcomes(request: dict[str, Any]) -> None:
    for message in request["messages"]:
        seq = message["seq"]
        outcome: dict[str, Any] = {
            "producer": request["producer"],
            "seq": seq,
            "outcome": "ok",
            "offset": seq,
        }
        if mode == "dies":
            sys.exit(7)
        if mode == "silent":
            continue
        if mode == "garbage":
            print("Exception in thread main", flush=True)
        elif mode == "unknown-message":
            outcome["seq"] = seq + 1000
        elif mode == "early":
            outcome["ns"] = 1
        elif mode == "undecided":
            del outcome["outcome"]
        elif mode == "expired":
            text = "Expiring 1 record(s) for t-0:2000 ms has passed since batch creation"
            del outcome["outcome"], outcome["offset"]
            outcome |= {"attempts": 0, "error": {"exception": "TimeoutException", "code": 7, "text": text}}
        elif mode == "deep":
            print(100_000 * "[", flush=True)
        elif mode == "endless":
            endless()
        elif mode == "huge-offset":
            outcome["offset"] = 10**30
        elif mode == "cut-short":
            print('{"outcome": {"produ', end="", flush=True)
            os._exit(9)
        elif mode == "unasked-answer":
            say({"id": 12345, "result": {}})
        say({"outcome": outcome})
        if mode == "twice":
            say({"outcome": outcome})


def endless() -> None:
    """Write without an end of line until the other side has had enough."""
    while True:
        sys.stdout.write(1_000_000 * "x")


def foreign(consumer: int) -> None:
    """One record, or one event of a group, of the topic that the last argument names."""
    kind, topic = sys.argv[2:]
    if kind == "records":
        say({"records": {"consumer": consumer, "records": [[topic, 0, 5, 1, "other"]]}})
    else:
        say({"group": {"consumer": consumer, "event": "assigned", "partitions": [[topic, 0, None]]}})


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if mode == "refuses" and request["op"] == "create_producer":
        return {"id": request["id"], "error": {"exception": "ConfigException", "text": "acks is bad"}}
    if mode == "fenced" and request["op"] == "commit_transaction":
        return {"id": request["id"], "error": {"exception": "ProducerFencedException", "code": 90}}
    if mode == "fenced" and request["op"] == "send_offsets" and request["offsets"] == [["t", 0, 6]]:
        return {"id": request["id"], "error": {"exception": "CommitFailedException", "code": 25}}
    if mode == "aborts" and request["op"] == "commit_transaction":
        return {"id": request["id"], "error": {"exception": "TimeoutException", "abortable": True}}
    return {"id": request["id"], "result": {}}


def main() -> None:
    if mode == "mute":
        time.sleep(3600)
    if mode == "dies-at-once":
        sys.exit("no such library")
    protocol = 2 if mode == "version-2" else 1
    hello: dict[str, Any] = {
        "protocol": protocol,
        "client": "none",
        "version": "1",
        "features": ["idempotence", "transactions", "groups"],
        "ns": time.monotonic_ns(),
    }
    say({"hello": hello})
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "send":
            outcomes(request)
        elif mode != "deaf":
            say(answer(request))
        if request["op"] == "create_consumer" and mode == "foreign":
            foreign(request["consumer"])
        elif request["op"] == "create_consumer":
            member = {"consumer": request["consumer"], "partitions": [["t", 0, None]]}
            say({"group": {**member, "event": "assigned", "generation": 3, "member_id": "m"}})
            say({"group": {**member, "event": "lost"}})
            say({"group": {**member, "event": "assigned"}})
            records = [["t", 0, 5, 1, "other"], ["t", 0, 6, None, None]]
            say({"records": {"consumer": request["consumer"], "records": records}})
        if request["op"] == "quit":
            return


main()
