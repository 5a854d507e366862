"""The shape of a report: frozen data classes that become JSON as they are.

Times are seconds from time zero, negative before it: the first fault in force or, without one, the first
event of the run (`Zero`); `acked story` and the terminal count alike. `SCHEMA` rises when a field changes its
meaning or goes away; a new field needs no new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the manifest says about the run; a judgement alone has only the scenario and the folder."""

    scenario: str
    folder: str
    title: str = ""
    article: str = ""
    section: str = ""
    kafka: str = ""
    mode: str = ""
    lab: str = ""
    status: str = ""
    problem: str = ""
    started: str = ""
    """UTC, ISO 8601; empty if the manifest has no clock anchor."""
    duration_s: float = 0.0
    """Duration of the scenario's steps, without the start and stop of the cluster; 0 for an import."""
    azs: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    """The command that repeats this run; for a user's own build of Kafka, the command that made the run."""
    made_by: tuple[tuple[str, str], ...] = ()
    """Versions and machine that made the run, as name and value; empty if the manifest does not have them."""
    imported: bool = False
    """Whether another program recorded the history; `scenario` is then the name of its folder."""
    limits: tuple[str, ...] = ()
    """What is not known of the cluster of a recording, in sentences."""


@dataclass(frozen=True)
class Zero:
    """The moment from which all times of a report count, in seconds; times before it are negative."""

    fault: str = ""
    """The name of the first fault in force, which began then; empty: the history began then."""
    utc: str = ""
    """ISO 8601, to the millisecond; empty if the manifest has no clock anchor."""


NO_AZ = "?"
"""Stands for the AZ of producers whose AZ is not recorded."""


def grouped(number: int) -> str:
    """A number for people: from five digits on with commas, as in 1,000,000."""
    return f"{number:,}" if abs(number) >= 10_000 else str(number)


def counted(number: int, noun: str) -> str:
    """A number of things: `1 message`, `2 messages`."""
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"


def acks_in_words(acks: int | None) -> str:
    """A producer's setting `acks`: `all`, `1`, `0`, or nothing if it is not known."""
    return "" if acks is None else "all" if acks == -1 else str(acks)


Tone = Literal["kept", "cost", "broken", "undecided", "void"]
"""How bad it is for the reader: nothing of theirs was lost, Kafka kept its promises and they lost writes all
the same, Kafka broke a promise, the history does not decide, or the run says nothing about Kafka."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of the stored judgement, and sentences made from the history."""

    verdict: str
    tone: Tone = "undecided"
    """How bad it is for the reader."""
    headline: str = ""
    """What the run says about Kafka and the reader's producers; empty if it was not judged."""
    meaning: str
    """What the word means for this run, in a sentence; with the expected losses, if there are any."""
    said_by_meaning: str = ""
    """The one of the sentences that adds nothing to the meaning, if any."""
    reasons: tuple[str, ...]
    messages: int
    fates: Mapping[str, int]
    lost: int
    """Acknowledged messages that are lost, whether the scenario expects it or not."""
    seen: str = ""
    """What was seen to break in a recording of a cluster that acked did not start; empty for other runs."""
    sentences: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    """Why they are lost, in plain sentences, the most frequent cause first."""
    also: tuple[str, ...] = ()
    """What happened to messages besides losses and why, in plain sentences."""


@dataclass(frozen=True)
class Mark:
    """A step of the scenario."""

    s: float
    name: str
    text: str


