"""A service on loopback: objects published, alerts pushed, clients that wait, and how long an alert takes from end to end.

The service is a process of its own with an engine beside it, as ``waterspout serve`` starts them; the clients are in this
process. Publishing is next to a plain echo on the same server in the same run, which reads the same bodies and answers each:
what HTTP itself costs here. Everything shares the machine's cores, clients included.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import connect

from benchmarks.report import Goal, Options, Report
from streams.errors import RunError
from topology.summary import LatencyHistogram

__all__ = ["run"]

#: Objects of a body when as many as possible are published.
BODY = 5_000
#: Alerts that each object of the push measurement causes: one for each client.
CLIENTS = 100
#: The paced stream: so many objects a second, in so many bodies.
PACED, PACED_BODIES = 20_000, 200

TOPOLOGY = """
[topology]
name = "served"
max_pending = 2
space = [0.0, 0.0, 10.0, 10.0]
[topology.epoch]
objects = 20000
[spout.objects]
operator = "object-file"
path = "none.jsonl"
[spout.queries]
operator = "query-file"
path = "none.jsonl"
[bolt.router]
operator = "broadcast-router"
inputs = [
    { component = "objects", stream = "objects", grouping = "shuffle" },
    { component = "queries", stream = "queries", grouping = "shuffle" },
]
[bolt.evaluator]
operator = "{evaluator}"
inputs = [
    { component = "router", stream = "queries", grouping = "direct" },
    { component = "router", stream = "objects", grouping = "direct" },
]
{merger}
[bolt.sink]
operator = "count"
inputs = [{ component = "{last}", stream = "results", grouping = "global" }]
"""

MERGED = """
[bolt.merger]
operator = "ranked-merger"
inputs = [{ component = "evaluator", stream = "rankings", grouping = "fields", fields = ["number"] }]
"""

ECHO = """
import uvicorn
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    lines, more = 0, True
    while more:
        message = await receive()
        lines += message.get("body", b"").count(b"\\n")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % lines})
