"""Finds text of a page that is cut off or that lies on other text, in a browser."""

from __future__ import annotations

from typing import Any

_FAULTS = """() => {
  const found = new Set();
  const name = (one) => one.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
  const shown = (one) => one.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})
    && one.textContent.trim();
  // Letters do not fill the box of their line: a sixth of it above and below may lie on other boxes.
  const corners = (text) => {
    const {x, y, width, height} = text.getBBox(), at = text.getScreenCTM(), slack = height / 6;
    return [[x, y + slack], [x + width, y + slack], [x + width, y + height - slack], [x, y + height - slack]]
      .map(([a, b]) => new DOMPoint(a, b).matrixTransform(at));
  };
  const range = (points, axis) => {
    const values = points.map((point) => point.x * axis.x + point.y * axis.y);
    return [Math.min(...values), Math.max(...values)];
  };
  // Two rectangles, however rotated, lie apart if they do so seen along the side of one of them.
  const apart = (one, other) => [one, other].some((box) => [[0, 1], [1, 2]].some(([from, to]) => {
    const [x, y] = [box[to].x - box[from].x, box[to].y - box[from].y], length = Math.hypot(x, y) || 1;
    const axis = {x: x / length, y: y / length};
    const [a, b] = range(one, axis), [c, d] = range(other, axis);
    return Math.min(b, d) - Math.max(a, c) <= 1;
  }));
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter(shown).map((one) => [one, corners(one)]);
    texts.forEach(([one, box], number) => {
      if (box.some(({x, y}) => x < frame.left - 1 || x > frame.right + 1 || y < frame.top - 1
          || y > frame.bottom + 1)) found.add(`“${name(one)}” leaves its picture`);
      for (const [other, its] of texts.slice(number + 1))
        if (!apart(box, its)) found.add(`“${name(one)}” lies on “${name(other)}”`);
    });
  }
  for (const one of document.querySelectorAll("body *")) {
    if (one.closest("svg") || !shown(one)) continue;
    const {overflowX, overflowY} = getComputedStyle(one), hides = ["hidden", "clip"];
    if (hides.includes(overflowX) && one.scrollWidth > one.clientWidth + 1
        || hides.includes(overflowY) && one.scrollHeight > one.clientHeight + 1)
      found.add(`“${name(one)}” is cut off`);
    if (overflowX === "visible" && one.scrollWidth > one.clientWidth + 1 && one.clientWidth)
      found.add(`“${name(one)}” is wider than its place`);
  }
  return [...found];
}"""


def layout_faults(page: Any) -> list[str]:
    """Sentences about texts of an opened page that cannot be read where they stand."""
    faults: list[str] = page.evaluate(_FAULTS)
    return faults