@dataclass(frozen=True)
class Proof:
    """One thing that a fault's proof checked: what was wanted, and what was seen."""

    what: str
    wanted: str
    seen: str
    held: bool


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault, and the proof that it took effect."""

    number: int
    name: str
    kind: str
    mechanism: str
    from_s: float
    to_s: float | None
    """None: it lasts to the end, or acts only at one moment."""
    lasting: bool
    """It has a duration: it was healed, or it lasts until the run ends."""
    injected: bool
    stated: bool = False
    """Somebody stated it, and nothing proves it."""
    proven: bool
    """It took effect, and lasted until it was healed."""
    hosts: tuple[str, ...]
    links: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    """`topic/partition` of the topic partitions to which the fault is restricted; empty: no restriction."""
    first_offset: int = -1
    """The first offset that it damaged in them; -1: not recorded."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Its `targets` as the history has them: also what was asked for, a percentage, a signal."""
    links_without_effect: tuple[str, ...] = ()
    """Links that the fault names and on which it had no effect, each as ``broker1 -> broker2``."""
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What one node states for some time; `error` says why it states nothing."""

    from_s: float
    to_s: float
    leader: int | None
    """Broker id (node id of a controller); -1: none; None: not stated yet."""
    epoch: int | None
    isr: tuple[int, ...]
    error: str = ""


@dataclass(frozen=True)
class Lane:
    """One node's statements over time."""

    source: str
    beliefs: tuple[Belief, ...]


