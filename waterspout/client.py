"""Clients of a service (`waterspout serve`): publish objects, register queries, receive results, come back where one was.

    with Client("http://127.0.0.1:8765") as client:
        client.register("harbour", type="range", region={"rect": [9.9, 53.5, 10.0, 53.6]})
        client.publish([{"id": "ship-1", "x": 9.95, "y": 53.54, "text": "container"}])
        for result in client.results("harbour"):
            print(result.line)

A subscription survives the loss of its connection, and a restart of the service that keeps its state: it comes back with the
cursor of the last result, so none is missed and none comes twice. `AsyncClient` does the same with ``await``.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode

try:
    import httpx
    import websockets.asyncio.client as async_sockets
    import websockets.sync.client as sync_sockets
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ModuleNotFoundError as error:  # pragma: no cover - depends on what is installed
    raise ModuleNotFoundError(
        f"waterspout.Client needs {error.name}; add it with: pip install 'waterspout[serve]'", name=error.name
    ) from None

from streams.errors import WaterspoutError

__all__ = ["AsyncClient", "Client", "ExpiredCursorError", "Published", "Result", "ServiceError"]

Policy = Literal["block", "drop-oldest", "latest-only", "disconnect"]
Record = Mapping[str, Any]

#: Objects are published so many at a time.
BATCH = 5_000

#: How long to wait before a connection is tried again, at first and at most.
FIRST_SECONDS, MOST_SECONDS = 0.05, 2.0

#: How long to wait for the other side's close: what it still sends is not wanted.
CLOSE_SECONDS = 0.2

_CURSOR = "Waterspout-Cursor"
_EXPIRED = "urn:waterspout:expired-cursor"
_LOST = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError)


class ServiceError(WaterspoutError):
    """The service refuses a request: `problem` has its members, as RFC 9457 names them."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{problem.get('title', 'refused')}: {problem.get('detail', '')}")
        self.args = (problem,)
        self.problem = problem
        self.status = int(problem.get("status", 0))

    def __str__(self) -> str:
        return f"{self.problem.get('title', 'refused')}: {self.problem.get('detail', '')}"


class ExpiredCursorError(ServiceError):
    """Results behind a cursor are not kept any more: start without one, and take the gap into account."""


@dataclass(frozen=True, slots=True)
class Published:
    """What came of publishing: how many objects were accepted, which were not, and whether a crash would lose them."""

    accepted: int
    rejected: Sequence[Mapping[str, Any]] = field(default_factory=list)
    durable: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """A result: a line of a results file, and where a subscription goes on behind it."""

    cursor: str
    line: Mapping[str, Any]

    @property
    def query(self) -> int | str:
        """The query that it is a result of."""
        name: int | str = self.line["query"]
        return name


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code < 400:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        problem = {"status": answer.status_code, "title": answer.reason_phrase, "detail": answer.text[:500]}
    raise ServiceError(problem)


def _batches(objects: Iterable[Record]) -> Iterator[bytes]:
    lines: list[str] = []
    for one in objects:
        lines.append(json.dumps(one))
        if len(lines) == BATCH:
            yield "\n".join(lines).encode()
            lines = []
    if lines:
        yield "\n".join(lines).encode()


def _joined(parts: Sequence[tuple[int, Mapping[str, Any]]]) -> Published:
    """Put the answers to several batches together; lines are counted through all of them."""
    rejected = [{**one, "line": one["line"] + base} for base, part in parts for one in part["rejected"]]
    return Published(sum(part["accepted"] for _, part in parts), rejected, all(part["durable"] for _, part in parts))


