"""The words of a page: causes with their counts, and captions in lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from checkers.tables.output import FINDINGS
from harness.errors import BadDataError
from harness.kafka.model import PartitionState
from report.model.causes import reasons
from report.model.chains import Chain
from report.model.facts import fault_in_words, names_in
from report.model.faults import faults
from report.model.gather import report_model
from report.model.meaning import meaning
from report.model.messages import LOST
from report.model.model import Fault, Finding, FindingGroup, StoryEvent
from report.model.other_findings import SAID, explanations, in_words
from report.model.stories import thinned
from report.page.render import page
from report.page.svg import wrapped
from report.words.causes import SENTENCES, cause_in_words, cause_of
from report.words.details import SENTENCES as DETAILS
from report.words.details import detail_in_words

_NOTHING = Finding(
    name="",
    place="t/0",
    offset=6,
    epoch=1,
    message="5/0",
    label="",
    acked_s=None,
    acked_by=None,
    during="",
    last_broker=None,
    detail="",
    promise="",
    story=False,
)


def duplicate(label: str, copies: int | None) -> Finding:
    return replace(_NOTHING, name="duplicated", label=label, copies=copies)


def group(kind: str, count: int, name: str = "lost", **facts: object) -> FindingGroup:
    return FindingGroup(
        name=name,
        cause=cause_in_words(kind, facts) if kind else "",
        cause_kind=kind,
        cause_facts=facts,
        expected=True,
        count=count,
        promises={},
        shown=(),
    )


LED = {"broker": 1, "leader": 2, "epoch": 1}
DEPOSED = "deposed_leader"
REJOINED = {**LED, "elected": "before", "truncated": [1], "truncated_to": 7}
LATER = {**LED, "elected": "after"}


@pytest.mark.parametrize(
    ("groups", "acks", "words"),
    [
        ((), (), ()),
        ((group("", 3),), (1,), ()),
        ((group("unexplained_loss", 1),), (1,), ("The history does not show why 1 message is lost.",)),
        (
            (
                group("never_seen", 9999),
                group("unexplained_loss", 1),
            ),
            (1,),
            ("The history does not show why 10,000 messages are lost.",),
        ),
        (
            (group("truncated_without_election", 3, broker=1, offset=2),),
            (1,),
            ("3 messages: truncated: broker1 truncated its log to offset 2, although no election was seen.",),
        ),
        (
            (
                group(DEPOSED, 2, **LATER),
                group(DEPOSED, 4, **REJOINED),
                group(DEPOSED, 3, **{**REJOINED, "truncated_to": 8}),
            ),
            (1,),
            (
                "broker1 acknowledged 9 messages with acks=1 before and after broker2 was elected. broker2 "
                "led without them, so broker1 removed them from its own log when it began to follow "
                "broker2.",
            ),
        ),
        (
            (group(DEPOSED, 1, **REJOINED),),
            (1, -1),
            (
                "broker1 acknowledged 1 message although broker2 had been elected already. broker2 led "
                "without it, so broker1 removed it from its own log when it began to follow broker2.",
            ),
        ),
        (
            (group("unflushed_data_lost", 6, broker=1, fault=1, fault_name="power cut broker1"),),
            (-1,),
            (
                "The fault “power cut broker1” erased 6 messages, with acks=all: the brokers acknowledged "
                "them as soon as they had them in memory, and had not flushed them to disk.",
            ),
        ),
    ],
)
def test_why_messages_are_lost(
    groups: tuple[FindingGroup, ...], acks: tuple[int | None, ...], words: tuple[str, ...]
) -> None:
    """Groups that differ in details only count together."""
    assert reasons(groups, acks) == words


def test_a_message_that_only_a_follower_has_is_explained_too() -> None:
    """The checker names no cause for it, but it counts as lost."""
    diverged = replace(group("", 1), name="diverged")
    assert reasons([group(DEPOSED, 2, **REJOINED), diverged], (1,))[1:] == (
        "1 message is on a follower only: the leader's log has another record, or none, at that offset.",
    )


def chain(**more: object) -> Chain:
    facts: dict[str, object] = {
        "place": "t/0",
        "kind": DEPOSED,
        "facts": ({**LATER, "truncated": [1, 3], "truncated_to": 1},),
        "count": 1,
        "labels": ("m2",),
        "acked_from_s": 9.58,
        "acked_to_s": 9.58,
        "acked_by": (1,),
        "held": {1: 1, 3: 1},
        "power": {},
        "elected_s": 17.4,
    }
    return Chain(**{**facts, **more})  # type: ignore[arg-type]


def test_a_chain_says_who_had_a_message_and_who_lost_it_when() -> None:
    assert reasons((), (1,), (chain(gone="broker1's ZooKeeper session had ended by 13.5 s"),)) == (
        "t/0: broker1 acknowledged m2 with acks=1 at 9.6 s. broker1's ZooKeeper session had ended by 13.5 s. "
        "broker2 led from 17.4 s without it. The copies on broker1 and broker3 were removed when broker1 and "
        "broker3 truncated their logs to follow broker2.",
    )


def test_a_leader_that_lost_a_message_in_a_power_cut_had_it() -> None:
    (said,) = reasons((), (-1, 1), (chain(held={1: 1, 2: 1}, power={2: 10.2}),))
    assert "broker2 had it, too, and lost it in the power cut at 10.2 s. broker2 led from 17.4 s." in said
    assert "without it" not in said


def test_messages_that_every_broker_lost_in_a_power_cut() -> None:
    lost = chain(
        kind="unflushed_data_lost",
        facts=({"broker": 1, "fault": 1, "fault_name": "dark"},),
        count=6,
        labels=(),
        acked_to_s=23.7,
        held={1: 3, 2: 6},
        power={1: 23.8, 2: 23.8},
        elected_s=None,
    )
    assert reasons((), (-1,), (lost, replace(lost, place="t/1", count=2))) == (
        "t/0: broker1 acknowledged 6 messages with acks=all from 9.6 s to 23.7 s. They were seen on broker2 "
        "and broker1 (3 of them). broker1 and broker2 lost power at 23.8 s, before they were flushed to "
        "disk, so no copy is left. The same happened to 2 messages of t/1.",
    )


def test_a_message_that_the_leader_has_and_a_follower_lacks() -> None:
    """The observer may have seen it on the follower after the follower's final log was read."""
    apart = chain(
        kind="",
        facts=({},),
        acked_by=(),
        acked_from_s=None,
        instead={1: "m2", 2: "m2", 3: "m2"},
        leader=1,
        offset=4,
    )
    assert reasons((), (-1,), (apart,)) == (
        "t/0: The leader has it, at offset 4; the log of another in-sync replica ended earlier.",
    )


