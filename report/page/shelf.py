"""The pages of `acked serve` itself: the list of what is stored, and a message in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from report.page.template import ICONS, TONES, asset, digest, environment


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The list as it is shown."""

    folder: str
    entries: Sequence[Mapping[str, object]]
    """Newest first; the keys are those of `/runs.json`."""
    more: int
    """How many that match are not shown."""
    every: int
    """How many are stored."""
    wanted: Mapping[str, str]
    """What the list is restricted to, by name of the field."""
    choices: Mapping[str, Sequence[str]]
    """By name of the field, what can be chosen."""


def shelf_page(listing: Listing) -> tuple[str, str]:
    """The list as HTML, and its Content-Security-Policy."""
    return own_page("shelf.html.j2", "shelf.js", listing=listing, tones=TONES, icons=ICONS)


def message_page(message: str) -> tuple[str, str]:
    """A sentence in the place of a page, and the Content-Security-Policy."""
    return own_page("message.html.j2", "", message=message)


def own_page(template: str, script_name: str, **content: object) -> tuple[str, str]:
    """A page that the server itself makes, with a style and a script, and its Content-Security-Policy."""
    style, script = asset("page.css"), asset(script_name) if script_name else ""
    scripts = f"'sha256-{digest(script)}'" if script else "'none'"
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src {scripts}; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    text = (
        environment()
        .get_template(template)
        .render(**content, style=Markup(style), script=Markup(script), quote=lambda text: quote(str(text)))
    )
    return text, policy
