"""`acked run NAME --hosts` on somebody else's cluster, whose hosts have an sshd.

`python -m tests.cluster.attached_runs FOLDER VERSION NAME...` prints a line of JSON for each run; the
name `sparing-others` is that of runs that must not harm a topic of somebody else. With `3.9.1+no`, nodes are
units of systemd with `Restart=no`; with `3.9.1/zookeeper`, brokers are in ZooKeeper mode. Needs root.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.attached import attach
from harness.cluster.hosts_file import read_hosts_file
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until
from run.attached.starting import note_tried
from tests.cluster.foreign import IDS, RACKS
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorder import Files, inventory, lost_by_findings
from tests.cluster.ssh_hosts import SshHosts
from tests.cluster.systemd_hosts import SystemdCluster, SystemdSshHosts

ROLLING = "rolling-restart-during-cut"
ALLOW = 'allow = ["cut", "one-way", "pause", "throttle", "kill", "restart"]'
LIMITS = f"max-seconds = 15\nhosts-at-once = 2\n{ALLOW}"


def _acked(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def carried_out(cluster: ForeignLab, hosts: SshHosts, name: str, cluster_id: str) -> dict[str, Any]:
    """One run, and what the brokers' files and the hosts' rules say about it."""
    limits = LIMITS.replace("15", "120") if name == ROLLING else LIMITS
    file = hosts.hosts_file(cluster.bootstrap, limits=limits, start=cluster.start_command)
    runs = cluster.folder / "runs"
    rules, before = hosts.rules(), inventory(cluster)
    common = ("run", name, "--hosts", str(file), "--runs", str(runs))
    plan = _acked(*common, "--plan")
    done = _acked(*common, "--yes", "--cluster-id", cluster_id, "--json")
    outcome: dict[str, Any] = {
        "name": name,
        "status": done.returncode,
        "stderr": done.stderr[-3000:],
        "plan": {"status": plan.returncode, "commands": plan.stdout[:4000]},
        "rules_as_before": hosts.rules() == rules,
        "inventory_as_before": inventory(cluster) == before,
    }
    if not done.stdout:
        return outcome
    run = (runs / "record" / "latest").resolve()
    topic = json.loads((run / "run.json").read_text())["recording"]["plan"]["topic"]
    (files,) = Files.of(cluster, [topic])
    disk, findings = files.lost(run), lost_by_findings(run)
    judgement = json.loads(done.stdout)
    return outcome | {
        "run": str(run),
        "verdict": judgement["verdict"],
        "moments": _moments(runs),
        "lost": len(findings),
        "lost_on_disk": len(disk),
        "different": len(findings ^ disk),
        "lost_by_writer": sorted({one.writer for one in disk}),
    }


def discovered(cluster: ForeignLab, hosts: SshHosts, cluster_id: str) -> dict[str, Any]:
    """A hosts file that was proposed, beside that of a user, and a check that restarts every node."""
    own = hosts.hosts_file(cluster.bootstrap, limits=LIMITS, start=cluster.start_command)
    proposed = hosts.folder / "proposed.toml"
    config = str(hosts.folder / "ssh_config")
    rules, before = hosts.rules(), inventory(cluster)
    found = _acked(
        *("attach", "discover", "--bootstrap", cluster.bootstrap, "--ssh", "--user", "root"),
        *("--ssh-config", config, "--out", str(proposed)),
    )
    again = _acked("attach", "check", str(proposed), "--json")
    begin = ("attach", "check", str(own), "--json", "--restart", "--yes", "--cluster-id", cluster_id)
    untried = _acked("attach", "check", str(own), "--json")
    tried = _acked(*begin)
    tables = [tomllib.loads(file.read_text())["host"] for file in (own, proposed) if file.exists()]
    return {
        "name": "discovered",
        "status": [one.returncode for one in (found, again, untried, tried)],
        "stderr": found.stderr[-800:] + again.stderr[-800:] + tried.stderr[-2000:],
        "hosts": [
            [{key: one[key] for key in ("address", "id", "az", "ports")} for one in table] for table in tables
        ],
        "starts": [{one["address"]: one.get("start", "") for one in table} for table in tables],
        "checks": [one.stdout for one in (again, untried, tried)],
        "rules_as_before": hosts.rules() == rules,
        "inventory_as_before": inventory(cluster) == before,
    }


def series(cluster: ForeignLab, hosts: SshHosts, name: str, cluster_id: str) -> dict[str, Any]:
    """`assess GLOBS` or `search COUNT SEED`: its document, and what is left on the hosts."""
    file = hosts.hosts_file(cluster.bootstrap, limits=LIMITS, start=cluster.start_command)
    command, first, *rest = name.split()
    runs = cluster.folder / "runs"
    rules, before = hosts.rules(), inventory(cluster)
    chosen = ["--faults", first] if command == "assess" else ["--count", first, "--seed", rest[0]]
    common = (command, *chosen, "--hosts", str(file), "--runs", str(runs))
    done = _acked(*common, "--yes", "--cluster-id", cluster_id, "--json")
    lost = []
    for manifest in sorted((runs / command).glob("*/runs/*/*/run.json")):
        topic = json.loads(manifest.read_text()).get("recording", {}).get("plan", {}).get("topic")
        if topic and (manifest.parent / "findings.parquet").exists():
            (files,) = Files.of(cluster, [topic])
            disk, findings = files.lost(manifest.parent), lost_by_findings(manifest.parent)
            lost.append([manifest.parent.parent.name, len(findings), len(disk), len(findings ^ disk)])
    return {
        "name": name,
        "status": done.returncode,
        "stderr": done.stderr[-5000:],
        "document": json.loads(done.stdout) if done.stdout else None,
        "lost": lost,
        "rules_as_before": hosts.rules() == rules,
        "inventory_as_before": inventory(cluster) == before,
    }


def _topic_of_others(cluster: ForeignLab, name: str, *brokers: int) -> None:
    """Create a topic of somebody else, with one partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"min.insync.replicas": str(min(2, len(brokers)))}
    topic = NewTopic(name, 1, replica_assignment=[list(brokers)], config=config)
    admin.create_topics([topic])[name].result(30)
    wait_until(
        lambda: name in admin.list_topics(timeout=10).topics, within_s=30, awaiting=f"the topic {name}"
    )