def _headers(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token is not None else {}


def _raise_refusal(error: Exception) -> None:
    """Raise where the service refuses a subscription for good, as for a wrong token; trying again would not help."""
    if not isinstance(error, InvalidStatus):
        return
    status, body = error.response.status_code, bytes(error.response.body or b"")
    if 400 <= status < 500 and status not in (408, 429):
        try:
            problem = json.loads(body)
        except ValueError:
            problem = {
                "status": status,
                "title": error.response.reason_phrase,
                "detail": body[:500].decode(errors="replace"),
            }
        raise ServiceError(problem)


class _Subscription:
    """Where a subscription is, and what a message means to it; the same for both clients."""

    def __init__(
        self, url: str, queries: Sequence[str | int], cursor: str | None, policy: Policy, queue: int | None
    ) -> None:
        self._base = url.replace("http", "ws", 1).rstrip("/") + "/results"
        self._options = [("query", str(one)) for one in queries] + [("policy", policy), ("lines", "many")]
        self._options += [("queue", str(queue))] if queue is not None else []
        self.cursor = cursor
        self.dropped = 0
        self._seconds = FIRST_SECONDS

    @property
    def url(self) -> str:
        """Where to connect: behind the last result."""
        return f"{self._base}?{urlencode(self._options + ([('cursor', self.cursor)] if self.cursor else []))}"

    def connected(self, headers: Mapping[str, str] | None) -> None:
        """Take the place at which a new subscription begins."""
        self._seconds = FIRST_SECONDS
        if self.cursor is None and headers is not None:
            self.cursor = headers.get(_CURSOR)

    def results(self, message: str | bytes) -> Iterator[Result]:
        """Yield the results of a message; raise what it says is wrong."""
        for text in (message if isinstance(message, str) else message.decode()).split("\n"):
            line = json.loads(text)
            if "error" in line:
                problem = line["error"]
                raise (ExpiredCursorError if problem.get("type") == _EXPIRED else ServiceError)(problem)
            if "dropped" in line:
                self.dropped = line["dropped"]
                continue
            cursor = self.cursor = line.pop("cursor")
            yield Result(cursor, line)

    def pause(self) -> float:
        """Return how long to wait before the next attempt."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, MOST_SECONDS)
        return seconds * (0.5 + random.random())  # so that clients of one service do not come back together


class Client:
    """Talks to a service.

    Args:
        url: where it is.
        token: what it demands beyond loopback.
        timeout: how many seconds a request may take.
    """

    def __init__(self, url: str = "http://127.0.0.1:8765", *, token: str | None = None, timeout: float = 30.0) -> None:
        self.url, self._headers = url, _headers(token)
        self._http = httpx.Client(base_url=url, headers=self._headers, timeout=timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; one that is refused because too much waits is sent again when the service says so."""
        while True:
            answer = self._http.request(method, path, **options)
            if answer.status_code != 429:
                return _checked(answer)
            time.sleep(float(answer.headers.get("Retry-After", "1")))

    def publish(self, objects: Iterable[Record]) -> Published:
        """Publish objects; where there are many, in several batches."""
        parts, base = [], 0
        for body in _batches(objects):
            answer = self._send("POST", "/objects", content=body, headers={"Content-Type": "application/x-ndjson"})
            parts.append((base, answer.json()))
            base += body.count(b"\n") + 1
        return _joined(parts)

    def register(self, name: str, **query: Any) -> dict[str, Any]:
        """Register a query under a name, or replace the one that has it; return it as the service shows it."""
        found: dict[str, Any] = self._send("PUT", f"/queries/{quote(name, safe='')}", json=query).json()
        return found

    def unregister(self, name: str) -> None:
        """End a query."""
        self._send("DELETE", f"/queries/{quote(name, safe='')}")

    def query(self, name: str) -> dict[str, Any]:
        """Return a query and, where that is a list, its current result."""
        found: dict[str, Any] = self._send("GET", f"/queries/{quote(name, safe='')}").json()
        return found

    def position(self) -> str:
        """Return the cursor of this moment: results that come from now on are behind it."""
        found: str = self._send("GET", "/position").json()["cursor"]
        return found

    def ask(self, **query: Any) -> dict[str, Any]:
        """Ask once, and return the answer."""
        found: dict[str, Any] = self._send("POST", "/queries:ask", json=query).json()
        return found

    def results(
        self, *queries: str | int, cursor: str | None = None, policy: Policy = "block", queue: int | None = None
    ) -> Generator[Result, None, None]:
        """Yield results of these queries, or of all, for ever; a lost connection is made again, without gap or repetition.

        Without a cursor the current lists of the named queries come first, then what is new.
        """
        subscription = _Subscription(self.url, queries, cursor, policy, queue)
        while True:
            try:
                with sync_sockets.connect(
                    subscription.url, additional_headers=self._headers, max_size=None, close_timeout=CLOSE_SECONDS
                ) as socket:
                    subscription.connected(socket.response.headers if socket.response is not None else None)
                    for message in socket:
                        yield from subscription.results(message)
            except _LOST as error:
                _raise_refusal(error)
            time.sleep(subscription.pause())


class AsyncClient:
    """Talks to a service, with ``await``; arguments as for `Client`."""

    def __init__(self, url: str = "http://127.0.0.1:8765", *, token: str | None = None, timeout: float = 30.0) -> None:
        self.url, self._headers = url, _headers(token)
        self._http = httpx.AsyncClient(base_url=url, headers=self._headers, timeout=timeout)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        while True:
            answer = await self._http.request(method, path, **options)
            if answer.status_code != 429:
                return _checked(answer)
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))

    async def publish(self, objects: Iterable[Record]) -> Published:
        """As `Client.publish`."""
        parts, base = [], 0
        for body in _batches(objects):
            answer = await self._send(
                "POST", "/objects", content=body, headers={"Content-Type": "application/x-ndjson"}
            )
            parts.append((base, answer.json()))
            base += body.count(b"\n") + 1
        return _joined(parts)

    async def register(self, name: str, **query: Any) -> dict[str, Any]:
        """As `Client.register`."""
        found: dict[str, Any] = (await self._send("PUT", f"/queries/{quote(name, safe='')}", json=query)).json()
        return found

    async def unregister(self, name: str) -> None:
        """As `Client.unregister`."""
        await self._send("DELETE", f"/queries/{quote(name, safe='')}")

    async def query(self, name: str) -> dict[str, Any]:
        """As `Client.query`."""
        found: dict[str, Any] = (await self._send("GET", f"/queries/{quote(name, safe='')}")).json()
        return found

    async def position(self) -> str:
        """As `Client.position`."""
        found: str = (await self._send("GET", "/position")).json()["cursor"]
        return found

    async def ask(self, **query: Any) -> dict[str, Any]:
        """As `Client.ask`."""
        found: dict[str, Any] = (await self._send("POST", "/queries:ask", json=query)).json()
        return found

    async def results(
        self, *queries: str | int, cursor: str | None = None, policy: Policy = "block", queue: int | None = None
    ) -> AsyncGenerator[Result, None]:
        """As `Client.results`."""
        subscription = _Subscription(self.url, queries, cursor, policy, queue)
        while True:
            try:
                async with async_sockets.connect(
                    subscription.url, additional_headers=self._headers, max_size=None, close_timeout=CLOSE_SECONDS
                ) as socket:
                    subscription.connected(socket.response.headers if socket.response is not None else None)
                    async for message in socket:
                        for result in subscription.results(message):
                            yield result
            except _LOST as error:
                _raise_refusal(error)
            await asyncio.sleep(subscription.pause())
