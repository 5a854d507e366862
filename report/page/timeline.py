"""Who believed what: sends, beliefs and offsets on one time axis, with faults shaded across all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from harness.history.time_zero import in_seconds
from report.model.beliefs import controller_host
from report.model.model import (
    NO_AZ,
    AcknowledgedRate,
    Availability,
    Belief,
    Fault,
    Lane,
    Mark,
    Offsets,
    PartitionStory,
    SendBin,
    Split,
    Turn,
    grouped,
)
from report.page.svg import block, fit, hue_of, joined, picture, tag, text, titled
from report.words.lists import listed

WIDTH, LEFT, RIGHT = 1180.0, 124.0, 92.0
_LANE, _GAP, _SENDS, _OFFSETS = 27.0, 5.0, 46.0, 62.0
_NOBODY = -1
_MOST_ROWS, _LAST_ROWS = 8, 20
"""Rows of labels, then rows of short labels; labels that do not fit in any of them are only tooltips."""
_FAULT_SIZE = 12
"""Size that a fault's name is fitted for, in pixels: its sign is wider than a letter."""
_LETTER = 6.2
"""Width of a letter of a label."""


@dataclass(kw_only=True)
class _Canvas:
    """Rows are added from top to bottom; faults and marks are drawn through all rows at the end."""

    from_s: float
    to_s: float
    zero_s: float = 0.0
    since: str
    y: float = 0.0
    front: list[Markup] = field(default_factory=list)

    def x(self, s: float) -> float:
        share = (min(max(s, self.from_s), self.to_s) - self.from_s) / max(self.to_s - self.from_s, 1e-6)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def add(self, *parts: Markup) -> None:
        self.front.extend(parts)


def partition_timeline(
    story: PartitionStory,
    faults: Sequence[Fault],
    marks: Sequence[Mark],
    from_s: float,
    to_s: float,
    zero_s: float = 0.0,
    *,
    since: str,
) -> Markup:
    """The picture of one topic partition; its axis counts seconds from ``zero_s``, which ``since`` names."""
    canvas = _Canvas(from_s=from_s, to_s=to_s, zero_s=zero_s, since=since)
    _head(canvas, faults, marks)
    _sends(canvas, story.sends)
    _turns(canvas, story.turns)
    if story.lanes:
        _heading(canvas, f"who leads {story.name}, by each node")
    tops = {}
    for lane in story.lanes:
        tops[lane.source] = canvas.y
        _lane(canvas, lane, story.replicas, lambda number: f"broker{number}")
    _turns_in_lanes(canvas, story.turns, tops)
    _splits(canvas, story.splits, lambda number: f"broker{number}")
    if story.offsets:
        _heading(canvas, "high watermark and log end offset")
        highest = max((one.leo or 0 for steps in story.offsets.values() for one in steps), default=0)
        silent = {
            lane.source: [(one.from_s, one.to_s) for one in lane.beliefs if one.error] for lane in story.lanes
        }
        for broker, steps in story.offsets.items():
            _offsets(canvas, broker, steps, highest, silent.get(f"broker{broker}", []))
    return _finish(canvas, faults, marks, f"Timeline of {story.name}")


def controller_timeline(
    lanes: Sequence[Lane],
    splits: Sequence[Split],
    faults: Sequence[Fault],
    marks: Sequence[Mark],
    from_s: float,
    to_s: float,
    turns: Sequence[Turn] = (),
    *,
    since: str,
) -> Markup:
    """The picture of the controller that each node believes in; ``since`` names the zero of the axis."""
    canvas = _Canvas(from_s=from_s, to_s=to_s, since=since)
    host_of = controller_host(lanes)
    _head(canvas, faults, marks)
    _turns(canvas, turns)
    tops = {}
    for lane in lanes:
        tops[lane.source] = canvas.y
        _lane(canvas, lane, (), host_of)
    _turns_in_lanes(canvas, turns, tops)
    _splits(canvas, splits, host_of)
    return _finish(canvas, faults, marks, "Timeline of the controller")