def _delete(cluster: ForeignLab, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([name])[name].result(30)
    wait_until(
        lambda: name not in admin.list_topics(timeout=10).topics, within_s=30, awaiting=f"the end of {name}"
    )


def sparing_others(cluster: ForeignLab, hosts: SshHosts, cluster_id: str) -> Iterator[dict[str, Any]]:
    """A fault that would harm a topic of others is refused, and one that does is ended at once."""
    runs, rules = cluster.folder / "runs", hosts.rules()
    file = str(hosts.hosts_file(cluster.bootstrap, limits="max-seconds = 60"))
    fault = ("run", "leader-az-isolated", "--hosts", file, "--runs", str(runs))
    begin = (*fault, "--yes", "--cluster-id", cluster_id)
    wrong = _acked(*fault, "--yes", "--cluster-id", "another")
    yield {"name": "another cluster", "status": wrong.returncode, "stderr": wrong.stderr[-400:]}
    for number, broker in enumerate(IDS):
        _topic_of_others(cluster, f"single{number}", broker)
    refused = _acked(*begin)
    for number in range(len(IDS)):
        _delete(cluster, f"single{number}")
    yield {"name": "refused", "status": refused.returncode, "stderr": refused.stderr[-400:]}
    _topic_of_others(cluster, "orders", *IDS)
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *begin, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: _moments(runs) == ["injecting", "injected"], within_s=240, awaiting="the fault")
    isolated = IDS[RACKS.index(json.loads(_faults(runs)[0]["targets"])["isolated"])]
    other = next(one for one in IDS if one not in (isolated, _controller(cluster)))
    began = time.monotonic()
    cluster.signal(other, signal.SIGSTOP)
    try:
        wait_until(
            lambda: not _left(hosts, "ACKED-"), within_s=50, poll_s=0.2, awaiting="the end of the fault"
        )
        seconds = time.monotonic() - began
    finally:
        cluster.signal(other, signal.SIGCONT)
    _, stderr = process.communicate(timeout=280)
    yield {
        "name": "stopped",
        "status": process.returncode,
        "seconds": round(seconds, 1),
        "stderr": stderr[-600:],
        "moments": _moments(runs),
        "rules_as_before": hosts.rules() == rules,
    }


def _left(hosts: SshHosts, word: str) -> list[str]:
    """Rules with a word."""
    return [line for lines in hosts.rules().values() for line in lines if word in line]


def _faults(runs: Path) -> list[dict[str, Any]]:
    """The moments of the fault of the newest run so far."""
    journal = runs / "record" / "latest" / "journal" / "harness.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [json.loads(line) for line in lines if line.startswith('{"table":"faults"') and line.endswith("}")]


def _moments(runs: Path) -> list[str]:
    return [str(row["moment"]) for row in _faults(runs)]


def _controller(cluster: ForeignLab) -> int | None:
    return attach([cluster.endpoint(one) for one in IDS]).controller()


def main(arguments: Sequence[str]) -> int:
    """Carry out runs one after the other on one cluster."""
    folder, kafka, names = Path(arguments[0]), arguments[1], arguments[2:]
    kafka, _, units = kafka.partition("+")
    kafka, _, mode = kafka.partition("/")

    def inside() -> int:
        with ExitStack() as stack:
            home = folder / "cluster"
            if units:
                booted = stack.enter_context(SystemdCluster(folder=home, kafka=kafka, restart=units))
                hosts: SshHosts = SystemdSshHosts(lab=booted.lab, folder=home / "ssh", cluster=booted)
                cluster: ForeignLab = booted
            else:
                cluster = stack.enter_context(ForeignLab(folder=home, kafka=kafka, mode=mode))
                hosts = SshHosts(lab=cluster.lab, folder=folder / "ssh")
            stack.enter_context(hosts)
            cluster_id = attach([cluster.endpoint(one) for one in IDS]).cluster_id
            if names == ["sparing-others"]:
                for outcome in sparing_others(cluster, hosts, cluster_id):
                    print(json.dumps(outcome), flush=True)
                return 0
            for name in names:
                if name == "as-tried":  # the trial is `discovered`, which takes as long as two runs
                    file = hosts.hosts_file(cluster.bootstrap, limits=LIMITS, start=cluster.start_command)
                    note_tried(read_hosts_file(file), *(host.name for host in cluster.lab.topology.hosts))
                    continue
                if name == "discovered":
                    print(json.dumps(discovered(cluster, hosts, cluster_id)), flush=True)
                    continue
                if name.startswith(("assess ", "search ")):
                    print(json.dumps(series(cluster, hosts, name, cluster_id)), flush=True)
                    continue
                print(json.dumps(carried_out(cluster, hosts, name, cluster_id)), flush=True)
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