def test_a_message_that_the_leader_lacks_is_named_with_what_stands_in_its_place() -> None:
    apart = chain(
        kind="",
        facts=({},),
        labels=("m3",),
        acked_by=(2,),
        acked_from_s=17.6,
        acked_to_s=None,
        instead={1: "m2", 2: "m3"},
        also={2: "m2"},
        power={2: 10.2},
        leader=1,
        offset=1,
    )
    assert reasons((), (-1,), (apart,)) == (
        "t/0: broker2 acknowledged m3 at 17.6 s. At the end only broker2 has it, at offset 1; broker1, which "
        "leads, has m2 there, so readers get m2 instead. broker2 had m2, too, and lost it in the power cut "
        "at 10.2 s.",
    )


def test_a_power_cut_begins_when_the_first_broker_ends_not_when_it_is_proven() -> None:
    hosts = json.dumps({"hosts": ["broker1"]})
    moments: list[dict[str, object]] = [
        {
            "fault": 1,
            "name": "power cut broker1",
            "kind": "storage",
            "mechanism": "power_cut",
            "moment": moment,
        }
        | {"ns": ns, "targets": hosts, "evidence": evidence}
        for moment, ns, evidence in (
            ("injecting", 10, None),
            ("injected", 30, json.dumps(DISKS)),
            ("healed", 40, None),
        )
    ]
    killed = [{"host": host, "event": "killed", "ns": ns} for host, ns in (("broker2", 11), ("broker1", 12))]
    (one,) = faults(moments, killed, lambda ns: ns)
    assert (one.from_s, one.to_s) == (12, 40)
    assert [proof.seen for proof in one.proofs] == ["broker1: t/0 196 → 98"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 9**5,
        '{"a":' * 9**5,
        "{",
        "7",
        '{"hosts": 7, "links": 7, "partitions": []}',
        '{"hosts": null, "links": null, "partitions": []}',
        '{"disks": {"b": {"log_bytes_before": 7, "log_bytes_after": "t/0"}}, "partitions": []}',
        '{"disks": {"b": {"log_bytes_before": {"t/0": 1}, "log_bytes_after": "t/0"}}, "partitions": []}',
    ],
    ids=lambda text: text[:40],
)
def test_what_cannot_be_read_of_a_fault_is_left_out(text: str) -> None:
    rows = [
        {"fault": 1, "moment": moment, "ns": ns, "kind": "link", "name": "cut", "mechanism": "cut"}
        | {"targets": text, "evidence": text}
        for ns, moment in enumerate(("injected", "failed"))
    ]
    (one,) = faults(rows, (), lambda ns: ns)
    assert (one.hosts, one.links, one.links_without_effect) == ((), (), ())
    assert [proof.seen for proof in one.proofs] == ["it failed"]


