"""What follows from a description and its settings: topics, producers, and how long a fault lasts."""

from __future__ import annotations

import fnmatch
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.cluster.client_settings import Value, check_client
from harness.cluster.followed import IgnoredSetting, in_words
from harness.cluster.possible import DEFAULT_FACTOR
from harness.cluster.settings import (
    Settings,
    TopicShape,
    own_assignment,
    rack_aware,
    replication_factor,
    values,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.errors import UsageError
from harness.kafka.model import Topic, broker_id
from harness.lab.model import Topology
from run.clients import DELIVERY, ProducerSetting, compared
from studies.assess.battery import Case

TOPIC = "assessed"
"""Name of the topic where the description has none."""
RATE_PER_PARTITION = 5.0
"""Messages per second of each producer to each partition, if the user sets none: gaps are measured to about
1/5 s."""
MOST_PARTITIONS = 48
"""Partitions of all topics together, as far as they are described: each costs every AZ ten messages a second,
a place in each look at the cluster, and a judgement."""
DRAIN_S = 10.0
"""How long producers may take to stop."""
_LEAST_IN_SYNC = "min.insync.replicas"
_TOPICS_NAMED = 3
"""How many topics a note names."""
_OFFSETS_REPLICAS = 3
_MARGIN_S = 3.0
_REQUEST = "request.timeout.ms"
_UPGRADE = (
    "one node after the other; each fault comes at every third of it, before new features are turned on"
)


@dataclass(frozen=True, kw_only=True)
class AssessedTopic:
    """A topic of every run, and what it stands for."""

    name: str
    """As it is described."""
    alike: tuple[str, ...] = ()
    """Described topics with equal shapes and properties, which fare like this one and are not created."""
    described: int = 0
    """Its partitions as described; 0: none are, and acked chooses them."""
    partitions: int = 0
    """How many of them it has here; 0: acked chooses them."""


def rate_of(settings: Settings) -> float:
    """Messages per second of each producer to each partition."""
    return settings.rate or RATE_PER_PARTITION


def producers(settings: Settings) -> tuple[ProducerSetting, ...]:
    """The described producer, and the same one with acks=1 for comparison, or with acks=all if it has 1."""
    return compared(check_client("producer", settings.producer))


def default_times(given: Mapping[str, Value], timings: Timings) -> dict[str, Value]:
    """The producers' request.timeout.ms, by Java's names, unless the user has ``given`` one.

    It is that of the brokers, as in Kafka's defaults (30 s). The harness's own, 2 s, is close to half a
    session: a producer that asks a broker which does not know that it is deposed would ask again just before
    or just after the session's end, by chance.
    """
    if _REQUEST in given:
        return {}
    own: dict[str, Value] = {_REQUEST: int(timings.request_s * 1000)}
    # Where request.timeout.ms is fixed, delivery.timeout.ms would follow from it.
    return own | ({DELIVERY: given[DELIVERY]} if DELIVERY in given else {})


def header(
    version: str,
    mode: str,
    topology: Topology,
    settings: Settings,
    timings: Timings,
    left_out: Sequence[IgnoredSetting] = (),
    consequences: Sequence[str] = (),
    upgrade_to: str = "",
) -> dict[str, str]:
    """What was assessed, for people: a text for each heading.

    ``left_out`` has the settings that the runs do not follow, ``consequences`` a sentence for each that
    decides what a fault costs. ``upgrade_to`` is the version of a rolling upgrade.
    """
    topics = assessed_topics(settings)
    given = [
        f"{table}.{setting.key}={setting.value}"
        for table in ("broker", "producer", "consumer", "load")
        for setting in getattr(settings, table).values()
        if (table, setting.key) not in {(one.table, one.setting.key) for one in left_out}
    ]
    if settings.compress_time != 1:
        given.append(f"times divided by {settings.compress_time:g}")
    first, second = producers(settings)
    return {
        "cluster": f"Kafka {version}, {mode}; {_azs(topology)}",
        **({"upgrade": f"{version} to {upgrade_to}, {_UPGRADE}"} if upgrade_to else {}),
        **{
            "topic" if len(topics) == 1 else f"topic {topic.name}": (
                f"{topic.name}, " if len(topics) == 1 else ""
            )
            + _topic_text(topic, topology, settings)
            for topic in topics
        },
        "producers": f"{first.name} (described), {second.name} (for comparison); in each AZ with a client, "
        f"{rate_of(settings):g} messages/s to each partition",
        **({} if settings.security.plaintext else {"listeners": str(settings.security)}),
        "settings": ", ".join(given) or "those of docs/configuration.md",
        **({"not followed": in_words(left_out)} if left_out else {}),
        **({"consider": "; ".join(consequences)} if consequences else {}),
        "fault": f"{hold_s(timings):g} s each, as sessions last {timings.session_s:g} s and "
        f"replica.lag.time.max.ms is {timings.lag_s:g} s",
    }


def _topic_text(topic: AssessedTopic, topology: Topology, settings: Settings) -> str:
    replicas = replication_factor(topic.name, settings, len(topology.role("broker")))
    properties = {**values(settings.topic), **values(settings.topics.get(topic.name, {}))}
    minimum = {**values(settings.broker), **properties}.get(_LEAST_IN_SYNC) or _least_in_sync(replicas)
    return "; ".join(
        (
            f"{_partitions_text(topic)}replication factor {replicas}, {_LEAST_IN_SYNC}={minimum}",
            *(f"{key}={value}" for key, value in properties.items() if key != _LEAST_IN_SYNC),
            *_alike_text(topic),
        )
    )


def _partitions_text(topic: AssessedTopic) -> str:
    if not topic.partitions:
        return ""
    if topic.partitions == topic.described:
        return f"{topic.partitions} partition{'s' * (topic.partitions > 1)}, "
    return (
        f"{topic.partitions} of {topic.described} partitions (a run has {MOST_PARTITIONS} at most, led by "
        "the brokers in turn), "
    )


def _alike_text(topic: AssessedTopic) -> Iterator[str]:
    """A note that names the first topics that are not created, and counts the others."""
    if topic.alike:
        shown, more = topic.alike[:_TOPICS_NAMED], len(topic.alike) - _TOPICS_NAMED
        names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        count = f"{len(topic.alike)} topics that are" if len(topic.alike) > 1 else "1 topic that is"
        yield f"stands for {count} described alike: {names}"


_KINDS = {"broker": "broker", "zookeeper": "ZooKeeper node", "controller": "controller", "client": "client"}


def _azs(topology: Topology) -> str:
    """The AZs and their hosts; AZs with the same hosts together."""
    alike: dict[str, list[str]] = {}
    for az in topology.azs:
        hosts = [host.role for host in topology.hosts if host.az == az]
        counted = [(hosts.count(role), name) for role, name in _KINDS.items() if role in hosts]
        text = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counted)
        alike.setdefault(text, []).append(topology.az_name(az))
    return "; ".join(
        f"{', '.join(names)}: {text}{' each' if len(names) > 1 else ''}" for text, names in alike.items()
    )


