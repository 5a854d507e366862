"""`acked run NAME --hosts` on somebody else's cluster, whose hosts have an sshd.

`python -m tests.cluster.attached_runs FOLDER VERSION NAME...` prints a line of JSON for each run. Needs root.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cluster.attached import attach
from harness.lab.embedded.namespaces import run_inside
from tests.cluster.foreign import IDS
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorder import Files, inventory, lost_by_findings
from tests.cluster.ssh_hosts import SshHosts

LIMITS = "max-seconds = 15"


def _acked(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def carried_out(cluster: ForeignLab, hosts: SshHosts, name: str, cluster_id: str) -> dict[str, Any]:
    """One run, and what the brokers' files and the hosts' rules say about it."""
    file, runs = hosts.hosts_file(cluster.bootstrap, limits=LIMITS), cluster.folder / "runs"
    rules, before = hosts.rules(), inventory(cluster)
    common = ("run", name, "--hosts", str(file), "--runs", str(runs))
    plan = _acked(*common, "--plan")
    done = _acked(*common, "--yes", "--cluster-id", cluster_id, "--json")
    outcome: dict[str, Any] = {
        "name": name,
        "status": done.returncode,
        "stderr": done.stderr[-3000:],
        "plan": {"status": plan.returncode, "commands": plan.stdout[:2000]},
        "rules_as_before": hosts.rules() == rules,
        "inventory_as_before": inventory(cluster) == before,
    }
    if not done.stdout:
        return outcome
    run = (runs / "record" / "latest").resolve()
    topic = json.loads((run / "run.json").read_text())["recording"]["plan"]["topic"]
    disk, findings = Files.of(cluster, topic).lost(run), lost_by_findings(run)
    judgement = json.loads(done.stdout)
    return outcome | {
        "run": str(run),
        "verdict": judgement["verdict"],
        "lost": len(findings),
        "lost_on_disk": len(disk),
        "different": len(findings ^ disk),
        "lost_by_writer": sorted({one.writer for one in disk}),
    }


def main(arguments: Sequence[str]) -> int:
    """Carry out runs one after the other on one cluster."""
    folder, kafka, names = Path(arguments[0]), arguments[1], arguments[2:]

    def inside() -> int:
        with (
            ForeignLab(folder=folder / "cluster", kafka=kafka) as cluster,
            SshHosts(lab=cluster.lab, folder=folder / "ssh") as hosts,
        ):
            cluster_id = attach([cluster.endpoint(one) for one in IDS]).cluster_id
            for name in names:
                print(json.dumps(carried_out(cluster, hosts, name, cluster_id)), flush=True)
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
