"""The application: requests of all modules under one roof, behind the guard."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from service import asyncapi, health_api, objects_api, queries_api, results_api, storm_api
from service.endpoints import Endpoint, openapi_of, routes_of
from service.guard import Guard
from service.problems import ProblemError, problem_of
from service.service import Service
from service.view import mounting as view
from streams.errors import WaterspoutError

__all__ = ["MOUNTS", "make_app"]

#: What adds routes of its own to a service: a function from the service to these.
MOUNTS: list[Callable[[Service], Sequence[BaseRoute]]] = [view.mount]


def make_app(
    service: Service,
    *,
    token: str | None = None,
    loopback: bool = True,
    end: Callable[[], None] = lambda: None,
    fail: Callable[[WaterspoutError], None] | None = None,
) -> Starlette:
    """Return the application of a service, which starts and stops with it.

    Args:
        service: what answers.
        token: what every request must bring; None: nothing.
        loopback: it listens on loopback only.
        end: is called by who asks for the end of the topology.
        fail: is told why the service cannot start, and ends the server; None: that is raised.
    """
    endpoints = [
        *objects_api.endpoints(service),
        *queries_api.endpoints(service),
        *results_api.endpoints(service),
        *health_api.endpoints(service),
        *storm_api.endpoints(service, end),
    ]
    documents = _documents(endpoints, token is not None)
    mounted = [route for mount in MOUNTS for route in mount(service)]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            await service.start()
        except WaterspoutError as error:
            if fail is None:
                raise
            fail(error)
        try:
            yield
        finally:
            await service.stop()

    return Starlette(
        routes=[*routes_of([*endpoints, *documents]), *results_api.websockets(service), *mounted],
        middleware=[Middleware(Guard, token=token, loopback=loopback)],
        exception_handlers={ProblemError: problem_of, HTTPException: problem_of, Exception: problem_of},
        lifespan=lifespan,
    )


def _documents(endpoints: Sequence[Endpoint], token: bool) -> list[Endpoint]:
    """Return the requests for what describes the others."""
    try:
        version = version_of("waterspout")
    except PackageNotFoundError:
        version = "0"
    media = {"application/json": {"type": "object"}}

    async def openapi(_request: Request) -> Response:
        return _json(openapi_of([*endpoints, *described], version, token=token))

    async def streams(_request: Request) -> Response:
        return _json(asyncapi.document(version))

    described = [
        Endpoint("GET", "/openapi.json", openapi, "These requests", answers={200: ("OpenAPI", media)}),
        Endpoint("GET", "/asyncapi.json", streams, "The streams of results", answers={200: ("AsyncAPI", media)}),
    ]
    return described


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
