"""The demo as it runs: a service of its own on loopback, questions and objects sent to it, and hotspots put into these."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from service.app import make_app
from service.demo.replay import Replay, hotspot_injections, hotspot_queries, standing_queries
from service.ending import tidied_up
from service.intake import Operation
from service.listening import listening_on
from service.problems import ProblemError
from service.service import Service, ServiceSettings
from service.view.controls import Hotspot
from service.view.engine_watcher import KILL, NOTE
from service.view.mounting import hub_of
from streams.errors import DeclarationError
from streams.injection import Injection
from topology.toml import load_topology

__all__ = ["Demo", "run_demo"]

LOOPBACK = "127.0.0.1"

#: A record is sent so many times, at places nearby.
ECHOES = 12

#: So often objects are sent, and so many questions at a time.
STEP_SECONDS, CHUNK = 0.05, 500

#: Hotspots that may be on at a time.
MOST_HOTSPOTS = 6

#: What the demo changes of the topology: more evaluators, and a round of balancing every one or two seconds.
SETTINGS = (
    "topology.space=[-126.0, 23.0, -65.0, 50.5]",  # where nearly all of the shipped records are
    "topology.epoch.objects=2000",
    "topology.max_pending=4",
    "bolt.evaluator.parallelism=8",
    "bolt.evaluator.tick.epochs=32",
)

OBJECTS = ("flights_one_day.csv.gz", "earthquakes_week.csv.gz")
QUERIES = "subscriptions.jsonl.gz"


class Demo:
    """Sends objects and questions to a service, and does to them what somebody wants who watches (`Controls`)."""

    def __init__(self, service: Service, replay: Replay, queries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._service, self._replay, self._queries = service, replay, queries
        self._injections: list[Injection] = []
        self._number = 0
        self._sent_ms = 0
        self._asking: set[asyncio.Task[None]] = set()

    # --- controls ----------------------------------------------------------------------------------------------------

    @property
    def offers(self) -> Mapping[str, Any]:
        """Offer hotspots and kills."""
        return {"hotspot": True, "kill": True}

    def hotspot(self, wanted: Any) -> None:
        """Put a hotspot into what is sent from now on."""
        hotspot = Hotspot.of(wanted, self._replay.space)
        on = [one for one in self._injections if one.last_ms() > self._sent_ms]
        if len({one.seed for one in on}) + len(self._asking) >= MOST_HOTSPOTS:
            raise DeclarationError(f"{MOST_HOTSPOTS} hotspots are on already; wait until one of them is over")
        self._number += 1
        self._injections = [*on, *hotspot_injections(hotspot, self._sent_ms, self._number)]
        if hotspot.kind == "queries":
            task = asyncio.ensure_future(self._ask(hotspot, self._number))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        shown = {name: getattr(hotspot, name) for name in ("kind", "x", "y", "strength", "radius", "seconds")}
        self._service.engine.send(NOTE, {"what": "hotspot", **shown})

    def kill(self, task: Any) -> None:
        """Have the engine lose a task."""
        status = self._service.engine.status
        if not isinstance(task, str) or status.state != "running":
            raise DeclarationError("nothing runs that could be killed; wait until the demo runs, and name a task")
        self._service.engine.send(KILL, task)

    # --- what is sent ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Register the questions, then send objects for ever, at the pace of the clock."""
        while not self._service.writer_is_open:
            await asyncio.sleep(STEP_SECONDS)
        await self._register(self._queries)
        began = time.monotonic()
        while True:
            until = round((time.monotonic() - began) * 1000)
            if until > self._sent_ms:
                until = min(until, self._sent_ms + 1_000)  # what a machine that was busy has missed is left out
                lines = self._replay.between(self._sent_ms, until, self._injections)
                self._sent_ms = until
                began = max(began, time.monotonic() - until / 1000)
                if lines:
                    with contextlib.suppress(ProblemError):  # too much waits: these are not sent
                        await self._service.objects(lines)
            await asyncio.sleep(STEP_SECONDS)

    async def _ask(self, hotspot: Hotspot, number: int) -> None:
        await self._register(list(hotspot_queries(hotspot, self._queries, number, self._replay.space)))
        await asyncio.sleep(hotspot.seconds)

    async def _register(self, queries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        for start in range(0, len(queries), CHUNK):
            asked = [Operation("register", name, body, replaces=True) for name, body in queries[start : start + CHUNK]]
            while True:
                try:
                    await self._service.operations(asked, "the demo")
                    break
                except ProblemError:
                    await asyncio.sleep(10 * STEP_SECONDS)


def run_demo(
    shipped: Path, port: int, lap_seconds: float, settings: Sequence[str], on_start: Callable[[str], None]
) -> None:
    """Run the demo until Ctrl-C.

    Args:
        shipped: the folder with the shipped topologies and data.
        port: of loopback; 0 lets the system choose.
        lap_seconds: how long the day of flights and the week of earthquakes take.
        settings: overrides of the topology.
        on_start: is called with the address when the page can be had.
    """
    data = shipped / "examples" / "data"
    topology = load_topology(shipped / "conf" / "tornado.toml", [*SETTINGS, *settings])
    space = topology.settings.space
    replay = Replay.of_files([data / name for name in OBJECTS], round(lap_seconds * 1000), ECHOES, space)
    queries = standing_queries(data / QUERIES, space)
    with (
        tidied_up(),
        tempfile.TemporaryDirectory(prefix="waterspout-live-") as folder,
        contextlib.closing(listening_on(LOOPBACK, port)) as listening,
    ):
        service = Service(topology, Path(folder), ServiceSettings(durable=False, retain_bytes=64 << 20))
        demo = Demo(service, replay, queries)
        hub_of(service).controls = demo
        config = uvicorn.Config(make_app(service), log_level="warning", access_log=False, ws="websockets-sansio")
        server = uvicorn.Server(config)

        async def main() -> None:
            serving = asyncio.ensure_future(server.serve(sockets=[listening]))
            while not server.started and not serving.done():
                await asyncio.sleep(STEP_SECONDS)
            if server.started:
                on_start(f"http://{LOOPBACK}:{listening.getsockname()[1]}/")
            sending = asyncio.ensure_future(demo.run())
            await serving
            sending.cancel()

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main())
