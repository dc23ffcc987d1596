"""A server for the live view beside a run, in a thread of its own: ``waterspout run ... --watch``."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from service.listening import listening_on
from service.view.controls import Controls
from service.view.observer import Observer, state_frame
from service.view.routes import ViewHub
from streams.errors import InputError
from topology.watching import Watcher

__all__ = ["Beside", "watched"]

LOOPBACK = "127.0.0.1"

#: Frames a second.
FRAMES = 10

#: How long a server may take to begin and to end.
PATIENCE_SECONDS = 15.0


class Beside:
    """The server of one run.

    Attributes:
        address: where the page is.
        observer: watches the run.
    """

    def __init__(self, port: int = 0, controls: Controls | None = None, observer: Observer | None = None) -> None:
        self.observer = observer or Observer(time.perf_counter)
        self._hub = ViewHub(controls)
        self._socket = listening_on(LOOPBACK, port)
        self.address = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}/"
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
        app = Starlette(routes=self._hub.routes(), middleware=[hosts])
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="websockets-sansio")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="live-view", daemon=True)
        self._last: bytes | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to serve; return when the page can be had."""
        self._thread.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise InputError(f"the live view could not be served at {self.address}")
            time.sleep(0.01)

    def say(self, state: str, error: str | None = None) -> None:
        """Show what the run has come to, behind everything that it has done."""
        with self._lock:
            self._last = state_frame(state, error)

    def processor_time(self) -> float:
        """Return the seconds that a processor has worked for the server: frames, the past, and those who watch."""
        assert self._thread.ident is not None, "it has started"
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)

    def _serve(self) -> None:
        async def main() -> None:
            showing = asyncio.ensure_future(self._show())
            await self._server.serve(sockets=[self._socket])
            showing.cancel()

        asyncio.run(main())

    async def _show(self) -> None:
        due = time.monotonic()
        while True:
            for frame in self.observer.frames():
                self._hub.take(frame)
            with self._lock:
                last, self._last = self._last, None
            if last is not None:
                for frame in self.observer.frames():
                    self._hub.take(frame)
                self._hub.take(last)
                self.observer.end()
            due = max(due + 1 / FRAMES, time.monotonic())  # what was late does not make the next ones late
            await asyncio.sleep(max(due - time.monotonic(), 0.0))


@contextmanager
def watched(
    port: int, should_stop: Callable[[], bool], say: Callable[[str], object] = lambda _text: None
) -> Iterator[Watcher]:
    """Serve the live view of a run that the block makes, and of what came of it, until somebody stops it.

    Args:
        port: of loopback; 0 takes a free one.
        should_stop: tells whether somebody has asked to stop.
        say: is called with what to tell who started the run.
    """
    beside = Beside(port)
    beside.start()
    say(f"watch it at {beside.address}")
    try:
        yield beside.observer
    except Exception as error:
        beside.say("failed", str(error))
        _linger(should_stop, say, f"the run has failed; {beside.address} shows it until Ctrl-C")
        raise
    else:
        beside.say("stopped" if should_stop() else "ended")
        _linger(should_stop, say, f"the run has ended; {beside.address} shows it until Ctrl-C")
    finally:
        beside.stop()


def _linger(should_stop: Callable[[], bool], say: Callable[[str], object], text: str) -> None:
    if not should_stop():
        say(text)
    while not should_stop():
        time.sleep(1 / FRAMES)
