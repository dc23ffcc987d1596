"""A service in a process of its own, on loopback and on a port that the system chooses, for tests that kill it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

SECONDS = 600.0


class Served:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log
        self.http = httpx.Client(base_url=url, timeout=60.0)

    @property
    def websocket(self) -> str:
        return self.url.replace("http", "ws", 1) + "/results"

    def until_ready(self) -> None:
        self.until(lambda: self.http.get("/readyz").status_code == 200)

    def until(self, true: Any) -> None:
        end = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < end, f"it did not come true; the service says:\n{self._log.read_text()[-3000:]}"
            assert self.process.poll() is None, f"the service has ended:\n{self._log.read_text()[-3000:]}"
            time.sleep(0.02)

    def engine_pid(self) -> int | None:
        """Return the engine: the child of the service."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def kill_engine(self) -> None:
        self.until(lambda: self.engine_pid() is not None)
        pid = self.engine_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.http.close()

    def publish(self, lines: Sequence[str]) -> dict[str, Any]:
        """Publish lines until the service takes them."""
        body = "\n".join(lines).encode()
        while True:
            answer = self.http.post("/objects", content=body, headers={"content-type": "application/x-ndjson"})
            if answer.status_code != 429:
                assert answer.status_code == 202, answer.text
                found: dict[str, Any] = answer.json()
                return found
            time.sleep(0.05)


@contextlib.contextmanager
def served(topology: Path, folder: Path, *options: str, state: Path | None = None) -> Iterator[Served]:
    """Start a service; end it with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"service-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "waterspout", "serve", str(topology), "--port", "0", *options]
    command += ["--state", str(state)] if state is not None else []
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + SECONDS
        while " on http" not in (said := log.read_text()):
            assert time.monotonic() < end, said
            assert process.poll() is None, said
            time.sleep(0.02)
        one = Served(process, said.split(" on ")[1].split()[0], log)
        yield one
        one.http.close()
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