def rates_timeline(
    azs: Sequence[Availability | AcknowledgedRate],
    faults: Sequence[Fault],
    from_s: float,
    to_s: float,
    *,
    since: str,
) -> Markup:
    """How many messages of each AZ were acknowledged in each second, by acks where they differ.

    ``since`` names the zero of the axis.
    """
    canvas = _Canvas(from_s=from_s, to_s=to_s, since=since)
    _head(canvas, faults, ())
    _heading(canvas, "messages acknowledged in each second")
    most = max((count for one in azs for _, count in one.per_second), default=1)
    differ = len({one.acks for one in azs}) > 1
    for one in azs:
        highest = max((count for _, count in one.per_second), default=0)
        name = " ".join(
            part for part in ("" if one.az == NO_AZ else one.az, one.acks if differ else "") if part
        )
        base = _bars(canvas, name, f"at most {grouped(highest)}")
        for second, count in one.per_second:
            x, height = canvas.x(second), max(1.5, (_SENDS - 16) * count / most)
            width = max(canvas.x(second + 1) - x - 0.8, 0.8)
            bar = tag("rect", x=x, y=base - height, width=width, height=height, class_="send ok")
            canvas.add(titled(bar, f"{in_seconds(second, 0)}: {count} acknowledged"))
        canvas.y += _SENDS
    return _finish(canvas, faults, (), "Messages acknowledged in each second, by AZ")


def _head(canvas: _Canvas, faults: Sequence[Fault], marks: Sequence[Mark]) -> None:
    """Names of faults and marks, and the axis."""
    for fault in faults:
        x = canvas.x(fault.from_s)
        end = canvas.x(
            fault.to_s if fault.to_s is not None else (canvas.to_s if fault.lasting else fault.from_s)
        )
        canvas.y += 17
        bar = tag(
            "rect",
            x=x,
            y=canvas.y - 12,
            width=max(end - x, 3.0),
            height=14.0,
            class_="faultbar stated" if fault.stated else "faultbar",
            rx=2,
        )
        name = f"{'stated: ' if fault.stated else '⚡ '}{fault.name}"
        room = WIDTH - x - 12
        shown = fit(name, max(room, 60), _FAULT_SIZE)
        at = x + 5
        if room < 7 * len(name) and x - LEFT > room:
            shown, at = fit(name, x - LEFT, _FAULT_SIZE), x - 5
            label = text(at, canvas.y - 1, shown, "faultname", text_anchor="end")
        else:
            label = text(at, canvas.y - 1, shown, "faultname")
        until = "" if fault.to_s is None else f" to {in_seconds(fault.to_s, 2)}"
        canvas.add(titled(bar + label, f"{fault.name}: from {in_seconds(fault.from_s, 2)}{until}"))
    canvas.y += 8
    stems = [
        _Label(canvas.x(one.s), (one.text, one.name), f"{in_seconds(one.s, 2)}: {one.name}: {one.text}")
        for one in marks
    ]
    _labels(canvas, stems, "markname", down=True)
    span = canvas.to_s - canvas.from_s
    step = next((one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if span / one <= 16), 3600)
    second = int((canvas.from_s - canvas.zero_s) // step + 1) * step
    canvas.y += 14
    canvas.add(text(4, canvas.y - 3, f"since {canvas.since}", "tick"))
    while second < canvas.to_s - canvas.zero_s:
        x = canvas.x(second + canvas.zero_s)
        canvas.add(text(x, canvas.y - 3, in_seconds(second, 0), "tick", text_anchor="middle"))
        canvas.add(tag("line", x1=x, x2=x, y1=canvas.y, y2=canvas.y + 4, class_="axis"))
        second += step
    canvas.add(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=canvas.y, y2=canvas.y, class_="axis"))
    canvas.y += 8


@dataclass(frozen=True)
class _Label:
    """A label at a time: the longest of ``words`` for which there is room."""

    x: float
    words: Sequence[str]
    title: str
    sign: str = ""
    """The kind of a turn."""