DISKS = {"disks": {"broker1": {"log_bytes_before": {"t/0": 196}, "log_bytes_after": {"t/0": 98}}}}
CAUSES = [
    group(DEPOSED, 2, **LATER),
    group("zombie_after_heal", 2, **LED, fault=1, fault_name="isolate az1"),
    group("unflushed_data_lost", 2, broker=1, fault=1, fault_name="lights out"),
    group("unclean_election", 2, broker=2, epoch=1, isr=[1]),
    group("high_watermark_truncation", 2, broker=1, offset=1),
    group("last_replica_wiped", 2, broker=1, fault=1, fault_name="an empty disk"),
]


@pytest.mark.parametrize("lost", CAUSES, ids=lambda one: one.cause_kind)
def test_each_cause_has_a_sentence_of_its_own(lost: FindingGroup) -> None:
    (said,) = reasons([lost], [1])
    assert lost.cause not in said
    assert "2 messages" in said
    assert "acknowledged" in said


def test_captions_are_wrapped_and_cut_at_the_last_line() -> None:
    assert wrapped("", 100) == [""]
    assert wrapped("what broker2 had not flushed is gone", 120) == [
        "what broker2 had",
        "not flushed is",
        "gone",
    ]
    lines = wrapped("one two three four five six seven eight nine ten", 80, most=2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")


@pytest.mark.parametrize(
    ("verdict", "fates", "counts", "said"),
    [
        ("as declared", {"kept": 9}, (), "and no acknowledged message was lost."),
        (
            "as declared",
            {"kept": 9, "duplicated": 2},
            (2,),
            "message was lost, but 2 messages were written more than once.",
        ),
        (
            "as declared",
            {"lost": 2, "overwritten": 1, "duplicated": 1},
            (1,),
            "includes the loss of 3 acknowledged messages. Besides, 1 message was written more than once.",
        ),
        ("violated", {"lost": 2}, (2,), "that the scenario does not declare."),
        ("something else", {}, (), ""),
    ],
)
def test_a_verdict_says_what_it_means(
    verdict: str, fates: dict[str, int], counts: tuple[int, ...], said: str
) -> None:
    """An expected loss is named where the verdict stands, so that nobody takes it for no loss."""
    sentence = meaning(verdict, fates, [group("", count, "duplicated") for count in counts])
    assert sentence.endswith(said)
    assert bool(sentence) == bool(said)


@pytest.mark.parametrize(
    ("verdict", "lost", "said"),
    [
        (
            "as declared",
            139,
            "Kafka kept what it promises: "
            "it does not promise to prevent the loss of 139 acknowledged messages.",
        ),
        ("as declared", 0, "Kafka kept what it promises, and no acknowledged message was lost."),
        ("violated", 1, "A promise of Kafka was broken, or something happened that no fault explains."),
        ("unknown", 1, "The history does not decide whether Kafka kept all its promises."),
        ("crashed", 0, ""),
    ],
)
def test_a_verdict_by_promises_says_what_it_means(verdict: str, lost: int, said: str) -> None:
    assert meaning(verdict, {"lost": lost}, (), by_promises=True) == said


def test_every_class_of_findings_has_words() -> None:
    """For one and for several; a class without them would show the checker's name."""
    missing = set(FINDINGS) - set(SAID) - set(LOST)
    assert not missing
    assert set(SAID) <= set(FINDINGS)
    for name in SAID:
        assert "1" in in_words(name, 1) or "{}" not in SAID[name][0]
        assert "12,345" in in_words(name, 12345)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (
            "retry_of_unknown_outcome",
            "t/0: 1 message was written more than once (c). The producer got no answer and sent again; more "
            "than one of its attempts arrived.",
        ),
        (
            "requests_not_recorded",
            "t/0: 1 message was written more than once (c). Cause: not known: the history does not tell in "
            "how many requests the client sent it.",
        ),
        ("", None),
    ],
)
def test_other_findings_are_explained(cause: str, text: str | None) -> None:
    """With partition and label, and the checker's own cause where there is no sentence for it."""
    one = replace(duplicate("c", None), offset=5, epoch=0, last_broker=1, promise="not promised", story=True)
    duplicated = replace(group(cause, 1, "duplicated"), shown=(one,))
    assert explanations([duplicated, group("x", 2)], 2) == (() if text is None else (text,))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The old leader goes on.", {}),
        ("broker-0 follows replica-2.", {"broker-0": "broker1", "replica-2": "broker3"}),
        ("A has m2 and B has m3.", {"A": "broker1", "B": "controller3"}),
        ("A topic is asked for through B.", {"B": "controller3"}),
    ],
)
def test_names_of_the_article_are_explained(text: str, names: dict[str, str]) -> None:
    assert names_in(text, {"A": "broker1", "B": "controller3"}) == names


