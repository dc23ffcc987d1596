"""The live view over HTTP: the page, a WebSocket with frames, and what the page asks for or wants done.

`ViewHub` is mounted by whoever has a run to show. It is used in one event loop; frames are taken there too. Somebody who reads
too slowly is given the present instead of what was missed: what waits for one reader is bounded.
"""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from reports.map_outlines import outlines
from service.view.chronicle import Chronicle
from service.view.controls import Controls, NoControls
from service.view.frames import encode_frame
from service.view.observer import state_frame
from streams.errors import CodecError, WaterspoutError

__all__ = ["PAGE", "ViewHub"]

#: The built page, which is shipped.
PAGE = Path(__file__).parent / "page" / "dist"

#: Readers at a time, frames that wait for one of them, bytes of a request.
MOST_READERS, MOST_WAITING, MOST_BODY = 64, 32, 4_096

#: How often to see what has become of a run that says nothing.
LOOK_SECONDS = 0.5

State = Callable[[], tuple[str, str | None] | None]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class _Reader:
    """What waits for one who watches."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)

    def offer(self, frame: bytes) -> None:
        """Add a frame; where too many wait, forget them all and begin anew (None)."""
        if self.waiting.full():
            while not self.waiting.empty():
                self.waiting.get_nowait()
            self.waiting.put_nowait(None)
        else:
            self.waiting.put_nowait(frame)


class ViewHub:
    """One run, and all who watch it.

    Args:
        controls: what can be done to the run.
        state: what a run has come to that says nothing any more, and its error; None where it speaks for itself.
    """

    def __init__(self, controls: Controls | None = None, state: State = lambda: None) -> None:
        self.chronicle = Chronicle()
        self.controls: Controls = controls or NoControls()
        self._state = state
        self._readers: set[_Reader] = set()

    def take(self, frame: bytes) -> None:
        """Take a frame of the run and show it."""
        shown = self.chronicle.take(frame)
        for reader in self._readers:
            reader.offer(shown)

    def look(self) -> None:
        """See whether the run has come to something that its frames do not say."""
        found = self._state()
        if found is not None and found != (self.chronicle.state, self.chronicle.error):
            self.take(state_frame(*found))

    def routes(self) -> list[BaseRoute]:
        """Return what an application mounts; the page itself is at /."""
        return [
            Route("/", self._page),
            WebSocketRoute("/view/live", self._live),
            Route("/view/at", self._at),
            Route("/view/plan/{serial:int}", self._plan),
            Route("/view/outlines", self._outlines),
            Route("/view/hotspot", self._doing(lambda body: self.controls.hotspot(body)), methods=["POST"]),
            Route("/view/kill", self._doing(lambda body: self.controls.kill(_task(body))), methods=["POST"]),
            Mount("/view/page", StaticFiles(directory=PAGE, check_dir=False)),
        ]

    async def _page(self, _request: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers=_HEADERS)

    async def _live(self, socket: WebSocket) -> None:
        """Send what there is, then what comes; whatever the reader says is passed over."""
        if _is_foreign(socket) or len(self._readers) >= MOST_READERS:
            await socket.close(1008 if _is_foreign(socket) else 1013)
            return
        await socket.accept()
        reader = _Reader()
        self._readers.add(reader)
        sending = asyncio.ensure_future(self._send(socket, reader))
        try:
            while True:
                await socket.receive_text()
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self._readers.discard(reader)
            sending.cancel()

    async def _send(self, socket: WebSocket, reader: _Reader) -> None:
        frame: bytes | None = None
        try:
            while True:
                if frame is None:
                    offers = encode_frame({"frame": "offers", **self.controls.offers})
                    for one in (offers, *self.chronicle.hello()):
                        await socket.send_bytes(one)
                else:
                    await socket.send_bytes(frame)
                self.look()
                frame = await self._next(reader)
        except (WebSocketDisconnect, RuntimeError, OSError):
            return

    async def _next(self, reader: _Reader) -> bytes | None:
        """Return what is to be sent next; while nothing comes, see why."""
        while True:
            try:
                return await asyncio.wait_for(reader.waiting.get(), LOOK_SECONDS)
            except TimeoutError:
                self.look()

    async def _at(self, request: Request) -> Response:
        try:
            t = float(request.query_params.get("t", ""))
        except ValueError:
            t = math.nan
        if not math.isfinite(t):
            return _problem(
                422, "t is missing or no number; expected seconds since the start of the run: /view/at?t=12.5"
            )
        return _binary(self.chronicle.at(t), "nothing has happened yet; ask again when the run has begun")

    async def _plan(self, request: Request) -> Response:
        return _binary(self.chronicle.plan(request.path_params["serial"]), "no such plan has been in force in this run")

    async def _outlines(self, _request: Request) -> Response:
        """Send coastlines and borders; they never change."""
        found = outlines()
        columns = {}
        for name, lines in (("land", found.land), ("states", found.states)):
            columns[f"{name}_off"] = np.cumsum([0, *map(len, lines)]).astype("<u4")
            columns[f"{name}_at"] = np.concatenate(lines).astype("<f4").ravel()
        frame = encode_frame({"frame": "outlines"}, columns)
        return Response(frame, media_type="application/octet-stream", headers={"Cache-Control": "max-age=86400"})

    def _doing(self, act: Callable[[Any], None]) -> Callable[[Request], Any]:
        """Return a handler that does what a JSON body asks for."""

        async def handle(request: Request) -> Response:
            if _is_foreign(request):
                return _problem(403, "the request comes from another site's page")
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return _problem(415, "expected a body of the type application/json")
            body = bytearray()
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    return _problem(413, f"the body is longer than {MOST_BODY:,} bytes", {"Connection": "close"})
            try:
                wanted = json.loads(bytes(body))
            except (ValueError, RecursionError):
                return _problem(400, "the body is no JSON")
            try:
                act(wanted)
            except WaterspoutError as error:
                return _problem(409 if not isinstance(error, CodecError) else 422, str(error))
            return JSONResponse({"done": True}, 202)

        return handle


def _task(body: Any) -> Any:
    return body.get("task") if isinstance(body, dict) else None


def _is_foreign(connection: HTTPConnection) -> bool:
    """Tell whether a page of another site is behind a connection: browsers say so, and other clients say nothing."""
    origin = connection.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != connection.headers.get("host")


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    titles = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 413: "Content Too Large"}
    title = titles.get(status, "Cannot be used")
    return JSONResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail},
        status,
        headers,
        media_type="application/problem+json",
    )


def _binary(frame: bytes | None, missing: str) -> Response:
    if frame is None:
        return _problem(404, missing)
    return Response(frame, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})
