"""How a recording and a watch begin, stand and end: what both do on somebody else's cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType

from harness.clock import Anchor, now_ns
from harness.cluster.attached import AttachedCluster
from harness.console import Progress
from harness.errors import AckedError, InvalidRunError
from harness.history.journal import Journal
from harness.history.schema import SCHEMA_VERSION
from harness.kafka.model import Topic
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.metadata import topic_ids
from harness.observer.pollers import ANSWER_WITHIN_S
from harness.waiting import wait_until
from run.configs import record_configs_of_others
from run.environment import environment
from run.folder import CLAIMS, RunFolder, no_room, write_json
from run.recording.seen import TopicIds
from run.recording.stored import note
from run.runner import RunResult, ended
from run.watch import Watch

NAME = "record"
"""The name of a recording where runs have that of their scenario."""
LOOK_S = 0.2
_LATE_S = 60.0
"""By how much the last look may be late."""

EndRequests = Callable[[], int]
"""How often the user has asked for the end."""


def began(folder: RunFolder, cluster: AttachedCluster, title: str, described: str = "") -> None:
    """Write the manifest of what begins on somebody else's cluster, and what decides about findings.

    ``described`` is the producer with the user's settings, if there is one.
    """
    anchor = Anchor.take()
    folder.update(
        schema_version=SCHEMA_VERSION,
        scenario=NAME,
        title=title,
        status="running",
        kafka=None,
        mode=cluster.mode,
        lab="attached",
        azs=dict(cluster.topology.az_names),
        anchor={"monotonic_ns": anchor.monotonic_ns, "wall_ns": anchor.wall_ns},
        made_by=environment(),
    )
    declared = {"scenario": NAME, "claims": [], "expected": [], "judged_by": "promises"}
    write_json(folder.path / CLAIMS, {**declared, "described": described})
    note(folder, brokers={str(host.node_id): host.az for host in cluster.brokers})


def carried_out(folder: RunFolder, progress: Progress, go: Callable[[], None]) -> RunResult:
    """Do the work, and write the history and how it ended. Errors become part of the result."""
    status = "complete"
    problem: AckedError | None = None
    try:
        go()
    except InvalidRunError as error:
        status, problem = "invalid", error
    except AckedError as error:
        status, problem = "crashed", error
    except OSError as error:
        why = AckedError(f"The cluster stopped answering the harness ({error}).")
        status, problem = "crashed", no_room(folder.path, error) or why
    except KeyboardInterrupt:
        folder.update(status="crashed", problem="interrupted")
        raise
    try:
        return ended(folder, progress, status, problem)
    except OSError as error:
        if (full := no_room(folder.path, error)) is None:
            raise
        return RunResult(folder, "crashed", problem or full)


def standing(
    watch: Watch,
    look: Callable[[], None],
    end_requests: EndRequests,
    end_ns: int,
    progress: Progress,
    reason_to_end: Callable[[], str] = str,
    done: Callable[[], bool] = bool,
) -> str:
    """Look, until the time is over or all is done, the user ends it (Ctrl-C, SIGTERM), or there is a reason.

    Returns that reason, a clause for the user.
    """
    reason = ""

    def over() -> bool:
        nonlocal reason
        look()
        watch.observer.check()
        reason = reason_to_end()
        return bool(reason or end_requests()) or done() or now_ns() >= end_ns

    wait_until(
        over,
        within_s=max(0.0, (end_ns - now_ns()) / 1e9) + _LATE_S,
        poll_s=LOOK_S,
        awaiting="the end of the recording",
    )
    if end_requests():
        progress.say("ending early, as you asked; once more to end at once")
    if reason:
        progress.say(f"ending early: {reason}")
    watch.observer.views.confirm(now_ns())
    return reason


def ids_by_broker(stack: ExitStack, cluster: AttachedCluster, topic: str) -> Callable[[int], TopicIds | None]:
    """How to ask a broker for the id of the topic, over a connection of its own."""
    connections = {
        host.node_id: Connection(host.broker_endpoint, ANSWER_WITHIN_S) for host in cluster.brokers
    }
    for connection in connections.values():
        stack.callback(connection.close)

    def ask(broker: int) -> TopicIds | None:
        try:
            return topic_ids(connections[broker], [topic])
        except (OSError, LookupError):
            return None

    return ask


def note_configs(
    cluster: AttachedCluster, topics: Iterable[Topic], journal: Journal, progress: Progress
) -> dict[str, Mapping[str, str | None]]:
    """Record what the cluster tells of its configuration, and say what it does not tell.

    Returns the configuration of each topic that is told.
    """
    told, untold = record_configs_of_others(
        cluster.brokers, topics, cluster.features(), journal, cluster.dialect
    )
    for what in untold:
        progress.say(f"not known: {what}")
    return told


@contextmanager
def signals_end() -> Iterator[EndRequests]:
    """Meanwhile the first SIGINT or SIGTERM is only noted; the function that is yielded counts them.

    The second one has its former effect.
    """
    noted: list[int] = []
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        for one, action in former.items():
            signal.signal(one, action)

    for number, action in former.items():
        if action is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield lambda: len(noted)
    finally:
        for number, action in former.items():
            signal.signal(number, action)
