"""The table of an assessment and its consequences in words, from measures that are written by hand."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.console import Console
from harness.lab.layout import THREE_AZS
from report.assessment import show
from report.kinds import ASSESSMENTS
from studies.assess.battery import Case, battery
from studies.assess.series import line_as_json
from studies.assess.table import CaseEnd, CaseLine, consequences, lines

CASES = {case.name: case for case in battery(THREE_AZS.topology("zookeeper"), "zookeeper")}
ISOLATED = CASES["isolate-az1.roles-az1"]
NAMES = {"az1": "north", "az2": "south", "az3": "west"}
Rows = dict[str, list[dict[str, Any]]]
PLACE = {"run": "a/1", "topic": "orders", "led": "inside"}


def measures(
    run: str = "a/1",
    *,
    lost: int = 0,
    lost_at_one: int = 120,
    recovery: float | None = 2.5,
    busy: int = 40,
    topic: str = "orders",
) -> Rows:
    """One partition led inside: az1 cannot write until the heal, the others wait for 10 s."""
    counts = {"lost_after_read": 0, "duplicated": 0, "undetermined": 0, "acknowledged": 500}
    key = {"run": run, "topic": topic, "led": "inside"}
    return {
        "messages": [
            {**key, "setting": "acks=all", **counts, "lost": lost},
            {**key, "setting": "acks=1", **counts, "lost": lost_at_one},
        ],
        "order": [{**key, "setting": "acks=1", "out_of_order": 8}],
        "promises": [
            {
                **key,
                "setting": "acks=1",
                "promise": "not promised",
                "promise_row": "acks-1",
                "known_bug": None,
                "class": "lost",
                "findings": lost_at_one,
            }
        ],
        "promised": [
            {**key, "setting": "acks=all", "promise": "kept", "promise_row": "partition"},
            {**key, "setting": "acks=1", "promise": "not promised", "promise_row": "acks-1-leader"},
        ],
        "findings": [{"run": run, "class": "diverged", "findings": 1}],
        "writes": [
            {**key, "az": az, "setting": setting, "write_gap_s": gap, "lasted_until_heal": until_heal}
            for setting in ("acks=all", "acks=1")
            for az, gap, until_heal in (("az2", 10.2, False), ("az1", 15.7, True), ("az3", 9.9, False))
        ],
        "rates": [
            {**key, "az": az, "setting": "acks=all", "second": second, "acknowledged": 5}
            for az, seconds in (("az1", (-2, -1)), ("az2", (-2, -1, 11)))
            for second in seconds
        ],
        "reads": [{**key, "az": "az1", "read_gap_s": 14.0, "lasted_until_heal": True}],
        "groups": [],
        "failover": [{**key, "moved": 1, "partitions": 1, "failover_s": 8.8}],
        "recovery": [{"run": run, "fault_s": 13.0, "recovery_s": recovery}],
        "busy": [{"run": run, "busy_percent": busy}],
        "operator": [],
    }


def both(one: Rows, other: Rows) -> Rows:
    return {name: one[name] + other[name] for name in one}


def ended(run: str = "a/1", status: str = "measured", reason: str = "", case: Case = ISOLATED) -> CaseEnd:
    return CaseEnd(case=case.name, run=run, status=status, reason=reason)


def table(measured: Rows, *runs: CaseEnd) -> list[CaseLine]:
    return lines([ISOLATED], runs or [ended()], measured)


def test_a_line_has_the_numbers_of_its_run() -> None:
    (line,) = table(measures())
    assert (line.led, line.roles, line.failover_s, line.recovery_s) == ("inside", "inside", 8.8, 2.5)
    assert line.partitions == 1
    assert list(line.settings) == ["acks=all", "acks=1"]
    assert (line.settings["acks=all"].outcome, line.settings["acks=1"].outcome) == ("kept", "lost")
    assert (line.settings["acks=1"].lost, line.settings["acks=1"].out_of_order) == (120, 8)
    assert list(line.settings["acks=all"].writes) == ["az1", "az2", "az3"]
    assert line.settings["acks=all"].writes["az1"].until_heal
    assert line.group is None
    assert line.findings == {"diverged": 1}


def test_writes_of_each_second_are_those_of_the_run_that_waited_longest() -> None:
    (line,) = table(measures())
    assert line.rates.from_s == -2
    assert line.rates.by_az == {"az1": (5, 5, *[0] * 12), "az2": (5, 5, *[0] * 11, 5)}
    longer = measures("a/2")
    longer["writes"][1]["write_gap_s"] = 20.0
    longer["rates"] = longer["rates"][:1]
    (line,) = table(both(measures("a/1"), longer), ended("a/1"), ended("a/2"))
    assert line.rates.by_az == {"az1": (5,)}


def test_what_the_user_described_comes_first() -> None:
    """Also if it is acks=1, and acks=all is there for comparison."""
    (line,) = lines([ISOLATED], [ended()], measures(), described="acks=1")
    assert list(line.settings) == ["acks=1", "acks=all"]
    (text,) = consequences([line], NAMES)
    assert "loses 120 acknowledged messages; with acks=all it loses none. Kafka makes no promise" in text


def test_of_repeated_runs_the_worst_counts() -> None:
    """A loss in one of two runs is a loss, and one run that never recovered did not."""
    measured = both(measures("a/1"), measures("a/2", lost=3, recovery=None))
    (line,) = table(measured, ended("a/1"), ended("a/2"))
    assert (line.settings["acks=all"].outcome, line.settings["acks=all"].lost) == ("lost", 3)
    assert line.recovery_s is None
    assert line.runs == ("a/1", "a/2")
    worse = measures("a/2")
    worse["writes"][0]["write_gap_s"] = 12.5
    for one, other in (("a/1", "a/2"), ("a/2", "a/1")):
        (line,) = table(both(measures("a/1"), worse), ended(one), ended(other))
        gap = line.settings["acks=all"].writes["az2"]
        assert (gap.seconds, gap.least_s) == (12.5, 10.2)


@pytest.mark.parametrize("status", ["invalid", "crashed"])
def test_a_case_with_an_invalid_run_is_not_kept(status: str) -> None:
    """Though its other run lost nothing."""
    (line,) = table(measures("a/1"), ended("a/1"), ended("a/2", status, "the fault had no effect"))
    assert (line.status, line.reason, dict(line.settings)) == (status, "the fault had no effect", {})


def test_cases_that_were_not_run() -> None:
    """One that the machine cannot run, and one for which there was no time."""
    delayed = CASES["delay-broker1.roles-here"]
    rows = lines([delayed, ISOLATED], [], {}, {delayed.name: "no netem"})
    assert [(line.status, line.reason) for line in rows] == [("unfit", "no netem"), ("not run", "")]


def test_messages_that_were_not_read_are_not_kept() -> None:
    measured = measures()
    measured["messages"][0]["undetermined"] = 1
    (line,) = table(measured)
    assert line.settings["acks=all"].outcome == "unknown"


def test_the_consequences_in_words() -> None:
    assert consequences(table(measures()), NAMES) == [
        "Isolating az1 stops writes from north until it is over and from elsewhere for at most 10 s, and "
        "loses no acknowledged message; with acks=1 it loses 120."
    ]


def test_times_that_vary_are_said_to_vary() -> None:
    """Unless the fault stops nothing."""
    measured, case = measures(), CASES["flap-az1-az2.roles-az3"]
    words = "The times vary from run to run: they depend on whether TCP happens to send again"
    (text,) = consequences(lines([case], [ended(case=case)], measured), NAMES)
    assert words in text
    for row in measured["writes"]:
        row |= {"write_gap_s": 0.4, "lasted_until_heal": False}
    (text,) = consequences(lines([case], [ended(case=case)], measured), NAMES)
    assert words not in text


def test_what_nobody_promised_is_at_risk_and_not_kept() -> None:
    """Whether an acks=1 message is lost with its leader is chance: no run shows that it is kept."""
    measured = measures(lost_at_one=0)
    measured["promises"] = []
    lines = table(measured)
    assert [setting.outcome for setting in lines[0].settings.values()] == ["kept", "at risk"]
    (text,) = consequences(lines, NAMES)
    assert text.endswith("loses no acknowledged message; with acks=1 it lost none, but can lose some.")
    assert "| 0 / 0 | kept / not promised |" in markdown(document(measured))
    measured["promised"][0]["promise"] = "not promised"
    (text,) = consequences(table(measured), NAMES)
    assert text.endswith("loses no acknowledged message, although Kafka does not promise that.")
    for row in measured["promised"]:
        row["promise"] = "kept"
    (text,) = consequences(table(measured), NAMES)
    assert text.endswith("loses no acknowledged message.")


def test_the_worst_of_several_cases_in_words() -> None:
    """Placements of the roles are runs of their own: their losses are compared, not added."""
    one, other = table(measures()), table(measures(lost_at_one=7))
    (text,) = consequences([*one, *(replace(line, case="elsewhere") for line in other)], NAMES)
    assert text.endswith("loses no acknowledged message; with acks=1 it loses up to 120.")


def test_a_loss_and_an_operator_in_words() -> None:
    measured = measures(lost=7, lost_at_one=7)
    measured["operator"] = [{"run": "a/1", "action": "start broker1"}]
    (text,) = consequences(table(measured), NAMES)
    assert text.endswith(
        "loses 7 acknowledged messages. Kafka makes no promise in this case. "
        "An operator has to start broker1."
    )


def promises(measured: Rows) -> list[str]:
    (line,) = table(measured)
    return [setting.promise for setting in line.settings.values()]


def test_a_promise_is_kept_only_where_there_was_one() -> None:
    """With acks=1 nothing was promised, whether a message was lost or not."""
    measured = measures()
    assert promises(measured) == ["kept", "not promised"]
    (line,) = table(measured)
    assert [setting.rows for setting in line.settings.values()] == [("partition",), ("acks-1",)]
    measured["promises"] = []
    assert promises(measured) == ["kept", "not promised"]
    (line,) = table(measured)
    assert line.settings["acks=1"].rows == ("acks-1-leader",)
    measured["promised"][0]["promise"] = "unknown"
    assert promises(measured) == ["unknown", "not promised"]
    measured["promised"] = []
    assert promises(measured) == ["unknown", "unknown"]


def test_findings_decide_about_promises() -> None:
    """One broken promise among many findings breaks it."""
    measured = measures(lost=1)
    row = {
        **PLACE,
        "promise_row": "acks-all",
        "class": "lost",
        "findings": 1,
    }
    measured["promises"].append({**row, "setting": "acks=all", "promise": "broken", "known_bug": "KAFKA-1"})
    (line,) = table(measured)
    described, unsafe = line.settings["acks=all"], line.settings["acks=1"]
    assert (described.promise, unsafe.promise) == ("broken", "not promised")
    assert described.known_bugs == ("KAFKA-1",)
    assert "This breaks a promise of Kafka (with acks=all)." in consequences([line], NAMES)[0]


@pytest.mark.parametrize("name", ["duplicated", "out_of_order"])
def test_what_has_a_column_of_its_own_does_not_put_messages_at_risk(name: str) -> None:
    """A retry may write a message twice without idempotence; that says nothing about losses."""
    measured = measures(lost_at_one=0)
    measured["promised"][1] |= {"promise": "kept", "promise_row": "acks-1-steady"}
    (row,) = measured["promises"]
    measured["promises"] = [row | {"class": name, "promise_row": "duplicate-retry", "findings": 2}]
    (line,) = table(measured)
    one = line.settings["acks=1"]
    assert (one.promise, one.rows, one.outcome) == ("kept", ("acks-1-steady",), "kept")
    measured["promises"][0]["promise"] = "broken"
    assert promises(measured) == ["kept", "broken"]


@pytest.mark.parametrize(
    ("promise", "both"),
    [
        ("unknown", ["unknown", "unknown"]),
        ("broken", ["broken", "broken"]),
        ("not promised", ["kept", "not promised"]),
    ],
)
def test_a_finding_without_a_producer(promise: str, both: list[str]) -> None:
    """It counts for all settings, unless its absence was not promised."""
    measured = measures()
    row = {
        **PLACE,
        "promise_row": "x",
        "class": "diverged",
        "findings": 1,
    }
    measured["promises"] = [{**row, "setting": None, "promise": promise, "known_bug": None}]
    assert promises(measured) == both


def test_a_cluster_that_does_not_recover() -> None:
    (text,) = consequences(table(measures(recovery=None)), NAMES)
    assert text.endswith("The cluster does not recover by itself.")


def test_a_machine_that_was_too_busy() -> None:
    """A sentence of its own from 90 % on; the busiest of several runs counts."""
    runs = both(measures("a/1", busy=89), measures("a/2", busy=90))
    rows = table(runs, ended("a/1"), ended("a/2"))
    assert [line.busy_percent for line in rows] == [90]
    (_, text) = consequences(rows, NAMES)
    assert text.startswith("The processors of this machine were at least 90 % busy during 1 of 1 faults.")
    assert text.endswith("they are shorter if no other program runs.")
    (_, text) = consequences(rows, NAMES, parallel=3)
    assert text.endswith("they are shorter with --parallel 1.")
    assert len(consequences(table(measures(busy=89)), NAMES)) == 1


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert consequences(table({}, ended(status="invalid")), NAMES) == []


def two_topics(**other: Any) -> Rows:
    """`audit` beside `orders`, in the same run."""
    measured = both(measures(), measures(topic="audit", **other))
    for of_run in ("recovery", "busy", "findings"):
        del measured[of_run][1:]
    return measured


def test_topics_together_and_each() -> None:
    """Messages are added, the worst promise and the longest gap count; the topics fared differently."""
    measured = two_topics(lost=7)
    measured["promised"][2]["promise"] = "not promised"
    measured["writes"][-3]["write_gap_s"] = 12.5
    (line,) = table(measured)
    assert (line.topic, [topic.topic for topic in line.topics]) == ("", ["audit", "orders"])
    audit, orders = line.topics
    assert [one.settings["acks=all"].lost for one in (line, audit, orders)] == [7, 7, 0]
    assert [one.settings["acks=1"].lost for one in (line, audit, orders)] == [240, 120, 120]
    assert [one.settings["acks=1"].out_of_order for one in (line, audit, orders)] == [16, 8, 8]
    assert [one.settings["acks=all"].promise for one in (line, audit, orders)] == [
        *("not promised", "not promised", "kept")
    ]
    assert [one.settings["acks=1"].writes["az2"].seconds for one in (line, audit, orders)] == [
        *(12.5, 12.5, 10.2)
    ]
    assert line.topics_differ


def test_of_repeated_runs_the_worst_sum_of_topics_counts() -> None:
    measured = both(two_topics(), both(measures("a/2", lost=3), measures("a/2", lost=4, topic="audit")))
    (line,) = table(measured, ended("a/1"), ended("a/2"))
    assert line.settings["acks=all"].lost == 7


def test_topics_that_fared_alike() -> None:
    """Some more messages or seconds are no difference; a time that lasted until the heal is one."""
    measured = two_topics(lost_at_one=3)
    measured["writes"][0]["write_gap_s"] = 11.9
    (line,) = table(measured)
    assert len(line.topics) == 2 and not line.topics_differ
    measured["writes"][0]["lasted_until_heal"] = True
    (line,) = table(measured)
    assert line.topics_differ


def test_a_topic_that_alone_is_led_at_a_place_is_named() -> None:
    """The other one has fewer partitions."""
    measured = both(measures(), measures(topic="audit"))
    measured["messages"].append({**measured["messages"][0], "led": "outside"})
    inside, outside = table(measured)
    assert [one.topic for one in inside.topics] == ["audit", "orders"]
    assert [one.topic for one in outside.topics] == ["orders"]


def test_a_line_of_one_topic_has_none_below() -> None:
    (line,) = table(measures())
    assert (line.topic, line.topics, line.topics_differ) == ("", (), False)


def test_the_least_gap_of_repeated_runs_is_that_of_the_best_run() -> None:
    """In each run the longest one of any topic counts."""
    one = both(measures("a/1"), measures("a/1", topic="audit"))
    other = both(measures("a/2"), measures("a/2", topic="audit"))
    one["writes"][0]["write_gap_s"] = 3.0
    other["writes"][0]["write_gap_s"], other["writes"][6]["write_gap_s"] = 6.0, 7.0
    (line,) = table(both(one, other), ended("a/1"), ended("a/2"))
    gap = line.settings["acks=all"].writes["az2"]
    assert (gap.seconds, gap.least_s) == (10.2, 7.0)
    assert line.topics[1].settings["acks=all"].writes["az2"].least_s == 3.0


@pytest.mark.parametrize(
    ("times", "cell"),
    [
        ((10.2, 10.2), "10"),
        ((10.2, 10.4), "10"),
        ((10.2, 4.0), "4–10"),
        ((2.0, 0.4), "<1–2"),
        ((0.2, 0.4), "<1"),
    ],
)
def test_gaps_that_differ_between_repeated_runs_are_a_range(times: tuple[float, float], cell: str) -> None:
    one, other = measures("a/1"), measures("a/2")
    one["writes"][0]["write_gap_s"], other["writes"][0]["write_gap_s"] = times
    text = markdown(document(both(one, other), ended("a/1"), ended("a/2")))
    assert f"| 16* / {cell} / 10 |" in text


def test_the_consequences_name_the_topic_that_loses() -> None:
    measured = two_topics(lost=7)
    row = {"run": "a/1", "topic": "audit", "led": "inside", "promise_row": "acks-all", "class": "lost"}
    broken = {**row, "findings": 1, "setting": "acks=all", "promise": "broken", "known_bug": None}
    (text,) = consequences(table(measured), NAMES)
    assert "loses 7 acknowledged messages, all of topic audit; with acks=1 it loses 240." in text
    measured["promises"].append(broken)
    (text,) = consequences(table(measured), NAMES)
    assert "This breaks a promise of Kafka (with acks=all, for topic audit)." in text


def test_the_consequences_name_the_topic_that_nobody_can_write() -> None:
    measured = two_topics()
    for row in measured["writes"]:
        row["lasted_until_heal"] = row["lasted_until_heal"] or row["topic"] == "audit"
    (text,) = consequences(table(measured), NAMES)
    assert text.startswith("Isolating az1 stops all writes to some partition of audit until it is over, and")
    for row in measured["writes"]:
        row["lasted_until_heal"] = True
    (text,) = consequences(table(measured), NAMES)
    assert text.startswith("Isolating az1 stops all writes to some partition until it is over, and")


def markdown(document: dict[str, Any]) -> str:
    """Without the signs that escape others."""
    return ASSESSMENTS.markdown(document).replace("\\", "")


def document(measured: Rows, *runs: CaseEnd) -> dict[str, Any]:
    return {
        "header": {"cluster": "three AZs"},
        "kafka": "2.7.1",
        "mode": "zookeeper",
        "runs": "runs",
        "verdict": "as declared",
        "not_as_declared": [],
        "hosts": {host.name: NAMES[host.az] for host in THREE_AZS.topology("zookeeper").hosts},
        "producers": ["acks=all", "acks=1"],
        "azs": NAMES,
        "clients": list(NAMES),
        "lines": [line_as_json(line) for line in table(measured, *runs)],
        "consequences": [],
    }


def test_rows_of_topics_that_differ() -> None:
    text = markdown(document(two_topics(lost=7)))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    assert rows[0][3] == "topic"
    assert {len(row) for row in rows} == {12}
    assert [(row[3], row[4], row[-2], row[-1]) for row in rows[2:]] == [
        ("all", "7 / 240", "8.8 / 2.5", "–"),
        ("audit", "7 / 120", "8.8 / –", "–"),
        ("orders", "0 / 120", "8.8 / –", "–"),
    ]
    alike = markdown(document(two_topics()))
    assert [line.split("|")[4].strip() for line in alike.splitlines() if "|" in line][2:] == ["all"]


def test_groups_have_a_column_where_runs_had_any() -> None:
    measured = measures()
    gap = {"group_gap_s": 17.5, "lasted_until_heal": True}
    measured["groups"] = [{"run": "a/1", "topic": "orders", "led": "inside", "readers": "group", **gap}]
    text = markdown(document(measured))
    heading, _, row = (
        [cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line
    )
    assert row[heading.index("group: no read (s)")] == "18*"
    assert "a member in each AZ" in text
    assert "group" not in markdown(document(measures()))


def shown(measured: dict[str, Any], width: int = 0) -> list[str]:
    """What the terminal shows; without a width, what a pipe gets."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=width > 0, width=width or 40, color_system=None)
    show(measured, console)
    return out.getvalue().splitlines()