@dataclass(frozen=True)
class Split:
    """A time during which nodes disagree on the leader; ``says`` has the nodes by leader."""

    from_s: float
    to_s: float
    says: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Offsets:
    """Offsets of a replica from a time on; None: not known."""

    s: float
    high_watermark: int | None
    leo: int | None


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What happened to one replica at one moment. ``kind``: elected, removed (acknowledged messages left
    its log), started (its broker's process)."""

    s: float
    kind: str
    source: str
    count: int
    """Of `removed`: how many acknowledged messages."""
    text: str


@dataclass(frozen=True, kw_only=True)
class SendBin:
    """Messages that an AZ sent in a short time, by outcome; ``lost`` are counted in ``ok`` too."""

    s: float
    width_s: float
    ok: int
    info: int
    fail: int
    lost: int


@dataclass(frozen=True, kw_only=True)
class ReplicaRecord:
    """A record in a replica's log."""

    offset: int
    epoch: int | None
    message: str
    """`writer/seq`; empty if it names none."""
    text: str
    """What a cell shows: the message's label, else its `seq`."""
    acknowledged: bool
    lost: bool
    count: int = 1
    """In a folded column: how many of its offsets this replica's log holds."""
    damaged: bool = False
    """Its bytes in this log are not what was written."""


@dataclass(frozen=True, kw_only=True)
class ReplicaState:
    """One replica's log at one moment, limited to the offsets of the figure."""

    broker: int
    records: tuple[ReplicaRecord, ...]
    gone: tuple[ReplicaRecord, ...]
    """Records that were in this log before and have been truncated."""
    high_watermark: int | None
    leo: int | None
    silent: bool = False
    """Whether the broker does not answer, so that the content of its log is unknown."""
    since_s: float | None = None
    """Since when a silent broker has not answered."""
    missing: tuple[ReplicaRecord, ...] = ()
    """At the end: lost messages of these offsets that no replica's log was ever seen to hold."""
    older: bool = False
    """Whether other replicas show that this log must hold more than was last read of it."""


@dataclass(frozen=True)
class Panel:
    """The logs of all replicas at one mark."""

    s: float
    name: str
    text: str
    replicas: tuple[ReplicaState, ...]


@dataclass(frozen=True)
class LogColumn:
    """A column of the figure of logs: one offset, or a range of ``count`` offsets that look alike."""

    offset: int
    count: int = 1


@dataclass(frozen=True)
class LogFigure:
    """The replicas' logs, mark by mark."""

    columns: tuple[LogColumn, ...]
    panels: tuple[Panel, ...]
    first_difference: int | None
    """The first offset at which replicas ever held different records."""


@dataclass(frozen=True, kw_only=True)
class PartitionStory:
    """Everything that is drawn about one topic partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    findings: int
    grave: bool = False
    """Whether it lost acknowledged messages, or a finding breaks a promise of Kafka."""
    lanes: tuple[Lane, ...]
    splits: tuple[Split, ...]
    leaders: Mapping[int, int]
    """Leader by epoch."""
    sends: Mapping[str, tuple[SendBin, ...]]
    """By AZ."""
    offsets: Mapping[int, tuple[Offsets, ...]]
    """By broker; empty in histories without the table `watermarks`."""
    logs: LogFigure | None
    turns: tuple[Turn, ...] = ()
    """By time."""

    @property
    def name(self) -> str:
        """`topic/partition`."""
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim as judged."""

    name: str
    says: str
    quote: str
    section: str
    status: str
    as_declared: bool
    observed: str
    instead: str
    """The erratum or other outcome; empty if there is none."""
    because: str
    instead_kind: str
    """`erratum`, `either` or empty."""
    precondition: bool
    names: Mapping[str, str]
    """Hosts by the names that the article gives them in this claim, where those differ."""
    from_s: float | None
    to_s: float | None
    counts_from: Mapping[str, float] = field(default_factory=dict)
    """The steps of the scenario from which the claim counts a time, each with its moment."""
    sources: tuple[str, ...]
    partitions: tuple[str, ...]
    offsets: tuple[int, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AcknowledgedRate:
    """What one AZ's producers were told is written, of a run under way."""

    az: str
    acks: str
    """Empty: of all settings together."""
    per_second: tuple[tuple[float, int], ...]
    """As in `Availability`."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Availability for one AZ's producers with the same acks; latencies in ms."""

    az: str
    acks: str
    """`acks=all`, `acks=1` or `acks=0`; empty if they are not recorded."""
    sent: int
    acknowledged: int
    failed: int
    unknown: int
    longest_gap_s: float
    """The longest time without an acknowledgement in any one partition."""
    gap_from_s: float
    gap_to_s: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    unknown_ms: float | None
    """The longest time until a client gave up without knowing the outcome; None if none did."""
    failed_ms: float | None
    """The longest time until a client was told that a message had failed."""
    per_second: tuple[tuple[float, int], ...]
    """Acknowledgements in each second, from its begin in seconds."""
    lasting_beyond: str
    """The fault in force during the gap; empty if none was."""


@dataclass(frozen=True, kw_only=True)
class StoryEvent:
    """A step in a message's story. ``kind``: send, ack, refused, unknown, seen, gone, read, fault, healed,
    mark, elected, logged."""

    s: float
    kind: str
    source: str
    target: str
    text: str


@dataclass(frozen=True, kw_only=True)
class TransactionGroup:
    """Transactions with the same report and the same visibility."""

    reported: str
    """`committed`, `aborted`, `unknown` or `open`."""
    visible: str
    """How much of each a reader with `read_committed` can get: `all`, `part`, `none`, or in words."""
    finding: str
    """The class of the finding about each; empty for none."""
    count: int


@dataclass(frozen=True, kw_only=True)
class BlockedReaders:
    """A stretch of time in which a partition's last stable offset stood still below the high watermark."""

    place: str
    """``topic/partition``"""
    offset: int
    """The last stable offset: readers of committed records got nothing from there on."""
    brokers: tuple[int, ...]
    """The replicas that were blocked there."""
    from_s: float
    to_s: float | None
    """None: it lasted until the run ended."""
    seconds: float
    """On the replica that was blocked longest; the other times are those of this replica, too."""
    behind: int
    """How many offsets at most lay between the last stable offset and the high watermark."""
    transaction: str
    """Name of the transaction whose record is at the offset; empty if it is not known."""
    producer: str
    reported: str
    """What was reported to its application."""


@dataclass(frozen=True, kw_only=True)
class Unobserved:
    """A range of offsets that the run should have observed and did not, or observed late."""

    by: str
    """Who should have: `tail`, `reader` or `read_back`, as in the table `unobserved`."""
    place: str
    """``topic/partition``"""
    broker: int | None
    from_s: float | None
    to_s: float
    from_offset: int | None
    to_offset: int | None
    """The offset after the last one."""
    late: bool


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened to one message, or to one transaction."""

    message: str
    """`writer/seq`, or `txn:writer/number`."""
    label: str
    place: str
    fate: str
    cause: str
    ending: str
    columns: tuple[str, ...]
    events: tuple[StoryEvent, ...]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """Findings by what Kafka promises, as stored in the judgement."""

    promise: str
    """`broken`, `unknown` or `not promised`."""
    row: str
    """Row of the promise table; empty if none applies."""
    known_bug: str
    why: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding, as a line of a table."""

    name: str
    place: str
    offset: int | None
    epoch: int | None
    message: str
    label: str
    acked_s: float | None
    acked_by: int | None
    during: str
    last_broker: int | None
    acks: int | None = None
    """What the producer waited for, where it is known: with 0, no broker acknowledged anything."""
    brokers: tuple[int, ...] = ()
    """The brokers whose logs hold the record."""
    copies: int | None = None
    """For a duplicated message: how many records of one log are this message."""
    detail: str
    promise: str
    """`broken`, `unknown` or `not promised`; empty in runs that were judged without the promise table."""
    story: bool
    """Whether the model has the story of its message."""


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """Findings of one class with one cause."""

    name: str
    cause: str
    """The cause as a sentence; empty: none is known."""
    cause_kind: str = ""
    """The kind of the cause, one of the kinds of `docs/findings.md`."""
    cause_facts: Mapping[str, Any] = field(default_factory=dict)
    expected: bool
    count: int
    sampled: bool = False
    """Whether only a sample of the findings was counted, so that there may be more."""
    promises: Mapping[str, int]
    """How many are broken, not promised, unknown."""
    shown: tuple[Finding, ...]

    @property
    def rank(self) -> tuple[bool, int, str, str, str]:
        """Sorts groups: unexpected ones first, then the largest."""
        return self.expected, -self.count, self.name, self.cause_kind, str(self.cause_facts)


@dataclass(frozen=True, kw_only=True)
class WriterFates:
    """What became of the messages of one producer, or of several that have one name."""

    writer: str
    az: str
    acks: int | None
    """-1: all; None: not known."""
    fates: Mapping[str, int]
    """Messages by fate."""


@dataclass(frozen=True)
class EffectiveSetting:
    """A requested setting, and the value in effect."""

    scope: str
    key: str
    value: str
    asked: str


@dataclass(frozen=True)
class File:
    """A file or folder of the run folder."""

    name: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class ReportModel:
    """Everything that reports show of one run: the terminal, the page, Markdown, JUnit XML and JSON.

    A model made from a judgement alone has no times, no pictures and no stories (`model.judged`); one made
    from a run folder has all (`model.gather`).
    """

    run: Run
    verdict: Verdict
    zero: Zero = Zero()
    """What times count from."""
    from_s: float = 0.0
    to_s: float = 0.0
    """The stretch of time that pictures show."""
    marks: tuple[Mark, ...] = ()
    faults: tuple[Fault, ...] = ()
    partitions: tuple[PartitionStory, ...] = ()
    """The most interesting first; at most `gather.PARTITIONS`."""
    other_partitions: int = 0
    controllers: tuple[Lane, ...] = ()
    controller_splits: tuple[Split, ...] = ()
    controller_turns: tuple[Turn, ...] = ()
    """Elections of a controller."""
    claims: tuple[Claim, ...] = ()
    availability: tuple[Availability, ...] = ()
    promises: tuple[Promise, ...] = ()
    """Broken ones first."""
    writers: tuple[WriterFates, ...] = ()
    """By name and AZ."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """By class, all of them."""
    groups: tuple[FindingGroup, ...] = ()
    """Unexpected ones first, then the largest."""
    stories: tuple[Story, ...] = ()
    transactions: tuple[TransactionGroup, ...] = ()
    """Those with a finding first."""
    blocked: tuple[BlockedReaders, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    """The first ranges that the run did not observe, as the judgement lists them."""
    """The longest first."""
    transaction_stories: tuple[Story, ...] = ()
    settings: tuple[EffectiveSetting, ...] = ()
    files: tuple[File, ...] = ()
    schema: int = field(default=SCHEMA)

    def as_json(self) -> dict[str, Any]:
        """The model as plain values, ready to be written as JSON."""
        return asdict(self)