def _labels(canvas: _Canvas, labels: Sequence[_Label], class_: str, *, down: bool) -> None:
    """Labels in as few rows as possible, right or left of their times; ``down`` draws stems below them."""
    rows: list[list[tuple[float, float]]] = []
    placed: list[tuple[_Label, int, float, str, bool]] = []
    for one in labels:
        begin = 8.0 if one.sign else 4.0
        ways = [
            (number, words, leftwards)
            for words, rows_of in (*((words, range(_MOST_ROWS)) for words in one.words), _further(one))
            for number in rows_of
            for leftwards in (False, True)
        ]
        for number, words, leftwards in ways:
            width = _LETTER * len(words) + 8
            start = one.x - begin - width if leftwards else one.x + begin - 4
            taken = rows[number] if number < len(rows) else []
            inside = start >= 2 and start + width <= WIDTH
            if inside and all(start + width <= left or start >= right for left, right in taken):
                break
        else:
            number, words, leftwards, width, start = 0, "", False, 0.0, one.x
        while len(rows) <= number:
            rows.append([])
        edge = 9.0 if one.sign else 1.0
        rows[number].append((min(start, one.x - edge), max(start + width, one.x + edge)))
        placed.append((one, number, one.x - begin if leftwards else one.x + begin, words, leftwards))
    below = canvas.y + 15 * len(rows) + 4
    if down:  # before all words, so that the words' outlines cover them
        for one, number, *_ in placed:
            top = canvas.y + 4 + 15 * number
            stem = tag("line", x1=one.x, x2=one.x, y1=top, y2=below, class_="mark")
            canvas.add(titled(stem, one.title))
    for one, number, x, words, leftwards in placed:
        y = canvas.y + 13 + 15 * number
        parts = [text(x, y, words, class_, text_anchor="end" if leftwards else None)]
        if one.sign:
            parts.append(turn_sign(one.sign, one.x, y - 4))
        canvas.add(titled(joined(parts), one.title))
    canvas.y += 15 * len(rows) + 6


def _further(label: _Label) -> tuple[str, range]:
    return label.words[-1], range(_MOST_ROWS, _LAST_ROWS)


def turn_sign(kind: str, x: float, y: float) -> Markup:
    """The sign of an election, of messages removed, or of a process that was started."""
    if kind == "elected":
        path = f"M{x:.1f},{y - 6:.1f} l6,10.5 h-12 z"
    elif kind == "started":
        path = f"M{x - 4:.1f},{y - 5:.1f} v10 l8,-5 z"
    else:
        cross = tag("path", d=f"M{x - 3:.1f},{y - 3:.1f} l6,6 m0,-6 l-6,6", class_="removedcross")
        return tag("circle", cx=x, cy=y, r=6.0, class_="removed") + cross
    return tag("path", d=path, class_=kind)


def _turns(canvas: _Canvas, turns: Sequence[Turn]) -> None:
    """Elections, and removals of acknowledged messages from a log, in words above the lanes."""
    shown = [turn for turn in turns if turn.kind in ("elected", "removed")]
    if not shown:
        return
    removed = ", and acknowledged messages that were removed from a replica's log"
    _heading(canvas, "elections" + removed * any(one.kind == "removed" for one in shown))
    short = {"elected": "{0}", "removed": "{1}"}
    labels = [
        _Label(
            canvas.x(one.s),
            (one.text, short[one.kind].format(one.source, one.count)),
            f"{in_seconds(one.s, 2)}: {one.text}",
            one.kind,
        )
        for one in shown
    ]
    _labels(canvas, labels, "turnname", down=False)


def _turns_in_lanes(canvas: _Canvas, turns: Sequence[Turn], tops: Mapping[str, float]) -> None:
    """The signs of these events in the lanes of the brokers."""
    for turn in turns:
        if turn.source in tops:
            sign = turn_sign(turn.kind, canvas.x(turn.s), tops[turn.source] + _LANE - 3)
            canvas.add(titled(sign, f"{in_seconds(turn.s, 2)}: {turn.text}"))


def _heading(canvas: _Canvas, words: str) -> None:
    canvas.y += 17
    canvas.add(text(LEFT, canvas.y - 4, words, "rowhead"))


def _sends(canvas: _Canvas, sends: Mapping[str, Sequence[SendBin]]) -> None:
    if not sends:
        return
    _heading(canvas, "messages sent: the higher, the more at a time; a ring: lost later")
    most = max(one.ok + one.info + one.fail for bins in sends.values() for one in bins)
    for az, bins in sends.items():
        total = sum(one.ok + one.info + one.fail for one in bins)
        lost, failed = sum(one.lost for one in bins), sum(one.fail for one in bins)
        base = _bars(canvas, "sends" if az == NO_AZ else f"{az} sends", f"{grouped(total)} sent")
        if lost:
            canvas.add(text(WIDTH - RIGHT + 6, base - 2, f"{grouped(lost)} lost", "value lostvalue"))
        elif failed:
            canvas.add(text(WIDTH - RIGHT + 6, base - 2, f"{grouped(failed)} failed", "value"))
        for one in bins:
            x = canvas.x(one.s)
            width = max(canvas.x(one.s + one.width_s) - x - 0.8, 1.2)
            y = base
            parts = []
            for count, kind in ((one.ok, "ok"), (one.info, "info"), (one.fail, "fail")):
                if count:
                    height = max(3.0, (_SENDS - 16) * count / most)
                    y -= height
                    parts.append(tag("rect", x=x, y=y, width=width, height=height, class_=f"send {kind}"))
            if one.lost:
                parts.append(tag("circle", cx=x + width / 2, cy=y - 4, r=2.6, class_="lostring"))
            words = f"{in_seconds(one.s, 2)}: {one.ok} acknowledged, {one.info} unknown, {one.fail} failed"
            canvas.add(titled(joined(parts), words + (f"; {one.lost} lost" if one.lost else "")))
        canvas.y += _SENDS


