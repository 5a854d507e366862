"""How long a scenario takes from Enter to verdict, and whether it always comes to the same verdict.

    .venv/bin/python -m benchmarks.run_scenario --runs 10
    .venv/bin/python -m benchmarks.run_scenario --runs 3 --lab compose

Prints wall time and phases as min, median and max, the cluster's boot and memory, and the verdicts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def resident_mib(folder: str) -> float:
    """Resident memory of all Java processes of a run (those that mention its folder), MiB."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if not words.startswith(b"java") or folder.encode() not in words:
                continue
            status = (entry / "status").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    return total / 1024


class Sampler:
    """Samples the cluster's memory twice a second until it is stopped."""

    def __init__(self, folder: str) -> None:
        self.peak_mib = 0.0
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            self.peak_mib = max(self.peak_mib, resident_mib(self._folder))

    def stop(self) -> float:
        """End it; returns the peak in MiB."""
        self._stop.set()
        self._thread.join()
        return self.peak_mib


def spread(name: str, values: list[float], unit: str = "s") -> str:
    """One row: min, median, max."""
    return (
        f"{name:<14} min {min(values):7.1f}  median {statistics.median(values):7.1f}  "
        f"max {max(values):7.1f} {unit}"
    )


def main() -> None:
    """Run it several times and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scenario", default="leader-az-isolated")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lab", default="embedded")
    options = parser.parse_args()
    walls: list[float] = []
    peaks: list[float] = []
    phases: dict[str, list[float]] = {}
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as folder:
        for number in range(options.runs):
            sampler = Sampler(folder)
            command = [sys.executable, "-m", "harness.cli.main", "run", options.scenario]
            command += ["--lab", options.lab, "--runs", folder, "--json"]
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            walls.append(time.monotonic() - began)
            peaks.append(sampler.stop())
            judgement = json.loads(done.stdout) if done.stdout else {"verdict": f"exit {done.returncode}"}
            claims = ",".join(f"{c['name']}={c['status']}" for c in judgement.get("claims", ()))
            verdicts.append(f"{judgement['verdict']} [{claims}]")
            manifest = json.loads((Path(folder) / options.scenario / "latest" / "run.json").read_text())
            for name, seconds in manifest.get("durations", {}).items():
                phases.setdefault(name, []).append(seconds)
            print(f"run {number + 1}: {walls[-1]:.1f} s, {judgement['verdict']}", flush=True)
    print(spread("wall", walls))
    for name, seconds_list in phases.items():
        print(spread(name, seconds_list))
    print(spread("cluster memory", peaks, "MiB"))
    same = len(set(verdicts)) == 1
    print(f"{options.runs} runs, {len(set(verdicts))} distinct outcome(s){'' if same else ':'}")
    for verdict in sorted(set(verdicts)):
        print(f"  {verdicts.count(verdict)} x {verdict}")


if __name__ == "__main__":
    main()
