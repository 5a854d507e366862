"""Measures a scenario's time from the command to the verdict, and whether the verdict is always the same.

    .venv/bin/python -m benchmarks.run_scenario --runs 10
    .venv/bin/python -m benchmarks.run_scenario --runs 3 --lab compose
    .venv/bin/python -m benchmarks.run_scenario --runs 3 --cluster FILE --scenario no-fault

Prints wall time and phases as minimum, median and maximum, the peak memory of the hosts (PSS, in either lab;
the container engine separately), and the verdicts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.memory import Memory, Sampler


def spread(name: str, values: list[float], unit: str = "s") -> str:
    """One row: min, median, max."""
    return (
        f"{name:<15} min {min(values):7.1f}  median {statistics.median(values):7.1f}  "
        f"max {max(values):7.1f} {unit}"
    )


def main() -> None:
    """Run it several times and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scenario", default="leader-az-isolated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lab", default="embedded")
    parser.add_argument("--cluster", type=Path, help="cluster file; default: three AZs, one broker each")
    options = parser.parse_args()
    walls: list[float] = []
    peaks: list[Memory] = []
    phases: dict[str, list[float]] = {}
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as folder:
        for number in range(options.runs):
            sampler = Sampler(options.lab, folder)
            command = [sys.executable, "-m", "cli.main", "run", options.scenario]
            command += ["--lab", options.lab, "--runs", folder, "--json"]
            command += ["--cluster", str(options.cluster)] if options.cluster else []
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            walls.append(time.monotonic() - began)
            peaks.append(sampler.stop())
            judgement: dict[str, Any] = (
                json.loads(done.stdout) if done.stdout else {"verdict": f"exit {done.returncode}"}
            )
            claims = ",".join(f"{c['name']}={c['status']}" for c in judgement.get("claims", ()))
            verdicts.append(f"{judgement['verdict']} [{claims}]")
            manifest = json.loads((Path(folder) / options.scenario / "latest" / "run.json").read_text())
            durations = dict(manifest.get("durations", {}))
            if {"lab", "boot"} <= durations.keys():
                durations["lab and boot"] = durations["lab"] + durations["boot"]
            for name, seconds in durations.items():
                phases.setdefault(name, []).append(seconds)
            why = "".join(f"\n  {reason}" for reason in judgement.get("reasons", ()))
            print(f"run {number + 1}: {walls[-1]:.1f} s, {judgement['verdict']}{why}", flush=True)
    print(spread("wall", walls))
    for name, seconds_list in phases.items():
        print(spread(name, seconds_list))
    for name in asdict(Memory()):
        print(spread(f"{name} memory", [getattr(peak, name) for peak in peaks], "MiB"))
    same = len(set(verdicts)) == 1
    print(f"{options.runs} runs, {len(set(verdicts))} distinct outcome(s){'' if same else ':'}")
    for verdict in sorted(set(verdicts)):
        print(f"  {verdicts.count(verdict)} x {verdict}")


if __name__ == "__main__":
    main()
