"""Storm's REST interface, as far as it applies here, so that tools made for Storm's UI find what they look for."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.endpoints import Endpoint, Parameter
from service.problems import ProblemError
from service.service import Service

__all__ = ["endpoints"]

JSON = "application/json"
_OBJECT = {JSON: {"type": "object"}}
TOPOLOGY = Parameter("topology", "path", "the topology's id: its name")
COMPONENT = Parameter("component", "path", "a spout or bolt")
SECONDS = Parameter("seconds", "path", "how long to wait; there is no wait here", {"type": "integer", "minimum": 0})

#: States of an engine by Storm's names.
_STATES = {"starting": "ACTIVE", "running": "ACTIVE", "failed": "INACTIVE", "ended": "KILLED"}


def endpoints(service: Service, end: Callable[[], None]) -> Sequence[Endpoint]:
    """Return Storm's requests; `end` ends the service."""

    async def cluster(_request: Request) -> Response:
        tasks = sum(component.parallelism for component in service.live.components)
        return _json(
            {
                "stormVersion": "waterspout", "supervisors": 1, "topologies": 1, "slotsTotal": 1, "slotsUsed": 1,
                "slotsFree": 0, "executorsTotal": tasks, "tasksTotal": tasks,
            }
        )  # fmt: skip

    async def topologies(_request: Request) -> Response:
        return _json({"topologies": [_brief(service)]})

    async def topology(request: Request) -> Response:
        _known(service, request)
        kinds = {c.name: c.kind for c in service.live.components}
        shown = [_component(service, c.name) for c in service.live.components]
        return _json(
            {
                **_brief(service),
                "spouts": [one for one in shown if kinds[one["id"]] == "spout"],
                "bolts": [one for one in shown if kinds[one["id"]] == "bolt"],
                "topologyStats": [{"window": ":all-time", "windowPretty": "All time", **_whole(service)}],
                "configuration": {"topology.max.spout.pending": service.live.settings.max_pending},
            }
        )

    async def component(request: Request) -> Response:
        _known(service, request)
        name = request.path_params["component"]
        if all(c.name != name for c in service.live.components):
            raise ProblemError("not-found", f"there is no component {name[:100]!r}")
        shown = _component(service, name)
        tasks = [
            {"id": f"[{index}-{index}]", "host": "localhost", **_figures(counts)}
            for owner, index, counts in service.figures.get("tasks", ())
            if owner == name
        ]
        return _json({**shown, "topologyId": service.live.settings.name, "executorStats": tasks})

    async def rebalance(request: Request) -> Response:
        _known(service, request)
        if not service.rebalances:
            raise ProblemError(
                "not-found", "nobody in this topology moves load; give it a balancer, as conf/tornado.toml has"
            )
        await service.submit(lambda intake, now: intake.rebalance(now))
        return _json({"topologyOperation": "rebalance", "topologyId": service.live.settings.name, "status": "success"})

    async def kill(request: Request) -> Response:
        _known(service, request)
        end()
        return _json({"topologyOperation": "kill", "topologyId": service.live.settings.name, "status": "success"})

    def get(path: str, handler: Any, summary: str, *parameters: Parameter) -> Endpoint:
        problems = ("not-found",) if parameters else ()
        return Endpoint("GET", path, handler, summary, parameters, answers={200: (summary, _OBJECT)}, problems=problems)

    def post(path: str, handler: Any, summary: str, *parameters: Parameter) -> Endpoint:
        return Endpoint(
            "POST", path, handler, summary, parameters, answers={200: (summary, _OBJECT)}, problems=("not-found",)
        )

    one = "/api/v1/topology/{topology}"
    return [
        get("/api/v1/cluster/summary", cluster, "The cluster, which is this service"),
        get("/api/v1/topology/summary", topologies, "All topologies: one"),
        get(one, topology, "The topology, its components and their figures", TOPOLOGY),
        get(f"{one}/component/{{component}}", component, "A component and its tasks", TOPOLOGY, COMPONENT),
        post(
            f"{one}/rebalance/{{seconds}}",
            rebalance,
            "Order a round of rebalancing, while everything flows",
            TOPOLOGY,
            SECONDS,
        ),
        post(f"{one}/kill/{{seconds}}", kill, "End the service", TOPOLOGY, SECONDS),
    ]


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type=JSON)


def _known(service: Service, request: Request) -> None:
    if request.path_params["topology"] != service.live.settings.name:
        raise ProblemError("not-found", f"the topology here is {service.live.settings.name!r}")
    seconds = request.path_params.get("seconds", "0")
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
        raise ProblemError("bad-request", f"{seconds[:60]!r} is no number of seconds")


def _brief(service: Service) -> dict[str, Any]:
    status, components = service.engine.status, service.live.components
    tasks = sum(component.parallelism for component in components)
    seconds = int(time.time() - status.started_at)
    return {
        "id": service.live.settings.name, "name": service.live.settings.name, "status": _STATES[status.state],
        "uptime": f"{seconds}s", "uptimeSeconds": seconds, "tasksTotal": tasks, "executorsTotal": tasks,
        "workersTotal": 1,
    }  # fmt: skip


def _figures(counts: dict[str, float]) -> dict[str, Any]:
    executed, busy = counts.get("executed", 0), counts.get("busy_ms", 0.0)
    return {
        "emitted": int(counts.get("emitted", 0)),
        "transferred": int(counts.get("transferred", 0)),
        "executed": int(executed),
        "executeLatency": f"{busy / executed:.3f}" if executed else "0.000",
        "acked": int(executed),
        "failed": 0,
    }


def _component(service: Service, name: str) -> dict[str, Any]:
    """Return a component with the figures of all its tasks."""
    found = service.live.component(name)
    whole: dict[str, float] = {}
    for owner, _, counts in service.figures.get("tasks", ()):
        if owner == name:
            for key, value in counts.items():
                whole[key] = whole.get(key, 0) + value
    kind = {"spoutId": name} if found.kind == "spout" else {"boltId": name}
    return {
        "id": name, **kind, "componentType": found.kind, "tasks": found.parallelism, "executors": found.parallelism,
        **_figures(whole),
    }  # fmt: skip


def _whole(service: Service) -> dict[str, Any]:
    figures = service.figures
    acked = figures.get("acked", 0)
    return {
        "acked": acked,
        "failed": 0,
        "completeLatency": f"{figures.get('latency_sum', 0.0) / acked:.3f}" if acked else "0.000",
        "emitted": sum(int(counts.get("emitted", 0)) for _, _, counts in figures.get("tasks", ())),
        "transferred": sum(int(counts.get("transferred", 0)) for _, _, counts in figures.get("tasks", ())),
    }
