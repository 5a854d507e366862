"""Faults by hand on somebody else's cluster while `acked record` watches, each in a recording of its own.

`python -m tests.cluster.recorded_faults FOLDER VERSION [--secure] FAULT...` prints a JSON line for each: what
`acked record` said, and what the brokers' files say.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from harness.clock import now_ns
from harness.cluster.attached import AttachedCluster, attach
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.security import PLAIN_MODULE, jaas_line
from harness.kafka.wire.admin import alter_topic_config
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.quorum import describe_quorum
from harness.kafka.wire.rights import Acl, Operation, create_acls
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until
from tests.cluster.conftest import acked
from tests.cluster.foreign import IDS, PEERS_PORT, RACKS, USER
from tests.cluster.foreign_lab import ForeignLab
from tests.cluster.recorder import (
    NO_ENVIRONMENT,
    Files,
    Message,
    Recorder,
    held_alone,
    inventory,
    lost_by_findings,
    wire_against_disk,
    wire_against_tool,
)

RIGHTS: tuple[Operation, ...] = ("create", "read", "write", "describe", "describe-configs", "delete")
"""Of an ordinary user, on topics whose names begin with acked-."""
CUT_S = 10.0
_JUDGED_BESIDE = 2
"""How many recordings are judged while the next fault is made."""
SOME = 60
"""Acknowledged messages that show that the producers write again."""


@dataclass(kw_only=True)
class Scene:
    """A recording under way. Faults aim at its first partition."""

    cluster: ForeignLab
    recorder: Recorder
    attached: AttachedCluster
    ending: bool = False
    """The recording was asked to end, or has ended by itself."""

    @property
    def topic(self) -> str:
        """Of the recording."""
        return self.recorder.topic

    def state(self) -> PartitionState:
        """Of the first partition, in its newest epoch."""
        state = self.attached.partition(self.topic, 0)
        assert state is not None
        return state

    @property
    def leader(self) -> int:
        """Of the first partition."""
        return self.state().leader

    def followers(self) -> list[int]:
        """Of the first partition."""
        leader = self.leader
        return [broker for broker in IDS if broker != leader]

    def isrs(self) -> list[tuple[int, ...]]:
        """That of the first partition, as each broker states it. In ZooKeeper mode it has no epoch."""
        key, asked = TopicPartition(self.topic, 0), self.attached.dialect
        stated = [metadata(self.cluster.endpoint(one), [self.topic], dialect=asked) for one in IDS]
        return [one.partitions[key].isr for one in stated]

    def wait_leader_other_than(self, broker: int) -> None:
        """Wait for an election."""
        self.wait(lambda: self.leader not in (broker, -1), f"another leader than {broker}")

    def wait(self, holds: Callable[[], bool], awaiting: str, within_s: float = 90) -> None:
        """Wait for the cluster."""
        wait_until(
            holds, within_s=within_s, poll_s=0.1, awaiting=awaiting, ignoring=(OSError, AssertionError)
        )

    def wait_whole(self) -> None:
        """Wait until every broker is back and every ISR is complete."""
        self.cluster.wait_registered()

        def whole() -> bool:
            states = [self.attached.partition(self.topic, number) for number in range(len(IDS))]
            return all(one is not None and one.leader >= 0 and one.isr_is_full for one in states)

        self.wait(whole, "all ISRs to be complete")

    def end(self) -> None:
        """Ask the recording to end, when the cluster is whole and the producers write again."""
        self.wait_whole()
        self.recorder.wait_acknowledged(SOME)
        self.end_now()

    def end_now(self) -> None:
        """Ask the recording to end, whatever the cluster is like."""
        self.ending = True
        self.recorder.process.send_signal(signal.SIGTERM)

    def controller(self) -> int:
        """Node id of the active controller."""
        if self.attached.mode == "kraft":
            return describe_quorum(self.attached.any_endpoint()).leader
        controller = self.attached.controller()
        assert controller is not None
        return controller

    @contextmanager
    def frozen(self, *brokers: int) -> Iterator[None]:
        """Meanwhile their processes do not run."""
        for broker in brokers:
            self.cluster.signal(broker, signal.SIGSTOP)
        try:
            yield
        finally:
            for broker in brokers:
                self.cluster.signal(broker, signal.SIGCONT)

    def killed(self, broker: int) -> None:
        """Kill it."""
        self.cluster.signal(broker, signal.SIGKILL)


def no_fault(scene: Scene) -> None:
    """Nothing."""
    scene.recorder.wait_acknowledged(300)


def leader_cut(scene: Scene) -> None:
    """The AZ of the leader is cut off for 10 s."""
    leader = scene.leader
    with scene.cluster.nemesis.isolate(RACKS[IDS.index(leader)]):
        began = now_ns()
        scene.wait_leader_other_than(leader)
        scene.wait(lambda: now_ns() - began >= CUT_S * 1e9, "the end of the cut")


def leader_killed(scene: Scene) -> None:
    """The leader is killed, and comes back when another leads."""
    leader = scene.leader
    scene.killed(leader)
    scene.wait_leader_other_than(leader)
    scene.cluster.start(leader)


def followers_frozen(scene: Scene) -> None:
    """Both followers hang, the leader acknowledges alone and is killed, and the followers go on."""
    leader = scene.leader
    held_alone(scene.cluster, [scene.recorder], leader, scene.followers())
    scene.wait_leader_other_than(leader)
    scene.cluster.start(leader)


def follower_frozen(scene: Scene) -> None:
    """A follower hangs until it is out of the ISR."""
    follower = scene.followers()[0]
    with scene.frozen(follower):
        scene.wait(lambda: follower not in scene.state().isr, f"an ISR without {follower}")


def unclean_election(scene: Scene) -> None:
    """Followers that fetch nothing leave the ISR, the leader is killed, and one of them is elected."""
    leader, followers = scene.leader, scene.followers()
    changed = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    operator = scene.attached.topology.host(scene.attached.operator_host()).broker_endpoint
    result = alter_topic_config(operator, scene.topic, changed, dialect=scene.attached.dialect)
    assert result.error == 0, result
    fetching = [f"broker{follower} -> broker{leader}:{PEERS_PORT}" for follower in followers]
    with scene.cluster.nemesis.cut(*fetching):
        scene.wait(lambda: (leader,) in scene.isrs(), "the ISR to be the leader alone")
        scene.recorder.wait_acknowledged(40)
        scene.killed(leader)
        scene.wait_leader_other_than(leader)
    scene.cluster.start(leader)


def broker_wiped(scene: Scene) -> None:
    """The leader's machine is replaced by an empty one."""
    leader = scene.leader
    scene.killed(leader)
    scene.wait_leader_other_than(leader)
    shutil.rmtree(scene.cluster.data(leader))
    scene.cluster.format(leader)
    scene.cluster.start(leader)


