"""``GET /results``: what was found, pushed as it comes, over a WebSocket or as server-sent events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from service.endpoints import Endpoint, Parameter
from service.hub import CursorError, Lines
from service.problems import ProblemError
from service.service import Service
from service.subscriptions import POLICIES, Policy, Subscription, key_of
from streams.segment_log import ExpiredError

__all__ = ["CURSOR_HEADER", "endpoints", "websockets"]

#: Tells a new subscriber where he begins, before there is a first line.
CURSOR_HEADER = "Waterspout-Cursor"

#: What WebSockets are closed with: HTTP's statuses, moved to the range for applications.
WS_BAD, WS_EXPIRED, WS_SLOW, WS_BUSY, WS_ENDS = 4400, 4410, 4408, 4429, 1001

#: So often a line is sent to say that the connection lives, where there is nothing else to send.
HEARTBEAT_SECONDS = 15.0

#: The most bytes of lines in one message, for those who take several.
MESSAGE_BYTES = 64 << 10

#: The most queries that one subscription names.
MOST_QUERIES = 10_000

PARAMETERS = [
    Parameter(
        "query", "query", "a query's identifier, repeatable; none: all", {"type": "array", "items": {"type": "string"}}
    ),
    Parameter("cursor", "query", "go on behind this place"),
    Parameter("policy", "query", "what happens when too much waits", {"enum": list(POLICIES)}),
    Parameter("queue", "query", "how many lines may wait", {"type": "integer", "minimum": 1}),
    Parameter("lines", "query", "of a WebSocket message: several, one below the other", {"enum": ["one", "many"]}),
]


def _subscribe(service: Service, params: QueryParams, cursor: str | None) -> tuple[Subscription, list[bytes]]:
    """Enter a subscriber; return what he gets first besides: the lists that he asks for, as they are now."""
    if len(service.hub.subscriptions) >= service.settings.subscribers:
        raise ProblemError("busy", f"{service.settings.subscribers:,} subscribe already", headers={"Retry-After": "10"})
    names = params.getlist("query")
    policy = params.get("policy", "block")
    queue = params.get("queue", str(service.settings.queue_lines))
    if policy not in POLICIES:
        raise ProblemError("bad-request", f"policy is {policy[:60]!r}, expected one of {', '.join(POLICIES)}")
    if not (queue.isascii() and queue.isdigit() and len(queue) < 10 and int(queue) > 0):
        raise ProblemError(
            "bad-request", f"queue is {queue[:60]!r}, expected a number from 1 to {service.settings.queue_lines}"
        )
    if (lines := params.get("lines", "one")) not in ("one", "many"):
        raise ProblemError("bad-request", f"lines is {lines[:60]!r}, expected one or many")
    if len(names) > MOST_QUERIES or any(len(name) > 65_536 for name in names):
        raise ProblemError(
            "bad-request", f"{len(names):,} queries are named, expected at most {MOST_QUERIES:,}; leave all out for all"
        )
    limit = min(int(queue), service.settings.queue_lines)
    try:
        start = service.hub.cursor(cursor)
    except CursorError as error:
        kind = "expired-cursor" if error.expired else "bad-cursor"
        raise ProblemError(kind, f"cursor {error.text[:60]!r}: {error.reason}") from None
    keys = [key_of(one) for name in names for one in _names(name)] if names else None
    chosen: Policy = next(one for one in POLICIES if one == policy)
    subscription = service.hub.subscribe(keys, chosen, limit, start)
    first = _current(service, names) if cursor is None else []
    return subscription, first


def _current(service: Service, names: Sequence[str]) -> list[bytes]:
    """Return the current lists of queries, as messages with the cursors of their lines."""
    found = []
    for name in names:
        for one in _names(name):
            known = service.intake.registrations.get(one)
            current = service.hub.current(known.number) if known is not None else None
            if current is not None:
                found.append(b'{"cursor":"%b",%b' % (str(current[0]).encode(), current[1][1:]))
    return found


def _names(name: str) -> list[int | str]:
    """Return what a name in an address may stand for: itself, and a number that it may be."""
    is_number = len(name) < 20 and name.isascii() and name.removeprefix("-").isdigit() and str(int(name)) == name
    return [name, *([int(name)] if is_number else [])]


def websockets(service: Service) -> list[WebSocketRoute]:
    """Return the routes of WebSockets."""

    async def results(socket: WebSocket) -> None:
        params = socket.query_params
        try:
            subscription, first = _subscribe(service, params, params.get("cursor"))
        except ProblemError as problem:
            await _refuse(socket, problem)
            return
        many = params.get("lines") == "many"
        try:
            await socket.accept(headers=[(CURSOR_HEADER.lower().encode(), str(subscription.cursor).encode())])
            for message in first:
                await socket.send_text(message.decode())
            await _until_closed(socket, _push(service, socket, subscription, many))
        finally:
            service.hub.unsubscribe(subscription)

    return [WebSocketRoute("/results", results)]


async def _refuse(socket: WebSocket, problem: ProblemError) -> None:
    """Say what is wrong: in a message, so that every client can read it, and by the code of the close."""
    code = {"expired-cursor": WS_EXPIRED, "busy": WS_BUSY}.get(problem.kind, WS_BAD)
    await socket.accept()
    await socket.send_text(msgspec.json.encode({"error": problem.body()}).decode())
    await socket.close(code, problem.kind)


async def _until_closed(socket: WebSocket, pushing: Any) -> None:
    """Push until either side has enough; what a subscriber sends means nothing, but is read, so that his close is seen."""
    task = asyncio.create_task(pushing)
    listening = asyncio.create_task(_listen(socket))
    try:
        await asyncio.wait([task, listening], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (task, listening):
            one.cancel()
        for one in (task, listening):
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
                await one


async def _listen(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _push(service: Service, socket: WebSocket, subscription: Subscription, many: bool) -> None:
    told = 0
    try:
        async for lines in service.hub.read(subscription):
            if subscription.dropped > told:
                told = subscription.dropped
                await socket.send_text(f'{{"dropped":{told}}}')
            for message in _joined(lines) if many else (frame.messages[row] for frame, row in lines):
                await socket.send_text(message.decode())
    except ExpiredError as error:
        problem = ProblemError("expired-cursor", f"{error}; this subscriber was too slow for what is kept")
        await socket.send_text(msgspec.json.encode({"error": problem.body()}).decode())
        await socket.close(WS_EXPIRED, problem.kind)
        return
    slow = subscription.policy == "disconnect" and subscription.waiting == 0 and not service.stopping
    await socket.close(WS_SLOW if slow else WS_ENDS, "too slow" if slow else "the service ends")


def _joined(lines: Lines) -> list[bytes]:
    """Return lines as few messages, one line below the other."""
    messages: list[bytes] = []
    some: list[bytes] = []
    size = 0
    for frame, row in lines:
        message = frame.messages[row]
        some.append(message)
        size += len(message)
        if size > MESSAGE_BYTES:
            messages.append(b"\n".join(some))
            some, size = [], 0
    return [*messages, b"\n".join(some)] if some else messages


def endpoints(service: Service) -> Sequence[Endpoint]:
    """Return the requests for results as events, and who listens."""

    async def events(request: Request) -> Response:
        cursor = request.headers.get("last-event-id") or request.query_params.get("cursor")
        subscription, first = _subscribe(service, request.query_params, cursor)
        start = str(subscription.cursor)
        if request.method == "HEAD":
            service.hub.unsubscribe(subscription)
            return Response(media_type="text/event-stream", headers={CURSOR_HEADER: start})
        return StreamingResponse(
            _events(service, subscription, first),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", CURSOR_HEADER: start},
        )

    async def subscribers(_request: Request) -> Response:
        found = [
            {
                "queries": None if one.keys is None else len(one.keys), "policy": one.policy, "waiting": one.waiting,
                "sent": one.sent, "dropped": one.dropped, "behind": one.behind, "cursor": str(one.cursor),
            }
            for one in service.hub.subscriptions
        ]  # fmt: skip
        return Response(msgspec.json.encode({"subscriptions": found}), media_type="application/json")

    async def position(_request: Request) -> Response:
        cursor = str(service.hub.cursor(None))
        return Response(msgspec.json.encode({"cursor": cursor}), media_type="application/json")

    header = Parameter("Last-Event-ID", "header", "go on behind this place")
    return [
        Endpoint(
            "GET", "/results", events, "Results as they come, as server-sent events (or over a WebSocket)",
            parameters=[*PARAMETERS, header], answers={200: ("Events", {"text/event-stream": {"type": "string"}})},
            problems=("bad-cursor", "expired-cursor", "busy"),
        ),
        Endpoint(
            "GET", "/position", position, "The cursor of this moment: what is found from now on is behind it",
            answers={200: ("The cursor", {"application/json": {"type": "object"}})},
        ),
        Endpoint(
            "GET", "/subscriptions", subscribers, "Who listens, what waits for each, and what was dropped",
            answers={200: ("Subscribers", {"application/json": {"type": "object"}})},
        ),
    ]  # fmt: skip


async def _events(service: Service, subscription: Subscription, first: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Yield events; one without data only says where the subscriber is."""
    try:
        yield b"id: %b\n\n" % str(subscription.cursor).encode()
        for message in first:
            yield b"data: %b\n\n" % message
        told = 0
        reading = service.hub.read(subscription).__aiter__()
        coming: asyncio.Future[Lines] = asyncio.ensure_future(anext(reading))
        try:
            while True:
                done, _ = await asyncio.wait([coming], timeout=HEARTBEAT_SECONDS)
                if not done:
                    yield b": alive\n\n"
                    continue
                lines = coming.result()
                if subscription.dropped > told:
                    told = subscription.dropped
                    yield b"event: dropped\ndata: %d\n\n" % told
                yield b"".join(
                    b"id: %d-%d\ndata: %b\n\n" % (frame.position, row, frame.lines[row]) for frame, row in lines
                )
                coming = asyncio.ensure_future(anext(reading))
        except StopAsyncIteration:
            return
        except ExpiredError as error:
            problem = ProblemError("expired-cursor", f"{error}; this subscriber was too slow for what is kept")
            yield b"event: problem\ndata: %b\n\n" % msgspec.json.encode(problem.body())
        finally:
            coming.cancel()
    finally:
        service.hub.unsubscribe(subscription)
