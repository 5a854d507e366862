"""Fills the template of a run's page."""

from __future__ import annotations

from typing import Any

from harness.history.time_zero import in_seconds
from harness.kafka.model import broker_name
from report.model.beliefs import controller_host
from report.model.model import NO_AZ, Claim, FindingGroup, ReportModel, counted
from report.model.opening import Opening
from report.page.frame import framed
from report.page.ladder import ladder
from report.page.legend import legend_keys
from report.page.logs import logs_picture
from report.page.matrix import link_matrix
from report.page.svg import LEADERS, PATTERNS, hue_of
from report.page.template import STATUS_ICONS
from report.page.timeline import controller_timeline, partition_timeline, rates_timeline
from report.words.claims import deviation_of
from report.words.times import counted_from, zero_of_axis


def page(model: ReportModel) -> str:
    """The page as one self-contained HTML file."""
    since = zero_of_axis(model.zero.fault)
    pictures = [
        (
            story,
            partition_timeline(story, model.faults, model.marks, model.from_s, model.to_s, since=since),
            logs_picture(story.logs, story.leaders, story.name) if story.logs else None,
        )
        for story in model.partitions
    ]
    controllers = None
    if model.controllers and (model.controller_splits or model.run.mode != "zookeeper"):
        controllers = controller_timeline(
            model.controllers,
            model.controller_splits,
            model.faults,
            model.marks,
            model.from_s,
            model.to_s,
            model.controller_turns,
            since=since,
        )
    return framed(
        "page.html.j2",
        opening(model),
        "page.js",
        model=model,
        run=model.run,
        verdict=model.verdict,
        status_icons=STATUS_ICONS,
        pictures=pictures,
        controllers=controllers,
        disagreed=any(sum(leader >= 0 for leader in split.says) > 1 for split in model.controller_splits),
        rates=rates_timeline(model.availability, model.faults, model.from_s, model.to_s, since=since),
        counted_from=counted_from(model.zero.fault, model.zero.utc),
        in_seconds=in_seconds,
        matrices=[(fault, link_matrix(fault)) for fault in model.faults],
        ladders={story.message: ladder(story) for story in (*model.stories, *model.transaction_stories)},
        stories={story.message: story for story in model.stories},
        transaction_stories={story.message: story for story in model.transaction_stories},
        leaders=_legend(model, controllers=controllers is not None),
        keys=legend_keys("".join(str(one) for story in pictures for one in (*story[1:], controllers) if one)),
        sentences=[
            sentence
            for sentence in model.verdict.sentences
            if not (model.verdict.meaning and sentence == model.verdict.said_by_meaning)
        ],
        deviations=[deviation_of(claim) for claim in model.claims if not claim.as_declared]
        if model.verdict.tone != "void"
        else [],
        older=any(
            replica.older
            for story in model.partitions
            for panel in (story.logs.panels if story.logs else ())
            for replica in panel.replicas
        ),
        where=_where,
        anchor=_anchor,
        no_az=NO_AZ,
        total=_total(model.groups),
        patterns=PATTERNS,
    )


def opening(model: ReportModel) -> Opening:
    """What the page of a run begins with."""
    run, verdict = model.run, model.verdict
    kind = "import" if run.imported else "recording" if run.lab == "attached" else "run"
    claims = f"{counted(len(model.claims), 'claim')} judged." if model.claims else ""
    again = "" if run.imported else "One run shows one outcome; repeating it shows how far outcomes vary."
    if verdict.tone == "void":
        claims, again = "Nothing follows from this run. Repeat it when the reason below is mended.", ""
    otherwise = verdict.verdict == "violated" and verdict.tone == "undecided" and not run.imported
    return Opening(
        kind=kind,
        tone=verdict.tone,
        word="not as declared" if otherwise else "",
        sign="≠" if otherwise else "",
        answer=verdict.headline,
        asked=run.title or run.scenario,
        sure=" ".join(part for part in (claims, again) if part),
    )


def _legend(model: ReportModel, *, controllers: bool) -> list[tuple[int, str]]:
    """The hue number and the names of each node that led; controllers have the hues of brokers.

    ``controllers``: there is also a picture of them.
    """
    leaders = {
        (leader, broker_name(leader)) for story in model.partitions for leader in story.leaders.values()
    }
    host_of = controller_host(model.controllers)
    for lane in model.controllers if controllers else ():
        leaders |= {
            (belief.leader, host_of(belief.leader))
            for belief in lane.beliefs
            if belief.leader is not None and belief.leader > 0
        }
    names: dict[int, list[str]] = {}
    for _, name in sorted(leaders):
        names.setdefault((hue_of(name) - 1) % LEADERS + 1, []).append(name)
    return [(hue, ", ".join(named)) for hue, named in sorted(names.items())]


def _where(claim: Claim) -> dict[str, Any]:
    """The place of a claim's evidence on the page: a link, and its words."""
    begin, end = claim.from_s, claim.to_s
    if begin is None:
        if end is None:
            return {}
        return {"href": f"#t={end}", "text": f"at {in_seconds(end)}"}
    if end is None:
        return {"href": f"#t={begin}-", "text": f"from {in_seconds(begin)} on"}
    if f"{begin:.1f}" == f"{end:.1f}":
        return {"href": f"#t={begin}-{end}", "text": f"at {in_seconds(begin)}"}
    return {"href": f"#t={begin}-{end}", "text": f"{in_seconds(begin)} to {in_seconds(end)}"}


def _anchor(message: str) -> str:
    return f"message={message}"


def _total(groups: tuple[FindingGroup, ...]) -> int:
    return sum(group.count for group in groups)
