"""axe-core in an opened page: what keeps people with disabilities out of it (WCAG 2.1, A and AA)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")


@cache
def _program() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def barriers(page: Any) -> list[str]:
    """A sentence for each rule that the page breaks, with the first element that does."""
    page.evaluate(_program())
    result = page.evaluate("(tags) => axe.run(document, {runOnly: tags})", list(RULES))
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {len(one['nodes'])} times, as "
        f"{one['nodes'][0]['html'][:120]}"
        for one in result["violations"]
    ]


_REACHABLE = """() => {
  const shown = (one) => one.checkVisibility({checkVisibilityCSS: true})
    && one.tabIndex >= 0 && !one.disabled;
  const every = [...document.querySelectorAll("a[href],button,summary,input,select,textarea,[tabindex]")];
  window.toReach = new Set(every.filter(shown));
  document.addEventListener("focusin", (event) => window.toReach.delete(event.target));
  return window.toReach.size;
}"""


def out_of_reach(page: Any) -> list[str]:
    """What can be used by pointer, and not be reached by the Tab key alone."""
    for _ in range(page.evaluate(_REACHABLE) + 2):
        page.keyboard.press("Tab")
    left: list[str] = page.evaluate("[...window.toReach].map((one) => one.outerHTML.slice(0, 120))")
    return left
