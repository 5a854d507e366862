"""The rolling judgement as a part of a run (`run.runner.Rolling`), and what it leaves in the run folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from harness.clock import now_ns
from harness.errors import BadDataError
from harness.history import read_journal, stream_journal
from harness.history.schema import TABLES
from harness.history.tables import write_table
from harness.host_files import Folder, HostFiles
from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.segments import leader_epochs
from harness.kafka.wire.dialect import MODERN
from harness.observer.dump import replica_row
from harness.observer.replica_log import ReplicaLog
from harness.observer.targets import Targets
from run.folder import RunFolder
from run.soak.deliveries import Deliveries
from run.soak.judge import Live, RollingJudge
from run.soak.memory import return_large_buffers
from run.soak.replicas import Replicas, StoredReplicas
from run.soak.streams import Streams
from run.soak.transactions import Transactions
from run.stage import Stage
from run.watch import Watch
from workloads.client.client import take_journals

STREAM_JOURNALS = "streams"
"""Folder of a run with the journals of its streams and consumers, which are not part of its history."""
LIVE = "soak.jsonl"
"""How things stood, a line a second."""
_LINE_S = 1.0


class RollingRun:
    """Judges the topics of a run while it lasts."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        for_s: float = 0.0,
        delete: bool = True,
        readers: bool = False,
        seen: Callable[[Live], None] = lambda live: None,
    ) -> None:
        """``for_s``: how long the load shall last. ``delete``: records go once they were compared again.

        ``readers``: somebody in each AZ reads all topics, and commits.
        """
        self._folder = folder
        self._for_s = for_s
        self._delete = delete
        self._readers = readers
        self._seen = seen
        self._judge: RollingJudge | None = None
        self._data: Mapping[int, HostFiles | None] = {}
        self._tables: dict[str, pa.Table] = {}
        self._written_s = 0.0
        self._began_s = time.monotonic()

    @property
    def live(self) -> Live:
        """How things stand."""
        return Live() if self._judge is None else self._judge.live

    def compare_again(self) -> None:
        """Compare all closed windows with every replica once more."""
        if self._judge is not None:
            self._judge.compare_again()

    def start(self, stage: Stage, watch: Watch) -> None:
        """Begin, and note in the manifest what `resume` needs."""
        return_large_buffers()
        topology = stage.lab.topology
        targets = Targets.of(topology, stage.setup.brokers, stage.lab.files)
        assignment = {
            key: replicas
            for topic in stage.topics
            if not topic.internal
            for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True)
        }
        self._data = {node.node_id: node.data for node in targets.brokers}
        noted = [[key.topic, key.partition, list(brokers)] for key, brokers in assignment.items()]
        self._folder.update(soak={"for_s": self._for_s, "assignment": noted})
        views = watch.observer.views

        def state_of(key: TopicPartition) -> PartitionState | None:
            return views.of("broker").partition(*key)

        clients = [stage.lab.files(host.name) for host in topology.role("client")]
        streams = Streams(clients)
        transactions = Transactions(clients, streams)
        self._judge = RollingJudge(
            assignment=assignment,
            streams=streams,
            transactions=transactions,
            deliveries=Deliveries(clients, streams, transactions),
            replicas=Replicas.of(targets.brokers, stage.dialect),
            state_of=state_of,
            endpoints={node.node_id: node.endpoint for node in targets.brokers},
            dialect=stage.dialect,
            folder=self._folder.path,
            delete=self._delete,
            readers=len(stage.clients) if self._readers else 0,
            seen=self._told,
        )
        self._judge.start()

    def _told(self, live: Live) -> None:
        self._seen(live)
        now_s = time.monotonic()
        if now_s >= self._written_s + _LINE_S:
            self._written_s = now_s
            with (self._folder.path / LIVE).open("a") as file:
                file.write(json.dumps({"s": round(now_s - self._began_s, 1), **asdict(live)}) + "\n")

    def finish(self, watch: Watch) -> None:
        """Judge the rest, and state every replica's end."""
        self._finish(watch.states)

    def resume(self) -> str:
        """Judge what a soak whose command was killed has left, from its files; returns what was not observed.

        Raises BadDataError if the folder holds no such soak.
        """
        place, nodes = self._folder.path, self._folder.path / "nodes"
        assignment, self._for_s = _noted(self._folder)
        brokers = sorted({broker for assigned in assignment.values() for broker in assigned})
        replicas = StoredReplicas.below(nodes, brokers)
        self._data = replicas.data
        states = {key: _stored_state(replicas, key, assigned) for key, assigned in assignment.items()}
        clients = [Folder(client) for client in sorted(nodes.glob("client*"))]
        places = [*clients, Folder(self._folder.journals), Folder(place / STREAM_JOURNALS)]
        streams = Streams(places)
        transactions = Transactions(places, streams)
        self._judge = RollingJudge(
            assignment=assignment,
            streams=streams,
            transactions=transactions,
            deliveries=Deliveries(places, streams, transactions),
            replicas=replicas,
            state_of=states.get,
            endpoints={},
            dialect=MODERN,
            folder=place,
            delete=False,
            seen=self._seen,
        )
        self._judge.restore()
        self._finish(lambda: states)
        first, last = streams.span_ns()
        lasted_s = (last - first) / 1e9
        self._folder.update(
            soak={**self._folder.manifest()["soak"], "observed_s": round(lasted_s, 1), "killed": True}
        )
        for client in clients:
            take_journals(client, self._folder.journals, client.path.name)
        return (
            f"The soak was killed after {lasted_s:.1f} s of {self._for_s:g} s of load; it is judged up to "
            f"then, and the {max(0.0, self._for_s - lasted_s):.1f} s that were left were not observed."
        )

    def _finish(self, states_of: Callable[[], Mapping[TopicPartition, PartitionState]]) -> None:
        judge = self._judge
        assert judge is not None
        judge.finish()
        states = states_of()
        rows = []
        for key, part in judge.parts.items():
            for broker in part.assigned:
                end = judge.end(key, broker)
                log = ReplicaLog(
                    topic_partition=key,
                    broker=broker,
                    complete=end is not None,
                    ns=now_ns(),
                    leo=end,
                    log_start=0,
                    error=None if end is not None else "it was not compared to its end",
                )
                data = self._data.get(broker)
                if data is not None:
                    log.epochs = leader_epochs(data.below(key.folder))
                rows.append(replica_row(log, states.get(key), "delete"))
        self._tables = {
            "sends": judge.sends(),
            "copies": judge.copies(),
            "reads": judge.reads(),
            "sightings": judge.sightings(),
            "batches": TABLES["batches"].arrow().empty_table(),
            "replicas": pa.Table.from_pylist(rows, schema=TABLES["replicas"].arrow()),
        }
        self._folder.update(settled=judge.settled())

    def close(self) -> None:
        """End the thread and the decoder."""
        if self._judge is not None:
            self._judge.close()

    def set_aside(self) -> None:
        """Move the journals of streams and consumers to a folder of their own."""
        aside = self._folder.path / STREAM_JOURNALS
        aside.mkdir(exist_ok=True)
        for suffix in (stream_journal.SUFFIX, read_journal.SUFFIX):
            for file in self._folder.journals.glob(f"*{suffix}"):
                file.replace(aside / file.name)

    def write(self) -> None:
        """Write the tables of the rest."""
        for name, table in self._tables.items():
            write_table(self._folder.path, name, table, ("writer", "seq") if name == "sends" else ())


def _noted(folder: RunFolder) -> tuple[dict[TopicPartition, tuple[int, ...]], float]:
    """The replicas of each partition, and how long the load was to last. Raises BadDataError."""
    noted = folder.manifest().get("soak") or {}
    try:
        assignment = {
            TopicPartition(str(topic), int(partition)): tuple(int(broker) for broker in brokers)
            for topic, partition, brokers in noted["assignment"]
        }
        return assignment, float(noted["for_s"])
    except (TypeError, ValueError, KeyError):
        raise BadDataError(
            f"{folder.path} is no soak that has begun: its run.json does not name the partitions; name "
            "another folder, such as runs/soak/latest."
        ) from None


def _stored_state(replicas: StoredReplicas, key: TopicPartition, assigned: Sequence[int]) -> PartitionState:
    """What the files of killed brokers say: the most advanced replica led, and its equals follow."""
    ends = {broker: replicas.end(broker, key) for broker in assigned}
    leader = max(ends, key=lambda broker: (*ends[broker], -broker))
    isr = tuple(broker for broker in assigned if ends[broker] == ends[leader])
    return PartitionState(leader=leader, leader_epoch=ends[leader][0], isr=isr, replicas=tuple(assigned))
