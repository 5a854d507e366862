"""Sentences about a run, as SQL. The claims of a scenario are written with them.

A sentence has a subject and a verb, and reads like the article's own::

    T = partition("t")
    OLD = messages(by="az1-acks1", after="cut", before="split")

    T.is_led_by(2, isr=(2, 3), epoch=1, at="failover")
    T.stays(since="seeded", until="before-heal", what="leader, epoch")
    T.becomes(leader=2, after="cut", within_s=6)
    broker(1).believes(T, leader=1, isr=(1, 2, 3), at="split")
    broker(1).truncated(T, to=2, after="cut")
    controller_stays(since="seeded", until="before-heal")
    OLD.acknowledged(at_least=3)
    OLD.acknowledged_then_lost(at_least=3)
    messages(acks=-1).none_lost(at_risk_after="cut", at_least=5)

A moment is the name of a mark that the scenario's body sets. Each sentence is one query that returns one row:

* ``holds``: true, false, or null where the history does not decide it, and
* ``observed``: what was seen instead, for people.

**A sentence is true only if somebody looked.** The history records only changes, so "nothing changed" and
"nobody watched" look the same in it. Each builder therefore requires an observation that is at most `FRESH_S`
older than the moment. Without one the answer is null, which makes the claim *unknown*:

* `is_led_by`, `stays`, `controller_is`, ...: the observer still followed the cluster at that moment;
* `believes`, `names_controller`: that broker itself still answered at that moment;
* `never_logged`, `never_resigned`: that host's log was followed to the end of the window (`resigns` is false
  only then);
* `leads`, `epoch_stays` of a KRaft controller: that controller itself was followed until that moment;
* `answers_until_silent`: the source fell silent;
* `not_seen_on`: the broker's replicas were still followed at that moment;
* verbs about messages: at least ``at_least`` such messages exist, and the final logs were read to their end;
* `consumed`: somebody received anything meanwhile, or a consumer that lived before and after received
  nothing;
* `readers_wait`, `readers_are_served`, `hangs`: that broker itself still answered at the (last) mark;
* verbs about committed offsets: a client asked, at least ``at_least`` times, between the two marks;
* `take_over`, `lose`: the members recorded anything about the topic; `keep`: also after the second mark;
* `never_reported`: these producers reported something after the second mark;
* `go_back`, `stay_in_order`: a reader received records after the first mark; for `stay_in_order`, also after
  the second;
* `is_one_to_one`, `is_repeated`: somebody read output between the two marks, and the run ended;
* `none_lost`: at least ``at_least`` acknowledged messages were sent after the mark that put them at risk.

**A sentence about what a node states at a mark is false only if a look that began after the mark denies it.**
The observer asks every node several times a second, so it may see what was so before the mark only after it.
If the first look that began after the mark says otherwise, or there was none, the answer is null (`settled`).
A scenario therefore waits for what it claims before it sets the mark.

A window in which something does not happen must be longer than what would make it happen (a session of 4 s,
a lag of 6 s, a request time-out of 3 s). A second claim beside it should show that the same thing does happen
elsewhere.

Sentences combine: `both(a, b, ...)` (all of them; unknown if one is) and `opposite(a)` (for errata). For
anything else, write SQL over the tables of `docs/history.md`, `life` and `findings` (`docs/findings.md`),
with `mark("cut")` for the time of a mark: `condition(holds, observed)` for scalar expressions, or a whole
SELECT. Guard it with `observed_at("cut")` or `heard_at(1, "cut")`, SQL conditions that are null or false if
nobody looked.

For `Expected.where` and SQL of your own, ``messages(...).where`` is the condition on `life`.
The modules here import nothing else, so that scenarios load fast.
"""

from __future__ import annotations

from checkers.claims.builders.cluster import (
    Broker,
    Partition,
    answers_until_silent,
    broker,
    controller_changes,
    controller_epoch_rises,
    controller_is,
    controller_stays,
    does_not_answer,
    isrs_are_full,
    noted,
    partition,
    quorum_leaders_are,
    topic_is_set,
)
from checkers.claims.builders.groups import CommittedOffsets, Members, Output, group_offsets, members, output
from checkers.claims.builders.messages import (
    Messages,
    messages,
    messages_where,
)
from checkers.claims.builders.quorum import Controller, quorum_controller, quorum_elects
from checkers.claims.builders.reads import Reads, reads
from checkers.claims.builders.sql import (
    FRESH_S,
    about,
    both,
    condition,
    heard_at,
    mark,
    observed_at,
    opposite,
    optional_mark,
)
from checkers.claims.builders.transactions import (
    Transactions,
    decided,
    decided_whole,
    hangs,
    late_answer,
    markers_are,
    readers_are_served,
    readers_wait,
    transactions,
    was_held_and_delivered,
)

__all__ = [
    "Broker",
    "Controller",
    "FRESH_S",
    "CommittedOffsets",
    "Members",
    "Messages",
    "Output",
    "Partition",
    "Reads",
    "Transactions",
    "about",
    "answers_until_silent",
    "both",
    "broker",
    "condition",
    "controller_changes",
    "controller_epoch_rises",
    "controller_is",
    "controller_stays",
    "decided",
    "decided_whole",
    "does_not_answer",
    "group_offsets",
    "hangs",
    "heard_at",
    "isrs_are_full",
    "late_answer",
    "mark",
    "markers_are",
    "members",
    "messages",
    "messages_where",
    "noted",
    "observed_at",
    "opposite",
    "optional_mark",
    "output",
    "partition",
    "quorum_controller",
    "quorum_elects",
    "quorum_leaders_are",
    "readers_are_served",
    "readers_wait",
    "reads",
    "topic_is_set",
    "transactions",
    "was_held_and_delivered",
]
