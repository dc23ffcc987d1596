"""The observer inside the engine of a service: sends its frames to the service, and does what is asked from there."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from service.view.observer import Observer
from streams.errors import DeclarationError
from streams.event_log import EventLog
from topology.wiring import Wiring

__all__ = ["FRAME", "KILL", "NOTE", "EngineWatcher"]

log = EventLog()

#: Kinds of messages: a frame, to the service; a task to kill, and something to show on the time line, to the engine.
FRAME, KILL, NOTE = "view-frame", "view-kill", "view-note"

#: Frames a second.
FRAMES = 10


class EngineWatcher(Observer):
    """Watches the run of an engine.

    Args:
        send: sends the service a message; it may wait, so it is called by a thread of its own.
    """

    def __init__(self, send: Callable[..., None]) -> None:
        super().__init__(time.perf_counter)
        self._send = send

    def begin(self, wiring: Wiring, totals: Mapping[str, float]) -> None:
        """Learn what runs, and begin to send."""
        super().begin(wiring, totals)
        threading.Thread(target=self._show, name="live-view", daemon=True).start()

    def _show(self) -> None:
        due = time.monotonic()
        while True:
            try:
                for frame in self.frames():
                    self._send(FRAME, frame)
            except OSError:
                return  # the service is gone, and this process with it
            due = max(due + 1 / FRAMES, time.monotonic())  # what was late does not make the next ones late
            time.sleep(max(due - time.monotonic(), 0.0))

    def hear(self, kind: str, *values: Any) -> None:
        """Take what the service sends."""
        if kind == NOTE:
            self.note(values[0])
        elif kind == KILL:
            try:
                self.kill(values[0])
            except DeclarationError as error:
                log.warning("not_killed", task=str(values[0])[:80], reason=str(error))
