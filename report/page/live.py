"""The page of a run under way: the pictures of its final page, which the server sends anew as they change."""

from __future__ import annotations

from markupsafe import Markup

from report.model.live import LiveModel
from report.model.model import grouped
from report.page.shelf import own_page
from report.page.svg import PATTERNS
from report.page.template import environment
from report.page.timeline import controller_timeline, partition_timeline, rates_timeline
from report.words.times import zero_of_axis


def live_page(address: str, name: str, title: str, kafka: str, mode: str) -> tuple[str, str]:
    """The page without its pictures, and its Content-Security-Policy."""
    return own_page(
        "live.html.j2",
        "live.js",
        address=address,
        name=name,
        title=title,
        kafka=kafka,
        mode=mode,
        patterns=PATTERNS,
    )


def live_fragment(model: LiveModel) -> str:
    """The pictures, as HTML."""
    times, since = (model.from_s, model.to_s), zero_of_axis(model.fault)
    parts = []
    if model.rates:
        parts.append(
            ("Messages acknowledged", rates_timeline(model.rates, model.faults, *times, since=since))
        )
    if model.partition is not None:
        picture = partition_timeline(model.partition, model.faults, model.marks, *times, since=since)
        parts.append((f"Who leads {model.partition.name}", picture))
    if model.controllers:
        picture = controller_timeline(
            model.controllers, model.controller_splits, model.faults, model.marks, *times, since=since
        )
        parts.append(("Who is the controller", picture))
    total = grouped(model.acknowledged)
    last = f" · {model.marks[-1].text}" if model.marks else ""
    pictures = Markup("").join(
        Markup('<h2>{}</h2><div class="scroll" tabindex="0">{}</div>').format(title, picture)
        for title, picture in parts
    )
    state = Markup('<p class="meta">{:.0f} s · {} messages acknowledged{}</p>').format(
        model.lasted_s, total, last
    )
    return str(state + pictures)


def message_fragment(message: str) -> str:
    """A sentence in the place of the pictures, as HTML."""
    return str(environment().from_string('<p class="meta">{{ message }}</p>').render(message=message))
