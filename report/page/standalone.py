"""The main picture of a run as one SVG file, for documents.

It needs no script and no other file, so that it can be used in an `<img>`. It has its own background and
follows the reader's light or dark scheme.
"""

from __future__ import annotations

from xml.etree import ElementTree

from report.model.model import ReportModel
from report.page.svg import PATTERNS, tag, text, wrapped
from report.page.template import TONES, asset
from report.page.timeline import WIDTH, partition_timeline
from report.words.times import zero_of_axis

SENTENCES = 3
_SVG = "http://www.w3.org/2000/svg"
_MARGIN, _LINE = 14.0, 18.0
_STYLES = ("/* Pictures */", "@media (max-width")
"""The part of the page's style sheet that pictures need is between these."""
_HEADLINES = (
    ".picture .headline { font-size: 15px; font-weight: 700; } .picture .headtext { font-size: 12.5px; }"
)


def standalone(model: ReportModel) -> str:
    """The timeline of the most interesting partition, below sentences that say what happened.

    Raises ValueError for a run of which no partition is known.
    """
    if not model.partitions:
        raise ValueError(f"{model.run.scenario}: no partition is known, so there is nothing to draw")
    drawn = ElementTree.fromstring(
        str(
            partition_timeline(
                model.partitions[0],
                model.faults,
                model.marks,
                model.from_s,
                model.to_s,
                since=zero_of_axis(model.zero.fault),
            )
        )
    )
    head = _head(model)
    top = _MARGIN + _LINE * len(head) + 8
    height = float(drawn.get("height", "0"))
    for number, (words, class_) in enumerate(head):
        y = _MARGIN + _LINE * (number + 0.7)
        drawn.append(_element(text(8, y - top, words, class_)))
    _forget_titles(drawn)
    shifted = ElementTree.Element("g", transform=f"translate(0 {top:g})")
    shifted.extend(list(drawn)[1:])
    picture = ElementTree.Element(
        "svg",
        {
            "viewBox": f"0 0 {WIDTH:g} {top + height:g}",
            "width": f"{WIDTH:g}",
            "height": f"{top + height:g}",
            "class": "picture",
            "role": "img",
        },
    )
    title = ElementTree.SubElement(picture, "title")
    title.text = f"{model.run.scenario}: {head[0][0]}"
    style = ElementTree.SubElement(picture, "style")
    style.text = _style()
    picture.extend(_element(PATTERNS))
    paper = tag("rect", x=0, y=0, width=WIDTH, height=top + height, class_="paper")
    picture.append(_element(paper))
    picture.append(shifted)
    ElementTree.indent(picture, " ")
    for one in picture.iter():
        one.tag = one.tag.removeprefix(f"{{{_SVG}}}")
    picture.set("xmlns", _SVG)
    return ElementTree.tostring(picture, encoding="unicode") + "\n"


def texts_of(picture: str) -> list[str]:
    """The texts of a picture, in the order of its elements."""
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{{{_SVG}}}text")]


def _head(model: ReportModel) -> list[tuple[str, str]]:
    verdict, run = model.verdict, model.run
    sign, _ = TONES[verdict.tone]
    lost = f", {verdict.lost} acknowledged messages lost" if verdict.lost else ", nothing lost"
    first = f"{sign} {run.scenario}, Kafka {run.kafka}: {verdict.verdict}{lost}"
    others = [
        (line, "headtext")
        for sentence in verdict.sentences[:SENTENCES]
        for line in wrapped(sentence, WIDTH - 16, 12, most=2)
    ]
    return [(first, "headline"), *others]


def _element(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def _forget_titles(parent: ElementTree.Element) -> None:
    """Remove tooltips, which an image never shows, and the groups that held them."""
    for position, child in reversed(list(enumerate(parent))):
        _forget_titles(child)
        name = child.tag.removeprefix(f"{{{_SVG}}}")
        if name == "g" and not child.attrib:
            parent[position : position + 1] = [one for one in child if not one.tag.endswith("title")]
        elif child.get("visibility") == "hidden":
            parent.remove(child)


def _style() -> str:
    """Colours of both schemes and the rules for pictures, from the page's style sheet."""
    whole = asset("page.css")
    begin, end = (whole.index(mark) for mark in _STYLES)
    colours = whole[: whole.index("* { box-sizing")]
    return f"\n{colours}{whole[begin:end]}{_HEADLINES}\n"
