"""One request that the service answers, said once: from this come its route and its part of the OpenAPI document."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.problems import KINDS, MEDIA_TYPE

__all__ = ["Endpoint", "Parameter", "openapi_of", "routes_of"]

Schema = Mapping[str, Any]
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path, the query string or the headers."""

    name: str
    where: str
    description: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A request.

    Attributes:
        path: as OpenAPI writes it; an identifier in it may have slashes.
        bodies: the kinds of body that it takes.
        answers: status -> what it means, and its body by media type.
        problems: the kinds of problem that it may be answered with.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: Sequence[Parameter] = ()
    bodies: Mapping[str, Schema] = field(default_factory=dict)
    answers: Mapping[int, tuple[str, Mapping[str, Schema]]] = field(default_factory=dict)
    problems: Sequence[str] = ()


def routes_of(endpoints: Sequence[Endpoint]) -> list[Route]:
    """Return the routes of requests: one for each path, so that whoever uses another method is told all that there are."""
    by_path: dict[str, dict[str, Handler]] = {}
    for one in endpoints:
        by_path.setdefault(one.path, {})[one.method] = one.handler
    return [_route(path, handlers) for path, handlers in by_path.items()]


def _route(path: str, handlers: Mapping[str, Handler]) -> Route:
    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return Route(path.replace("{id}", "{id:path}"), handle, methods=list(handlers))


def openapi_of(endpoints: Sequence[Endpoint], version: str, *, token: bool) -> dict[str, Any]:
    """Return the OpenAPI document of requests."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, token)
    components: dict[str, Any] = {"schemas": {"Problem": PROBLEM}}
    if token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Waterspout", "version": version, "summary": "Standing questions over streams of places"},
        "paths": paths,
        "components": components,
        **({"security": [{"token": []}]} if token else {}),
    }


PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "rejected": {"type": "array", "items": {"type": "object"}},
    },
}


def _operation(one: Endpoint, token: bool) -> dict[str, Any]:
    answers: dict[str, Any] = {
        str(status): {"description": text, **({"content": _content(bodies)} if bodies else {})}
        for status, (text, bodies) in one.answers.items()
    }
    for kind in (*one.problems, "bad-request", "forbidden", "method", *(["unauthorised"] if token else [])):
        status, title = KINDS[kind]
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        answers.setdefault(str(status), {"description": title, "content": content})
    found: dict[str, Any] = {
        "operationId": f"{one.method.lower()}-{one.path.strip('/').replace('{', '').replace('}', '') or 'page'}",
        "summary": one.summary,
        "responses": answers,
    }
    if one.parameters:
        found["parameters"] = [
            {
                "name": p.name, "in": p.where, "description": p.description, "schema": dict(p.schema),
                **({"required": True} if p.where == "path" else {}),
            }
            for p in one.parameters
        ]  # fmt: skip
    if one.bodies:
        found["requestBody"] = {"required": True, "content": _content(one.bodies)}
    return found


def _content(bodies: Mapping[str, Schema]) -> dict[str, Any]:
    return {media: {"schema": dict(schema)} for media, schema in bodies.items()}