def test_states_of_an_operator_action_are_in_words() -> None:
    state = PartitionState(leader=1, leader_epoch=3, isr=(2, 1), replicas=None)
    none = PartitionState(leader=-1, leader_epoch=4, isr=(2,), replicas=(1, 2))
    rows = [
        {
            "fault": 1,
            "moment": "injected",
            "ns": 0,
            "kind": "operator",
            "name": "elect",
            "mechanism": "",
            "targets": "{}",
            "evidence": json.dumps({"seen": {"old/0": asdict(state), "new/0": asdict(none)}}),
        }
    ]
    ((proof,),) = [one.proofs for one in faults(rows, (), lambda ns: ns / 1e9)]
    assert proof.seen == ("old/0: leader broker1, epoch 3, ISR 2, 1, new/0: no leader, epoch 4, ISR 2")


def ends(*pairs: tuple[str, str], both: bool = True) -> dict[str, object]:
    return {"ends": [{"from": one, "to": other, "both": both} for one, other in pairs]}


CUT = [
    ("broker1", "broker2"),
    ("broker1", "broker3"),
    ("broker1", "broker4"),
]
WIPED = {"partitions": ["t/0"], "hosts": ["broker1"]}


@pytest.mark.parametrize(
    ("mechanism", "details", "to_s", "said"),
    [
        ("cut", {"isolated": "az1"}, 9.0, "az1 was cut off from everything else from 4.0 s to 9.0 s."),
        ("cut", ends(*CUT[:1]), 9.0, "broker1 was cut off from broker2 from 4.0 s to 9.0 s."),
        (
            "cut",
            ends(*CUT),
            9.0,
            "broker1 was cut off from broker2, broker3 and broker4 from 4.0 s to 9.0 s.",
        ),
        ("cut", ends(("a", "b"), ("c", "d")), 9.0, "“name” was in force from 4.0 s to 9.0 s."),
        ("cut", ends(("a", "b:kafka")), 9.0, "“name” was in force from 4.0 s to 9.0 s."),
        ("cut", ends(("a", "b"), both=False), 9.0, "Nothing that a sent to b arrived from 4.0 s to 9.0 s."),
        ("cut", {"without_zookeeper": "broker3"}, 9.0, "broker3 could not reach ZooKeeper from 4.0 s to"),
        (
            "loss",
            {**ends(("a", "b"), both=False), "percent": 40.0},
            9.0,
            "40 % of what a sent to b was lost from",
        ),
        ("wipe", WIPED, None, "The log of t/0 on broker1 was erased at 4.0 s."),
        ("damage", {**WIPED, "offset": 7}, None, "The record at offset 7 of t/0 was damaged on broker1 at"),
        ("disk_full", WIPED, 9.0, "The disk of broker1 was full from 4.0 s to 9.0 s."),
        ("hold", {"links": ["a -> b"]}, 9.0, "What a sent to b was held back from 4.0 s to 9.0 s."),
        ("hold", {"links": ["a -> b"], "request": "EndTxn"}, 9.0, "“name” was in force from 4.0 s to"),
        ("flap", ends(("az1", "az2")), 9.0, "az1 and az2 lost and regained each other many times from 4.0 s"),
        ("cut", {"bridge": ["az1", "az2", "az3"]}, 9.0, "“name” was in force from 4.0 s to 9.0 s."),
        ("kill", {"hosts": ["broker10", "broker2"]}, None, "broker2 and broker10 were killed at 4.0 s."),
        ("kill", {"hosts": ["broker2"]}, 9.0, "broker2 was killed at 4.0 s and was started again at 9.0 s."),
        ("pause", {"hosts": ["broker2"]}, 9.0, "broker2 hung from 4.0 s to 9.0 s."),
    ],
)
def test_faults_in_words(mechanism: str, details: dict[str, object], to_s: float | None, said: str) -> None:
    fault = Fault(
        number=1,
        name="name",
        kind="link",
        mechanism=mechanism,
        from_s=4.0,
        to_s=to_s,
        proven=True,
        injected=True,
        hosts=tuple(details.get("hosts", ())),  # type: ignore[call-overload]
        partitions=tuple(details.get("partitions", ())),  # type: ignore[call-overload]
        links=tuple(details.get("links", ())),  # type: ignore[call-overload]
        lasting=to_s is not None,
        details=details,
    )
    assert fault_in_words(fault).startswith(said)


