"""The partitions of others, which a fault of acked must not take away from them.

A fault begins only if every ISR is full, and every partition keeps enough replicas without the hosts of the
fault. While it lasts, a thread looks every second.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from harness.clock import now_ns
from harness.cluster.attached import PREFIX, AttachedCluster
from harness.errors import UnfitError
from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.metadata import metadata
from harness.lab.model import Host
from run.attached.cases import Aim

LOOK_S = 1.0
"""How often partitions and faults in force are looked at."""
WHOLE_S = 180.0
"""How long the cluster may take to have every ISR full before something is broken."""
_ANSWER_S = 3.0
_MIN_ISR = "min.insync.replicas"


def all_partitions(cluster: AttachedCluster) -> Mapping[TopicPartition, PartitionState]:
    """All partitions, each as the newest leader epoch has it; empty if nobody answers."""

    def one(host: Host) -> list[tuple[TopicPartition, int, PartitionState]]:
        with suppress(OSError):
            stated = metadata(host.broker_endpoint, None, dialect=cluster.dialect, timeout_s=_ANSWER_S)
            return [(key, host.node_id, state) for key, state in stated.partitions.items()]
        return []

    newest: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
    with ThreadPoolExecutor(len(cluster.brokers)) as pool:
        for answer in pool.map(one, cluster.brokers):
            for key, broker, state in answer:
                rank = (state.leader_epoch or 0, state.leader == broker)
                if key not in newest or rank > newest[key][0]:
                    newest[key] = rank, state
    return {key: state for key, (_, state) in newest.items()}


def of_others(stated: Mapping[TopicPartition, PartitionState]) -> Mapping[TopicPartition, PartitionState]:
    """All but those of acked."""
    return {key: state for key, state in stated.items() if not key.topic.startswith(PREFIX)}


def whole(cluster: AttachedCluster) -> bool:
    """Whether all its brokers are there, and every partition has a leader and a full ISR."""
    stated, known = all_partitions(cluster), cluster.registered() or frozenset()
    return {one.node_id for one in cluster.brokers} <= known and all(map(_is_whole, stated.values()))


def _is_whole(state: PartitionState) -> bool:
    return state.leader >= 0 and state.isr_is_full


class Guard:
    """Watches them until it is stopped."""

    def __init__(self, cluster: AttachedCluster) -> None:
        """Asks for min.insync.replicas of every topic. Raises UnfitError if that may not be known."""
        self._cluster = cluster
        self._before = of_others(all_partitions(cluster))
        self._least: dict[TopicPartition, int] = {}
        endpoint, needed = cluster.any_endpoint(), dict[str, int]()
        for topic in sorted({key.topic for key in self._before}):
            try:
                config = describe_configs(endpoint, "topic", topic, dialect=cluster.dialect)
            except LookupError as error:
                raise UnfitError(
                    f"min.insync.replicas of {topic} is not known ({error}), so nobody could tell when "
                    "to stop; grant DESCRIBE_CONFIGS on all topics."
                ) from None
            needed[topic] = int(config.get(_MIN_ISR) or 1)
        for key, state in self._before.items():  # with fewer replicas nobody can write with acks=all anyway
            self._least[key] = max(1, min(needed[key.topic], len(state.replicas or state.isr)))
        self._harm = ""
        self._seen: tuple[int, Mapping[TopicPartition, PartitionState]] = (0, {})
        self.whole_ns = 0
        """When all partitions, those of acked included, last had a leader and a full ISR; 0: never yet."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="guard", daemon=True)

    @property
    def watched(self) -> tuple[int, int]:
        """How many partitions of others, and of how many topics. Kafka hides what one may not DESCRIBE."""
        return len(self._before), len({key.topic for key in self._before})

    def require_whole(self) -> None:
        """Raise UnfitError unless every partition of others has a leader and a full ISR."""
        self._require_whole(self._before)

    def require_whole_now(self) -> None:
        """The same by the newest look: a broker may have gone since the plan was made."""
        self._require_whole(of_others(self._seen[1]))

    def _require_whole(self, stated: Mapping[TopicPartition, PartitionState]) -> None:
        for key, state in sorted(stated.items()):
            if not _is_whole(state):
                raise UnfitError(
                    f"{key} has the ISR {list(state.isr)} of {list(state.replicas or ())}: a fault "
                    "begins only when every ISR is full; wait until the cluster is whole."
                )

    def require_room(self, taken: Collection[int]) -> None:
        """Raise UnfitError if a partition has too few replicas without these brokers."""
        self._require_room(self._before, taken)

    def _require_room(self, stated: Mapping[TopicPartition, PartitionState], taken: Collection[int]) -> None:
        for key in sorted(self._before.keys() & stated.keys()):
            state = stated[key]
            left = [one for one in state.isr if one not in taken]
            if len(left) < self._least[key]:
                raise UnfitError(
                    f"{key} of others would have {len(left)} in-sync replicas without "
                    f"{', '.join(f'broker{one}' for one in sorted(taken))}, and needs "
                    f"{self._least[key]} ({_MIN_ISR}); nothing was broken."
                )

    def require_room_for(self, aims: Sequence[Aim]) -> None:
        """The same without the hosts of faults that are in force together, on either side of a cut."""
        for sides in ((aim.hosts for aim in aims), (aim.others or aim.hosts for aim in aims)):
            self.require_room({host.node_id for hosts in sides for host in hosts if host.role == "broker"})

    def require_room_now(self, aim: Aim) -> None:
        """The same for one more fault, by the newest look: a fault before it may have shrunk an ISR."""
        for hosts in (aim.hosts, aim.others or aim.hosts):
            self._require_room(self._seen[1], {host.node_id for host in hosts if host.role == "broker"})

    def has_room(self, hosts: Collection[Host], since_ns: int) -> bool:
        """Whether a look after ``since_ns`` has seen enough in-sync replicas outside of these hosts.

        Of every partition, those of acked included: of these, one is enough.
        """
        seen_ns, every = self._seen
        taken = {host.node_id for host in hosts if host.role == "broker"}
        return seen_ns > since_ns and all(
            state.leader >= 0 and len(set(state.isr) - taken) >= self._least.get(key, 1)
            for key, state in every.items()
        )

    def start(self) -> None:
        """Look every second from now on."""
        self._thread.start()

    def harm(self) -> str:
        """What two looks in a row found wrong with a partition of others; empty if nothing is."""
        return self._harm

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2 * _ANSWER_S)

    def _watch(self) -> None:
        suspected: Mapping[TopicPartition | None, str] = {}
        while not self._over.wait(LOOK_S):
            try:
                harmed = self._look()
            except Exception as error:  # noqa: BLE001 - without a look nobody knows whether others are harmed
                harmed = {None: f"the partitions of others cannot be seen ({type(error).__name__}: {error})"}
            unseen = harmed and suspected and None in {*harmed, *suspected}
            again = [text for key, text in harmed.items() if key in suspected or unseen]
            self._harm = self._harm or next(iter(again), "")
            suspected = harmed

    def _look(self) -> Mapping[TopicPartition | None, str]:
        """What is wrong with partitions of others; with the key None, of all."""
        began = now_ns()
        every = all_partitions(self._cluster)
        if every and all(map(_is_whole, every.values())):
            self.whole_ns = began
        self._seen = (began, every) if every else self._seen
        stated = of_others(every)
        if self._before and not stated:
            return {None: "no broker tells of any partition"}
        harmed: dict[TopicPartition | None, str] = {}
        for key, state in sorted(stated.items()):
            least = self._least.get(key)
            if least is None:
                continue  # it is newer than the run
            if state.leader < 0:
                harmed[key] = f"{key} has no leader"
            elif len(state.isr) < least:
                harmed[key] = f"{key} has fewer in-sync replicas than {_MIN_ISR}={least}"
        return harmed