def topic_recreated(scene: Scene) -> None:
    """Somebody deletes the topic of the recording, and soon creates another of its name."""
    topic = scene.topic
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap})
    states = [scene.attached.partition(topic, number) for number in range(len(IDS))]
    assignment = [list(state.replicas or ()) for state in states if state is not None]
    admin.delete_topics([topic])[topic].result(30)

    def created() -> bool:
        again = NewTopic(topic, len(assignment), replica_assignment=assignment)
        try:
            admin.create_topics([again])[topic].result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(created, within_s=90, poll_s=0.01, awaiting="the topic to be created again")
    scene.wait(lambda: bool(scene.recorder.marks("topic-deleted")), "acked to see that it is another topic")


def rolling_restart(scene: Scene) -> None:
    """Each broker is stopped and started, one after the other."""
    for broker in IDS:
        scene.cluster.signal(broker, signal.SIGTERM)
        scene.cluster.start(broker)
        scene.wait_whole()


def controller_failover(scene: Scene) -> None:
    """The active controller is killed."""
    controller = scene.controller()
    scene.killed(controller)
    scene.wait(lambda: scene.controller() not in (controller, -1), f"another controller than {controller}")
    scene.cluster.start(controller)


FAULTS: dict[str, Callable[[Scene], None]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        no_fault,
        leader_cut,
        leader_killed,
        followers_frozen,
        follower_frozen,
        unclean_election,
        broker_wiped,
        topic_recreated,
        rolling_restart,
        controller_failover,
    )
}


def rights_of(user: str, operations: Iterable[Operation] = RIGHTS) -> list[Acl]:
    """Rights on topics whose names begin with acked-."""
    return [Acl(f"User:{user}", "topic", operation, "acked-*") for operation in operations]


def grant_rights(cluster: ForeignLab) -> None:
    """Give the ordinary user what a recording needs."""
    acls = rights_of(USER)
    assert all(one.error == 0 for one in create_acls(cluster.endpoint(IDS[0]), acls, timeout_s=10))


def as_user(cluster: ForeignLab, user: str = USER, more: str = "") -> list[str]:
    """How a recording reaches the cluster: where it is secured, as an ordinary user.

    ``more`` is appended to the properties of the user's clients.
    """
    if cluster.ca is None:
        return ["--bootstrap", cluster.bootstrap]
    (cluster.folder / "ca.pem").write_text(cluster.ca.certificate)
    config = cluster.folder / f"{user}.properties"
    login = {"username": user, "password": cluster.passwords[user]}
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={jaas_line(PLAIN_MODULE, login)}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.folder / 'ca.pem'}\n{more}"
    )
    return ["--bootstrap", cluster.users, "--client-config", str(config)]


def begun(
    cluster: ForeignLab,
    runs: Path,
    *options: str,
    reached: Sequence[str] = (),
    environment: Mapping[str, str] = NO_ENVIRONMENT,
) -> Scene:
    """A recording that has begun to write; without ``--for`` it records until it gets SIGTERM.

    ``reached`` says how it reaches the cluster; without it, as the ordinary user does. ``environment`` is
    that of the recording.
    """
    arguments = (*(reached or as_user(cluster)), *(options or ("--for", "10m")), "--yes")
    recorder = Recorder(runs, *arguments, environment=environment)
    attached = attach([cluster.endpoint(one) for one in IDS])
    return Scene(cluster=cluster, recorder=recorder, attached=attached)


