"""Queries: registered, replaced, ended, looked at, and asked once."""

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.bodies import JSON, NDJSON, operation_records, query_object, read_body
from service.endpoints import Endpoint, Parameter
from service.intake import Accepted, Operation
from service.objects_api import ACCEPTED, accepted_response
from service.problems import ProblemError
from service.query_schema import ASKED, STANDING
from service.registrations import Registration
from service.service import Service

__all__ = ["endpoints"]

STATE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "query"],
    "properties": {
        "id": {"type": ["string", "integer"]},
        "query": {"type": "object"},
        "result": {"type": ["object", "null"]},
        "cursor": {"type": ["string", "null"]},
    },
}
ID = Parameter("id", "path", "the query's identifier", {"type": "string", "minLength": 1})


def endpoints(service: Service) -> Sequence[Endpoint]:
    """Return the requests about queries."""

    def known(name: str) -> tuple[int | str, Registration]:
        """Return a live query by its id in a path: a string, or an integer that was registered as one."""
        names: list[int | str] = [name, *([int(name)] if _is_integer(name) else [])]
        for one in names:
            found = service.intake.registrations.get(one)
            if found is not None and (service.intake.floor is None or found.end > service.intake.floor):
                return one, found
        raise ProblemError("not-found", f"no query with the id {name[:200]!r} lives")

    async def put(request: Request) -> Response:
        name = _id_in(request)
        body = query_object(await read_body(request, service.bodies))
        if wrong := sorted({"op", "id"} & body.keys()):
            raise ProblemError("invalid", f"the body has '{wrong[0]}', which the request says already; leave it out")
        accepted = await service.operations([Operation("register", name, body, replaces=True)], "PUT /queries")
        if accepted.rejected:
            raise ProblemError("invalid", accepted.rejected[0][1])
        state = _state(service, name, service.intake.registrations.get(name))
        return Response(msgspec.json.encode(state), 200 if accepted.replaced else 201, media_type=JSON)

    async def delete(request: Request) -> Response:
        name, _ = known(_id_in(request))
        accepted = await service.operations([Operation("unregister", name)], "DELETE /queries")
        if accepted.rejected:
            raise ProblemError("not-found", accepted.rejected[0][1])
        return Response(status_code=204)

    async def get(request: Request) -> Response:
        name, found = known(_id_in(request))
        return Response(msgspec.json.encode(_state(service, name, found)), media_type=JSON)

    async def ask(request: Request) -> Response:
        body = query_object(await read_body(request, service.bodies))
        if body.pop("continuous", False) is not False:
            raise ProblemError(
                "invalid", "a query that is asked once has continuous = false; PUT /queries/{id} registers one"
            )
        name = body.pop("id", None)
        name = f"ask-{secrets.token_hex(8)}" if name is None else name
        line = await service.ask(Operation("register", name, {**body, "continuous": False}))
        return Response(line, media_type=JSON)

    async def post(request: Request) -> Response:
        data = await read_body(request, service.bodies)
        records = operation_records(request, data, service.bodies)
        accepted = await service.operations([_operation(one) for _, one in records], "POST /queries")
        told = []
        for place, reason in accepted.rejected:
            number, found = records[place - 1]
            told.append((number, found if isinstance(found, str) else reason))
        return accepted_response(Accepted(None, accepted.count, told), service.settings.durable)

    told = ("timeout", "too-large", "busy", "not-ready", "media-type")
    return [
        Endpoint(
            "PUT", "/queries/{id}", put, "Register a query, or replace the one that has this id",
            parameters=[ID], bodies={JSON: STANDING},
            answers={201: ("Registered", {JSON: STATE}), 200: ("Replaced", {JSON: STATE})}, problems=(*told, "invalid"),
        ),
        Endpoint(
            "DELETE", "/queries/{id}", delete, "End a query", parameters=[ID],
            answers={204: ("Ended", {})}, problems=(*told, "not-found"),
        ),
        Endpoint(
            "GET", "/queries/{id}", get, "A query and, where that is a list, its current result", parameters=[ID],
            answers={200: ("The query", {JSON: STATE})}, problems=("not-found",),
        ),
        Endpoint(
            "POST", "/queries:ask", ask, "Ask once; the answer is a line of results", bodies={JSON: ASKED},
            answers={200: ("The answer", {JSON: {"type": "object"}})}, problems=(*told, "invalid", "no-answer"),
        ),
        Endpoint(
            "POST", "/queries", post, "Many operations at once: lines of a query file, whose op and ts may be missing",
            bodies={NDJSON: {"type": "string"}, JSON: {"type": ["array", "object"]}},
            answers={202: ("Accepted", {JSON: ACCEPTED})}, problems=(*told, "invalid"),
        ),
    ]  # fmt: skip


def _id_in(request: Request) -> str:
    """Return the identifier in a path; raise for one that is no text: what is put in its place would be another one."""
    name: str = request.path_params["id"]
    if "\ufffd" in name:
        try:
            unquote_to_bytes(request.scope["raw_path"]).decode()
        except UnicodeDecodeError as error:
            raise ProblemError("bad-request", f"the identifier in the path is not UTF-8: {error.reason}") from None
    return name


def _is_integer(text: str) -> bool:
    return len(text) < 20 and text.lstrip("-").isascii() and text.lstrip("-").isdigit() and str(int(text)) == text


def _operation(record: dict[str, Any] | str) -> Operation:
    """Return the operation of a line; one that is none becomes one that is refused."""
    if isinstance(record, str):
        return Operation("register", None)
    body = {key: value for key, value in record.items() if key not in ("op", "id")}
    op = "unregister" if record.get("op") == "unregister" else "register"
    if record.get("op", op) != op:
        body["op"] = record["op"]
    name = record.get("id")
    return Operation(op, name, body) if isinstance(name, str | int) else Operation(op, None, {**body, "id": name})  # type: ignore[arg-type]


def _state(service: Service, name: int | str, found: Registration | None) -> dict[str, Any]:
    """Return what is shown of a query."""
    if found is None:
        return {"id": name, "query": {}}
    body = msgspec.json.decode(found.body)
    query = {key: value for key, value in body.items() if key not in ("op", "id")}
    state: dict[str, Any] = {"id": name, "query": query}
    if found.type != "range":
        current = service.hub.current(found.number)
        state["result"] = msgspec.Raw(current[1]) if current is not None else None
        state["cursor"] = str(current[0]) if current is not None else None
    return state
