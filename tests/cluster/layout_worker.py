"""Cuts every link between AZs of a layout, in one lab, with trivial TCP listeners instead of Kafka.

`layout_worker.py embedded|compose CLUSTER_FILE MODE RUN_DIR` prints one JSON line per fault: its name, and
how many calls were dead and alive while it was in force. It ends at the first mistake.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conformance_bench import Bench, az, expect_dead

from harness.cluster.cluster_file import read_cluster_file
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.embedded.namespaces import run_inside
from harness.lab.model import Lab
from nemesis.proof.reachability import Call
from nemesis.storage.disks import Disks


def cut_everything(lab: Lab) -> int:
    disks = Disks(lab)
    lab.up()
    try:
        bench = Bench(lab, disks, {})
        topology = lab.topology
        for one, other in itertools.combinations(topology.azs, 2):
            _expect(
                bench,
                f"{topology.az_name(one)} <-> {topology.az_name(other)}",
                partial(_between, {one, other}),
            )
        for name in topology.azs if len(topology.azs) > 1 else ():
            _expect(bench, topology.az_name(name), partial(_leaves, name))
        assert bench.chains_left() == []
        bench.nemesis.close()
    finally:
        lab.down()
        disks.close()
    return 0


def _expect(bench: Bench, fault: str, is_cut: Callable[[Bench, Call], bool]) -> None:
    """Cut links, or isolate an AZ: exactly the calls that ``is_cut`` names are dead."""
    cut = bench.nemesis.cut if " " in fault else bench.nemesis.isolate
    expect_dead(bench, cut(fault), partial(is_cut, bench))
    dead = sum(is_cut(bench, call) for call in bench.all_calls)
    print(json.dumps({"fault": fault, "dead": dead, "alive": len(bench.all_calls) - dead}), flush=True)


def _between(azs: set[str], bench: Bench, call: Call) -> bool:
    return {az(bench, call.caller), az(bench, call.callee)} == azs


def _leaves(name: str, bench: Bench, call: Call) -> bool:
    return (az(bench, call.caller) == name) != (az(bench, call.callee) == name)


def main() -> int:
    kind, file, mode, run_dir = sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    topology = read_cluster_file(file).layout.topology(mode)
    if kind == "compose":
        from harness.lab.docker.lab import ComposeLab

        return cut_everything(ComposeLab(topology, run_dir))
    return run_inside(lambda: cut_everything(EmbeddedLab(topology, run_dir)))


if __name__ == "__main__":
    sys.exit(main())
