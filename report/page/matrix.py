"""The links that a fault names, as a matrix: rows send, columns receive."""

from __future__ import annotations

from markupsafe import Markup

from report.model.model import Fault
from report.page.svg import picture, tag, text, titled

_CELL, _LEFT, _TOP = 24.0, 96.0, 84.0
MOST = 30
"""With more hosts the matrix is not drawn."""


def link_matrix(fault: Fault) -> Markup:
    """The picture of a fault's links; empty for a fault without links."""
    pairs = {tuple(link.split(":")[0].split(" -> ", 1)) for link in fault.links if " -> " in link}
    alive = {tuple(link.split(" -> ", 1)) for link in fault.links_without_effect}
    hosts = sorted({host for pair in pairs for host in pair}, key=lambda host: (host[-1:], host))
    if not pairs or len(hosts) > MOST:
        return Markup("")
    parts = [text(_LEFT - 8, _TOP - 8, "from ↓   to →", "sublabel", text_anchor="end")]
    for number, host in enumerate(hosts):
        x, y = _LEFT + number * _CELL, _TOP + number * _CELL
        parts.append(text(_LEFT - 8, y + 16, host, "label", text_anchor="end"))
        turned = f"translate({x + 16:.0f} {_TOP - 8:.0f}) rotate(-60)"
        parts.append(tag("text", host, transform=turned, class_="label"))
        for column, other in enumerate(hosts):
            at = _LEFT + column * _CELL
            box = {"x": at + 1, "y": y + 1, "width": _CELL - 2, "height": _CELL - 2}
            if host == other:
                parts.append(tag("rect", class_="self", **box))
                continue
            if (host, other) not in pairs:
                sign, state, outcome = "", "link", "not named by the fault"
            elif fault.proven:
                sign, state, outcome = "✗", "link cutlink", "named by the fault, proven dead"
            elif (host, other) in alive:
                sign, state, outcome = "!", "link alivelink", "named by the fault, which had no effect on it"
            else:
                sign, state, outcome = (
                    "?",
                    "link unproven",
                    "named by the fault, not proven dead all the time",
                )
            words = f"{host} → {other}: {outcome}"
            mark = text(at + _CELL / 2, y + 16.5, sign, "linksign", text_anchor="middle")
            parts.append(titled(tag("rect", class_=state, **box) + mark, words))
    size = len(hosts) * _CELL
    unproven = "! no effect   ? not proven" if alive else "? not proven"
    key = "✗ dead: proven" if fault.proven else unproven
    parts.append(text(_LEFT, _TOP + size + 18, key, "sublabel"))
    return picture(_LEFT + size + 70, _TOP + size + 26, parts, f"Links of {fault.name}", "matrix")
