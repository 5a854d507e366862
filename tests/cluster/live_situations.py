"""What happens to a recording beside single faults of brokers: to its user, its certificates, itself.

`python -m tests.cluster.live_situations FOLDER VERSION SITUATION...` prints a JSON line for each: what
`acked record` said, and what the brokers' files say. The clusters have TLS, SASL and ACLs; situations that
need another one come behind those that share the first.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

from harness.clock import now_ns
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.model import broker_name
from harness.kafka.wire.connection import exchange
from harness.kafka.wire.rights import Operation, create_acls, delete_acls
from harness.lab.embedded.namespaces import run_inside
from tests.cluster.foreign import IDS, USER
from tests.cluster.foreign_lab import KEPT, ForeignLab
from tests.cluster.recorded_faults import (
    RIGHTS,
    SOME,
    Scene,
    as_user,
    followers_frozen,
    grant_rights,
    judged_together,
    leader_cut,
    recorded,
    rights_of,
)
from tests.cluster.recorder import NO_ENVIRONMENT, Recorder

PRODUCED_BYTES_PER_S = 1500
"""The quota of the user on each broker; a producer writes some 6,000 bytes/s."""
READ_BYTES_PER_S = 40_000
"""A broker is asked for some 12,000 bytes/s meanwhile, and at the end for whole logs."""
AWAY_S = 70.0
"""How long all brokers are away: longer than the 30 s after which a request of a producer times out."""
LIFE_S = 20
"""How long a certificate is valid."""
OWN_LIFE_S = 90
"""The same for the recording's own one, which is made before the recording begins."""
KILLS = 6
"""How often a recording is killed, one time in its last phase."""
_SEED = 7
"""Of the moments at which a recording is killed."""
_KILLED_WITHIN_S = 12.0
"""How long a recording lives at most until it is killed; it takes some 5 s until it writes again."""
APART_S = 120
"""By how much the recording's clock differs from the brokers'."""
COMPILER = shutil.which("cc")
"""Compiles the library that gives a process a clock of its own; None: there is none."""
_OWN = "own.pem"