def _bars(canvas: _Canvas, name: str, value: str) -> float:
    """The frame of a row of bars; returns its position."""
    base = canvas.y + _SENDS - 6
    canvas.add(
        text(LEFT - 8, base - 14, name, "label", text_anchor="end"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="base"),
        text(WIDTH - RIGHT + 6, base - 16, value, "value"),
    )
    return base


def _lane(canvas: _Canvas, lane: Lane, replicas: Sequence[int], name: Callable[[int], str]) -> None:
    y = canvas.y
    canvas.add(text(LEFT - 8, y + 18, lane.source, "label", text_anchor="end"))
    for belief in lane.beliefs:
        if belief.to_s <= canvas.from_s or belief.from_s >= canvas.to_s:
            continue
        canvas.add(_belief(canvas, lane.source, belief, replicas, name, y))
    canvas.y += _LANE + _GAP


_DOT = 15.0
"""Room of the dot of a replica whose id has one or two digits."""


def _dot_width(replica: int) -> float:
    return max(_DOT, 5.4 * len(str(replica)) + 5)


def _dot(replica: int, cx: float, cy: float, *, inside: bool) -> Markup:
    """A replica's id in a circle, or in a longer shape if the id is long."""
    class_, half = "dot in" if inside else "dot out", _dot_width(replica) / 2 - 1.3
    shape = (
        tag("circle", cx=cx, cy=cy, r=6.2, class_=class_)
        if _dot_width(replica) == _DOT
        else tag("rect", x=cx - half, y=cy - 6.2, width=2 * half, height=12.4, rx=6.2, class_=class_)
    )
    label = "dottext" if inside else "dottext out"
    return shape + text(cx, cy + 3.2, str(replica), label, text_anchor="middle")


def _belief(
    canvas: _Canvas,
    source: str,
    belief: Belief,
    replicas: Sequence[int],
    name: Callable[[int], str],
    y: float,
) -> Markup:
    x, end = canvas.x(belief.from_s), canvas.x(belief.to_s)
    width = end - x
    times = f"{in_seconds(belief.from_s, 2)} to {in_seconds(belief.to_s, 2)}"
    if belief.error or belief.leader is None:
        words = belief.error or "has said nothing yet"
        box = tag("rect", x=x, y=y, width=width, height=_LANE, class_="silentlane")
        shown = fit("no answer" if belief.error else "", width - 6)
        return titled(box + text(x + 5, y + 18, shown, "silenttext"), f"{source}, {times}: {words}")
    epoch = "" if belief.epoch is None else f"epoch {belief.epoch}"
    if belief.leader == _NOBODY:
        box = tag("rect", x=x, y=y, width=width, height=_LANE, class_="nobody")
        words = next((one for one in (f"none · {epoch}", "none") if 6.6 * len(one) + 8 <= width), "")
        label = text(x + 5, y + 18, words, "silenttext")
        return titled(box + label, f"{source}, {times}: no leader, {epoch}")
    leader = name(belief.leader)
    own = leader == source
    parts = [block(x, y, width, _LANE, hue_of(leader))]
    frame = "band own" if own else "band"
    parts.append(
        tag("rect", x=x + 0.75, y=y + 0.75, width=max(width - 1.5, 0.5), height=_LANE - 1.5, class_=frame)
    )
    dots = sum(map(_dot_width, replicas)) + 6
    choices = [
        f"{'itself' if own else leader}{f' · {epoch}' if epoch else ''}",
        epoch,
        "" if belief.epoch is None else f"e{belief.epoch}",
    ]
    letter = 7.4 if own else 6.6
    shown = next((choice for choice in choices if len(choice) * letter + 10 <= width), "")
    with_dots = bool(replicas) and len(shown) * letter + 14 + dots <= width and bool(shown)
    if shown:
        parts.append(
            tag("rect", x=x + 3, y=y + 5, width=len(shown) * letter + 6, height=17, rx=3, class_="plate")
        )
        parts.append(text(x + 6, y + 18, shown, "bandtext own" if own else "bandtext"))
    if with_dots:
        left = x + len(shown) * letter + 20 - _DOT / 2
        for replica in sorted(replicas):
            width = _dot_width(replica)
            parts.append(_dot(replica, left + width / 2, y + _LANE / 2, inside=replica in belief.isr))
            left += width
    isr = f", ISR {list(belief.isr)}" if belief.isr else ""
    return titled(joined(parts), f"{source}, {times}: leader {leader}, {epoch}{isr}")


