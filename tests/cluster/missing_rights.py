"""A planted loss, recorded by users who lack one right each.

`python -m tests.cluster.missing_rights FOLDER VERSION RIGHT...` prints a JSON line for each: what `acked
record` said, and what the brokers' files say. Several record at the same time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.foreign_recordings import planted
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.wire.rights import Acl, create_acls
from harness.lab.embedded.namespaces import run_inside
from tests.cluster.conftest import Finished, acked
from tests.cluster.foreign import IDS
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorded_faults import RIGHTS, Scene, as_user, begun, judged_together, rights_of, stopped

_EVERY: Mapping[str, Acl] = {
    **{one.operation: one for one in rights_of("", RIGHTS)},
    "cluster-describe": Acl("", "cluster", "describe", "kafka-cluster"),
    "cluster-describe-configs": Acl("", "cluster", "describe-configs", "kafka-cluster"),
    "idempotent-write": Acl("", "cluster", "idempotent-write", "kafka-cluster"),
    "transactional-id-write": Acl("", "transactional-id", "write", "acked-*"),
    "group-read": Acl("", "group", "read", "acked-*"),
}
"""Every right that the table of rights knows; those of a user whom `MISSING` names, but for one."""
MISSING = ("none", *_EVERY)
_TRANSACTIONAL = ("transactional-id-write", "group-read")
"""Without them transactions cannot be recorded, and everything else can."""
_NEEDED = ("create", "read", "write", *_TRANSACTIONAL)
"""Without them a recording does not begin."""
_AT_ONCE = 3


def _grant(cluster: ForeignLab) -> None:
    acls = [
        Acl(f"User:{user}", one.resource, one.operation, one.name)
        for user in MISSING
        for right, one in _EVERY.items()
        if right != user
    ]
    assert all(one.error == 0 for one in create_acls(cluster.endpoint(IDS[0]), acls, timeout_s=30))


def _refused(cluster: ForeignLab, runs: Path, right: str) -> Finished:
    more = ["--transactions"] if right in _TRANSACTIONAL else []
    return acked("record", *as_user(cluster, right), "--runs", runs, "--for", "10s", "--yes", "--json", *more)


def _recorded(cluster: ForeignLab, runs: Path, rights: Sequence[str]) -> list[dict[str, Any]]:
    """Record for users that lack these rights at the same time, and plant a loss."""
    scenes: list[Scene] = []
    try:
        for right in rights:
            scenes.append(begun(cluster, runs / right, reached=as_user(cluster, right)))
        for scene in scenes:
            scene.recorder.wait_recording()
        planted(scenes)
        for scene in scenes:
            scene.end()
        ended = judged_together(stopped(*scenes))
        return [{"missing": right, **one} for right, one in zip(rights, ended, strict=True)]
    finally:
        for scene in scenes:
            scene.recorder.close()


def main() -> int:
    """Record for each missing right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kafka")
    parser.add_argument("missing", nargs="+", choices=[*MISSING, "all"])
    options = parser.parse_args()
    rights = list(MISSING) if options.missing == ["all"] else options.missing

    def inside() -> int:
        passwords = {user: f"of-{user}" for user in MISSING}
        with ForeignLab(
            folder=options.folder / "cluster",
            kafka=options.kafka,
            ca=CertificateAuthority(),
            passwords=passwords,
        ) as cluster:
            _grant(cluster)
            recording = []
            for right in rights:
                if right not in _NEEDED:
                    recording.append(right)
                    continue
                done = _refused(cluster, options.folder / "refused", right)
                print(json.dumps({"missing": right, **done.__dict__}), flush=True)
            for first in range(0, len(recording), _AT_ONCE):
                some = recording[first : first + _AT_ONCE]
                for outcome in _recorded(cluster, options.folder / "runs", some):
                    print(json.dumps(outcome), flush=True)
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main())