def test_a_narrow_terminal_gets_a_block_for_each_fault() -> None:
    """Numbers say whose they are, and their unit; columns of zeros are left out, with a note."""
    lines = shown(document(measures()), 80)
    start = lines.index("az1 isolated")
    assert lines[start + 1 :][:8] == [
        "  controller inside (broker1, north), leader inside",
        "    lost (messages): acks=all 0, acks=1 120",
        "    promise:         acks=all kept, acks=1 not promised",
        "    out of order:    acks=all 0, acks=1 8",
        "    no write (s):    north 16*, south 10, west 10",
        "    no read (s):     north 14*",
        "    time (s):        failover 8.8, full ISR 2.5",
        "",
    ]
    assert "  left out: duplicates, since no message is there twice" in lines


def test_a_wide_terminal_and_a_pipe_get_a_line_for_each_row() -> None:
    for width in (0, 220):
        (row,) = (line for line in shown(document(measures()), width) if line.startswith("az1 isolated"))
        assert row.split("  ")[1:3] == ["inside (broker1, north)", "inside"]
        assert row.split()[5:14] == ["inside", "0", "120", "kept", "not", "promised", "0", "8", "16*"]
        assert row.split()[14:] == ["10", "10", "14*", "–", "–", "8.8", "2.5", "–"]