def hold_s(timings: Timings) -> float:
    """How long a fault lasts: until sessions have ended and followers that lag have left the ISR.

    ZooKeeper ends a session after up to 1.5 times its time-out. A follower leaves the ISR after up to 1.5
    times replica.lag.time.max.ms, because brokers check twice in that time.
    """
    return 1.5 * max(timings.session_s, timings.lag_s) + _MARGIN_S


def recovery_s(timings: Timings) -> float:
    """How long the cluster may take to recover by itself before an operator acts."""
    return max(timings.converge_s, 2 * hold_s(timings))


def for_runs(settings: Settings, number: int = 1) -> Settings:
    """The settings for the ``number``-th run on a cluster.

    They lack the shapes of topics, because `setup` applies those, and topics that another one stands for.
    """
    names = topic_names(settings)
    topics = {
        numbered(name, number): overrides for name, overrides in settings.topics.items() if name in names
    }
    return replace(settings, shapes={}, topics=topics)


def numbered(topic: str, number: int) -> str:
    """The topic's name in the ``number``-th run on a cluster: every run has topics of its own."""
    return topic if number == 1 else f"{topic}-{number}"


def described_topics(settings: Settings) -> tuple[str, ...]:
    """The names of all topics that are described, else of the one that acked creates."""
    return tuple(dict.fromkeys((*settings.shapes, *settings.topics))) or (TOPIC,)


def assessed_topics(settings: Settings) -> tuple[AssessedTopic, ...]:
    """The topics of every run: of those that are described alike, the first one.

    If they have more than `MOST_PARTITIONS` together, the largest get equal shares of what the others leave.
    An assignment stays as it is.
    """
    alike: dict[object, list[str]] = {}
    for name in described_topics(settings):
        alike.setdefault(_description(name, settings), []).append(name)
    shapes = {names[0]: settings.shapes.get(names[0], TopicShape()) for names in alike.values()}
    shares = _shares({name: shape.partitions for name, shape in shapes.items() if not shape.assignment})
    return tuple(
        AssessedTopic(
            name=first,
            alike=tuple(others),
            described=len(shape.assignment) or shape.partitions,
            partitions=len(shape.assignment) or shares[first],
        )
        for (first, *others), shape in zip(alike.values(), shapes.values(), strict=True)
    )


