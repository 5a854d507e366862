"""What an agent can be told to do. A command either answers itself later or returns work for a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import UsageError
from workloads.agent.recorder import Recorder
from workloads.protocol.spec import Writer, as_json, load_from_json, reader_from_json, writer_from_json

if TYPE_CHECKING:
    from workloads.agent.consumers.assigned import HandReader
    from workloads.agent.consumers.group_member import GroupMember
    from workloads.agent.producers.pinned_series import ZombieWrites
    from workloads.agent.producers.scripted import Done, ScriptedProducer
    from workloads.agent.producers.stream import Stream
    from workloads.agent.producers.transactions import TransactionalProducer

Args = dict[str, Any]
Reply = Callable[[Any], None]
Work = Callable[[], Any]
T = TypeVar("T")


class Commands:
    """All state of one agent. Client libraries are imported by the commands that need them.

    Each method is called on the agent's main thread, in the order of the commands, with its arguments and a
    way to reply. It either replies itself (perhaps later), or returns work that may block: its value is the
    reply. So messages are numbered and recorded in the order in which they were asked for.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._scripted: dict[int, ScriptedProducer] = {}
        self._transactional: dict[int, TransactionalProducer] = {}
        self._streams: dict[int, Stream] = {}
        self._zombies: dict[int, ZombieWrites] = {}
        self._readers: dict[int, HandReader | GroupMember] = {}

    def ping(self, _: Args, reply: Reply) -> None:
        """Answer at once."""
        reply("pong")

    def prepare(self, args: Args, _: Reply) -> Work:
        """Make a librdkafka producer and wait until it knows the topic (and has its producer id)."""
        writer = writer_from_json(args["writer"])
        if writer.via == "raw":
            self._recorder.register(writer)
            return lambda: None
        if writer.transactional_id:
            transactional = self._transaction_of(writer)
            return lambda: transactional.initialise(args["within_s"])
        producer = self._scripted_of(writer)
        return lambda: producer.prepare(args["topic"], args["within_s"])

    def send(self, args: Args, reply: Reply) -> Work | None:
        """Send one scripted message."""
        writer = writer_from_json(args["writer"])
        topic, partition, label = args["topic"], args["partition"], args["label"]
        done: Done = lambda result: reply(as_json(result))  # noqa: E731
        if writer.transactional_id:
            self._transaction_of(writer).send(topic, partition, label, done)
            return None
        if writer.via == "librdkafka":
            self._scripted_of(writer).send(topic, partition, label, done)
            return None
        self._recorder.register(writer)
        return self._raw_send(writer, topic, partition, label)

    def stream_start(self, args: Args, reply: Reply) -> None:
        """Start a background stream."""
        from workloads.agent.producers.stream import Stream

        writer = writer_from_json(args["writer"])
        self._streams[writer.number] = Stream(self._recorder, writer, load_from_json(args["load"]))
        reply(None)

    def stream_stop(self, args: Args, _: Reply) -> Work:
        """Stop a stream, and wait for its answers."""
        stream = _find(self._streams, args["number"], "stream")
        return lambda: as_json(stream.stop(args["flush_s"]))

    def stream_counts(self, args: Args, reply: Reply) -> None:
        """How a stream fares."""
        reply(as_json(_find(self._streams, args["number"], "stream").counts()))

    def zombie_start(self, args: Args, reply: Reply) -> None:
        """Start a pinned series of raw writes."""
        from workloads.agent.producers.pinned_series import ZombieWrites

        writer = writer_from_json(args["writer"])
        self._zombies[writer.number] = ZombieWrites(
            self._recorder,
            writer,
            (args["topic"], args["partition"]),
            every_s=args["every_s"],
            max_count=args["max_count"],
            stop_on=args["stop_on"],
        )
        reply(None)

    def zombie_wait(self, args: Args, _: Reply) -> Work:
        """Wait until the series has ended by itself, or tell how far it is."""
        zombie = _find(self._zombies, args["number"], "series of raw writes")
        return lambda: as_json(zombie.wait(args["within_s"]))

    def zombie_stop(self, args: Args, _: Reply) -> Work:
        """End the series."""
        zombie = _find(self._zombies, args["number"], "series of raw writes")
        return lambda: as_json(zombie.stop(args["within_s"]))

    def read(self, args: Args, _: Reply) -> Work:
        """Read to the end offsets of now."""
        from workloads.agent.consumers.assigned import HandReader
        from workloads.agent.consumers.pinned import read_pinned

        journal, spec, within_s = self._recorder.journal, reader_from_json(args["reader"]), args["within_s"]
        if spec.pinned:
            return lambda: as_json(read_pinned(journal, spec, within_s))
        reader = HandReader(journal, spec)
        return lambda: as_json(reader.read_to_end(within_s))

    def follow_start(self, args: Args, reply: Reply) -> None:
        """Start a reader that follows, or a group member."""
        from workloads.agent.consumers.assigned import HandReader
        from workloads.agent.consumers.group_member import GroupMember

        spec = reader_from_json(args["reader"])
        kind = GroupMember if spec.group else HandReader
        self._readers[spec.number] = kind(self._recorder.journal, spec)
        self._readers[spec.number].start()
        reply(None)

    def follow_result(self, args: Args, reply: Reply) -> None:
        """How far it came."""
        reply(as_json(_find(self._readers, args["number"], "reader").result()))

    def follow_stop(self, args: Args, _: Reply) -> Work:
        """Stop it."""
        reader = _find(self._readers, args["number"], "reader")
        return lambda: as_json(reader.stop(args["within_s"]))

    def transaction_begin(self, args: Args, reply: Reply) -> None:
        """Open a transaction of a prepared writer."""
        reply(_find(self._transactional, args["number"], "transactional writer").begin())

    def transaction_end(self, args: Args, _: Reply) -> Work:
        """Commit or abort it."""
        producer = _find(self._transactional, args["number"], "transactional writer")
        return lambda: producer.finish(args["commit"], args["within_s"])

    def close(self) -> None:
        """End everything; unanswered messages end as `info`."""
        for stream in self._streams.values():
            stream.stop(0.0)
        for zombie in self._zombies.values():
            zombie.stop(0.0)
        for reader in self._readers.values():
            reader.stop(2.0)
        for producer in self._scripted.values():
            producer.close()
        for transactional in self._transactional.values():
            transactional.scripted.close()

    def _scripted_of(self, writer: Writer) -> ScriptedProducer:
        from workloads.agent.producers.scripted import ScriptedProducer

        self._recorder.register(writer)
        if writer.number not in self._scripted:
            self._scripted[writer.number] = ScriptedProducer(self._recorder, writer)
        return self._scripted[writer.number]

    def _transaction_of(self, writer: Writer) -> TransactionalProducer:
        from workloads.agent.producers.transactions import TransactionalProducer

        self._recorder.register(writer)
        if writer.number not in self._transactional:
            self._transactional[writer.number] = TransactionalProducer(self._recorder, writer)
        return self._transactional[writer.number]

    def _raw_send(self, writer: Writer, topic: str, partition: int, label: str) -> Work:
        from workloads.agent.producers.raw import raw_send

        sent = self._recorder.sent(writer.number, topic, partition, label=label)
        return lambda: as_json(raw_send(self._recorder, writer, topic, partition, label, sent))


def _find(things: dict[int, T], number: int, kind: str) -> T:
    try:
        return things[number]
    except KeyError:
        raise UsageError(f"There is no {kind} with number {number} in this client; start it first.") from None
