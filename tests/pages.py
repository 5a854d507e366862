"""A page of every kind, made of stored runs and documents, for tests in a browser.

`python -m tests.pages FOLDER` makes them, to be looked at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report.model.compare import compare
from report.model.compare_assessments import compare_assessments
from report.model.gather import report_model
from report.model.night import night_of
from report.page.assessment import assessment_page
from report.page.comparison import assessments_page, comparison_page
from report.page.index import index_page
from report.page.search import search_page
from report.page.write import write_page
from studies.series.summary import RunSummary, flaky
from tests.histories import History
from tests.runs.judged import judged_import, judged_run

STORED = Path(__file__).parent / "unit" / "cli"
SCHEDULES = 300
SCORE = [
    {"says": "pause the leader", "from_s": 12.0, "to_s": 16.0, "waits": True},
    {"says": "kill a follower and erase partition 0 there", "from_s": 12.0, "to_s": 14.0, "waits": False},
    {"says": "elect the preferred leader", "from_s": 14.0, "to_s": None, "waits": False},
]
RECORDED = {
    "title": "A cluster of others",
    "lab": "attached",
    "recording": {"plan": {}, "brokers": {"1": "az1", "2": "az2", "3": "az3"}, "replica_logs": "refused"},
    "azs": {"az1": "eu-west-1a", "az2": "eu-west-1b", "az3": "eu-west-1c"},
    "made_by": {"command": "acked record --bootstrap kafka.example:9092 --for 60s"},
}


def every_page(folder: Path) -> Mapping[str, Path]:
    """The pages by kind; ``folder`` gets a folder for each."""
    runs = {
        "run": judged_run("leader-az-isolated", folder / "run"),
        "transactions": judged_run("delayed-end-txn", folder / "transactions"),
        "recording": judged_run("kraft-leader-az-isolated", folder / "recording", **RECORDED),
        "import": _imported(folder / "import"),
    }
    texts = {
        "assessment": assessment_page(stored("assessment")),
        "search": search_page(_long_search()),
        "assessments": _two_assessments(),
        "comparison": _comparison(runs["run"], runs["recording"]),
        "series": _series(),
    }
    made = {name: folder / name / "index.html" for name in texts}
    for name, file in made.items():
        file.parent.mkdir(parents=True)
        file.write_text(texts[name], encoding="utf-8")
    return {**{name: write_page(run, run / "report.html") for name, run in runs.items()}, **made}


def stored(name: str) -> Any:
    """A stored `assessment.json` or `search.json`."""
    return json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))


def _long_search() -> Any:
    """A search of 300 schedules, each with a kind of finding of its own."""
    document = stored("search")
    template = document["groups"][0]
    document["groups"] += [
        template
        | {
            "score": SCORE,
            "finding": template["finding"] | {"cause": f"{template['finding']['cause']} {number}"},
        }
        for number in range(SCHEDULES - len(document["groups"]))
    ]
    document["saturation"] = [30 + number // 2 for number in range(SCHEDULES)]
    return document


def _imported(folder: Path) -> Path:
    history = History()
    for number in range(30):
        history.send(number, offset=number)
    history.logs([(number, number) for number in range(30) if number != 17])
    return judged_import(history.write(folder))


def _comparison(one: Path, other: Path) -> str:
    models = report_model(one), report_model(other)
    return comparison_page(compare(*models), *models)


def _series() -> str:
    ended = "2026-01-05T01:00:00+00:00"
    runs = [
        RunSummary(
            scenario=name,
            version="2.7.1",
            mode="zookeeper",
            verdict=verdict,
            lost=lost,
            seconds=20.0,
            ended=ended,
            folder=f"runs/{name}/1",
            reasons=why,
        )
        for name, verdict, lost, why in (
            ("leader-az-isolated", "as declared", 63, []),
            ("no-fault", "violated", 1, ["1 lost that nothing declared"]),
            ("kraft-zombie-controller", "unknown", 0, ["claim 'zombie' has no evidence"]),
        )
    ]
    night = night_of(runs, flaky(runs), not_run=[], earlier=[], title="all 2026-11-22")
    return index_page(night, runs)


def _two_assessments() -> str:
    """Of the second, the described producer loses messages."""
    before, after = stored("assessment"), stored("assessment")
    after["lines"][-1]["settings"]["acks=all"] |= {"lost": 9, "outcome": "lost", "promise": "broken"}
    return assessments_page(compare_assessments(before, after, ("a", "b")), before, after)


if __name__ == "__main__":
    for kind, file in every_page(Path(sys.argv[1])).items():
        print(kind, file, file.stat().st_size)