def _splits(canvas: _Canvas, splits: Sequence[Split], name: Callable[[int], str]) -> None:
    for split in splits:
        if sum(leader >= 0 for leader in split.says) < 2:
            continue  # some nodes know no leader yet; the lanes show that
        x, end = canvas.x(split.from_s), canvas.x(split.to_s)
        y = canvas.y + 3
        path = f"M{x:.1f},{y:.1f} v7 H{end:.1f} v-7"
        head = f"disagreement for {split.to_s - split.from_s:.1f} s"
        rows = [
            f"{'nobody leads' if leader < 0 else f'{name(leader)} leads'}, "
            f"{'say' if len(sources) > 1 else 'says'} {listed(sources)}"
            for leader, sources in split.says.items()
        ]
        rows[0] = f"{head}: {rows[0]}"
        start = max(4.0, min(x, *(WIDTH - 7.2 * len(row) for row in rows)))
        lines = [
            text(start, y + 21 + 15 * number, fit(row, WIDTH - start, 11), "splittext")
            for number, row in enumerate(rows)
        ]
        canvas.add(titled(tag("path", d=path, class_="split") + joined(lines), "; ".join(rows)))
        canvas.y += 15 + 15 * len(rows)


def _offsets(
    canvas: _Canvas,
    broker: int,
    steps: Sequence[Offsets],
    highest: int,
    silent: Sequence[tuple[float, float]],
) -> None:
    """Step lines of one replica, interrupted while its broker did not answer."""
    top, base = canvas.y + 6, canvas.y + _OFFSETS - 8
    room = base - top

    def height(offset: int | None) -> float:
        return base - room * (offset or 0) / max(highest, 1)

    canvas.add(text(LEFT - 8, base - room / 2 + 4, f"broker{broker}", "label", text_anchor="end"))
    canvas.add(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="base"))
    inside = _drawable(canvas, [one for one in steps if one.s < canvas.to_s])
    if not inside:
        canvas.y += _OFFSETS
        return
    ends = [*(one.s for one in inside[1:]), canvas.to_s]
    area: list[str] = []
    leo_line: list[str] = []
    watermark: list[str] = []
    drawn_to: float | None = None
    for one, end in zip(inside, ends, strict=True):
        leo, high = height(one.leo), height(one.high_watermark)
        for begin, until in _answered(one.s, end, silent):
            x, right = canvas.x(begin), canvas.x(until)
            go = "L" if drawn_to == begin else "M"
            leo_line.append(f"{go}{x:.1f},{leo:.1f} H{right:.1f}")
            if one.high_watermark is not None:
                watermark.append(f"{go}{x:.1f},{high:.1f} H{right:.1f}")
                if one.leo is not None and one.leo > one.high_watermark and right > x:
                    area.append(f"M{x:.1f},{leo:.1f} H{right:.1f} V{high:.1f} H{x:.1f} z")
            drawn_to = until
    for begin, until in silent:
        x, right = canvas.x(begin), canvas.x(until)
        if right > x:
            box = tag("rect", x=x, y=top - 4, width=right - x, height=room + 4, class_="silentlane")
            shown = text(x + 5, base - room / 2 + 4, fit("no answer", right - x - 6), "silenttext")
            canvas.add(box + shown)
    canvas.add(tag("path", d=" ".join(area) or "M0,0", class_="uncommitted"))
    canvas.add(tag("path", d=" ".join(leo_line), class_="leo"))
    canvas.add(tag("path", d=" ".join(watermark) or "M0,0", class_="watermark"))
    last = inside[-1]
    y_leo, y_high = height(last.leo), height(last.high_watermark)
    if last.high_watermark == last.leo:
        both = f"HW = LEO {last.leo}"
        for number, row in enumerate([both] if len(both) <= 12 else ["HW = LEO", str(last.leo)]):
            canvas.add(text(WIDTH - RIGHT + 6, y_high + 4 + 12 * number, row, "value"))
    else:
        canvas.add(text(WIDTH - RIGHT + 6, min(y_leo + 4, base - 12), f"LEO {last.leo}", "value"))
        if last.high_watermark is not None:
            canvas.add(
                text(WIDTH - RIGHT + 6, max(y_high + 4, y_leo + 16), f"HW {last.high_watermark}", "value")
            )
    _flat(canvas, inside, height)
    canvas.y += _OFFSETS


