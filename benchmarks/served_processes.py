"""Servers in processes of their own, and what is said to them over HTTP."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from streams.errors import RunError

__all__ = ["ECHO", "Poster", "Server", "figure", "post", "service", "until"]

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


class Server:
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
        """End the server, by force if it does not end by itself."""
        self.http.close()
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._process.kill()
        self._log.close()


class Poster:
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
        """Close all connections."""
        for _, writer in self._free:
            writer.close()


@contextlib.contextmanager
def service(folder: Path, evaluator: str = "range-evaluator") -> Iterator[Server]:
    """Serve queries of an evaluator, with a state folder, from the moment that it is ready."""
    lists = evaluator != "range-evaluator"
    text = TOPOLOGY.replace("{evaluator}", evaluator).replace("{merger}", MERGED if lists else "")
    path = folder / f"{evaluator}.toml"
    path.write_text(text.replace("{last}", "merger" if lists else "evaluator"), encoding="utf-8")
    (folder / "none.jsonl").touch()
    state = str(folder / f"state-{evaluator}")
    server = Server([sys.executable, "-m", "waterspout", "serve", str(path), "--port", "0", "--state", state])
    try:
        until(lambda: server.http.get("/readyz").status_code == 200)
        yield server
    finally:
        server.end()


def until(true: Any, seconds: float = 300.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RunError("the service does not come to what is measured; see its log")
        time.sleep(0.005)


def figure(server: Server, name: str) -> float:
    """Return one of the figures that a service tells of itself; 0 where it does not tell it."""
    found = re.search(rf"^waterspout_{name} (\S+)$", server.http.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def post(server: Server, path: str, body: bytes) -> None:
    """Post lines until they are accepted."""
    while True:
        answer = server.http.post(path, content=body, headers={"Content-Type": "application/x-ndjson"})
        if answer.status_code != 429:
            break
        time.sleep(0.01)
    if answer.status_code != 202:
        raise RunError(f"{path} answers {answer.status_code}: {answer.text[:200]}")
