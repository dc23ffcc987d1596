"""``POST /objects``: objects are published."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.bodies import GEOJSON, JSON, NDJSON, object_lines, read_body
from service.endpoints import Endpoint
from service.intake import Accepted
from service.problems import rejects_of
from service.service import Service

__all__ = ["ACCEPTED", "MOST_TOLD", "accepted_response", "endpoints"]

#: So many refused records are named in an answer; the others are counted.
MOST_TOLD = 1_000

ACCEPTED: dict[str, Any] = {
    "type": "object",
    "required": ["accepted", "rejected", "durable"],
    "properties": {
        "accepted": {"type": "integer"},
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"line": {"type": "integer"}, "reason": {"type": "string"}},
            },
        },
        "more_rejected": {"type": "integer"},
        "durable": {"type": "boolean"},
    },
}

OBJECT: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": ["string", "integer"]},
        "ts": {"type": ["integer", "string"]},
        "x": {"type": "number"},
        "y": {"type": "number"},
        "lon": {"type": "number"},
        "lat": {"type": "number"},
        "keywords": {"type": "array", "items": {"type": "string"}},
        "text": {"type": "string"},
        "op": {"enum": ["upsert", "delete"]},
    },
}

FEATURE: dict[str, Any] = {
    "type": "object",
    "required": ["type", "geometry"],
    "properties": {
        "type": {"const": "Feature"},
        "id": {"type": ["string", "integer"], "minLength": 1},
        "geometry": {
            "type": "object",
            "required": ["type", "coordinates"],
            "properties": {
                "type": {"const": "Point"},
                "coordinates": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3},
            },
        },
        "properties": {},
    },
}
FEATURES: dict[str, Any] = {
    "type": "object",
    "required": ["type", "features"],
    "properties": {"type": {"const": "FeatureCollection"}, "features": {"type": "array", "items": FEATURE}},
}


def accepted_response(accepted: Accepted, durable: bool) -> Response:
    """Return what was accepted, and what was not."""
    body = {
        "accepted": accepted.count,
        "rejected": rejects_of(accepted.rejected[:MOST_TOLD]),
        **({"more_rejected": more} if (more := len(accepted.rejected) - MOST_TOLD) > 0 else {}),
        "durable": durable,
    }
    return Response(msgspec.json.encode(body), 202, media_type=JSON)


def endpoints(service: Service) -> Sequence[Endpoint]:
    """Return the requests about objects."""

    async def publish(request: Request) -> Response:
        data = await read_body(request, service.bodies)
        lines = object_lines(request, data, service.bodies)
        accepted = await service.objects(lines.data)
        if lines.wrong:
            told = [(line, lines.wrong.get(line, reason)) for line, reason in accepted.rejected]
            accepted = Accepted(accepted.entry, accepted.count, told)
        return accepted_response(accepted, service.settings.durable)

    one_or_many = {"oneOf": [OBJECT, {"type": "array", "items": OBJECT}]}
    return [
        Endpoint(
            "POST", "/objects", publish, "Publish objects; records that cannot be used are named, and stop nothing",
            bodies={NDJSON: {"type": "string"}, JSON: one_or_many, GEOJSON: {"oneOf": [FEATURE, FEATURES]}},
            answers={202: ("Accepted: once they are durable, where the answer says so", {JSON: ACCEPTED})},
            problems=("timeout", "too-large", "media-type", "invalid", "busy", "not-ready"),
        ),
    ]  # fmt: skip
