"""What each sentence of `checkers.claims.builders` says about a small history: true, false, or not known.

True sentences are evaluated again as if the observer had stopped before their moment: then no sentence may be
true that needs an observation. `test_catalogue_sql` tries the catalogue's own claims on empty histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from checkers.claims.builders import (
    FRESH_S,
    answers_until_silent,
    both,
    broker,
    controller_changes,
    controller_epoch_rises,
    controller_is,
    controller_stays,
    does_not_answer,
    isrs_are_full,
    messages,
    messages_where,
    opposite,
    partition,
    quorum_controller,
    quorum_elects,
    quorum_leaders_are,
    topic_is_set,
)
from checkers.claims.builders.sql import in_time
from checkers.claims.evaluate import ask
from checkers.claims.moments import Moments, resolve
from checkers.spark.session import settings_for_small_data
from checkers.tables.output import LIFE, ddl
from harness.history.schema import TABLES, VIEWS
from tests.runs.stored import database

pytestmark = pytest.mark.spark

S = 10**9
MARKS = {"start": 10 * S, "cut": 20 * S, "middle": 30 * S, "end": 40 * S}
WATCHED = Moments(
    marks=MARKS,
    heard={
        **dict.fromkeys(("store", "broker1", "broker2", "controller1", "controller2", "controller4"), 50 * S),
        "broker3": 18 * S,
    },
    tailed={"broker1": 50 * S, "broker2": 50 * S},
    logs={
        **dict.fromkeys(("broker1", "broker2", "controller1", "controller2"), 50 * S),
        "broker3": 18 * S,
    },
    final={"t": 60 * S, "u": 60 * S, "*": 60 * S},
)
BLIND = Moments(
    marks=MARKS,
    heard=dict.fromkeys(
        ("store", *(f"{kind}{n}" for kind in ("broker", "controller") for n in (1, 2, 3, 4))), 15 * S
    ),
    tailed={"broker1": 15 * S, "broker2": 15 * S},
    logs={"broker1": 15 * S, "controller2": 15 * S},
)
"""The observer was deaf from second 15 on."""


def _said(
    at_s: float, source: str, topic: str, leader: int, epoch: int, isr: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "ns": int(at_s * S),
        "source": source,
        "subject": "partition",
        "topic": topic,
        "partition": 0,
        "leader": leader,
        "epoch": epoch,
        "isr": list(isr),
        "replicas": list(isr) if topic in ("late", "orphan") else [1, 2, 3],
    }


def _controller(
    at_s: float, controller: int, epoch: int | None, source: str = "zookeeper2"
) -> dict[str, Any]:
    return {
        "ns": int(at_s * S),
        "source": source,
        "subject": "controller",
        "controller": controller,
        "epoch": epoch,
    }


ROWS: dict[str, list[dict[str, Any]]] = {
    "configs": [
        {"scope": "topic", "name": "t", "key": "min.insync.replicas", "value": "2"},
        *(
            {"scope": "broker", "name": name, "key": "inter.broker.protocol.version", "value": value}
            for name, value in (("broker1", "2.6-IV0"), ("broker2", "2.7"), ("broker3", "3.10-IV1"))
        ),
    ],
    "views": [
        _said(1, "zookeeper2", "t", 1, 0, (1, 2, 3)),
        _said(25, "zookeeper2", "t", 2, 1, (2, 3)),
        _said(35, "zookeeper2", "t", 2, 1, (1, 2, 3)),
        _said(1, "zookeeper2", "calm", 1, 0, (1, 2, 3)),
        _said(1, "zookeeper2", "shaken", 1, 0, (1, 2, 3)),
        _said(25, "zookeeper2", "shaken", 2, 1, (1, 2, 3)),
        _said(28, "zookeeper2", "shaken", 1, 0, (1, 2, 3)),
        _said(26, "zookeeper2", "late", 3, 0, (3,)),
        _said(1, "zookeeper2", "orphan", 1, 0, (1,)),
        _said(24, "zookeeper2", "orphan", -1, 1, (1,)),
        _said(1, "broker1", "t", 1, 0, (1, 2, 3)),
        _said(1, "broker3", "t", 1, 0, (1, 2, 3)),
        _said(1, "broker2", "t", 1, 0, (1, 2, 3)),
        {"ns": 22 * S, "source": "broker2", "subject": "reachable", "error": "timed out"},
        {"ns": 35 * S, "source": "broker2", "subject": "reachable"},
        {"ns": int(21.5 * S), "source": "zookeeper3", "subject": "reachable"},
        {"ns": int(21.8 * S), "source": "zookeeper3", "subject": "reachable", "error": "no session"},
        {"ns": 45 * S, "source": "zookeeper3", "subject": "reachable"},
        {"ns": 1 * S, "source": "zookeeper2", "subject": "brokers", "brokers": [1, 2, 3]},
        {"ns": 25 * S, "source": "zookeeper2", "subject": "brokers", "brokers": [1, 2]},
        {"ns": 26 * S, "source": "broker3", "subject": "brokers", "brokers": [1, 2, 3]},
        _controller(1, 2, 1),
        _controller(22, -1, 1),
        _controller(23, 3, 2),
        _controller(24, 2, 3),
        _controller(1, 2, None, "broker1"),
        *(_controller(5, node, None, f"controller{n}") for n, node in ((1, 11), (2, 12), (3, 12))),
        {"ns": 22 * S, "source": "controller1", "subject": "reachable", "error": "timed out"},
        *(_controller(at, -1, epoch, "controller4") for at, epoch in ((1, 7), (25, 9))),
    ],
    "machine": [{"ns": at * S, "busy": 99 if 31 <= at <= 34 else 20} for at in range(1, 50)],
    "log_events": [
        {"ns": 33 * S, "host": "broker1", "kind": "truncated", "topic": "t", "partition": 0, "offset": 2},
        {"ns": 34 * S, "host": "broker1", "kind": "truncated", "topic": "t", "partition": 0, "offset": 9},
        {"ns": 33 * S, "host": "broker1", "kind": "truncated", "topic": "u", "partition": 0, "offset": 1},
        {"ns": 34 * S, "host": "broker1", "kind": "truncated", "topic": "u", "partition": 0, "offset": 2},
        {"ns": 27 * S, "host": "broker1", "kind": "isr_shrinking", "topic": "t", "partition": 0},
        {"ns": 3 * S, "host": "broker3", "kind": "became_leader", "topic": "t", "partition": 0},
        {"ns": 26 * S, "host": "broker1", "kind": "became_leader", "topic": "t", "partition": 0}
        | {"epoch": 1, "offset": 4, "text": "Leader t-0 starts from offset 4 with high watermark 3 ISR [1]."},
        {"ns": 27 * S, "host": "controller2", "kind": "resigned"},
    ],
    "replicas": [
        {"topic": topic, "partition": 0, "broker": 1, "complete": True, "epochs": epochs}
        for topic, epochs in (("t", [(0, 1), (1, 2), (2, 3)]), ("u", [(0, 0)]))
    ],
    "reads": [
        {"topic": "t", "partition": 0, "reader": 1, "ns": 28 * S, "offset": n, "writer": 1, "seq": n}
        for n in (0, 1)
    ]
    + [{"topic": "t", "partition": 0, "reader": 2, "ns": 29 * S, "offset": 0, "writer": 1, "seq": 0}]
    + [
        {
            "topic": topic,
            "partition": 0,
            "reader": reader,
            "ns": at * S,
            "offset": 0,
            "writer": 7,
            "seq": reader,
        }
        for topic, reader, at in (("waited", 3, 10), ("waited", 3, 50), ("gone", 4, 10), ("young", 5, 50))
    ],
    "groups": [
        {"ns": at * S, "group": "g", "reader": 6, "event": event, "topic": "stalled", "partition": 0}
        for event, at in (("lost", 10), ("assigned", 50))
    ],
    "sightings": [
        {"topic": "t", "partition": 0, "broker": b, "offset": o, "seen_ns": at * S, "writer": 1, "seq": seq}
        for b, o, at, seq in ((1, 0, 5, 0), (1, 1, 6, 1), (1, 2, 26, 2), (1, 3, 27, 2), (2, 2, 45, 2))
    ]
    + [
        {"topic": "t", "partition": 0, "broker": 1, "offset": 4, "seen_ns": 27 * S, "writer": 1, "seq": 4}
        | {"gone_ns": 33 * S}
    ],
    "copies": [
        {"topic": "t", "partition": 0, "broker": b, "offset": o, "writer": 1, "seq": seq}
        for b, o, seq in ((1, 0, 0), (2, 0, 0), (1, 1, 1), (2, 1, 3), (1, 2, 2), (1, 3, 2))
    ]
    + [
        {"topic": "equal", "partition": 0, "broker": b, "offset": n, "writer": 2, "seq": n}
        for b in (1, 2)
        for n in (0, 1)
    ]
    + [
        {"topic": "t", "partition": 0, "broker": 1, "offset": offset, "epoch": epoch}
        for offset, epoch in ((1, 0), (2, 1), (3, 2))
    ],
}


def _message(
    seq: int,
    sent_s: float,
    outcome: str,
    fate: str,
    *,
    error: int = 0,
    name: str = "w",
    took_s: float = 0.1,
    topic: str = "t",
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "writer": 1,
        "seq": seq,
        "writer_name": name,
        "label": f"m{seq}",
        "acks": 1,
        "sent_ns": int(sent_s * S),
        "done_ns": int((sent_s + took_s) * S),
        "outcome": outcome,
        "error": error,
        "fate": fate,
    }


MESSAGES = [
    _message(0, 5, "ok", "kept"),
    _message(1, 6, "ok", "kept"),
    _message(2, 25, "info", "unknown_kept", error=7, name="refused"),
    _message(4, 26, "ok", "lost", name="zombie"),
    _message(5, 27, "ok", "lost_after_read", name="zombie"),
    _message(6, 28, "ok", "kept", name="safe"),
    _message(7, 28, "fail", "failed", error=6, name="failing"),
    _message(8, 28, "info", "unknown_dropped", error=-192, name="silent"),
    _message(9, 29, "ok", "undetermined", name="unread"),
    _message(10, 7, "ok", "kept", name="slow", took_s=0.2),
    _message(11, 8, "ok", "kept", name="slow", took_s=0.3),
    *(
        _message(seq, 21, "ok", "kept", name=topic, topic=topic)
        for seq, topic in enumerate(("waited", "gone", "young", "stalled"), 12)
    ),
    {**_message(16, 6, "ok", "kept", name="undone"), "txn": 0, "state": "aborted"},
    {**_message(17, 6, "ok", "kept", name="done"), "txn": 1, "state": "readable"},
]


@dataclass(frozen=True)
class Case:
    """A sentence, what it is on the history, and whether it is still that to a deaf observer."""

    name: str
    sentence: str
    holds: bool | None
    blind: bool | None = None


T, CALM, SHAKEN, LATE, ORPHAN = map(partition, ("t", "calm", "shaken", "late", "orphan"))
ZOMBIE, SAFE = messages("zombie"), messages("safe")
_STARTS = partial(broker(1).starts, "leader", T, epoch=1, after="cut")
CASES = (
    Case("leads", T.is_led_by(2, isr=(3, 2), epoch=1, at="middle"), True),
    Case("leads no more", T.is_led_by(1, at="middle"), False),
    Case("leads, but another ISR", T.is_led_by(2, isr=(2,), at="middle"), False),
    Case("one of two leads", T.is_led_by((2, 3), at="middle"), True),
    Case("an unknown topic", partition("x").is_led_by(1, at="middle"), None),
    Case("no mark", T.is_led_by(2, at="nowhere"), None),
    Case("no leader", ORPHAN.has_no_leader(isr=(1,), at="middle"), True),
    Case("a leader", T.has_no_leader(at="middle"), False),
    Case("ISR", T.has_isr(2, 3, at="middle"), True),
    Case("another ISR", T.has_isr(1, 2, 3, at="middle"), False),
    Case("out of the ISR", T.has_out_of_isr(1, at="middle"), True),
    Case("in the ISR", T.has_out_of_isr(1, at="end"), False),
    Case("epoch", T.has_epoch(1, at="middle"), True),
    Case("stays", CALM.stays(since="start", until="end"), True),
    Case("stays in these columns", T.stays(since="middle", until="end", what="leader, epoch"), True),
    Case("does not stay", T.stays(since="middle", until="end"), False),
    Case("goes and comes back", SHAKEN.stays(since="start", until="end", what="leader"), False),
    Case("stays, unknown before", LATE.stays(since="start", until="end"), None),
    Case("epoch rises", T.epoch_rises(by=1, since="start", until="middle"), True),
    Case("epoch does not rise", CALM.epoch_rises(by=1, since="start", until="middle"), False),
    Case("epoch rises by any number", T.epoch_rises(since="start", until="middle"), True),
    Case("epoch rises by another number", T.epoch_rises(by=2, since="start", until="middle"), False),
    Case("becomes in time", T.becomes(leader=2, after="cut", within_s=6), True, True),
    Case("becomes too late", T.becomes(leader=2, after="cut", within_s=4), False),
    Case("never becomes", CALM.becomes(leader=2, after="cut", within_s=6), False),
    Case("ISR in time", T.becomes(isr=(1, 2, 3), after="middle", within_s=6), True, True),
    Case("ISR too late on a busy machine", T.becomes(isr=(1, 2, 3), after="middle", within_s=4), None),
    Case("no such leader on a busy machine", T.becomes(leader=1, after="middle", within_s=4), None),
    Case("no such leader", T.becomes(leader=1, after="middle", within_s=8), False),
    Case("between two limits", T.becomes(leader=2, after="cut", within_s=6, not_within_s=4), True, True),
    Case("not before a limit", T.becomes(leader=2, after="cut", not_within_s=4), True, True),
    Case("before a limit", T.becomes(leader=2, after="cut", not_within_s=6), False),
    Case("never, with one limit", T.becomes(leader=3, after="cut", not_within_s=6), None),
    Case("exists", LATE.exists(at="middle"), True, True),
    Case("does not exist yet", LATE.exists(at="cut"), False),
    Case("read", T.consumers_read(3, until="middle"), True, True),
    Case("read another number", T.consumers_read(2, until="middle"), False),
    Case("nothing above", T.consumers_see_nothing_from(2, until="middle"), True, True),
    Case("something above", T.consumers_see_nothing_from(1, until="middle"), False),
    Case("nothing above, as nothing was there", T.consumers_see_nothing_from(2, until="cut"), None),
    Case("replicas agree", T.replicas_agree(at_offset=0), True),
    Case("replicas do not agree", T.replicas_agree(at_offset=1), False),
    Case("one replica agrees with nobody", T.replicas_agree(at_offset=2), None),
    Case("replicas differ", T.replicas_differ(at_offset=1), True),
    Case("logs agree", partition("equal").logs_agree(replicas=2, at_least=2), True),
    Case("logs do not agree", T.logs_agree(replicas=2, at_least=1), False),
    Case("logs of fewer replicas", partition("equal").logs_agree(replicas=3, at_least=1), None),
    Case("logs of fewer messages", partition("equal").logs_agree(replicas=2, at_least=3), None),
    Case("full ISRs", isrs_are_full(at="cut"), True),
    Case("an incomplete ISR", isrs_are_full(at="middle"), False),
    Case("full ISRs at a mark that need not be set", isrs_are_full(at="cut", if_set=True), True),
    Case("full ISRs at a mark that is not set", isrs_are_full(at="nowhere", if_set=True), False),
    Case("two quorum leaders", quorum_leaders_are(2, at="middle"), True),
    Case("one quorum leader", quorum_leaders_are(1, at="middle"), False),
    Case("held by", messages("w").held_by(1, 2, at_least=2), False),
    Case("held by both", messages(label="m0").held_by(1, 2), True),
    Case("held by one of them", messages(label="m2").held_by(1), True),
    Case("held by another too", messages(label="m0").held_by(1), False),
    Case("held by none", messages(label="m4").held_by(), True),
    Case("too few to be held", messages(label="m0").held_by(1, 2, at_least=2), None),
    Case("topic is set", topic_is_set("t", "min.insync.replicas", "2"), True, True),
    Case("topic is set otherwise", topic_is_set("t", "min.insync.replicas", "1"), False),
    Case("believes", broker(1).believes(T, leader=1, isr=(1, 2, 3), epoch=0, at="end"), True),
    Case("believes something else", broker(1).believes(T, leader=2, at="end"), False),
    Case("silent since before the cut", broker(3).believes(T, leader=1, at="middle"), None),
    Case("heard at the cut", broker(3).believes(T, leader=1, at="start"), True, True),
    Case("does not answer", broker(2).believes(T, leader=1, at="middle"), None),
    Case("answers again", broker(2).believes(T, leader=1, at="end"), True),
    Case("names the controller", broker(1).names_controller(2, at="end"), True),
    Case("names another", broker(1).names_controller(3, at="end"), False),
    Case("knows", broker(1).knows("t", at="end"), True),
    Case("does not know", broker(1).knows("late", at="end"), False),
    Case("does not answer the observer", does_not_answer("broker2", at="middle"), True, True),
    Case("answers the observer", does_not_answer("broker2", at="end"), False),
    Case("answered until silent", answers_until_silent("zookeeper3", after="cut", at_least_s=1), True, True),
    Case("answered less long", answers_until_silent("zookeeper3", after="cut", at_least_s=2), False),
    Case("silent at once", answers_until_silent("broker2", after="cut", at_least_s=0), False),
    Case("not yet silent", answers_until_silent("broker1", after="cut", at_least_s=0), None),
    Case("speaks an older protocol", broker(1).speaks_before("2.7"), True, True),
    Case("speaks this protocol", broker(2).speaks_before("2.7"), False),
    Case("speaks a newer protocol, by number", broker(3).speaks_before("3.9"), False),
    Case("speaks nobody knows what", broker(4).speaks_before("2.7"), False),
    Case("logged", broker(1).logged("isr_shrinking", of=T, after="cut"), True, True),
    Case("logged twice", broker(1).logged("truncated", of=T, after="cut", at_least=2), True, True),
    Case("not logged so often", broker(1).logged("isr_shrinking", of=T, after="cut", at_least=2), False),
    Case("not logged", broker(1).logged("isr_updated", of=T, after="cut"), False),
    Case("never logged", broker(1).never_logged("isr_updated", of=T, before="end"), True),
    Case("logged after all", broker(1).never_logged("isr_shrinking", of=T, before="end"), False),
    Case("log not followed", broker(3).never_logged("isr_updated", before="end"), None),
    Case("no log", broker(4).never_logged("isr_updated", before="end"), None),
    Case("truncated", broker(1).truncated(T, to=2, after="cut"), True, True),
    Case("truncated further", broker(1).truncated(partition("u"), to=2, after="cut"), False),
    Case("truncated nothing", broker(1).truncated(CALM, to=2, after="cut"), False),
    Case("truncated to the end of the epoch", broker(1).truncated_to_end_of(T, 0, after="cut"), True),
    Case("truncated further than that", broker(1).truncated_to_end_of(T, 1, after="cut"), False),
    Case("the epoch ends nowhere", broker(1).truncated_to_end_of(T, 2, after="cut"), False),
    Case("truncated nothing to it", broker(2).truncated_to_end_of(T, 0, after="cut"), False),
    Case("starts", _STARTS(log_end_offset=4, high_watermark=3), True, True),
    Case("starts with another watermark", _STARTS(log_end_offset=4, high_watermark=30), False),
    Case("starts with another log", _STARTS(log_end_offset=3, high_watermark=3), False),
    Case("epoch cache", T.epoch_cache_is((0, 1), (1, 2), (2, 3), replicas=1), True),
    Case("another epoch cache", T.epoch_cache_is((0, 1), (1, 2), replicas=1), False),
    Case("epoch cache of too few", T.epoch_cache_is((0, 1), (1, 2), (2, 3), replicas=2), None),
    Case("epoch cache that the log contradicts", partition("u").epoch_cache_is((0, 0), replicas=1), False),
    Case("controller leads", quorum_controller(2).leads(at="middle"), True),
    Case("controller does not lead", quorum_controller(4).leads(at="middle"), False),
    Case("controller is silent", quorum_controller(1).leads(at="middle"), False),
    Case("controller is not followed", quorum_controller(3).leads(at="middle"), None),
    Case(
        "its epoch rises",
        quorum_controller(4).epoch_rises(at_least=2, since="start", until="middle"),
        True,
        True,
    ),
    Case(
        "its epoch rises less",
        quorum_controller(4).epoch_rises(at_least=3, since="start", until="middle"),
        False,
    ),
    Case(
        "its epoch rises no further, if followed",
        opposite(quorum_controller(4).epoch_rises(at_least=3, since="start", until="middle")),
        True,
    ),
    Case("its epoch stays", quorum_controller(4).epoch_stays(since="start", until="cut"), True),
    Case("its epoch does not stay", quorum_controller(4).epoch_stays(since="start", until="middle"), False),
    Case("resigned", quorum_controller(2).resigned(after="cut", before="middle"), True, True),
    Case("not resigned yet", quorum_controller(2).resigned(after="start", before="cut"), False),
    Case(
        "resigns in time",
        quorum_controller(2).resigns(after="cut", within_s=8, not_within_s=6),
        True,
        True,
    ),
    Case("resigns too late", quorum_controller(2).resigns(after="cut", within_s=5), False),
    Case("resigns too soon", quorum_controller(2).resigns(after="cut", within_s=9, not_within_s=8), False),
    Case("does not resign", quorum_controller(1).resigns(after="cut", within_s=9), False),
    Case("does not resign, log not followed", quorum_controller(4).resigns(after="cut", within_s=9), None),
    Case("never resigned", quorum_controller(1).never_resigned(after="cut", before="middle"), True),
    Case("resigned after all", quorum_controller(2).never_resigned(after="cut", before="middle"), False),
    Case("resigned, log not followed", quorum_controller(4).never_resigned(after="cut", before="end"), None),
    Case("elects in time", quorum_elects(after="cut", within_s=4, not_within_s=2), True, True),
    Case("elects too late", quorum_elects(after="cut", within_s=2), False),
    Case("elects too soon", quorum_elects(after="cut", within_s=9, not_within_s=4), False),
    Case("elects nobody on a busy machine", quorum_elects(after="middle", within_s=4), None),
    Case("elects nobody", quorum_elects(after="middle", within_s=9), False),
    Case("registered", broker(2).is_registered(at="middle"), True),
    Case("registered before", broker(3).is_registered(at="start"), True, True),
    Case("not registered", broker(3).is_registered(at="middle"), False),
    Case("controller", controller_is(2, at="end"), True),
    Case("another controller", controller_is(1, 3, at="end"), False),
    Case("no election", controller_stays(since="start", until="cut"), True),
    Case("2, 3 and 2 again", controller_stays(since="start", until="end"), False),
    Case("elected, the same again", controller_changes(since="start", until="end"), False),
    Case(
        "epoch of the controller", controller_epoch_rises(since="start", until="end", at_least=2), True, True
    ),
    Case("acknowledged", SAFE.acknowledged(), True, True),
    Case("too few acknowledged", SAFE.acknowledged(at_least=2), None),
    Case("not all acknowledged", messages(after="cut").acknowledged(), False),
    Case("not acknowledged", messages(("failing", "silent")).not_acknowledged(at_least=2), True, True),
    Case("acknowledged after all", messages().not_acknowledged(), False),
    Case("refused", messages("refused").refused_with(7), True, True),
    Case("refused otherwise", messages("failing").refused_with(7), False),
    Case("failed", messages("failing").failed(), True, True),
    Case("not failed", messages("silent").failed(), False),
    Case("unanswered", messages("silent").unanswered(), True, True),
    Case("answered", messages("refused").unanswered(), False),
    Case("slower", messages("slow").slower_than(messages("w"), at_least=2), True, True),
    Case("not slower", messages("w").slower_than(messages("slow"), at_least=2), False),
    Case("not slower, as many answers are missing", messages("w").slower_than(ZOMBIE, at_least=3), None),
    Case("not slower than nobody", messages("w").slower_than(messages("nobody"), at_least=1), None),
    Case("kept", SAFE.kept(), True),
    Case("not kept", ZOMBIE.kept(), False),
    Case("kept in a committed transaction", messages("done").kept(), True),
    Case("aborted, so not kept", messages(("done", "undone")).kept(at_least=2), False),
    Case("aborted, but in the log", messages("undone").became("kept"), True),
    Case("lost", ZOMBIE.acknowledged_then_lost(at_least=2), True),
    Case("not all lost", messages(after="cut").acknowledged_then_lost(), False),
    Case("nothing to lose", messages("failing").acknowledged_then_lost(), None),
    Case("became", messages(("failing", "silent")).became("failed", "unknown_dropped", at_least=2), True),
    Case("none lost", messages(("w", "safe")).none_lost(at_risk_after="cut"), True),
    Case("none at risk", messages("w").none_lost(at_risk_after="cut"), None),
    Case("some lost", messages(("zombie", "safe")).none_lost(at_risk_after="cut"), False),
    Case("not read to the end", messages(("safe", "unread")).none_lost(at_risk_after="cut"), None),
    Case("twice in the log", messages("refused").in_final_log(copies=2), True),
    Case("not once in the log", messages("refused").in_final_log(copies=1), False),
    Case("seen twice", messages("refused").seen_on(1, copies=2, until="middle"), True, True),
    Case("not seen on both", messages("refused").seen_on(1, 2, copies=2, until="middle"), False),
    Case("still there", messages("w").still_on(1, at="end", at_least=2), True),
    Case("there, until it was cut off", messages(label="m4").still_on(1, at="middle"), True),
    Case("cut off", messages(label="m4").still_on(1, at="end"), False),
    Case("not on both", messages("w").still_on(1, 2, at="end"), False),
    Case("still there, nobody looked", messages("w").still_on(3, at="end"), None),
    Case("not seen", messages("refused").not_seen_on(2, until="middle"), True),
    Case("seen after all", messages("refused").not_seen_on(1, until="middle"), False),
    Case("not seen, nobody looked", messages("refused").not_seen_on(3, until="middle"), None),
    Case("consumed", messages("w").consumed(until="middle", at_least=2), True, True),
    Case("not consumed", SAFE.consumed(until="middle"), False),
    Case("consumed by both", messages(label="m0").consumed(until="middle", readers=2), True, True),
    Case("not all consumed by both", messages("w").consumed(until="middle", readers=2), False),
    Case("nobody consumed that late", messages("w").consumed(since="middle", until="end"), None),
    Case(
        "a reader that lived until later received nothing",
        messages("waited").consumed(since="middle", until="end"),
        False,
    ),
    Case(
        "a member that lived until later received nothing",
        messages("stalled").consumed(since="middle", until="end"),
        False,
    ),
    Case("the reader may be gone", messages("gone").consumed(since="middle", until="end"), None),
    Case("the reader came later", messages("young").consumed(since="middle", until="end"), None),
    Case("both", both(SAFE.acknowledged(), SAFE.kept()), True),
    Case("one of both is false", both(SAFE.acknowledged(), ZOMBIE.kept()), False),
    Case("one of both is unknown", both(SAFE.acknowledged(), messages("nobody").kept()), None),
    Case("opposite", opposite(LATE.exists(at="cut")), True),
    Case("opposite of unknown", opposite(SAFE.kept(at_least=5)), None),
    Case("by condition", messages_where("label IN ('m0', 'm1')").acknowledged(at_least=2), True, True),
    Case(
        "by label and time",
        messages(label="m%", before="start", topic="t").acknowledged(at_least=2),
        True,
        True,
    ),
)


TRUE = tuple(case for case in CASES if case.holds)


Evaluator = Callable[[Moments, Iterable[Case]], dict[str, bool | None]]


def _by_spark(session: Any) -> Evaluator:
    for name, table in TABLES.items():
        rows = [tuple(row.get(column.name) for column in table.columns) for row in ROWS.get(name, [])]
        session.createDataFrame(rows, table.spark_ddl()).createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        session.sql(query).createOrReplaceTempView(name)
    rows = [tuple(row.get(name) for name in LIFE.names) for row in MESSAGES]
    session.createDataFrame(rows, ddl(LIFE)).createOrReplaceTempView("life")

    def answers(moments: Moments, cases: Iterable[Case]) -> dict[str, bool | None]:
        with settings_for_small_data(session):
            results = ask(session, {case.name: case.sentence for case in cases}, moments)
        return {name: result.holds for name, result in results.items()}

    return answers


def _by_duckdb() -> Evaluator:
    tables = {name: pa.Table.from_pylist(ROWS.get(name, []), table.arrow()) for name, table in TABLES.items()}
    life = pa.Table.from_pylist([dict(row) for row in MESSAGES], LIFE)

    def answers(moments: Moments, cases: Iterable[Case]) -> dict[str, bool | None]:
        resolved = {case.name: resolve(case.sentence, moments) for case in cases}
        with database({**tables, "life": life}) as answer:
            return {name: None if one.missing else answer(one.sql)[1][0][0] for name, one in resolved.items()}

    return answers


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def asking(request: pytest.FixtureRequest) -> Evaluator:
    """Asks the rows. DuckDB needs a second for what takes Spark a minute."""
    return _by_duckdb() if request.param == "duckdb" else _by_spark(request.getfixturevalue("spark"))


@pytest.fixture(scope="module")
def watched(asking: Evaluator) -> dict[str, bool | None]:
    return asking(WATCHED, CASES)


@pytest.fixture(scope="module")
def blind(asking: Evaluator) -> dict[str, bool | None]:
    return asking(BLIND, TRUE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_sentence_says(case: Case, watched: dict[str, bool | None]) -> None:
    assert watched[case.name] is case.holds


@pytest.mark.parametrize("case", TRUE, ids=lambda case: case.name)
def test_what_nobody_watched_is_not_true(case: Case, blind: dict[str, bool | None]) -> None:
    """What was seen happening stays true; what needs somebody to have looked is not known."""
    assert blind[case.name] is case.blind


DENIED = tuple(
    case
    for case in CASES
    if case.holds is False
    and "{look:" in case.sentence
    and case.name != "full ISRs at a mark that is not set"
)
"""Sentences about what nodes stated at a mark."""
T = partition("t")
AT_CUT = (
    Case("led by the next leader", T.is_led_by(2, at="cut"), False),
    Case("another leader was elected", T.epoch_rises(since="start", until="cut"), False),
    Case("a topic that comes later", LATE.exists(at="cut"), False),
    Case("led as seen", T.is_led_by(1, epoch=0, at="cut"), True),
)
"""Broker 2 leads `t` from second 25 on, 5 s after the cut; `late` exists from second 26 on."""


@pytest.mark.parametrize(
    ("looks", "holds"),
    [(None, False), ({"store@cut": 21 * S}, False), ({"store@cut": 27 * S}, None), ({}, None)],
    ids=["no times of looks", "still denied", "no longer denied", "no further look"],
)
def test_what_was_not_seen_yet_is_refuted_only_by_a_look_that_began_later(
    looks: dict[str, int] | None, holds: bool | None, asking: Evaluator
) -> None:
    """A run was violated, since the observer's look saw a topic 50 ms after a mark that was set later."""
    answers = asking(replace(WATCHED, looks=looks), AT_CUT)
    assert answers == {case.name: True if case.holds else holds for case in AT_CUT}


def test_no_sentence_about_a_mark_is_refuted_without_a_look_after_it(asking: Evaluator) -> None:
    assert len(DENIED) > 15
    assert set(asking(replace(WATCHED, looks={}), DENIED).values()) == {None}


def test_what_is_seen_too_late_may_have_happened_in_time(asking: Evaluator) -> None:
    """Leader 1 of `slow` was seen 5.2 s after the cut, by a look that began after 4.9 s."""
    moment = "SELECT {mark:cut} + 5200000000 AS moment, {mark:cut} + 4900000000 AS asked"
    cases = [
        Case(str(limit), in_time(moment, after="cut", within_s=limit, not_within_s=0, never=""), None)
        for limit in (4.8, 5.0, 5.3)
    ]
    assert asking(WATCHED, cases) == {"4.8": False, "5.0": None, "5.3": True}


def test_case_names_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert FRESH_S < 5, "the blind observer of these tests stops 5 s before the cut"
