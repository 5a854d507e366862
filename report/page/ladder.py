"""The story of a message or a transaction as a ladder: nodes are columns, time runs from top to bottom."""

from __future__ import annotations

from markupsafe import Markup

from harness.history.time_zero import in_seconds
from report.model.model import Story, StoryEvent
from report.page.svg import fit, picture, tag, text

_TIME, _WIDTH = 76.0, 900.0
_STEP, _WIDE = 27.0, ("mark", "fault", "healed")


def ladder(story: Story) -> Markup:
    """The picture of a story; its last line is the cause."""
    columns = {
        name: _TIME + (number + 0.5) * (_WIDTH - _TIME) / len(story.columns)
        for number, name in enumerate(story.columns)
    }
    room = (_WIDTH - _TIME) / len(story.columns)
    parts: list[Markup] = []
    for name, x in columns.items():
        parts.append(tag("rect", x=x - 46, y=4, width=92, height=20, rx=4, class_="node"))
        parts.append(text(x, 18, fit(name, 88), "nodename", text_anchor="middle"))
    y = 44.0
    rungs: list[Markup] = []
    for event in story.events:
        rungs.append(text(_TIME - 12, y + 4, f"{in_seconds(event.s, 2)}", "tick", text_anchor="end"))
        rungs += _rung(event, columns, y, room)
        y += _STEP
    end = y - 8
    lines = [tag("line", x1=x, x2=x, y1=24, y2=end, class_="life") for x in columns.values()]
    cause = story.cause or story.fate.replace("_", " ")
    rungs.append(text(4, y + 10, "cause", "tick"))
    rows = _wrapped(cause, 108)
    for number, row in enumerate(rows):
        rungs.append(text(_TIME, y + 10 + 15 * number, row, "cause"))
    height = y + 22 + 15 * (len(rows) - 1)
    of = "transaction" if story.message.startswith("txn:") else "message"
    return picture(_WIDTH, height, [*lines, *parts, *rungs], f"Story of {of} {story.message}", "ladder")


def _rung(event: StoryEvent, columns: dict[str, float], y: float, room: float) -> list[Markup]:
    if event.kind in _WIDE or not (event.source in columns or event.target in columns):
        width = _WIDTH - _TIME
        sign = {"fault": "⚡ ", "healed": "✓ ", "mark": "— "}.get(event.kind, "★ ")
        shown = fit(sign + event.text, width - 12)
        return [
            tag("rect", x=_TIME, y=y - 9, width=width, height=18, class_=f"wide wide-{event.kind}", rx=2),
            text(_TIME + 6, y + 4, shown, f"widetext wide-{event.kind}"),
        ]
    start, end = columns.get(event.source), columns.get(event.target)
    if start is not None and end is not None and start != end:
        middle = (start + end) / 2
        plate = len(event.text) * 6.1 + 8
        return [
            tag("line", x1=start, x2=end, y1=y, y2=y, class_=f"arrow {event.kind}", marker_end="url(#arrow)"),
            tag("rect", x=middle - plate / 2, y=y - 17, width=plate, height=14, class_="paper"),
            text(middle, y - 6, event.text, f"rungtext {event.kind}", text_anchor="middle"),
        ]
    at = start if start is not None else end if end is not None else _TIME + room / 2
    sign = {"seen": "●", "gone": "✗", "elected": "★", "logged": "▼"}.get(event.kind, "•")
    shown = event.text
    plate = len(shown) * (7.0 if event.kind == "gone" else 6.3) + 8
    x = at + 11
    if x + plate > _WIDTH:
        x = at - 9 - plate
    return [
        text(at, y + 4.5, sign, f"sign {event.kind}", text_anchor="middle"),
        tag("rect", x=x - 2, y=y - 8, width=plate, height=16, class_="paper"),
        text(x + 2, y + 4, shown, f"rungtext {event.kind}"),
    ]


def _wrapped(words: str, width: int) -> list[str]:
    rows = [""]
    for word in words.split():
        if len(rows[-1]) + len(word) + 1 > width and rows[-1]:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return rows