@dataclass(kw_only=True)
class Stopped:
    """A recording that has removed its topic, and judges what it has recorded."""

    scene: Scene
    topic: str
    files: Files

    def outcome(self) -> dict[str, Any]:
        """What it said, and what the brokers' files say."""
        recorder = self.scene.recorder
        done = recorder.end()
        judgement = json.loads(done.stdout) if done.stdout else None
        truth = self.truth()
        found = against_findings(recorder.folder, truth)
        return {"status": done.status, "stderr": done.stderr, "judgement": judgement, **truth, **found}

    def unjudged(self) -> dict[str, Any]:
        """Kill it, because its history is complete; returns what the brokers' files say."""
        self.scene.recorder.close()
        return self.truth()

    def truth(self) -> dict[str, Any]:
        """What the brokers' files say of the recording, judged or not."""
        run = self.scene.recorder.folder
        disk = self.files.lost(run)
        records, different = wire_against_disk(run, self.files.final)
        return {
            "run": str(run),
            "lost_on_disk": len(disk),
            "lost_messages": sorted(disk),
            "lost_by_writer": dict(Counter(one.writer for one in disk)),
            "records": records,
            "different": different,
            "dumped": self.files.printed.total(),
            "dumped_different": wire_against_tool(run, self.files.printed),
            "replicas": len(self.files.final),
            "former": len(self.files.former),
        }


def against_findings(run: Path, truth: Mapping[str, Any]) -> dict[str, Any]:
    """How the messages that a judged recording calls lost differ from those that no file holds."""
    disk, findings = {Message(*one) for one in truth["lost_messages"]}, lost_by_findings(run)
    return {
        "lost": len(findings),
        "only_by_findings": sorted(findings - disk),
        "only_on_disk": sorted(disk - findings),
    }


def stopped(*scenes: Scene) -> list[Stopped]:
    """Wait until recordings that are to end have come to their judgement, and read their replicas' files."""
    for scene in scenes:
        scene.recorder.wait_final_logs()
    topics = [scene.topic for scene in scenes]
    files = Files.of(scenes[0].cluster, topics)
    return [
        Stopped(scene=scene, topic=topic, files=one)
        for scene, topic, one in zip(scenes, topics, files, strict=True)
    ]


def recorded(
    cluster: ForeignLab,
    runs: Path,
    name: str,
    happens: Callable[[Scene], None],
    reached: Sequence[str] = (),
    environment: Mapping[str, str] = NO_ENVIRONMENT,
) -> Seen:
    """Let something happen while a recording is under way; the recording, and what else was seen."""
    before = inventory(cluster)
    scene = begun(cluster, runs / name, reached=reached, environment=environment)
    try:
        scene.recorder.wait_recording()
        scene.recorder.wait_acknowledged(SOME)
        happens(scene)
        if not scene.ending:
            scene.end()
        (recording,) = stopped(scene)
    except BaseException:
        scene.recorder.close()
        raise
    return recording, {"fault": name, "before": before, "after": inventory(cluster)}


def judged_together(recordings: Sequence[Stopped]) -> list[dict[str, Any]]:
    """What `Stopped.outcome` says of each, but for what their processes print: `acked check` judges them.

    One session of Spark judges all, where each process would start one of its own.
    """
    truths = [one.unjudged() for one in recordings]
    runs = [Path(truth["run"]) for truth in truths]
    done = acked("check", *runs, "--json")
    assert done.stdout, done.stderr
    shown = json.loads(done.stdout)
    judgements = shown if len(runs) > 1 else [shown]
    return [
        {"status": said["exit_code"], "judgement": said, **truth, **against_findings(run, truth)}
        for run, truth, said in zip(runs, truths, judgements, strict=True)
    ]


Seen = tuple[Stopped, Mapping[str, Any]]
"""A recording, and what else was seen."""


@contextmanager
def showing() -> Iterator[Callable[[Seen], None]]:
    """Print what comes out of recordings, of which some are judged while the next fault is made."""
    judging = deque[Seen]()

    def show() -> None:
        recording, seen = judging.popleft()
        print(json.dumps({**seen, **recording.outcome()}), flush=True)

    def add(one: Seen) -> None:
        judging.append(one)
        if len(judging) > _JUDGED_BESIDE:
            show()

    try:
        yield add
    finally:
        while judging:
            show()


def main() -> int:
    """Run faults one after the other on one cluster."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kafka")
    parser.add_argument("faults", nargs="+", choices=[*FAULTS, "all"])
    parser.add_argument("--secure", action="store_true")
    options = parser.parse_args()
    names = list(FAULTS) if options.faults == ["all"] else options.faults

    def inside() -> int:
        ca = CertificateAuthority() if options.secure else None
        with ForeignLab(folder=options.folder / "cluster", kafka=options.kafka, ca=ca) as cluster:
            if ca is not None:
                grant_rights(cluster)
            with showing() as shown:
                for name in names:
                    shown(recorded(cluster, options.folder / "runs", name, FAULTS[name]))
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main())
