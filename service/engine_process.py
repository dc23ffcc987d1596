"""The engine as the service sees it: started, woken, started again when it is gone, and given up when it cannot run."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from service.channel import pack_message, read_message
from streams.event_log import EventLog

__all__ = ["EngineProcess", "EngineStatus"]

log = EventLog()

#: An engine that ends so often in a row, without an epoch between, cannot run.
MOST_FAILURES = 5

#: How long an engine may take to come to rest when the service ends, and one that only starts or compiles: the next one goes on
#: from its newest checkpoint as well as from a rest.
STOP_SECONDS, STOP_EARLY_SECONDS = 30.0, 2.0

State = Literal["starting", "running", "failed", "ended"]


@dataclass(slots=True)
class EngineStatus:
    """What is known of the run.

    Attributes:
        state: ``starting`` until the first epoch after a start is complete.
        error: why it failed, or why the last one ended.
        restarts: how often it was started again.
        objects: how many objects the run has taken, since the service began for the first time.
        started_at: of the process that runs, in seconds since 1970.
        kernels: how many kernels it has compiled; workers of a cluster do not say.
        compiling: it is at one now.
    """

    state: State = "starting"
    error: str | None = None
    restarts: int = 0
    epochs: int = 0
    pending: int = 0
    objects: int = 0
    results: int = 0
    pid: int | None = None
    kernels: int = 0
    compiling: bool = False
    started_at: float = field(default_factory=time.time)

    @property
    def reason(self) -> str | None:
        """Why it failed, in a line: where in our files that was is for the log."""
        lines = (self.error or "").strip().splitlines()
        return " ".join(lines[:: len(lines) - 1]) if len(lines) > 1 and "Traceback" in self.error else self.error  # type: ignore[operator]


class EngineProcess:
    """Keeps one engine running.

    Args:
        on_ack: is called when an epoch is complete.
        handlers: what is called with the values of other kinds of message, such as those of a view.
    """

    def __init__(self, folder: Path, on_ack: Callable[[], None]) -> None:
        self._folder, self._on_ack = folder, on_ack
        self.handlers: dict[str, Callable[..., None]] = {}
        self.status = EngineStatus()
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stopping = False
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the engine and look after it."""
        self._task = asyncio.create_task(self._keep())

    def wake(self) -> None:
        """Say that the journal has grown."""
        self.send("wake")

    def send(self, kind: str, *values: Any) -> None:
        """Send the engine a message; one that is not there hears nothing."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(pack_message(kind, *values))

    def restart(self, reason: str) -> None:
        """End the engine; the next one goes on from its newest checkpoint."""
        self.status.error = reason
        self._kill()

    async def stop(self) -> None:
        """Let the engine come to rest, and end it."""
        self._stopping = True
        self.send("stop")
        if self._task is not None:
            at_work = self.status.state == "running" and not self.status.compiling
            try:
                await asyncio.wait_for(asyncio.shield(self._task), STOP_SECONDS if at_work else STOP_EARLY_SECONDS)
            except TimeoutError:
                self._kill()
                await self._task

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _keep(self) -> None:
        while not self._stopping:
            before = self.status.epochs
            await self._once()
            if self._stopping or self.status.state == "ended":
                break
            self._failures = 1 if self.status.epochs > before else self._failures + 1
            if self._failures >= MOST_FAILURES:
                self.status.state = "failed"
                log.error("engine_given_up", failures=self._failures, error=self.status.error)
                break
            self.status.restarts += 1
            log.warning("engine_restarted", error=self.status.error, restarts=self.status.restarts)
            await asyncio.sleep(min(0.05 * 2**self._failures, 2.0))
        self.status.state = "failed" if self.status.state == "failed" else "ended"

    async def _once(self) -> None:
        """Run one engine to its end."""
        here, there = socket.socketpair()
        self.status.state, self.status.started_at = "starting", time.time()
        self.status.kernels, self.status.compiling = 0, False
        with there:
            command = [sys.executable, "-m", "service.engine", str(self._folder), str(there.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        self.status.pid = self._process.pid
        reader, self._writer = await asyncio.open_connection(sock=here, limit=1 << 20)
        heard = False
        while (message := await read_message(reader)) is not None:
            heard = self._hear(message) or heard
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        self._writer = None
        code = await asyncio.to_thread(self._process.wait)
        self.status.pid = None
        if not heard:
            self.status.error = f"the engine ended with code {code}"

    def _hear(self, message: list[Any]) -> bool:
        """Take a message; return whether it is the engine's last word."""
        kind, *values = message
        status = self.status
        if kind == "ack":
            status.epochs += 1
            _, status.pending, status.objects, status.results = values
            if status.state == "starting":
                status.state = "running"
            self._on_ack()
        elif kind == "kernels":
            status.kernels, status.compiling = values
        elif kind == "failed":
            status.error = values[0]
            self._failures = MOST_FAILURES if values[1] else self._failures
            return True
        elif kind == "ended":
            status.state = "ended"
            return True
        elif kind in self.handlers:
            self.handlers[kind](*values)
        return False
