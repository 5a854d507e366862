"""Java processes of a cluster in the hosts of a lab: started, monitored, and if they die, reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.clock import now_ns
from harness.cluster.model import Distribution
from harness.errors import ProcessDiedError, UsageError
from harness.history.journal import Journal
from harness.host_files import tail
from harness.kafka.java import JavaProcess, log_config_text, properties_text
from harness.kafka.versions import KafkaVersion
from harness.lab.model import OUTPUT_LOG, SERVER_LOG, Lab, MainProcess
from harness.secrets import shown_properties
from harness.waiting import POLL_S, wait_until

CONFIG = "server.properties"
"""The properties of a host's main process."""


@dataclass(kw_only=True)
class Processes:
    """Starts Java processes and knows which ones should be running."""

    lab: Lab
    distribution: Distribution
    """The Kafka version of the run."""
    journal: Journal
    next_distribution: Distribution | None = None
    """The version to which a scenario upgrades hosts, if it does."""
    java: str = "java"
    system_properties: Mapping[str, str] = field(default_factory=dict)
    """Java's system properties of every process."""
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The environments of processes that need one, by host."""
    wanted: dict[str, JavaProcess] = field(default_factory=dict)
    """Hosts whose process should be up right now."""
    ended: set[str] = field(default_factory=set)
    """Hosts whose process a fault has ended, and nobody has started since."""
    _upgraded: set[str] = field(default_factory=set, repr=False)
    """Hosts that run `next_distribution` from their next start on."""
    _shown: dict[str, str] = field(default_factory=dict, repr=False)
    """The files of properties that hold secrets, without them."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Of `wanted` and `ended`: a fault may end a process while another thread starts it."""

    def choose_version(self, host: str, version: str) -> None:
        """Which version a host runs from its next `prepare` on. Raises UsageError for one the run lacks."""
        upgraded = self.next_distribution
        if upgraded is not None and version == upgraded.version:
            self._upgraded.add(host)
        elif version == self.distribution.version:
            self._upgraded.discard(host)
        else:
            also = f" and {upgraded.version}" if upgraded else ""
            raise UsageError(
                f"{host} cannot run Kafka {version}: the run has {self.distribution.version}{also}; name the "
                "other version as `upgrade_to` of the set-up."
            )

    def _distribution_of(self, host: str) -> Distribution:
        if host in self._upgraded and self.next_distribution is not None:
            return self.next_distribution
        return self.distribution

    def _kafka_of(self, host: str) -> dict[str, str]:
        """Its version for the history, where not all have the same."""
        return {"kafka": self.version_of(host).version} if self.next_distribution else {}

    def version_of(self, host: str) -> KafkaVersion:
        """The version that a host runs from its next start on."""
        return self._distribution_of(host).spec

    def prepare(
        self, host: str, main_class: str, properties: Mapping[str, object], heap_mb: int
    ) -> JavaProcess:
        """Write a host's configuration files and return the process that uses them."""
        distribution = self._distribution_of(host)
        syntax = distribution.spec.log_syntax
        files = self.lab.files(host)
        config, logging = CONFIG, "log.properties"
        log_file = self.lab.inside(host, SERVER_LOG)
        shown = shown_properties(properties)
        if shown != properties:
            self._shown[host] = properties_text(shown)
        files.write(config, properties_text(properties).encode(), private=shown != properties)
        files.write(logging, log_config_text(log_file, syntax).encode())
        archive = distribution.archive(main_class)
        return JavaProcess(
            main_class=main_class,
            class_path=distribution.class_path(),
            arguments=(self.lab.inside(host, config),),
            log_config=self.lab.inside(host, logging),
            log_syntax=syntax,
            heap_mb=heap_mb,
            archive=str(archive) if archive else None,
            java=self.java,
            system_properties=self.system_properties,
        )

    def hide_secrets(self) -> None:
        """Leave no secret in the hosts' files of properties: no process is started from them again."""
        for host, text in self._shown.items():
            self.lab.files(host).write(CONFIG, text.encode(), private=True)

    def start(self, host: str, process: JavaProcess) -> None:
        """Start it; `check_alive` monitors it from now on."""
        with self._lock:
            self.ended.discard(host)
        pid = self.lab.start(host, MainProcess(process.argv(), self.environments.get(host, {})))
        with self._lock:
            if host not in self.ended:
                self.wanted[host] = process
        self.journal.write(
            "processes", ns=now_ns(), host=host, event="started", pid=pid, **self._kafka_of(host)
        )

    def ready(self, host: str) -> None:
        """Record that the cluster knows the process."""
        self.journal.write("processes", ns=now_ns(), host=host, event="ready", **self._kafka_of(host))

    def expect_end(self, host: str) -> None:
        """Record that a fault is about to end this process, so `check_alive` does not report it."""
        with self._lock:
            self.wanted.pop(host, None)
            self.ended.add(host)

    def log_tail(self, host: str) -> str:
        """The last lines of a host's log and output."""
        files = self.lab.files(host)
        return "\n".join(f"{host}/{name}:\n{tail(files, name)}" for name in (SERVER_LOG, OUTPUT_LOG))

    def check_alive(self) -> None:
        """Raise ProcessDiedError for a process that has ended although no fault has ended it."""
        with self._lock:
            for host in self.wanted:
                if self.lab.alive(host):
                    continue
                status = self.lab.exit_status(host)
                self.wanted.pop(host)
                self.journal.write("processes", ns=now_ns(), host=host, event="exited", status=status)
                raise ProcessDiedError(
                    f"{host} ended by itself with exit status {status}; the end of its log is below, all of "
                    f"it in {self.lab.files(host)}.",
                    detail=self.log_tail(host),
                    facts={"role": self.lab.topology.host(host).role, "status": str(status)},
                )

    def check_started(self, host: str) -> None:
        """As `check_alive`; raises it also if ``host`` has ended for whatever reason since it was started."""
        self.check_alive()
        with self._lock:
            if host not in self.wanted:
                raise ProcessDiedError(f"{host} has ended while it started.")

    def wait_started(
        self,
        host: str,
        observe: Callable[[], object],
        what: str,
        *,
        within_s: float,
        poll_s: float = POLL_S,
    ) -> None:
        """Wait until a process that was started has done ``what``, as ``observe`` shows."""
        wait_until(
            observe,
            within_s=within_s,
            poll_s=poll_s,
            awaiting=f"{host} to {what}",
            abort=lambda: self.check_started(host),
        )