def test_the_rows_of_a_fault_are_adjacent_and_differ() -> None:
    """Two placements outside differ in the host of the controller alone."""
    names = ["isolate-az1.roles-az1", "kill-broker1.roles-here", "isolate-az1.roles-az2"]
    cases = [CASES[name] for name in names]
    measured = both(both(measures("1"), measures("2")), measures("3"))
    ends = [ended(str(number), case=case) for number, case in enumerate(cases, start=1)]
    told = document(measured) | {"lines": [line_as_json(one) for one in lines(cases, ends, measured)]}
    elsewhere = told["lines"][2] | {"controller": "broker3"}
    told["lines"].append(elsewhere)
    rows = [line for line in shown(told) if "inside  " in line]
    assert [re.split(r"\s{2,}", row)[:2] for row in rows] == [
        ["az1 isolated", "inside (broker1, north)"],
        ["az1 isolated", "outside (broker2, south)"],
        ["az1 isolated", "outside (broker3, west)"],
        [
            "broker1 (controller) killed",
            "inside (broker1, north), quorum leader outside (zookeeper2, south)",
        ],
    ]
    assert len(set(rows)) == 4
    assert [line for line in shown(told, 80) if line.startswith("az1 isolated")] == ["az1 isolated"]


def test_times_that_vary_are_marked() -> None:
    shown = document(measures())
    shown["lines"][0]["varies"] = "chance"
    assert "| ~16* / ~10 / ~10 |" in markdown(shown)
    assert line_as_json(replace(table(measures())[0], varies="chance"))["varies"]
    assert not line_as_json(table(measures())[0])["varies"]


def test_faults_that_were_not_run_are_counted_and_have_no_row() -> None:
    shown = document(measures())
    assert "were not run" not in markdown(shown)
    left = lines([CASES["kill-broker1.roles-here"], CASES["flap-az1-az2.roles-az3"]], [], {})
    shown["lines"] += [line_as_json(line) for line in left]
    text = markdown(shown)
    assert "- 2 of 3 faults were not run" in text.splitlines()
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 3, "head, rule and one row"


def test_one_topic_needs_no_column() -> None:
    text = markdown(document(measures()))
    assert "| topic |" not in text
    assert "topic:" not in text
    unmeasured = document(two_topics())
    unmeasured["lines"].append({**unmeasured["lines"][0], "status": "invalid", "reason": "why", "topics": []})
    last = [line for line in markdown(unmeasured).splitlines() if "why" in line]
    assert [len(line.split("|")) for line in last] == [14]
