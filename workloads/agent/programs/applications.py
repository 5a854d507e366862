"""An instance of an application of Kafka Streams, which runs in a client program."""

from __future__ import annotations

from harness.clock import now_ns
from harness.history.journal import Journal
from workloads.agent.consumers.progress import MOST_ERRORS
from workloads.agent.programs.member import Member
from workloads.agent.programs.process import RunningProgram
from workloads.protocol.java_names import application_properties
from workloads.protocol.lines import APPLICATIONS, Event, ProblemEvent, StateEvent, StoredEvent
from workloads.protocol.results import ApplicationState
from workloads.protocol.spec import ApplicationSpec


class ApplicationInstance:
    """An instance of an application: its states and what its store holds go into `applications`."""

    def __init__(self, journal: Journal, spec: ApplicationSpec, program: RunningProgram) -> None:
        """Connects to nothing yet. Raises UnfitError if the program has no applications."""
        program.require(APPLICATIONS, f"the application {spec.application}")
        self._journal = journal
        self._spec = spec
        self._state = ""
        self._partitions: tuple[int, ...] = ()
        self._errors: dict[tuple[int, str], None] = {}
        self._member = Member(program, spec, spec.config, self._event)

    def start(self) -> None:
        """Join the group, and process until `stop`."""
        spec = self._spec
        self._row(
            now_ns(),
            "started",
            source=spec.source,
            output=spec.output,
            changelog=spec.changelog,
            guarantee=spec.guarantee,
            words=spec.words,
        )
        self._member.create(
            "create_application",
            f"application {spec.application}",
            properties=dict(application_properties(spec)),
            source=spec.source,
            output=spec.output,
            words=spec.words,
        )

    def dump(self, within_s: float) -> None:
        """Record what the store holds of the partitions that the instance processes.

        Raises InvalidRunError.
        """
        self._member.ask("dump_store", within_s)

    def stop(self, within_s: float) -> ApplicationState:
        """Stop processing. Kafka Streams does not leave its group: the session ends later."""
        if self._member.close(within_s):
            self._row(now_ns(), "stopped")
        return self.progress()

    def progress(self) -> ApplicationState:
        """The newest state. Raises InvalidRunError if the program has failed."""
        self._member.require_sound()
        return ApplicationState(self._state, self._partitions, tuple(self._errors))

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, StateEvent):
            self._state, self._partitions = event.state, event.partitions
            self._row(ns, "state", state=event.state, partitions=list(event.partitions))
        elif isinstance(event, StoredEvent):
            self._store(event, ns)
        elif isinstance(event, ProblemEvent) and len(self._errors) < MOST_ERRORS:
            self._errors[self._member.described(event)] = None

    def _store(self, event: StoredEvent, ns: int) -> None:
        place = {**self._columns(ns, "stored"), "partition": event.partition}
        words = [{"word": word, "count": count} for word, count in event.entries]
        self._journal.write_many("applications", [place | row for row in [{}, *words]])

    def _row(self, ns: int, event: str, **columns: object) -> None:
        self._journal.write("applications", **self._columns(ns, event), **columns)

    def _columns(self, ns: int, event: str) -> dict[str, object]:
        spec = self._spec
        return {
            "ns": ns,
            "application": spec.application,
            "reader": spec.reader,
            "member": spec.name,
            "event": event,
        }