def _quota(scene: Scene, key: str, value: float | None) -> None:
    """Set a quota of the user; None removes it."""
    entry = AlterClientQuotasRequest.EntryData
    asked = entry(
        entity=[entry.EntityData(entity_type="user", entity_name=USER)],
        ops=[entry.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    request = AlterClientQuotasRequest(entries=[asked], validate_only=False)
    answer = exchange(scene.attached.any_endpoint(), request, AlterClientQuotasResponse, 0, 10)
    assert [one.error_code for one in answer.entries] == [0], answer


def quota_throttled(scene: Scene) -> None:
    """A quota of bytes delays the answers to the recording's producers, and is lifted again."""
    _quota(scene, "producer_byte_rate", PRODUCED_BYTES_PER_S)
    began = now_ns()
    scene.wait(lambda: now_ns() - began > 25e9, "the quota to have its effect")
    _quota(scene, "producer_byte_rate", None)


def reads_throttled(scene: Scene) -> None:
    """Quotas of bytes read and of request time, also at the end, delay acked's own requests."""
    _quota(scene, "consumer_byte_rate", READ_BYTES_PER_S)
    _quota(scene, "request_percentage", 1.0)
    try:
        began = now_ns()
        scene.wait(lambda: now_ns() - began > 20e9, "the quotas to have their effect")
        scene.end()
        scene.recorder.wait_final_logs()
    finally:
        for key in ("consumer_byte_rate", "request_percentage"):
            _quota(scene, key, None)


def _change(scene: Scene, change: Callable[..., Any], operations: Sequence[Operation]) -> None:
    results = change(scene.attached.any_endpoint(), rights_of(USER, operations), timeout_s=10)
    assert all(one.error == 0 for one in results), results


def _taken(scene: Scene, *operations: Operation) -> None:
    """Take rights from the user, until acked has seen that one is missing, and for 10 s more."""
    _change(scene, delete_acls, operations)
    scene.wait(lambda: bool(scene.recorder.marks("right-lost")), "acked to see that a right is missing")
    began = now_ns()
    scene.wait(lambda: now_ns() - began > 10e9, "the time without the right to be over")


def _given_back(scene: Scene, *operations: Operation) -> None:
    _change(scene, create_acls, operations)
    scene.wait(lambda: bool(scene.recorder.marks("right-back")), "acked to see that the right is back")


def write_taken(scene: Scene) -> None:
    """The user loses WRITE, and gets it back."""
    _taken(scene, "write")
    _given_back(scene, "write")


def read_taken(scene: Scene) -> None:
    """The user loses READ, and gets it back."""
    _taken(scene, "read")
    _given_back(scene, "read")


def all_taken(scene: Scene) -> None:
    """The user loses every right, DESCRIBE included, which others imply, and gets them back."""
    _taken(scene, *RIGHTS)
    _given_back(scene, *RIGHTS)


def read_gone(scene: Scene) -> None:
    """The user loses READ for good: the final logs cannot be read."""
    _taken(scene, "read")
    scene.end_now()


def every_right_gone(scene: Scene) -> None:
    """The user loses every right for good, DESCRIBE and DELETE included."""
    _taken(scene, *RIGHTS)
    scene.end_now()


def broker_disk_full(scene: Scene) -> None:
    """A broker's disk is full, so that it stops; it starts again when there is room."""
    lab, (broker,) = scene.cluster.lab, scene.cluster.own_disks
    name = broker_name(broker)
    with scene.cluster.nemesis.storage.fill_disk(name):
        scene.wait(lambda: lab.exit_status(name) is not None, f"{name} to stop")
        scene.wait(lambda: broker not in scene.state().isr, f"an ISR without {broker}")
    scene.cluster.start(broker)


def recording_killed(scene: Scene) -> None:
    """The recording is killed at random moments, once while it ends; half-way a loss is planted."""
    chance = random.Random(_SEED)
    for number in range(1, KILLS):
        _lives(scene, chance.uniform(0, _KILLED_WITHIN_S))
        _killed_and_resumed(scene)
        if number == KILLS // 2:
            scene.recorder.wait_acknowledged(SOME)
            followers_frozen(scene)
            scene.wait_whole()
    scene.recorder.wait_acknowledged(SOME)
    scene.end_now()
    _lives(scene, chance.uniform(0, 2.0))
    _killed_and_resumed(scene)
    if not scene.recorder.manifest()["recording"]["read"]:
        scene.recorder.wait_acknowledged(SOME)
        scene.end_now()


def _lives(scene: Scene, for_s: float) -> None:
    began = now_ns()
    scene.wait(lambda: now_ns() - began > for_s * 1e9, "the moment to kill the recording")


def topic_config_changed(scene: Scene) -> None:
    """Somebody lets acks=all write to a single replica, and takes it back."""
    topic = scene.topic
    _alter(scene, ConfigResource(ResourceType.TOPIC, topic), {"min.insync.replicas": "1"})
    began = now_ns()
    scene.wait(lambda: now_ns() - began > 15e9, "the change to last")
    _alter(scene, ConfigResource(ResourceType.TOPIC, topic), {"min.insync.replicas": "2"})


def all_away_resumed(scene: Scene) -> None:
    """The recording is killed as well, and goes on while no broker answers."""
    _kill_all(scene)
    _killed_and_resumed(scene)
    _come_back(scene)


def leader_away_resumed(scene: Scene) -> None:
    """The leader and the recording are killed; it goes on before the leader comes back."""
    leader = scene.leader
    scene.killed(leader)
    scene.wait_leader_other_than(leader)
    _killed_and_resumed(scene)
    scene.recorder.wait_acknowledged(SOME)
    scene.cluster.start(leader)


def _killed_and_resumed(scene: Scene) -> None:
    recorder = scene.recorder
    recorder.killed()
    scene.recorder = Recorder(recorder.runs, "--resume", str(recorder.folder), *as_user(scene.cluster)[2:])


def _kill_all(scene: Scene) -> None:
    for broker in IDS:
        scene.killed(broker)


def _come_back(scene: Scene) -> None:
    began = now_ns()
    scene.wait(lambda: now_ns() - began > AWAY_S * 1e9, "the time without brokers to be over")
    for broker in IDS:
        scene.cluster.start(broker)
    scene.wait_whole()


def _alter(scene: Scene, resource: ConfigResource, config: Mapping[str, str]) -> None:
    for key, value in config.items():
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def _renew_certificates(scene: Scene, valid: timedelta) -> None:
    """Give every broker's listener for users a new certificate."""
    cluster = scene.cluster
    assert cluster.ca is not None
    for broker in IDS:
        own = cluster.ca.issue("broker", [cluster.endpoint(broker).host], valid=valid)
        store = "listener.name.users.ssl.keystore"
        config = {
            f"{store}.type": "PEM",
            f"{store}.certificate.chain": own.chain,
            f"{store}.key": own.key.reveal(),
        }
        _alter(scene, ConfigResource(ResourceType.BROKER, str(broker)), config)


def server_certificates_expire(scene: Scene) -> None:
    """Brokers have certificates that expire, so that nobody connects anew, and get others later."""
    _renew_certificates(scene, timedelta(seconds=LIFE_S))
    began = now_ns()
    scene.wait(lambda: now_ns() - began > LIFE_S * 1e9, "the certificates to expire")
    leader = scene.leader
    scene.killed(leader)  # whoever was connected has to connect anew
    scene.cluster.start(leader)
    scene.wait_whole()
    began = now_ns()
    scene.wait(lambda: now_ns() - began > 15e9, "the time with expired certificates to be over")
    _renew_certificates(scene, timedelta(days=1))


def client_certificate_expires(scene: Scene) -> None:
    """The recording's own certificate expires, and a broker starts anew."""
    expires = (scene.cluster.folder / _OWN).stat().st_mtime + OWN_LIFE_S
    scene.wait(lambda: time.time() > expires, "the certificate to expire", within_s=OWN_LIFE_S + 10)
    leader = scene.leader
    scene.killed(leader)
    scene.cluster.start(leader)
    scene.wait_whole()
    scene.end_now()


def _secured(folder: Path, kafka: str, **more: Any) -> ForeignLab:
    return ForeignLab(folder=folder, kafka=kafka, ca=CertificateAuthority(), **more)


def _with_client_certificates(folder: Path, kafka: str) -> ForeignLab:
    ca = CertificateAuthority()
    required = {
        "listener.name.users.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": ca.certificate,
    }
    return ForeignLab(folder=folder, kafka=kafka, ca=ca, settings={**KEPT, **required})


def _with_own_disk(folder: Path, kafka: str) -> ForeignLab:
    return _secured(folder, kafka, own_disks=IDS[:1])


def _own_certificate(cluster: ForeignLab) -> list[str]:
    assert cluster.ca is not None
    own = cluster.ca.issue("client", valid=timedelta(seconds=OWN_LIFE_S))
    (cluster.folder / _OWN).write_text(own.key.reveal() + own.chain)
    return as_user(
        cluster,
        more=f"ssl.keystore.type=PEM\nssl.keystore.location={cluster.folder / _OWN}\n",
    )


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Something that happens to a recording."""

    happens: Callable[[Scene], None]
    cluster: Callable[[Path, str], ForeignLab] = _secured
    reached: Callable[[ForeignLab], Sequence[str]] = as_user
    environment: Callable[[Path], Mapping[str, str]] = lambda _folder: NO_ENVIRONMENT
    """Of the recording; it may make files in a folder."""


def _clock(ahead_s: int) -> Callable[[Path], Mapping[str, str]]:
    """The environment of a process with a wall clock of its own."""

    def made(folder: Path) -> Mapping[str, str]:
        assert COMPILER is not None, "install a C compiler"
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "shifted_clock.so"
        source = Path(__file__).with_name("shifted_clock.c")
        command = [COMPILER, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_S": str(ahead_s)}

    return made


SITUATIONS: Mapping[str, Situation] = {
    **{
        one.__name__.replace("_", "-"): Situation(happens=one)
        for one in (
            quota_throttled,
            reads_throttled,
            write_taken,
            read_taken,
            all_taken,
            read_gone,
            every_right_gone,
            recording_killed,
            topic_config_changed,
            all_away_resumed,
            leader_away_resumed,
            server_certificates_expire,
        )
    },
    "client-certificate-expires": Situation(
        happens=client_certificate_expires, cluster=_with_client_certificates, reached=_own_certificate
    ),
    "broker-disk-full": Situation(happens=broker_disk_full, cluster=_with_own_disk),
    "clock-ahead": Situation(happens=leader_cut, environment=_clock(APART_S)),
    "clock-behind": Situation(happens=leader_cut, environment=_clock(-APART_S)),
}


def carried_out(cluster: ForeignLab, folder: Path, names: Sequence[str]) -> None:
    """Let situations come about on a cluster that is up, and print what came of them."""
    ended = []
    for name in names:
        situation = SITUATIONS[name]
        grant_rights(cluster)
        reached = situation.reached(cluster)
        environment = situation.environment(folder / "runs")
        ended.append(recorded(cluster, folder / "runs", name, situation.happens, reached, environment))
    outcomes = judged_together([recording for recording, _ in ended])
    for (_, seen), outcome in zip(ended, outcomes, strict=True):
        print(json.dumps({**seen, **outcome}), flush=True)


def main() -> int:
    """Let situations come about, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kafka")
    parser.add_argument("situations", nargs="+", choices=list(SITUATIONS))
    options = parser.parse_args()

    def inside() -> int:
        by_cluster: dict[Callable[[Path, str], ForeignLab], list[str]] = {}
        for name in options.situations:
            by_cluster.setdefault(SITUATIONS[name].cluster, []).append(name)
        for number, (made, names) in enumerate(by_cluster.items()):
            with made(options.folder / f"cluster{number}", options.kafka) as cluster:
                carried_out(cluster, options.folder, names)
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main())
