"""Storm's REST interface, as far as it applies here, so that tools made for Storm's UI find what they look for."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.endpoints import Endpoint, Parameter
from service.figure_windows import WINDOWS
from service.problems import ProblemError
from service.service import Service
from service.storm_figures import ALL_TIME, StormFigures

__all__ = ["endpoints"]

JSON = "application/json"
_OBJECT = {JSON: {"type": "object"}}
TOPOLOGY = Parameter("topology", "path", "the topology's id: its name")
COMPONENT = Parameter("component", "path", "a spout or bolt")
SECONDS = Parameter("seconds", "path", "how long to wait; there is no wait here", {"type": "integer", "minimum": 0})
WINDOW = Parameter(
    "window", "query", "figures of so many seconds", {"type": "string", "enum": [*map(str, WINDOWS), ALL_TIME]}
)


def endpoints(service: Service, end: Callable[[], None]) -> Sequence[Endpoint]:
    """Return Storm's requests; `end` ends the service."""
    storm = StormFigures(service)

    def known(request: Request) -> str:
        """Return the window that figures are wanted of, for the topology that is here."""
        if request.path_params["topology"] != storm.name:
            raise ProblemError("not-found", f"the topology here is {storm.name!r}")
        seconds = request.path_params.get("seconds", "0")
        if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
            raise ProblemError("bad-request", f"{seconds[:60]!r} is no number of seconds")
        window: str = request.query_params.get("window", ALL_TIME)
        return window if window in map(str, WINDOWS) else ALL_TIME

    def known_component(request: Request) -> str:
        name: str = request.path_params["component"]
        if all(c.name != name for c in service.live.components):
            raise ProblemError("not-found", f"there is no component {name[:100]!r}")
        return name

    def done(operation: str) -> dict[str, Any]:
        return {"topologyOperation": operation, "topologyId": storm.name, "status": "success"}

    async def rebalance(request: Request) -> Response:
        known(request)
        if not service.rebalances:
            raise ProblemError(
                "not-found", "nobody in this topology moves load; give it a balancer, as conf/tornado.toml has"
            )
        await service.submit(lambda intake, now: intake.rebalance(now))
        return _json(done("rebalance"))

    async def kill(request: Request) -> Response:
        known(request)
        end()
        return _json(done("kill"))

    def get(path: str, fields: Callable[[Request], Any], summary: str, *parameters: Parameter) -> Endpoint:
        async def handler(request: Request) -> Response:
            return _json(fields(request))

        problems = ("not-found",) if TOPOLOGY in parameters else ()
        return Endpoint("GET", path, handler, summary, parameters, answers={200: (summary, _OBJECT)}, problems=problems)

    def post(path: str, handler: Any, summary: str, *parameters: Parameter) -> Endpoint:
        problems = ("not-found", "busy", "not-ready")
        return Endpoint(
            "POST", path, handler, summary, parameters, answers={200: (summary, _OBJECT)}, problems=problems
        )

    def workers(request: Request) -> dict[str, Any]:
        known(request)
        hosts = [{"host": one["host"], "port": one["port"]} for one in storm.workers()]
        return {"hostPortList": hosts, "logviewerPort": 0}

    one = "/api/v1/topology/{topology}"
    return [
        get("/api/v1/cluster/summary", lambda _: storm.cluster(), "The cluster, which is this service"),
        get(
            "/api/v1/cluster/configuration", lambda _: storm.configuration(), "What Storm's configuration has names for"
        ),
        get("/api/v1/nimbus/summary", lambda _: storm.nimbuses(), "Who leads: the service"),
        get("/api/v1/supervisor/summary", lambda _: storm.supervisors(), "The one machine"),
        get(
            "/api/v1/supervisor",
            lambda _: {**storm.supervisors(), "workers": storm.workers()},
            "The one machine, and its worker",
        ),
        get("/api/v1/history/summary", lambda _: {"topo-history": [storm.name]}, "Topologies: one"),
        get("/api/v1/topology/summary", lambda _: _all(storm), "All topologies: one"),
        get("/api/v1/topology-workers/{topology}", workers, "Where the workers are", TOPOLOGY),
        get(
            one,
            lambda request: storm.topology(known(request)),
            "The topology, its components and their figures",
            TOPOLOGY,
            WINDOW,
        ),
        get(f"{one}/metrics", lambda request: storm.metrics(known(request)), "Figures by component", TOPOLOGY, WINDOW),
        get(
            f"{one}/component/{{component}}",
            lambda request: storm.component(known_component(request), known(request)),
            "A component and its tasks",
            TOPOLOGY,
            COMPONENT,
            WINDOW,
        ),
        post(
            f"{one}/rebalance/{{seconds}}",
            rebalance,
            "Order a round of rebalancing, while everything flows",
            TOPOLOGY,
            SECONDS,
        ),
        post(f"{one}/kill/{{seconds}}", kill, "End the service", TOPOLOGY, SECONDS),
    ]


def _all(storm: StormFigures) -> dict[str, Any]:
    return {"topologies": [storm.brief()], "schedulerDisplayResource": False}


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type=JSON)
