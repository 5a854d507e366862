"""How alike repeated assessments of one cluster are: outcomes that differ, and how far the times spread.

    .venv/bin/python -m benchmarks.assessments runs/assess/*/assessment.json

A line of the table is compared with the same line of the other assessments. For every producer setting, the
script counts the lines whose outcome differs (for example `kept` in one assessment, `lost` in another), and
those whose promise differs. Of the times without a write or a read, it takes those whose median is at least
two seconds, and prints how far they deviate from that median. It counts the times apart that the table
marks with `~`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NOTICEABLE_S = 2.0
ALLOWED = 0.25


def main() -> None:
    """Compare the assessments that the command line names, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("assessments", type=Path, nargs="+", help="assessment.json of each")
    parser.add_argument("--verbose", action="store_true", help="print each line that differs")
    options = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in options.assessments]
    lines = [
        (key, lines_of_case)
        for key, lines_of_case in _by_line(documents).items()
        if len(lines_of_case) == len(documents)
        and all(line["status"] == "measured" for line in lines_of_case)
    ]
    print(f"{len(documents)} assessments, {len(lines)} lines measured in each")
    for setting in documents[0]["producers"]:
        _print_outcomes(setting, lines, options.verbose)
    gaps = list(_gaps(lines))
    steady = [gap for gap in gaps if not gap[0][0]]
    varying = [gap for gap in gaps if gap[0][0]]
    _print_gaps("times without a write or a read", steady, options.verbose)
    _print_gaps("those that vary from run to run, marked with ~", varying, options.verbose)


def _by_line(documents: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    lines_of_case: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for document in documents:
        for line in document["lines"]:
            lines_of_case[line["case"], line["led"]].append(line)
    return lines_of_case


def _print_outcomes(
    setting: str, lines: Sequence[tuple[tuple[str, str], list[Mapping[str, Any]]]], verbose: bool
) -> None:
    for what in ("outcome", "promise"):
        differing = []
        for key, lines_of_case in lines:
            values = [line["settings"][setting][what] for line in lines_of_case]
            if len(set(values)) > 1:
                differing.append((key, values))
        print(f"{setting}: {what} differs in {len(differing)} of {len(lines)} lines")
        for key, values in differing if verbose else ():
            print(f"  {' '.join(key)}: {', '.join(values)}")


def _gaps(
    lines: Sequence[tuple[tuple[str, str], list[Mapping[str, Any]]]],
) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """What each time depends on, its name, and its seconds in every assessment."""
    for (case, led), lines_of_case in lines:
        first = next(iter(lines_of_case[0]["settings"]))
        for what, of_line in (
            ("write", [line["settings"][first]["writes"] for line in lines_of_case]),
            ("read", [line["reads"] for line in lines_of_case]),
        ):
            for az in sorted(set.intersection(*(set(gaps) for gaps in of_line))):
                seconds = [float(gaps[az]["seconds"]) for gaps in of_line]
                if statistics.median(seconds) >= NOTICEABLE_S:
                    yield (lines_of_case[0]["varies"], f"{case} {led}, no {what} in {az}"), seconds


def _print_gaps(title: str, gaps: Sequence[tuple[tuple[str, str], list[float]]], verbose: bool) -> None:
    print(f"{title}: {len(gaps)} of {NOTICEABLE_S:g} s or more")
    if not gaps:
        return
    deviations = {}
    for (_, name), seconds in gaps:
        median = statistics.median(seconds)
        deviations[name] = [abs(one - median) / median for one in seconds]
    every = sorted(one for lines_of_case in deviations.values() for one in lines_of_case)
    outside = {
        name: lines_of_case for name, lines_of_case in deviations.items() if max(lines_of_case) > ALLOWED
    }
    print(
        f"  deviation from the median of its line: median {statistics.median(every):.1%}, "
        f"nine of ten below {every[int(0.9 * (len(every) - 1))]:.1%}"
    )
    print(f"  {len(gaps) - len(outside)} deviate in no assessment by more than {ALLOWED:.0%}")
    print(f"  {sum(one <= ALLOWED for one in every)} of {len(every)} single times are within {ALLOWED:.0%}")
    for (_, name), seconds in gaps if verbose else ():
        if name in outside:
            print(f"  {name}: {', '.join(f'{one:.1f}' for one in seconds)} s")


if __name__ == "__main__":
    main()