def _shares(described: Mapping[str, int]) -> dict[str, int]:
    """How many partitions each topic gets; one for which none are described gets 0 of them."""
    left, shares = MOST_PARTITIONS, {}
    for number, name in enumerate(sorted(described, key=lambda one: described[one])):
        shares[name] = min(described[name], max(1, left // (len(described) - number)))
        left -= shares[name]
    return shares


def _description(name: str, settings: Settings) -> object:
    """What two topics that are described alike have in common: everything but name and place."""
    properties = sorted(values({**settings.topic, **settings.topics.get(name, {})}).items())
    return replace(settings.shapes.get(name, TopicShape()), place=""), tuple(properties)


def topic_names(settings: Settings) -> tuple[str, ...]:
    """The names of the topics of every run."""
    return tuple(topic.name for topic in assessed_topics(settings))


def only_topics(settings: Settings, globs: Sequence[str]) -> Settings:
    """The settings with only the described topics whose names match a glob. Raises UsageError."""
    names = described_topics(settings)
    for glob in globs:
        if not fnmatch.filter(names, glob):
            raise UsageError(
                f"--topics: no described topic is named {glob!r}; there are: {', '.join(names)}."
            )
    chosen = {name for glob in globs for name in fnmatch.filter(names, glob)}
    return replace(
        settings,
        shapes={name: shape for name, shape in settings.shapes.items() if name in chosen},
        topics={name: overrides for name, overrides in settings.topics.items() if name in chosen},
    )


def setup(case: Case, topology: Topology, settings: Settings, number: int = 1) -> Setup:
    """The set-up of a case: the roles, and topics with partitions led inside and outside of the fault.

    It is the ``number``-th case on its cluster. Raises UsageError for a topic that the brokers cannot hold.
    """
    return Setup(
        topics=tuple(_topic(topic, case, topology, settings, number) for topic in assessed_topics(settings)),
        controller=case.controller,
        zookeeper_leader=case.quorum_leader or "zookeeper2",
        zookeeper_sessions=case.sessions,
        zookeeper_pins=case.pins,
        brokers=tuple(host.node_id for host in topology.role("broker")),
        broker_config=case.placement.broker_config,
        volatile_disks=case.prepared("disks", topology),
        own_clocks=case.prepared("clocks", topology),
        upgrade_to=case.upgraded.to if case.upgraded else "",
        upgraded=case.upgraded.hosts if case.upgraded else (),
        offsets_log=_offsets_log(topology),
        stream_rate=0.0,
        for_layout=True,
        follows=(DEFAULT_FACTOR,),
        without=("transactions",),
        read_back=False,
    )


def group_of(topic: Topic) -> str:
    """The name of a topic's consumer group: each run on a cluster has topics, and so groups, of its own."""
    return f"{topic.name}-group"


def _offsets_log(topology: Topology) -> tuple[int, ...]:
    """Replicas of `__consumer_offsets`, in different AZs if possible; the first one coordinates all groups.

    It is the same for all cases, because a cluster serves several.
    """
    brokers = topology.role("broker")
    azs = [[host.node_id for host in brokers if host.az == az] for az in topology.azs]
    in_turn = (node_id for one_each in itertools.zip_longest(*azs) for node_id in one_each if node_id)
    return tuple(itertools.islice(in_turn, _OFFSETS_REPLICAS))


def _topic(assessed: AssessedTopic, case: Case, topology: Topology, settings: Settings, number: int) -> Topic:
    name = assessed.name
    shape = settings.shapes.get(name, TopicShape())
    leading = leaders(case, topology, assessed.partitions)
    placed = (
        own_assignment(name, shape, [host.node_id for host in topology.role("broker")])
        if shape.assignment
        else _replicas(settings, name, leading, topology)
    )
    described = {**values(settings.broker), **values(settings.topic), **values(settings.topics.get(name, {}))}
    config = {} if _LEAST_IN_SYNC in described else {_LEAST_IN_SYNC: _least_in_sync(len(placed[0]))}
    return Topic(numbered(name, number), placed[0], partitions=len(placed), placed=placed, config=config)


def _least_in_sync(replicas: int) -> str:
    return "2" if replicas > 2 else "1"


def leaders(case: Case, topology: Topology, partitions: int = 0) -> tuple[int, ...]:
    """The brokers that lead a topic's partitions, in order.

    ``partitions`` 0: as many as show everything, in every AZ one that the fault hits and one that it does
    not. Fewer show the first of these, in turn one that is hit and one that is not; of more, the others are
    led by the brokers that lead least, so that the load is spread.
    """
    leader_by_place: dict[tuple[str, bool], int] = {}
    for host in topology.role("broker"):
        leader_by_place.setdefault((host.az, host.name in case.inside), host.node_id)
    hit, spared = (
        [leader for (_, inside), leader in leader_by_place.items() if inside is wanted]
        for wanted in (True, False)
    )
    first = [leader for pair in itertools.zip_longest(hit, spared) for leader in pair if leader is not None]
    leading = first[: partitions or len(first)]
    counts = Counter({host.node_id: leading.count(host.node_id) for host in topology.role("broker")})
    while len(leading) < partitions:
        least = min(counts, key=lambda broker: (counts[broker], broker))
        leading.append(least)
        counts[least] += 1
    return tuple(sorted(leading))


def led_inside(case: Case, leader: int) -> bool:
    """Whether the fault hits the broker."""
    return leader in {broker_id(name) for name in case.inside}


def _replicas(
    settings: Settings, name: str, leaders: tuple[int, ...], topology: Topology
) -> tuple[tuple[int, ...], ...]:
    """By broker, the replicas that Kafka assigns to a partition with that broker as its preferred leader."""
    racks = {host.node_id: host.az for host in topology.role("broker")}
    factor = replication_factor(name, settings, len(racks))
    replicas_by_leader = {replicas[0]: replicas for replicas in rack_aware(racks, len(racks), factor)}
    return tuple(replicas_by_leader[leader] for leader in leaders)
