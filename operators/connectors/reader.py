"""Reads messages ahead in a thread of its own, so that epochs never wait for a server; how many wait is bounded."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from operators.connectors.messages import ConnectionLostError, Position, Received, Source, backing_off
from streams.errors import RunError, WaterspoutError
from streams.event_log import EventLog

__all__ = ["Reader"]

log = EventLog()

#: So long the thread waits for messages before it looks whether something else is to be done.
POLL_SECONDS = 0.1

#: So long the end waits for the thread.
CLOSE_SECONDS = 10.0


class Reader:
    """A source with a bounded queue before it. Where the server goes away, it is asked again, behind what was read.

    Args:
        source: where messages come from.
        where: what errors call it.
        prefetch: so many messages may wait,
        prefetch_bytes: with so many bytes; one larger than that waits alone.
        reconnect_seconds: the server may be gone for so long.

    Attributes:
        position: behind the last message that was taken.
        reconnects: how often the server was gone.
    """

    def __init__(
        self, source: Source, where: str, *, prefetch: int, prefetch_bytes: int, reconnect_seconds: float
    ) -> None:
        self._source, self._where = source, where
        self._most, self._most_bytes, self._seconds = prefetch, prefetch_bytes, reconnect_seconds
        self._waiting: deque[Received] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._acknowledged: Position | None = None
        self._failure: WaterspoutError | None = None
        self._thread: threading.Thread | None = None
        self._read: Position = {}
        self._last_at = time.monotonic()
        self.position: Position = {}
        self.reconnects = 0

    def start(self, position: Position | None, memory: Any, *, patient: bool) -> None:
        """Connect and begin to read; raise `ConnectionLostError` where nobody is there, `RunError` after a while if patient."""

        def connect() -> None:
            self._read = self._source.open(position, memory)

        if patient:
            backing_off(connect, self._seconds, self._where, on_retry=self._retrying)
        else:
            connect()
        self.position = dict(self._read)
        self._last_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True, name="connector")
        self._thread.start()

    @property
    def idle_seconds(self) -> float:
        """For how long nothing has come, with nothing waiting."""
        with self._changed:
            return 0.0 if self._waiting else time.monotonic() - self._last_at

    def take(self, lines: int) -> list[Received]:
        """Return messages that wait: at most so many lines, but at least one message; raise what the thread ended for."""
        with self._changed:
            taken: list[Received] = []
            while self._waiting and lines > 0:
                message = self._waiting.popleft()
                taken.append(message)
                self._bytes -= len(message.payload)
                self.position[message.part] = message.at
                lines -= message.payload.count(b"\n") + 1
            if not taken and self._failure is not None:
                raise self._failure
            self._changed.notify()
        return taken

    def acknowledge(self, position: Position) -> None:
        """Let the server know that everything up to a position is in a checkpoint, when the thread comes to it."""
        with self._changed:
            self._acknowledged = position

    def memory(self) -> Any:
        """Return what the source must know besides the position."""
        return self._source.memory(self.position)

    def close(self) -> None:
        """End the thread and the connection; what was last to be acknowledged is."""
        self._ended.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._source.close()

    # --- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            ended = self._ended.is_set()
            try:
                self._attend(ended)
                if ended:
                    return
            except ConnectionLostError as error:
                if ended:
                    return  # nobody waits for it; what is not acknowledged comes again, and is known then
                self._retrying(str(error), 0.0)
                self._guarded(self._reconnect)
            except WaterspoutError as error:
                self._fail(error)
            except Exception as error:  # whatever a library raises: the run must know of it
                self._fail(RunError(f"{self._where}: {type(error).__name__}: {error}"))
            if self._failure is not None:
                return

    def _attend(self, ended: bool) -> None:
        """Acknowledge what is to be, and read where there is room."""
        with self._changed:
            acknowledged, self._acknowledged = self._acknowledged, None
        if acknowledged is not None:
            try:
                self._source.acknowledge(acknowledged)
            except ConnectionLostError:
                with self._changed:
                    self._acknowledged = self._acknowledged or acknowledged
                raise
        if ended:
            return
        with self._changed:
            if len(self._waiting) >= self._most or self._bytes >= self._most_bytes:
                self._changed.wait(POLL_SECONDS)
                return
        messages = self._source.poll(POLL_SECONDS)
        if messages:
            with self._changed:
                for message in messages:
                    self._read[message.part] = message.at
                    self._bytes += len(message.payload)
                self._waiting.extend(messages)
                self._last_at = time.monotonic()

    def _reconnect(self) -> None:
        def connect() -> None:
            self._source.close()
            self._read = self._source.open(dict(self._read), None)

        backing_off(connect, self._seconds, self._where, stopped=self._ended.wait, on_retry=self._retrying)
        self.reconnects += 1
        self._last_at = time.monotonic()  # nothing could come while nobody was there

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except WaterspoutError as error:
            self._fail(error)
        except Exception as error:
            self._fail(RunError(f"{self._where}: {type(error).__name__}: {error}"))

    def _fail(self, error: WaterspoutError) -> None:
        with self._changed:
            self._failure = error

    def _retrying(self, reason: str, wait: float) -> None:
        log.warning("server_lost", server=self._where, reason=reason, again_in_s=round(wait, 2))
