"""Containers of others as hosts: commands run in a helper container that joins the network of one of theirs.

The helper has an image of this project and the capability NET_ADMIN; nothing is run in the other container,
and the engine is told nothing about it. To pause a process, the helper also sees the processes of the
engine's machine, and may signal them. A second container, the guard, then also waits to resume it: a helper
that is killed takes its watchdogs along. Helper and guard end by themselves when their harness is gone, but
not before their watchdogs have undone what they are there for.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound
from docker.types import LogConfig

from harness.errors import LabError, UnfitError, quoted
from harness.lab import expiry
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.exec import DockerPipe, run
from harness.lab.hosts.shipped import reader
from harness.lab.model import Pipe, Result

LABEL_ATTACHED = "acked.attached"
"""Label of helpers; its value is the name of the container whose network they share."""
LABEL_GUARD = "acked.guard"
"""That of guards, which are not found by the label of helpers."""
_LONGEST_S = 6 * 3600
"""After this time a helper ends even if nobody tells it that its harness is gone."""
_MAIN = f"""{expiry.WATCHDOGS}
exec 3<&0
trap early TERM INT
timeout {_LONGEST_S} cat <&3 >/dev/null & wait $!
while [ -n "$(watchdogs)" ]; do sleep 0.2; done"""
# Standard input ends with the harness, however that ends. With this process, all others of the helper end.


@dataclass(frozen=True, kw_only=True)
class ContainerTarget:
    """How a container is reached; satisfies `Target`."""

    id: str
    name: str
    signals: bool = True
    """Whether processes of the container may be stopped, for which the helper needs more rights."""
    guards: bool = False
    """Whether it is a guard, which changes no rules."""

    @property
    def title(self) -> str:
        """The container."""
        return f"container {self.name}"

    def shell(self, host: str) -> ContainerShell:
        """A helper that is not started yet."""
        return ContainerShell(host, self)

    def limited(self, abilities: Collection[str]) -> ContainerTarget:
        """The same; whatever only cuts or slows links sees and signals no process."""
        return replace(self, signals=bool(set(abilities) - {"cut", "one-way", "throttle"}))

    def apart(self) -> ContainerTarget:
        """The same: each shell has a helper of its own."""
        return replace(self)

    def guard(self) -> ContainerTarget:
        """A container beside the helper."""
        return replace(self, guards=True)


class ContainerShell:
    """Commands in the network of one container; satisfies `HostShell`."""

    def __init__(self, host: str, target: ContainerTarget) -> None:
        """``host`` is its name in messages. `reach` and `run` start the helper."""
        self.host = host
        self._target = target
        self._api: Any = None
        self._helper = ""
        self._started = ""
        self._lost = ""
        self._input: Any = None
        self._lock = threading.RLock()

    def reach(self) -> None:
        """Start the helper, unless one runs. Raises UnfitError if it cannot join the container's network.

        Commands go over the engine, so no connection has to be spared.
        """
        with self._lock:
            if self._helper and self._runs():
                return
            if self._helper:
                self._lost = f"the helper container of {self.host} has ended"
            self.close()
            target = self._target
            label = LABEL_GUARD if target.guards else LABEL_ATTACHED
            rights = [*([] if target.guards else ["NET_ADMIN"]), *(["KILL"] if target.signals else [])]
            client = docker_engine.connect()
            self._api = api = client.api
            try:
                self._started = _started(api, target.id)
                self._helper = api.create_container(
                    docker_image.ensure(client),
                    entrypoint=["sh", "-c", _MAIN],
                    stdin_open=True,
                    name=f"{label.replace('.', '-')}-{self.host}-{secrets.token_hex(3)}",
                    labels={label: target.name, docker_engine.LABEL_OWNER: docker_sweep.owner()},
                    host_config=api.create_host_config(
                        network_mode=f"container:{target.id}",
                        pid_mode="host" if target.signals else None,
                        cap_drop=["ALL"],
                        cap_add=rights,
                        security_opt=["no-new-privileges"],
                        log_config=LogConfig(type="none"),
                        auto_remove=True,
                    ),
                )["Id"]
                self._input = api.attach_socket(self._helper, params={"stdin": 1, "stream": 1})
                api.start(self._helper)
            except (APIError, OSError) as error:
                why = docker_engine.explain(error) if isinstance(error, APIError) else str(error)
                self._discard()
                raise UnfitError(
                    f"No helper container could join the network of {target.name} "
                    f"({quoted(why, 120)}); see whether that container runs."
                ) from error

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a command in the helper."""
        with self._lock:
            self.reach()
            return run(self._api, self._helper, self.host, argv, stdin, timeout_s)

    def program(self, source: str) -> Pipe:
        """The helper's image has a Python."""
        with self._lock:
            self.reach()
            command = ["python3", "-u", "-c", reader(source)]
            pipe = DockerPipe(self._api, self._helper, self.host, command, "0", Path(os.devnull))
        pipe.stdin.write(source)
        pipe.stdin.flush()
        return pipe

    def listener(self, port: int) -> tuple[str, int] | None:
        """The process of the container that holds most memory, if something listens on the port.

        Whose socket that is, only the owner of the process may see. A wrapper script holds little.
        """
        sockets = self.run(("ss", "-Hltn", f"sport = :{port}"))
        if not sockets.stdout.strip():
            return None
        rows = [(int(rss), int(pid), name) for pid, rss, name, *_ in self._processes("pid,rss,comm")]
        _, pid, name = max(rows)
        return name, pid

    def resume(self) -> tuple[str, ...]:
        """Those that are stopped: a helper that was killed had its watchdogs with it."""
        stopped = [pid for pid, state, *_ in self._processes("pid,stat") if state.startswith("T")]
        if stopped:
            result = self.run(("sh", "-c", 'kill -CONT "$@"', "resume", *stopped))
            if result.status != 0:
                raise LabError(f"Processes of {self.host} could not be resumed.", detail=result.stderr)
        return tuple(f"pause of {pid}" for pid in stopped)

    def lost(self) -> str:
        """Whether the helper that was started still runs, and the container has not started anew."""
        if self._lost or not self._helper:
            return self._lost
        with self._lock, suppress(LabError):
            if not self._runs():
                return f"the helper container of {self.host} has ended"
            with suppress(NotFound):
                if _started(self._api, self._target.id) == self._started:
                    return ""
            return f"the container of {self.host} has ended, or was started again"
        return f"the engine does not answer about {self.host}"

    def close(self) -> None:
        """Let the helper end, as soon as its watchdogs have."""
        with self._lock:
            if self._input is not None:
                connection = getattr(self._input, "_sock", self._input)
                with suppress(OSError):
                    connection.shutdown(2)
                self._input.close()
                self._input = None
            self._helper = ""
            if self._api is not None:
                self._api.close()
                self._api = None

    def _runs(self) -> bool:
        try:
            return bool(self._api.inspect_container(self._helper)["State"]["Running"])
        except NotFound:
            return False
        except (APIError, OSError) as error:
            raise LabError(
                f"The engine does not answer about the helper container of {self.host}; what acked has "
                f"changed there ends by itself.",
                detail=str(error),
            ) from error

    def _processes(self, columns: str) -> list[list[str]]:
        """Those of the container as the engine lists them, with their pids on its machine."""
        self.reach()
        try:
            rows: list[list[str]] = self._api.top(self._target.id, ps_args=f"-eo {columns}")["Processes"]
        except APIError as error:
            raise UnfitError(
                f"The engine does not tell the processes of {self._target.name} "
                f"({quoted(docker_engine.explain(error), 120)}); leave `pause` out of `allow`."
            ) from error
        return rows

    def _discard(self) -> None:
        """Remove a helper that was made, and could not be started."""
        if self._helper:
            with suppress(APIError, OSError):
                self._api.remove_container(self._helper, force=True)
        self.close()


def _started(api: Any, container: str) -> str:
    """Since when a container runs; another text for each time."""
    return str(api.inspect_container(container)["State"]["StartedAt"])
