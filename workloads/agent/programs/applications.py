"""An instance of an application of Kafka Streams, which runs in a client program."""

from __future__ import annotations

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.history.journal import Journal
from workloads.agent.consumers.progress import MOST_ERRORS
from workloads.agent.programs.exceptions import error_code
from workloads.agent.programs.process import RunningProgram
from workloads.agent.programs.producers import described
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
        self._program = program
        self._state = ""
        self._partitions: tuple[int, ...] = ()
        self._stored: list[int] = []
        self._errors: dict[tuple[int, str], None] = {}
        self._problem: InvalidRunError | None = None
        program.handle("consumer", spec.reader, self._event)
        program.at_end(self._broken)

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
        created = self._program.submit(
            "create_application",
            consumer=spec.reader,
            properties=dict(application_properties(spec)),
            source=spec.source,
            output=spec.output,
            words=spec.words,
        )

        def refused(answer: object) -> None:
            if created.exception() is None and (failure := created.result()) is not None:
                reason = described(failure, spec.config)
                self._broken(
                    InvalidRunError(f"The client refuses the application {spec.application}: {reason}.")
                )

        created.add_done_callback(refused)

    def dump(self, within_s: float) -> ApplicationState:
        """Record what the store holds of the partitions that the instance processes."""
        self._stored = []
        failure = self._program.request("dump_store", within_s, consumer=self._spec.reader)
        if failure is not None:
            reason = described(failure, self._spec.config)
            raise InvalidRunError(f"{self._spec.name} does not say what its store holds: {reason}.")
        return self.progress()

    def stop(self, within_s: float) -> ApplicationState:
        """Stop processing. Kafka Streams does not leave its group: the session ends later."""
        if self._problem is None:
            self._program.request("close_consumer", within_s, consumer=self._spec.reader)
            self._row(now_ns(), "stopped")
        return self.progress()

    def progress(self) -> ApplicationState:
        """The newest state. Raises InvalidRunError if the program has failed."""
        if self._problem is not None:
            raise self._problem
        return ApplicationState(self._state, self._partitions, tuple(self._stored), tuple(self._errors))

    def _broken(self, problem: InvalidRunError) -> None:
        self._problem = problem

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, StateEvent):
            self._state, self._partitions = event.state, event.partitions
            self._row(ns, "state", state=event.state, partitions=list(event.partitions))
        elif isinstance(event, StoredEvent):
            self._stored.append(event.partition)
            self._store(event, ns)
        elif isinstance(event, ProblemEvent) and len(self._errors) < MOST_ERRORS:
            self._errors[error_code(event.error), described(event.error, self._spec.config)] = None

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
