"""SVG as text: elements with escaped attributes and content, and what all pictures share."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable

from markupsafe import Markup

LEADERS = 6
"""Number of nodes with their own hue and texture; further nodes reuse them."""


def tag(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """An element. Attributes that are None are left out, `_` in their names is `-`, `class_` is `class`."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        if isinstance(value, float):
            shown = _number(value)
        else:
            shown = str(value) if isinstance(value, int) else html.escape(str(value))
        parts.append(f' {_NAMES.get(key) or _attribute(key)}="{shown}"')
    inner = "".join(
        [child if isinstance(child, Markup) else html.escape(child, quote=False) for child in children]
    )
    parts.append(f">{inner}</{name}>" if inner else "/>")
    return Markup("".join(parts))


_NAMES: dict[str, str] = {}


def _attribute(key: str) -> str:
    return _NAMES.setdefault(key, key.rstrip("_").replace("_", "-"))


def joined(parts: Iterable[Markup]) -> Markup:
    """Several elements, one after the other."""
    return Markup("".join(parts))


def text(x: float, y: float, content: str, class_: str = "", **attributes: object) -> Markup:
    """A line of text."""
    return tag("text", content, x=x, y=y, class_=class_ or None, **attributes)


def titled(content: Markup, title: str) -> Markup:
    """A group that shows ``title`` when pointed at, and tells it to screen readers."""
    return tag("g", tag("title", title), content)


def picture(width: float, height: float, children: Iterable[Markup], label: str, class_: str = "") -> Markup:
    """A picture that scales with the page, with a name for screen readers."""
    return tag(
        "svg",
        tag("title", label),
        joined(children),
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        class_=f"picture {class_}".strip(),
        xmlns="http://www.w3.org/2000/svg",
    )


def block(x: float, y: float, width: float, height: float, hue: int | None, class_: str = "") -> Markup:
    """A rectangle in the colour and the texture of a node; grey without one."""
    number = "x" if hue is None else str((hue - 1) % LEADERS + 1)
    box = {"x": x, "y": y, "width": max(width, 0.5), "height": height}
    plain = tag("rect", class_=f"h{number} {class_}".strip(), **box)
    return plain if number in ("1", "x") else plain + tag("rect", fill=f"url(#t{number})", **box)


def hue_of(host: str) -> int:
    """The hue of a node: the number in its host name, so that a controller has that of its AZ's broker."""
    return int(host[len(host.rstrip("0123456789")) :] or 0)


def wrapped(content: str, width: float, size: float = 11, *, most: int = 3) -> list[str]:
    """The text in lines of a width in pixels; if it needs more than ``most`` lines, the last one is cut."""
    lines = textwrap.wrap(content, max(8, int(width / (size * 0.58)))) or [""]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], fit(" ".join(lines[most - 1 :]), width, size)]


def fit(content: str, width: float, size: float = 11) -> str:
    """The text, cut to a width in pixels; empty if fewer than three letters fit."""
    room = int(width / (size * 0.58))
    if len(content) <= room:
        return content
    return "" if room < 4 else content[: room - 1] + "…"


def _number(value: float) -> str:
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


PATTERNS = Markup(
    '<svg width="0" height="0" class="defs" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="t2" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="1.6" height="7" class="ink"/></pattern>'
    '<pattern id="t3" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<circle cx="2" cy="2" r="1.2" class="ink"/></pattern>'
    '<pattern id="t4" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="1.4" height="6" class="ink"/></pattern>'
    '<pattern id="t5" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="1.4" height="8" class="ink"/><rect width="8" height="1.4" class="ink"/></pattern>'
    '<pattern id="t6" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect width="1.6" height="7" class="ink"/></pattern>'
    '<pattern id="uncommitted" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(-45)"><rect width="1.2" height="6" class="strong"/></pattern>'
    '<pattern id="stated" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M1 0 V6" class="statedline"/></pattern>'
    '<pattern id="silent" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3" height="8" class="ghost"/></pattern>'
    '<pattern id="unknown" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="2" height="4" class="unknown"/></pattern>'
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" class="tip"/></marker>'
    "</defs></svg>"
)
"""Textures that all pictures of a page refer to."""