STRANGE: tuple[object, ...] = (
    None,
    "x",
    7,
    1.5,
    True,
    [],
    {},
    [None],
    ["a"],
    [7],
    [{}],
    [[7]],
    ["broker" + "9" * 5000],
)


@pytest.mark.parametrize("key", ["hosts", "partitions", "links", "ends", "percent", "offset", "isolated"])
@pytest.mark.parametrize("mechanism", ["cut", "flap", "loss", "damage", "hold", "kill", "wipe", "pause"])
def test_a_fault_whose_targets_are_strange_has_a_sentence(mechanism: str, key: str) -> None:
    one_way = ends(("a", "b"), both=False)
    for strange in STRANGE:
        targets = {"hosts": ["broker1"], "partitions": ["t/0"], **one_way, key: strange}
        row = {"fault": 1, "name": "name", "kind": "link", "mechanism": mechanism, "evidence": None}
        row |= {"moment": "injected", "ns": 4, "targets": json.dumps(targets)}
        said = fault_in_words(faults([row], (), float)[0])
        assert said.endswith((" at 4.0 s.", " at 4.0 s and did not end.")), said


def test_hosts_of_a_fault_that_are_no_list_are_not_taken_apart() -> None:
    row = {"fault": 1, "name": "name", "kind": "process", "mechanism": "kill", "evidence": None}
    row |= {"moment": "injected", "ns": 4, "targets": '{"hosts": "broker1"}'}
    assert fault_in_words(faults([row], (), float)[0]) == "“name” happened at 4.0 s."


@pytest.mark.parametrize(
    "state",
    [
        {"leader": "a", "isr": [1], "leader_epoch": 1},
        {"leader": 1, "isr": 7, "leader_epoch": 1},
        {"leader": 1, "isr": [1]},
    ],
)
def test_a_strange_state_in_the_evidence_of_a_fault_is_shown_as_it_is(state: object) -> None:
    row = {"fault": 1, "name": "name", "kind": "operator", "mechanism": "reassign", "targets": None}
    row |= {"moment": "injected", "ns": 4, "evidence": json.dumps({"seen": [state]})}
    (proof,) = faults([row], (), float)[0].proofs
    assert proof.seen == str(state)


@pytest.mark.parametrize("kind", [kind for kind, said in SENTENCES.items() if callable(said) or "{" in said])
@pytest.mark.parametrize("facts", [{}, {"broker": "x", "isr": 7, "seconds": "x", "at_s": [], "readers": 1}])
def test_a_cause_without_its_facts_is_bad_data(kind: str, facts: dict[str, object]) -> None:
    row = {"cause": kind, "cause_facts": json.dumps(facts)}
    if facts or kind not in ("missing_message", "stale_coordinator"):  # these need none
        with pytest.raises(BadDataError, match=f"^cause_facts .*{'' if facts else kind}.*judge the run"):
            cause_of(row)


