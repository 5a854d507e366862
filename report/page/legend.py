"""The legend of the timelines: what they draw, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from markupsafe import Markup

_DOTS = (
    '<rect width="46" height="16" class="h1"/>'
    '<circle cx="12" cy="8" r="6.5" class="dot in"/>'
    '<text x="12" y="11" text-anchor="middle" class="dottext">1</text>'
    '<circle cx="34" cy="8" r="6.5" class="dot out"/>'
    '<text x="34" y="11" text-anchor="middle" class="dottext out">2</text>'
)
_KEYS: Mapping[str, Sequence[tuple[str, int, str, str]]] = {
    "band": (
        (
            *("own", 26, '<rect x="1" y="1" width="24" height="12" class="band own"/>'),
            "the node takes itself for the leader",
        ),
        ("silentlane", 26, '<rect width="26" height="14" class="silentlane"/>', "no answer"),
        ("dot", 46, _DOTS, "ISR: broker 1 is in it, broker 2 is not"),
        ("fault", 26, '<rect width="26" height="14" class="fault"/>', "fault in force"),
    ),
    "messages": (
        ("send ok", 10, '<rect width="8" height="14" class="send ok"/>', "acknowledged"),
        ("send info", 10, '<rect width="8" height="14" class="send info"/>', "outcome unknown"),
        ("send fail", 10, '<rect width="8" height="14" class="send fail"/>', "failed"),
        ("lostring", 12, '<circle cx="6" cy="7" r="3" class="lostring"/>', "lost later"),
    ),
    "offsets": (
        ("watermark", 26, '<path d="M0,7 H26" class="watermark"/>', "high watermark"),
        ("leo", 26, '<path d="M0,7 H26" class="leo"/>', "log end offset"),
        (
            "uncommitted",
            26,
            '<rect width="26" height="14" class="uncommitted"/>',
            "in the log, not committed",
        ),
    ),
}
"""By line of the legend: the class of an element of the picture, and the key's width, symbol and words."""


def legend_keys(drawn: str) -> dict[str, list[Markup]]:
    """The keys of what the timelines ``drawn``, as SVG, contain; by line of the legend."""
    return {
        line: [
            Markup(
                f'<span class="key"><svg width="{width}" height="{16 if name == "dot" else 14}" '
                f'class="sign" aria-hidden="true">{symbol}</svg> {words}</span>'
            )
            for name, width, symbol, words in keys
            if _has(drawn, name)
        ]
        for line, keys in _KEYS.items()
    }


def _has(drawn: str, name: str) -> bool:
    return re.search(f'class="(?:[^"]* )?{name}(?: [^"]*)?"', drawn) is not None