def _answered(
    from_s: float, to_s: float, silent: Sequence[tuple[float, float]]
) -> Iterable[tuple[float, float]]:
    """The parts of a period in which a broker answered."""
    for begin, end in silent:
        if end <= from_s or begin >= to_s:
            continue
        if begin > from_s:
            yield from_s, begin
        from_s = end
    if from_s < to_s:
        yield from_s, to_s


def _drawable(canvas: _Canvas, steps: Sequence[Offsets]) -> Sequence[Offsets]:
    """At most one step for each half pixel."""
    if len(steps) < 1500:
        return steps
    kept = {int(canvas.x(one.s) * 2): one for one in steps}
    return list(kept.values())


def _flat(canvas: _Canvas, steps: Sequence[Offsets], height: Callable[[int | None], float]) -> None:
    """Label the longest time in which the high watermark stood still although the log grew.

    The label is below the high watermark if there is room, else above both lines.
    """
    best: tuple[float, int, int] | None = None
    start = 0
    for number, one in enumerate(steps):
        if one.high_watermark != steps[start].high_watermark:
            start = number
        grown = (one.leo or 0) - (steps[start].leo or 0)
        lasted = one.s - steps[start].s
        if grown >= 3 and one.high_watermark is not None and (best is None or lasted > best[0]):
            best = (lasted, start, number)
    if best is None or best[0] < 1.5:
        return
    lasted, start, number = best
    x = canvas.x(steps[start].s)
    still, grown_to = steps[start].high_watermark, steps[number].leo
    words = f"HW stands still at {still} for {lasted:.1f} s while the LEO grows to {grown_to}"
    at = min(x + 4, WIDTH - RIGHT - len(words) * 6.0)
    below = height(still) + 15
    y = below if below < height(0) else canvas.y + 13
    canvas.add(text(at, y, words, "flat"))


def _in_force(faults: Sequence[Fault], until_s: float) -> list[tuple[float, float]]:
    """The periods in which at least one fault was in force."""
    stretches: list[tuple[float, float]] = []
    for fault in sorted((one for one in faults if one.lasting), key=lambda one: one.from_s):
        end_s = until_s if fault.to_s is None else fault.to_s
        if stretches and fault.from_s <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], end_s)
        else:
            stretches.append((fault.from_s, end_s))
    return stretches


def _finish(canvas: _Canvas, faults: Sequence[Fault], marks: Sequence[Mark], label: str) -> Markup:
    height = canvas.y + 4
    back = []
    for begin_s, end_s in _in_force(faults, canvas.to_s):
        x, end = canvas.x(begin_s), canvas.x(end_s)
        back.append(tag("rect", x=x, y=6, width=max(end - x, 1.0), height=height - 6, class_="fault"))
    lines = [
        tag("line", x1=canvas.x(mark.s), x2=canvas.x(mark.s), y1=30, y2=height, class_="mark")
        for mark in marks
    ]
    cursor = tag("line", x1=0, x2=0, y1=0, y2=height, class_="cursor", visibility="hidden")
    chosen = tag("rect", x=0, y=0, width=0, height=height, class_="chosen", visibility="hidden")
    svg = picture(WIDTH, height, [*back, *lines, *canvas.front, chosen, cursor], label, "timeline")
    scale = (
        f'data-from="{canvas.from_s}" data-to="{canvas.to_s}" data-left="{LEFT}" data-right="{WIDTH - RIGHT}"'
    )
    return Markup(str(svg).replace("<svg ", f"<svg {scale} ", 1))