import socket
listening = socket.create_server(("127.0.0.1", 0))
print(f"echo on http://127.0.0.1:{listening.getsockname()[1]} ", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
"""


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


class _Process:
    """A server in a process of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115  # closed by `end`
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        self.url = self._address()
        self.http = httpx.Client(base_url=self.url, timeout=120.0)

    def _said(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8")

    def _address(self) -> str:
        until = time.monotonic() + 120
        while (found := re.search(r" on (http://\S+)", self._said())) is None:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RunError(f"a server did not start: {self._said()[-500:]}")
            time.sleep(0.05)
        return found[1]

    def memory_mb(self) -> float:
        """Return the memory of the server alone."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def end(self) -> None:
        self.http.close()
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        self._log.close()


class _Poster:
    """Posts over connections that are used again, by hand: a client's library would cost more than the way that is timed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._host = parts.netloc.encode()
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        reader, writer = self._free.pop() if self._free else await asyncio.open_connection(*self._address)
        head = b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (path.encode(), self._host, len(body)) + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", answered)
        if length is None:
            raise RunError(f"{path} answers without a length: {answered[:200]!r}")
        found = await reader.readexactly(int(length[1]))
        self._free.append((reader, writer))
        return int(answered.split(b" ", 2)[1]), found

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()


@contextlib.contextmanager
def _service(folder: Path, evaluator: str = "range-evaluator") -> Iterator[_Process]:
    lists = evaluator != "range-evaluator"
    text = TOPOLOGY.replace("{evaluator}", evaluator).replace("{merger}", MERGED if lists else "")
    path = folder / f"{evaluator}.toml"
    path.write_text(text.replace("{last}", "merger" if lists else "evaluator"), encoding="utf-8")
    (folder / "none.jsonl").touch()
    state = str(folder / f"state-{evaluator}")
    server = _Process([sys.executable, "-m", "waterspout", "serve", str(path), "--port", "0", "--state", state])
    try:
        _until(lambda: server.http.get("/readyz").status_code == 200)
        yield server
    finally:
        server.end()


def _until(true: Any, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise RunError("the service does not come to what is measured; see its log")
        time.sleep(0.005)


def _figure(server: _Process, name: str) -> float:
    found = re.search(rf"^waterspout_{name} (\S+)$", server.http.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _post(server: _Process, path: str, body: bytes) -> None:
    while True:
        answer = server.http.post(path, content=body, headers={"Content-Type": "application/x-ndjson"})
        if answer.status_code != 429:
            break
        time.sleep(0.01)
    if answer.status_code != 202:
        raise RunError(f"{path} answers {answer.status_code}: {answer.text[:200]}")


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


def _register(server: _Process, queries: int, rng: random.Random) -> None:
    for start in range(0, queries, 10_000):
        _post(
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


def _register_clients(server: _Process) -> None:
    """Register a query for each client that alerts are pushed to, and one that marks objects whose way is timed."""
    clients = [{"id": f"push{n}", "type": "range", "region": {"rect": [5, 5, 6, 6]}} for n in range(CLIENTS)]
    _post(
        server,
        "/queries",
        _lines(iter([*clients, {"id": "marked", "type": "range", "region": {"rect": [7, 7, 8, 8]}}])),
    )


def _square(rng: random.Random, side: float) -> dict[str, list[float]]:
    x, y = rng.random() * (1 - side), rng.random() * (1 - side)
    return {"rect": [x, y, x + side, y + side]}


def _published(server: _Process, bodies: Sequence[bytes], objects: int, path: str, done: Any) -> float:
    """Return objects/s from the first body until all are done."""
    began = time.perf_counter()
    for n in range(objects // BODY):
        _post(server, path, bodies[n % len(bodies)])
    _until(done)
    return objects // BODY * BODY / (time.perf_counter() - began)


# --- pushing ----------------------------------------------------------------------------------------------------------


async def _pushed(server: _Process, objects: int) -> float:
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
            await asyncio.to_thread(_post, server, "/objects", body)
        await asyncio.gather(*tasks)
        return objects * CLIENTS / (time.perf_counter() - began)


async def _idle(server: _Process, clients: int) -> float:
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


async def _latency(server: _Process, seconds: float, body: Sequence[bytes]) -> LatencyHistogram:
    """Return how long alerts take from the POST of their object to the client, while a paced stream flows."""
    histogram = LatencyHistogram()
    sent: dict[int, float] = {}
    stop = False
    url = server.url.replace("http", "ws") + "/results?query=marked"
    async with connect(url, compression=None) as socket, contextlib.AsyncExitStack() as stack:
        http = stack.enter_context(contextlib.closing(_Poster(server.url)))

        async def receive() -> None:
            while not stop or sent:
                one = json.loads(await socket.recv())["object"]
                histogram.add((time.perf_counter() - sent.pop(one)) * 1e3)

        async def post(n: int) -> None:
            marked = b'{"id":%d,"x":7.5,"y":7.5}\n' % (10**9 + n) + body[n % len(body)]
            sent[10**9 + n] = time.perf_counter()
            status, answer = await http.post("/objects", marked)
            if status != 202:
                raise RunError(f"/objects answers {status}: {answer[:200]!r}")

        receiving = asyncio.create_task(receive())
        began, posting = time.perf_counter(), []
        for n in range(int(seconds * PACED_BODIES)):
            posting.append(asyncio.create_task(post(n)))
            await asyncio.sleep(max(began + (n + 1) / PACED_BODIES - time.perf_counter(), 0))
        await asyncio.gather(*posting)
        stop = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(receiving, 30)
    return histogram


def _asked(server: _Process, asks: int) -> LatencyHistogram:
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
    echo = _Process([sys.executable, "-c", ECHO])
    try:
        figures["echo_objects_per_s"] = _published(echo, bodies, sizes.objects, "/", lambda: True)
    finally:
        echo.end()
    with tempfile.TemporaryDirectory(prefix="waterspout-") as name:
        folder = Path(name)
        with _service(folder) as server:
            _register(server, queries, rng)
            _register_clients(server)
            _post(server, "/objects", bodies[0])  # compiles what is not compiled yet
            _until(lambda: _figure(server, "backlog_objects") == 0)
            figures["publish_objects_per_s"] = _published(
                server, bodies, sizes.objects, "/objects", lambda: _figure(server, "backlog_objects") == 0
            )
            figures |= _others(server, sizes, rng)
        with _service(folder, "sstd-evaluator") as server:
            _post(server, "/objects", bodies[0])
            figures["ask_p50_ms"] = _asked(server, sizes.asks).percentile(50)
    return _report(options, queries, figures)


def _others(server: _Process, sizes: Sizes, rng: random.Random) -> dict[str, float]:
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
