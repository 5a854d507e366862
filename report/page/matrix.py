"""Which links a fault names: rows send, columns receive."""

from __future__ import annotations

from markupsafe import Markup

from report.model.model import Fault
from report.page.svg import picture, tag, text, titled

_CELL, _LEFT, _TOP = 24.0, 96.0, 84.0
MOST = 30
"""Hosts beyond which the matrix is not drawn."""


def link_matrix(fault: Fault) -> Markup:
    """The picture of a fault's links; empty for a fault without any."""
    pairs = {tuple(link.split(":")[0].split(" -> ", 1)) for link in fault.links if " -> " in link}
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
            cut = (host, other) in pairs
            state = "link cutlink" if cut and fault.proven else "link unproven" if cut else "link"
            sign = ("✗" if fault.proven else "?") if cut else ""
            words = f"{host} → {other}: " + (
                "named by the fault, " + ("proven dead" if fault.proven else "not proven dead all the time")
                if cut
                else "not named by the fault"
            )
            mark = text(at + _CELL / 2, y + 16.5, sign, "linksign", text_anchor="middle")
            parts.append(titled(tag("rect", class_=state, **box) + mark, words))
    size = len(hosts) * _CELL
    return picture(_LEFT + size + 70, _TOP + size + 6, parts, f"Links of {fault.name}", "matrix")
