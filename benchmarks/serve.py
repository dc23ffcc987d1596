"""A service on loopback: objects published, alerts pushed, clients that wait, and how long an alert takes from end to end.

The service is a process of its own with an engine beside it, as ``waterspout serve`` starts them; the clients are in this
process. Publishing is next to a plain echo on the same server in the same run, which reads the same bodies and answers each:
what HTTP itself costs here. Everything shares the machine's cores, clients included.
"""

import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from benchmarks.report import Goal, Options, Report
from benchmarks.served_processes import ECHO, Poster, Server, figure, post, service, until
from streams.errors import RunError
from topology.summary import LatencyHistogram

__all__ = ["run"]

#: Objects of a body when as many as possible are published.
BODY = 5_000
#: Alerts that each object of the push measurement causes: one for each client.
CLIENTS = 100
#: The paced stream: so many objects a second, in so many bodies.
PACED, PACED_BODIES = 20_000, 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    objects: int
    pushed: int
    idle: int
    seconds: float
    asks: int


FULL = Sizes(100_000, 2_000_000, 6_000, 5_000, 10.0, 200)
QUICK = Sizes(10_000, 200_000, 1_000, 500, 3.0, 40)


def _lines(records: Iterator[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in records).encode()


def _bodies(count: int, rng: random.Random) -> list[bytes]:
    """Return bodies of objects with three of ten thousand words each; they may be sent again and again."""
    words = [f"word{n}" for n in range(10_000)]
    return [
        _lines(
            {"id": n, "x": rng.random(), "y": rng.random(), "keywords": rng.choices(words, k=3)} for n in range(BODY)
        )
        for _ in range(count)
    ]


def _register(server: Server, queries: int, rng: random.Random) -> None:
    for start in range(0, queries, 10_000):
        post(
            server,
            "/queries",
            _lines(
                {
                    "id": f"q{n}",
                    "type": "range",
                    "keywords": [f"word{rng.randrange(10_000)}"],
                    "region": _square(rng, 0.02),
                }
                for n in range(start, min(start + 10_000, queries))
            ),
        )


def _register_clients(server: Server) -> None:
    """Register a query for each client that alerts are pushed to, and one that marks objects whose way is timed."""
    clients = [{"id": f"push{n}", "type": "range", "region": {"rect": [5, 5, 6, 6]}} for n in range(CLIENTS)]
    post(
        server,
        "/queries",
        _lines(iter([*clients, {"id": "marked", "type": "range", "region": {"rect": [7, 7, 8, 8]}}])),
    )


def _square(rng: random.Random, side: float) -> dict[str, list[float]]:
    x, y = rng.random() * (1 - side), rng.random() * (1 - side)
    return {"rect": [x, y, x + side, y + side]}


def _published(server: Server, bodies: Sequence[bytes], objects: int, path: str, done: Any) -> float:
    """Return objects/s from the first body until all are done."""
    began = time.perf_counter()
    for n in range(objects // BODY):
        post(server, path, bodies[n % len(bodies)])
    until(done)
    return objects // BODY * BODY / (time.perf_counter() - began)


# --- pushing ----------------------------------------------------------------------------------------------------------


async def _pushed(server: Server, objects: int) -> float:
    """Return alerts/s that all clients together receive, each of its own query."""
    url = server.url.replace("http", "ws") + "/results?lines=many&query="
    async with contextlib.AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(connect(f"{url}push{n}", max_size=None, compression=None))
            for n in range(CLIENTS)
        ]

        async def receive(socket: Any) -> None:
            left = objects
            while left > 0:
                left -= (await socket.recv()).count("\n") + 1

        tasks = [asyncio.create_task(receive(socket)) for socket in sockets]
        body = _lines({"id": n, "x": 5.5, "y": 5.5} for n in range(250))
        began = time.perf_counter()
        for _ in range(objects // 250):
            await asyncio.to_thread(post, server, "/objects", body)
        await asyncio.gather(*tasks)
        return objects * CLIENTS / (time.perf_counter() - began)


async def _idle(server: Server, clients: int) -> float:
    """Return by how many MB the service grows for clients that wait for a query of their own."""
    url = server.url.replace("http", "ws") + "/results?query=idle"
    before = server.memory_mb()
    async with contextlib.AsyncExitStack() as stack:
        for start in range(0, clients, 100):
            await asyncio.gather(
                *(
                    stack.enter_async_context(
                        connect(f"{url}{n}", compression=None, ping_interval=None, open_timeout=60)
                    )
                    for n in range(start, min(start + 100, clients))
                )
            )
        return server.memory_mb() - before


async def _latency(server: Server, seconds: float, body: Sequence[bytes]) -> LatencyHistogram:
    """Return how long alerts take from the POST of their object to the client, while a paced stream flows."""
    histogram = LatencyHistogram()
    sent: dict[int, float] = {}
    stop = False
    url = server.url.replace("http", "ws") + "/results?query=marked"
    async with connect(url, compression=None) as socket, contextlib.AsyncExitStack() as stack:
        http = stack.enter_context(contextlib.closing(Poster(server.url)))

        async def receive() -> None:
            while not stop or sent:
                one = json.loads(await socket.recv())["object"]
                histogram.add((time.perf_counter() - sent.pop(one)) * 1e3)

        async def publish(n: int) -> None:
            marked = b'{"id":%d,"x":7.5,"y":7.5}\n' % (10**9 + n) + body[n % len(body)]
            sent[10**9 + n] = time.perf_counter()
            status, answer = await http.post("/objects", marked)
            if status != 202:
                raise RunError(f"/objects answers {status}: {answer[:200]!r}")

        receiving = asyncio.create_task(receive())
        began, posting = time.perf_counter(), []
        for n in range(int(seconds * PACED_BODIES)):
            posting.append(asyncio.create_task(publish(n)))
            await asyncio.sleep(max(began + (n + 1) / PACED_BODIES - time.perf_counter(), 0))
        await asyncio.gather(*posting)
        stop = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(receiving, 30)
    return histogram


def _asked(server: Server, asks: int) -> LatencyHistogram:
    histogram = LatencyHistogram()
    body = {"type": "knn", "at": [0.5, 0.5], "k": 10, "window": 3_600_000}
    for n in range(asks + 10):
        began = time.perf_counter()
        answer = server.http.post("/queries:ask", json=body)
        if answer.status_code != 200:
            raise RunError(f"/queries:ask answers {answer.status_code}: {answer.text[:200]}")
        if n >= 10:  # the first ones compile
            histogram.add((time.perf_counter() - began) * 1e3)
    return histogram


# --- all of it --------------------------------------------------------------------------------------------------------


def run(options: Options) -> Report:
    """Measure."""
    sizes, rng = QUICK if options.quick else FULL, random.Random(options.seed)
    queries = options.queries or sizes.queries
    bodies, figures = _bodies(8, rng), {}
    echo = Server([sys.executable, "-c", ECHO])
    try:
        figures["echo_objects_per_s"] = _published(echo, bodies, sizes.objects, "/", lambda: True)
    finally:
        echo.end()
    with tempfile.TemporaryDirectory(prefix="waterspout-") as name:
        folder = Path(name)
        with service(folder) as server:
            _register(server, queries, rng)
            _register_clients(server)
            post(server, "/objects", bodies[0])  # compiles what is not compiled yet
            until(lambda: figure(server, "backlog_objects") == 0)
            figures["publish_objects_per_s"] = _published(
                server, bodies, sizes.objects, "/objects", lambda: figure(server, "backlog_objects") == 0
            )
            figures |= _others(server, sizes, rng)
        with service(folder, "sstd-evaluator") as server:
            post(server, "/objects", bodies[0])
            figures["ask_p50_ms"] = _asked(server, sizes.asks).percentile(50)
    return _report(options, queries, figures)


def _others(server: Server, sizes: Sizes, rng: random.Random) -> dict[str, float]:
    """Measure what is about clients, on a service whose queries are registered."""
    figures = {"push_alerts_per_s": asyncio.run(_pushed(server, sizes.pushed))}
    size = PACED // PACED_BODIES
    small = [b"\n".join(body.split(b"\n")[:size]) for body in _bodies(8, rng)]
    alerts = asyncio.run(_latency(server, sizes.seconds, small))
    figures |= {"alert_p50_ms": alerts.percentile(50), "alert_p99_ms": alerts.percentile(99)}
    figures["idle_mb"] = asyncio.run(_idle(server, sizes.idle))
    return figures


def _report(options: Options, queries: int, figures: dict[str, float]) -> Report:
    goals = [
        Goal("publish_objects_per_s", at_least=200_000),
        Goal("push_alerts_per_s", at_least=100_000),
        Goal("alert_p50_ms", at_most=10.0),
        Goal("alert_p99_ms", at_most=50.0),
        Goal("idle_mb", at_most=500.0),
        Goal("ask_p50_ms", at_most=10.0),
    ]
    said = {
        "echo_objects_per_s": "a plain echo reads the same bodies, objects/s",
        "publish_objects_per_s": f"published, journalled and evaluated by {queries:,} queries, objects/s",
        "push_alerts_per_s": f"alerts pushed to {CLIENTS} WebSocket clients, alerts/s",
        "alert_p50_ms": f"POST to WebSocket at {PACED:,} objects/s, median, ms",
        "alert_p99_ms": "the same, 99th percentile, ms",
        "idle_mb": f"memory of {QUICK.idle if options.quick else FULL.idle:,} clients that wait, MB",
        "ask_p50_ms": "the k nearest, asked once, median, ms",
    }
    rows = [[text, f"{figures[name]:,.1f}"] for name, text in said.items()]
    return Report(
        "serve", "synthetic: three of 10,000 words, one word a query", options.seed, figures, goals, ["what", "figure"],
        rows, notes=["all processes share the machine, clients included"],
    )  # fmt: skip
