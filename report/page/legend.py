"""The legends of the pictures; they explain only what the pictures contain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from report.page.timeline import turn_sign


@dataclass(frozen=True, kw_only=True)
class _Key:
    """A symbol and its words; shown if an element of a picture has the class ``drawn``."""

    drawn: str
    words: str
    width: int
    height: int
    symbol: str


def _bar(name: str, words: str, width: int = 26) -> _Key:
    drawn = 26 if width == 26 else 8
    return _Key(
        drawn=name,
        words=words,
        width=width,
        height=14,
        symbol=f'<rect width="{drawn}" height="14" class="{name}"/>',
    )


def _line(name: str, words: str) -> _Key:
    return _Key(drawn=name, words=words, width=26, height=14, symbol=f'<path d="M0,7 H26" class="{name}"/>')


_CELL = '<rect x="1" y="1" width="28" height="16" class="h1"/>'
_OWN = '<rect x="1" y="1" width="24" height="12" class="band own"/>'
_ISR = (
    '<rect width="46" height="16" class="h1"/>'
    '<circle cx="12" cy="8" r="6.5" class="dot in"/>'
    '<text x="12" y="11" text-anchor="middle" class="dottext">1</text>'
    '<circle cx="34" cy="8" r="6.5" class="dot out"/>'
    '<text x="34" y="11" text-anchor="middle" class="dottext out">2</text>'
)
_ACKED = f'{_CELL}<rect x="3" y="3" width="24" height="12" rx="5" class="acked"/>'
_ABOVE = f'{_CELL}<rect x="1" y="1" width="28" height="16" class="above"/>'
_DAMAGED = (
    f'{_CELL}<rect x="2" y="2" width="26" height="14" class="damaged"/>'
    '<path d="M20,1 l4,4 l-5,3 l5,4 l-4,5" class="damaged"/>'
)
_GONE = (
    '<rect x="1" y="2" width="28" height="14" rx="3" class="ghostcell"/>'
    '<line x1="4" x2="26" y1="9" y2="9" class="strike"/>'
)
_KEYS: Mapping[str, Sequence[_Key]] = {
    "band": (
        _Key(drawn="own", words="the node takes itself for the leader", width=26, height=14, symbol=_OWN),
        _bar("silentlane", "no answer"),
        _Key(drawn="dot", words="ISR: broker 1 is in it, broker 2 is not", width=46, height=16, symbol=_ISR),
        _bar("fault", "fault in force"),
        _Key(
            drawn="elected",
            words="a leader was elected",
            width=16,
            height=14,
            symbol=str(turn_sign("elected", 8, 8)),
        ),
        _Key(
            drawn="removed",
            words="acknowledged messages were removed from this log",
            width=16,
            height=14,
            symbol=str(turn_sign("removed", 8, 7)),
        ),
        _Key(
            drawn="started",
            words="the broker's process was started",
            width=16,
            height=14,
            symbol=str(turn_sign("started", 8, 7)),
        ),
    ),
    "messages": (
        _bar("send ok", "acknowledged", 10),
        _bar("send info", "outcome unknown", 10),
        _bar("send fail", "failed", 10),
        _Key(
            drawn="lostring",
            words="lost later",
            width=12,
            height=14,
            symbol='<circle cx="6" cy="7" r="3" class="lostring"/>',
        ),
    ),
    "offsets": (
        _line("watermark", "high watermark (HW)"),
        _line("leo", "log end offset (LEO)"),
        _bar("uncommitted", "in the log, not committed"),
    ),
    "logs": (
        _Key(drawn="acked", words="acknowledged", width=30, height=18, symbol=_ACKED),
        _Key(drawn="above", words="above the replica's high watermark", width=30, height=18, symbol=_ABOVE),
        _Key(
            drawn="damaged", words="its bytes in this log are damaged", width=30, height=18, symbol=_DAMAGED
        ),
        _Key(
            drawn="hwline",
            words="high watermark",
            width=30,
            height=18,
            symbol='<path d="M15,0 V18" class="hwline"/>',
        ),
        _Key(
            drawn="notknown",
            words="nobody knows: the broker does not answer",
            width=30,
            height=18,
            symbol='<rect x="1" y="2" width="28" height="14" class="notknown"/>',
        ),
        _Key(
            drawn="ghostcell",
            words="lost, or no longer in this log (truncated or erased)",
            width=30,
            height=18,
            symbol=_GONE,
        ),
    ),
}
"""By line of the legends."""


def legend_keys(drawn: str) -> dict[str, list[Markup]]:
    """The keys of the symbols in the pictures ``drawn`` (SVG), by line of the legends."""
    return {
        line: [
            Markup(
                f'<span class="key"><svg width="{key.width}" height="{key.height}" class="sign" '
                f'aria-hidden="true">{key.symbol}</svg> {key.words}</span>'
            )
            for key in keys
            if re.search(f'class="(?:[^"]* )?{key.drawn}(?: [^"]*)?"', drawn)
        ]
        for line, keys in _KEYS.items()
    }
