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
from report.page.bisect import bisect_page
from report.page.comparison import assessments_page, comparison_page
from report.page.index import index_page
from report.page.repeated import replay_page, shrink_page
from report.page.search import search_comparison_page, search_page
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
SHRUNK = {
    "finding": "lost: deposed leader",
    "weight": "new",
    "steps_before": 3,
    "steps": ["pause the leader"],
    "score_before": [SCORE[0], *(step | {"removed": True} for step in SCORE[1:])],
    "score": SCORE[:1],
    "tests": [
        {"passes": True, "hits": 8, "runs": 8, "steps": 3, "size": 93_831, "seconds": 310.0},
        {"passes": True, "hits": 7, "runs": 8, "steps": 1, "size": 31_277, "seconds": 300.0},
    ],
    "tried": 2,
    "runs": 16,
    "run": "runs/schedule/1",
    "scenario": "runs/shrink/1/lost_1.py",
    "scenario_name": "lost_1.py",
}
REPLAYED = {
    "finding": "lost: deposed leader",
    "hits": 9,
    "runs": 10,
    "not_judged": 0,
    "interval": [0.6, 0.98],
    "decision": "comes back",
    "run": "runs/schedule/1",
    "score": SCORE,
    "findings": [
        {
            "weight": "new",
            "runs": 9,
            "interval": [0.6, 0.98],
            "example": {
                "name": "lost",
                "cause": "deposed leader",
                "known_bug": "",
                "promise": "broken",
                "settings": "acks=all",
                "weight": "new",
                "count": 4,
            },
        }
    ],
}
BISECTED = {
    "scenario": "hw-truncation-by-version",
    "mode": "zookeeper",
    "claim": "m2-lost",
    "says": "A follower that restarts truncates its log to the high watermark, and m2 is lost.",
    "versions": ["0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.7.1"],
    "runs": [
        {
            "version": version,
            "status": status,
            "observed": "1 of 1 messages lost" if status == "confirmed" else "0 of 1 messages lost",
            "verdict": "as declared",
            "reasons": [],
            "seconds": 41.5,
            "folder": "runs/x/1",
        }
        for version, status in (
            ("0.10.2.2", "confirmed"),
            ("2.7.1", "refuted"),
            ("1.0.2", "refuted"),
            ("0.11.0.3", "refuted"),
        )
    ],
    "last_before": "0.10.2.2",
    "first": "0.11.0.3",
    "over": True,
    "problem": "",
}
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
        "searches": search_comparison_page(long_comparison()),
        "shrink": shrink_page(SHRUNK),
        "replay": replay_page(REPLAYED),
        "bisect": bisect_page(BISECTED, lambda run: "../run/report.html"),
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


def long_comparison() -> Any:
    """Of 300 schedules on two versions, each of which differs."""
    finding = stored("search")["groups"][0]["finding"]
    rates = [
        [
            {"side": "3.6.2", "runs": runs, "of": 300, "low": 0.1, "high": 0.3, "first": 1}
            for runs in (60, 60)
        ],
        [
            {"side": "4.3.1", "runs": runs, "of": 300, "low": low, "high": 0.3, "first": 1}
            for runs, low in ((0, 0.0), (55, 0.1))
        ],
    ]
    groups = [
        {
            "signature": name,
            "finding": finding | {"cause": name},
            "weight": weight,
            "promise": promise,
            "apart": apart,
            "sides": [rates[0][at], rates[1][at]],
        }
        for at, (name, weight, promise, apart) in enumerate(
            (
                ("two controllers led", "new", "broken", True),
                ("deposed leader", "not promised", "not promised", False),
            )
        )
    ]
    plan = {"mode": "kraft", "seed": 5}
    differences = [
        {
            "number": number,
            "sides": [
                {
                    "side": side,
                    "verdict": "as declared",
                    "folder": f"runs/compare/1/{at}/runs/schedule/{number}",
                    "alone": ["two controllers led"] if at == 1 else [],
                }
                for at, side in enumerate(("3.6.2", "4.3.1"), start=1)
            ],
            "steps": [step["says"] for step in SCORE],
            "score": SCORE,
        }
        for number in range(1, SCHEDULES + 1)
    ]
    return {
        "sides": ["3.6.2", "4.3.1"],
        "plans": {"3.6.2": plan | {"version": "3.6.2"}, "4.3.1": plan | {"version": "4.3.1"}},
        "schedules": SCHEDULES,
        "judged": SCHEDULES,
        "seconds": 9000.0,
        "groups": groups,
        "differences": differences,
    }


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
    night = night_of(runs, flaky(runs), not_run=[], earlier=[], time="2026-11-22")
    return index_page(night, runs)


def _two_assessments() -> str:
    """Of the second, the described producer loses messages."""
    before, after = stored("assessment"), stored("assessment")
    after["lines"][-1]["settings"]["acks=all"] |= {"lost": 9, "outcome": "lost", "promise": "broken"}
    return assessments_page(compare_assessments(before, after, ("a", "b")), before, after)


if __name__ == "__main__":
    for kind, file in every_page(Path(sys.argv[1])).items():
        print(kind, file, file.stat().st_size)
