"""The frame that all pages of results have in common: one file, one header, one style sheet."""

from __future__ import annotations

import html
from collections.abc import Sequence

from markupsafe import Markup

from report.model.opening import Opening
from report.page.template import TONES, asset, digest, environment

AROUND = "<!--around-->"
"""Where `acked serve` puts links to the list, and to the results before and after this one."""


def framed(template: str, opening: Opening, script_name: str = "", **content: object) -> str:
    """A page as one self-contained HTML file. ``template`` extends `frame.html.j2`."""
    style, script = asset("page.css"), asset(script_name) if script_name else ""
    sign, word = TONES[opening.tone]
    return (
        environment()
        .get_template(template)
        .render(
            **content,
            opening=opening,
            sign=opening.sign or sign,
            word=opening.word or word,
            tones=TONES,
            around=Markup(AROUND),
            style=Markup(style),
            style_hash=digest(style),
            script=Markup(script),
            script_hash=digest(script),
        )
    )


def placed(page: str, links: Sequence[tuple[str, str]]) -> str:
    """A page with links (words and addresses) to what is around it, if it has a place for them."""
    shown = " ".join(f'<a href="{html.escape(address)}">{html.escape(words)}</a>' for words, address in links)
    return page.replace(AROUND, shown, 1)


def inner(page: str) -> str:
    """What the live view of a page shows: its header and its main part, in an element of the page's class."""
    kind = page.partition('<body class="')[2].partition('"')[0]
    shown = page[page.index("<header") : page.rindex("</main>")].replace("<main>", "<div>", 1)
    return f'<div class="{kind}">{shown}</div></div>'