@pytest.mark.parametrize("name", list(DETAILS))
@pytest.mark.parametrize("facts", [{"unknown": 1}, {"seconds": [], "readers": 7, "steps": 7}])
def test_a_detail_without_its_facts_is_bad_data(name: str, facts: dict[str, object]) -> None:
    row = {"class": name, "detail": json.dumps(facts)}
    with pytest.raises(BadDataError, match=f"^detail of a finding {name} .*judge the run again"):
        detail_in_words(row)


def test_the_sentences_of_a_folder_that_an_older_version_judged_ask_for_a_new_judgement() -> None:
    with pytest.raises(BadDataError, match="^detail .*judge the run again with `acked check`"):
        detail_in_words({"class": "misrouted", "detail": "sent to t/1"})


@pytest.mark.parametrize(
    ("mechanism", "to_s", "said"),
    [
        ("wipe", None, "The log of t/0 on broker2 and broker10 was erased at 4.0 s."),
        ("pause", 9.0, "broker2 and broker10 hung from 4.0 s to 9.0 s."),
        ("power_cut", None, "broker2 and broker10 had no power at 4.0 s."),
        ("kill", 9.0, "broker2 and broker10 were killed at 4.0 s and were started again at 9.0 s."),
        ("kill", 4.1, "broker2 and broker10 were killed at 4.0 s."),
        ("disk_full", 9.0, "The disk of broker2 and broker10 was full from 4.0 s to 9.0 s."),
        ("throttle", 9.0, "“anything” was in force from 4.0 s to 9.0 s."),
    ],
)
def test_the_words_of_a_fault_are_those_of_its_mechanism(
    mechanism: str, to_s: float | None, said: str
) -> None:
    fault = Fault(
        number=1,
        name="anything",
        kind="process",
        mechanism=mechanism,
        from_s=4.0,
        to_s=to_s,
        proven=True,
        injected=True,
        hosts=("broker10", "broker2"),
        partitions=("t/0",),
        links=(),
        lasting=to_s is not None,
    )
    assert fault_in_words(fault) == said


def test_how_processes_ended_is_in_words() -> None:
    row = {"fault": 1, "moment": "injected", "ns": 0, "kind": "process", "name": "kill broker1, broker2"}
    evidence = {"exit_status": {"broker1": -9, "broker2": 143}}
    rows = [{**row, "mechanism": "kill", "targets": "{}", "evidence": json.dumps(evidence)}]
    ((proof,),) = [one.proofs for one in faults(rows, (), lambda ns: ns / 1e9)]
    assert proof.seen == "broker1: signal 9, broker2: status 143"


def test_events_of_one_moment_keep_their_order() -> None:
    """A message may be sent and acknowledged in the same microsecond, and reads as sent first."""
    events = [
        StoryEvent(s=0.0, kind=kind, source="client1", target="broker1", text=kind)
        for kind in ("send", "stored", "ack", "read", "gone")
    ]
    assert thinned([*events, *events]) == events


@pytest.mark.parametrize(
    ("shown", "count", "words"),
    [
        ((duplicate("m", 5),), 1, "1 message was written more than once (m, 5 copies)"),
        (
            (duplicate("m", 2), duplicate("n", 3)),
            2,
            "2 messages were written more than once (m and n, 5 copies)",
        ),
        ((duplicate("m", None),), 1, "1 message was written more than once (m)"),
        ((duplicate("", 2),), 900, "900 messages were written more than once"),
    ],
)
def test_copies_of_a_duplicated_message_are_counted(
    shown: tuple[Finding, ...], count: int, words: str
) -> None:
    of = replace(group("client retry: twice", count, "duplicated"), shown=shown)
    (said,) = explanations([of], 0)
    assert said.startswith(f"t/0: {words}.")


def test_claim_says_from_which_step_it_counts(judged: Callable[[str], Path]) -> None:
    model = report_model(judged("leader-az-isolated"))
    cut = next(mark.s for mark in model.marks if mark.name == "cut")
    claim = next(one for one in model.claims if one.name == "failover-in-time")
    assert (claim.observed.endswith(" s after cut"), claim.counts_from) == (True, {"cut": cut})
    note = "A claim counts time from a step of the scenario"
    assert note in page(model)
    assert note not in page(report_model(judged("canary")))
