"""What pictures draw, where their texts are, and what they leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from harness.history.schema import TABLES
from report.model.facts import claim_of
from report.model.gather import report_model
from report.model.logs import DamagedRecord, log_figure
from report.model.model import (
    Belief,
    Claim,
    Fault,
    Lane,
    LogColumn,
    LogFigure,
    Mark,
    Offsets,
    Panel,
    PartitionStory,
    ReplicaRecord,
    ReplicaState,
    Split,
    Story,
    StoryEvent,
)
from report.page.ladder import ladder
from report.page.logs import logs_picture
from report.page.render import _where
from report.page.timeline import LEFT, RIGHT, WIDTH, controller_timeline, partition_timeline

RunJudge = Callable[[str], Path]
_SIGN = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" class="sign')
_PLATE = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="16" class="paper"')


def _story(columns: tuple[str, ...]) -> Story:
    events = [
        StoryEvent(s=float(number), kind=kind, source=columns[-1], target="", text=text)
        for number, (kind, text) in enumerate(
            [
                ("seen", "offset 46, epoch 0"),
                ("gone", "gone: offset 46"),
                ("logged", "truncated to offset 45"),
            ]
        )
    ]
    return Story(
        message="1/2",
        label="",
        place="t/0",
        fate="lost",
        cause="",
        ending="",
        columns=columns,
        events=tuple(events),
    )


def test_no_text_of_a_ladder_covers_a_sign_or_leaves_the_picture() -> None:
    for number in range(1, 9):
        drawn = str(ladder(_story(("client1", *(f"broker{n}" for n in range(1, number + 1))))))
        signs = [(float(x), float(y)) for x, y in _SIGN.findall(drawn)]
        plates = [tuple(map(float, numbers)) for numbers in _PLATE.findall(drawn)]
        assert len(signs) == len(plates) == 3
        for (x, _), (left, _, width) in zip(signs, plates, strict=True):
            assert left + width <= 900 + 2
            assert not left < x < left + width, (number, x, left, width)


def _timeline(silent: list[tuple[float, float]], steps: list[Offsets], faults: Sequence[Fault] = ()) -> str:
    moments = sorted({0.0, *(at for pair in silent for at in pair), 10.0})
    beliefs = tuple(
        Belief(
            from_s=begin,
            to_s=end,
            leader=1,
            epoch=0,
            isr=(1,),
            error="refused" if (begin, end) in silent else "",
        )
        for begin, end in zip(moments, moments[1:], strict=False)
    )
    story = PartitionStory(
        topic="t",
        partition=0,
        replicas=(1,),
        findings=0,
        lanes=(Lane("broker1", beliefs),),
        splits=(),
        leaders={0: 1},
        sends={},
        offsets={1: tuple(steps)},
        logs=None,
    )
    return str(partition_timeline(story, faults, (), 0.0, 10.0, since="the fault"))


def test_high_watermark_is_not_drawn_while_its_broker_does_not_answer() -> None:
    """Its line ends where the broker falls silent, and goes on where it answers again."""

    def x(s: float) -> str:
        return f"{LEFT + s / 10 * (WIDTH - LEFT - RIGHT):.1f}"

    silent = [(3.0, 5.0), (8.0, 10.0)]
    for steps in ([Offsets(1.0, 2, 2)], [Offsets(1.0, 2, 2), Offsets(4.0, 2, 2)]):
        (path,) = re.findall(r'<path d="([^"]*)" class="watermark"', _timeline(silent, steps))
        drawn = [(begin, end) for begin, end in re.findall(r"[ML]([\d.]+),[\d.]+ H([\d.]+)", path)]
        assert drawn == [(x(1), x(3)), (x(5), x(8))]


def test_expected_losses_stand_beside_the_verdict(judged: RunJudge) -> None:
    from report.page.render import page

    model = report_model(judged("leader-az-isolated"))
    band = page(model).split("</header>")[0]
    assert f"{model.verdict.lost} lost" in band
    assert model.verdict.meaning in band
    clean = page(report_model(judged("no-fault"))).split("</header>")[0]
    assert 'class="toll"' not in clean


def test_times_of_several_faults_are_shaded_once() -> None:
    """Faults that overlap shade their common time as one fault does; one that lasts no time, not at all."""
    spans = [(2.0, 4.0, True), (3.0, 6.0, True), (7.0, None, True), (1.0, None, False)]
    faults = [
        Fault(
            number=number,
            name=f"fault {number}",
            kind="cut",
            mechanism="",
            from_s=from_s,
            to_s=to_s,
            lasting=lasting,
            injected=True,
            proven=True,
            hosts=(),
            links=(),
        )
        for number, (from_s, to_s, lasting) in enumerate(spans)
    ]
    drawn = _timeline([], [Offsets(1.0, 2, 2)], faults)
    shaded = [
        (float(x), float(x) + float(width))
        for x, width in re.findall(r'<rect x="([\d.]+)" y="6" width="([\d.]+)"[^>]*class="fault"', drawn)
    ]
    scale = (WIDTH - LEFT - RIGHT) / 10
    expected = [(LEFT + begin * scale, LEFT + end * scale) for begin, end in ((2, 6), (7, 10))]
    assert [pytest.approx(one, abs=0.2) for one in expected] == shaded


@pytest.mark.parametrize(
    "name", ["converged, and at the end", "arrived-late-abort, and at the end", "x" * 90]
)
def test_a_name_of_a_panel_and_its_time_stand_apart(name: str) -> None:
    record = ReplicaRecord(offset=0, epoch=0, message="1/0", text="a", acknowledged=True, lost=False)
    replica = ReplicaState(broker=1, records=(record,), gone=(), high_watermark=1, leo=1)
    figure = LogFigure((LogColumn(0),), (Panel(3.0, name, "", (replica,)),), None)
    drawn = str(logs_picture(figure, {0: 1}, "t/0"))
    ((end, shown),) = re.findall(r'<text x="([\d.]+)"[^>]*class="panelmark"[^>]*>([^<]*)<', drawn)
    assert shown == name or (shown.endswith("…") and len(name) > 40)
    (time,) = re.findall(r'class="panelname"[^>]*>([^<]*)<', drawn)
    assert 8.5 * len(time) <= float(end) - 6.3 * len(shown)


SEEN = {"topic": "t", "partition": 0, "epoch": 0, "writer": 1}


def _figure(
    killed: dict[int, list[float]],
    rows: list[dict[str, int | None]],
    offsets: dict[int, list[Offsets]] | None = None,
    silent_s: float = 3.0,
    next_s: float = 4.0,
) -> LogFigure:
    """Of brokers 1 and 2, which stop answering at a moment; broker 1 leads; marks at 2 s and later."""
    lanes = [
        Lane(
            f"broker{broker}",
            (
                Belief(from_s=0, to_s=silent_s, leader=1, epoch=0, isr=(1, 2)),
                Belief(from_s=silent_s, to_s=9, leader=1, epoch=0, isr=(1, 2), error="refused"),
            ),
        )
        for broker in (1, 2)
    ]
    names = ("topic", "partition", "broker", "offset", "epoch", "writer", "seq", "seen_ns", "gone_ns")
    table = [{name: {**SEEN, "gone_ns": None, **row}.get(name) for name in names} for row in rows]
    figure = log_figure(
        sightings=pa.Table.from_pylist(table, TABLES["sightings"].arrow()),
        copies=TABLES["copies"].arrow().empty_table(),
        meta=lambda _: {},
        marks=[Mark(2.0, "written", ""), Mark(next_s, "dark", "")],
        lanes=lanes,
        offsets=offsets or {},
        killed=killed,
        seconds=lambda ns: ns / 1e9,
        end_s=9.0,
    )
    assert figure is not None
    return figure


def _row(broker: int, offset: int, seen_s: float) -> dict[str, int | None]:
    return {"broker": broker, "offset": offset, "seq": offset, "seen_ns": int(seen_s * 1e9)}


def test_what_a_broker_held_before_it_fell_silent_is_not_drawn_as_its_contents() -> None:
    figure = _figure({1: [2.9]}, [_row(1, 0, 1.0), _row(2, 0, 1.0)])
    written, dark, *_ = figure.panels
    assert [len(one.records) for one in written.replicas] == [1, 1]
    assert [(one.silent, one.records, one.since_s) for one in dark.replicas] == [
        (True, (), 2.9),
        (True, (), 3.0),
    ]
    drawn = str(logs_picture(LogFigure(figure.columns * 5, (dark,), None), {0: 1}, "t/0"))
    assert "not known since 2.9 s" in drawn
    assert 'class="cell' not in drawn


def test_a_mark_just_before_a_kill_shows_what_was_read_before_it() -> None:
    figure = _figure({1: [2.15], 2: [2.15]}, [_row(1, 0, 1.0), _row(2, 0, 1.0)], silent_s=2.1)
    assert [(one.silent, len(one.records)) for one in figure.panels[0].replicas] == [(False, 1), (False, 1)]


def test_a_panel_does_not_show_what_came_after_the_next_mark() -> None:
    rows = [_row(1, 0, 1.0), _row(2, 0, 1.0), _row(1, 1, 2.1)]
    for next_s, shown in ((2.08, [1, 1]), (2.15, [2, 1]), (2.01, [2, 1])):
        figure = _figure({}, rows, next_s=next_s)
        assert [len(one.records) for one in figure.panels[0].replicas] == shown


def test_a_log_that_must_hold_more_than_was_read_says_so() -> None:
    rows = [_row(1, 0, 1.0), _row(2, 0, 1.0), _row(2, 1, 1.5)]
    for broker, marks in ((1, {1: 1, 2: 0}), (1, {1: 1, 2: 2})):
        offsets = {one: [Offsets(1.9, marks[one], {1: 1, 2: 2}[one])] for one in (1, 2)}
        panel = _figure({}, rows, offsets).panels[0]
        assert [one.broker for one in panel.replicas if one.older] == [broker]
        assert "older read" in str(logs_picture(LogFigure((LogColumn(0),), (panel,), None), {0: 1}, "t/0"))
    follower = [_row(1, 0, 1.0), _row(1, 1, 1.5), _row(2, 0, 1.0)]
    behind = {1: [Offsets(1.9, 1, 2)], 2: [Offsets(1.9, 1, 1)]}
    assert not any(one.older for one in _figure({}, follower, behind).panels[0].replicas)
    behind = {1: [Offsets(1.9, 2, 2)], 2: [Offsets(1.9, 1, 1)]}
    assert [one.older for one in _figure({}, follower, behind).panels[0].replicas] == [False, True]


def test_a_high_watermark_inside_a_fold_is_drawn_inside() -> None:
    record = ReplicaRecord(
        offset=2, epoch=0, message="1/2", text="c", acknowledged=True, lost=False, count=10
    )
    replica = ReplicaState(broker=1, records=(record,), gone=(), high_watermark=7, leo=12)
    columns = (LogColumn(2, 10), LogColumn(12))
    drawn = str(logs_picture(LogFigure(columns, (Panel(3.0, "cut", "", (replica,)),), None), {0: 1}, "t/0"))
    (cell_x, wide) = map(float, re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)[0])
    (line_x,) = (float(one) for one in re.findall(r'<path d="M([\d.]+),[^"]*" class="hwline"', drawn))
    assert cell_x + wide * 0.4 < line_x < cell_x + wide * 0.6


def test_a_disagreement_names_each_leader_and_who_believes_in_it() -> None:
    split = Split(2.0, 5.0, {1: ("broker1",), 2: ("broker2", "broker3")})
    drawn = str(controller_timeline((), (split,), (), (), 0.0, 10.0, since="the fault"))
    assert "disagreement for 3.0 s: broker1 leads, says broker1" in drawn
    assert "broker2 leads, say broker2 and broker3" in drawn


def test_where_a_moment_is_cited_no_stretch_of_time_is() -> None:
    claim = cited(1.0, 1.01)
    assert (_where(claim)["text"], _where(cited(1.0, 2.0))["text"]) == ("at 1.0 s", "1.0 s to 2.0 s")


def cited(from_s: float, to_s: float) -> Claim:
    stored = {"name": "a", "says": "b", "section": "1", "status": "confirmed", "as_declared": True}
    evidence = {"from_ns": int(from_s * 1e9), "to_ns": int(to_s * 1e9)}
    return claim_of({**stored, "evidence": evidence}, lambda ns: ns / 1e9, {})


def test_a_belief_without_an_epoch_names_the_leader_alone() -> None:
    lane = Lane("broker1", (Belief(from_s=0.0, to_s=10.0, leader=1, epoch=None, isr=()),))
    drawn = str(controller_timeline((lane,), (), (), (), 0.0, 10.0, since="the fault"))
    assert ">itself<" in drawn


def _table(rows: Sequence[dict[str, object]], name: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"topic": "t", "partition": 0, **row} for row in rows], schema=TABLES[name].arrow()
    )


def _differing(
    held: Sequence[int], damaged: dict[tuple[int, int], DamagedRecord], differing: int = 2
) -> LogFigure:
    """Two replicas that differ from one offset on; records of broker 2 are damaged."""
    rows = [
        {
            "broker": broker,
            "offset": offset,
            "epoch": 0,
            "writer": 1,
            "seq": offset + broker * (offset >= differing),
        }
        for broker in (1, 2)
        for offset in held
    ]
    copies = [
        row | ({"writer": None, "seq": None} if (row["broker"], row["offset"]) in damaged else {})
        for row in rows
    ]
    figure = log_figure(
        sightings=_table([row | {"seen_ns": 0} for row in rows], "sightings"),
        copies=_table(copies, "copies"),
        meta=lambda records: {},
        marks=[Mark(1.0, "before", ""), Mark(5.0, "after", "")],
        lanes=(),
        offsets={},
        killed={},
        seconds=lambda ns: ns / 1e9,
        end_s=9.0,
        damaged=damaged,
    )
    assert figure is not None
    return figure


def _damaged_in(figure: LogFigure) -> list[tuple[str, int, int]]:
    return [
        (panel.name, one.broker, record.offset)
        for panel in figure.panels
        for one in panel.replicas
        for record in one.records
        if record.damaged
    ]


def test_damaged_record_is_marked_from_its_fault_on() -> None:
    figure = _differing(range(6), {(2, 4): DamagedRecord(3.0, 0)}, differing=99)
    assert _damaged_in(figure) == [("after, and at the end", 2, 4)]
    assert [panel.name for panel in figure.panels] == ["before", "after, and at the end"]
    assert figure.first_difference == 4
    assert str(logs_picture(figure, {0: 1}, "t/0")).count("its bytes are damaged") == 1
    only_found = _differing(range(6), {(2, 4): DamagedRecord(None, 0)}, differing=99)
    assert [name for name, _, _ in _damaged_in(only_found)] == ["final logs"]


def test_damaged_record_that_nobody_saw_before_is_drawn_too() -> None:
    figure = _differing(range(6), {(2, 7): DamagedRecord(None, 3)}, differing=99)
    (record,) = [r for one in figure.panels[-1].replicas for r in one.records if r.damaged]
    assert (record.offset, record.epoch, record.text) == (7, 3, "?")


@pytest.mark.parametrize("differing", [2, 400, 9999])
def test_damaged_record_is_never_folded_away(differing: int) -> None:
    """However far from the first difference it is, and however much lies between."""
    held = [offset for offset in range(900) if offset % 3]
    figure = _differing(held, {(2, 500): DamagedRecord(3.0, 0), (2, 502): DamagedRecord(3.0, 0)}, differing)
    columns = {column.offset: column.count for column in figure.columns}
    assert columns[500] == columns[502] == 1
    assert len(columns) <= 21 + 5
    for panel in figure.panels:
        for one in panel.replicas:
            assert sum(record.count for record in one.records) == len(held)
    ends = [(column.offset, column.offset + column.count) for column in figure.columns]
    assert all(end <= begin for (_, end), (begin, _) in zip(ends, ends[1:], strict=False))


def test_legend_names_damage_only_where_there_is_some(judged: RunJudge) -> None:
    from report.page.render import page

    words = "its bytes in this log are damaged"
    assert words in page(report_model(judged("canary")))
    assert words not in page(report_model(judged("no-fault")))
