"""What queries look like, as JSON Schema for the OpenAPI document: `docs/formats.md` has the same in words."""

from typing import Any

__all__ = ["ASKED", "STANDING"]

Schema = dict[str, Any]

_POSITION: Schema = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
_RING: Schema = {"type": "array", "minItems": 4, "items": {"type": "array", "items": {"type": "number"}, "minItems": 2}}
_WORDS: Schema = {"type": "array", "items": {"type": "string", "minLength": 2}}
_MS: Schema = {"type": "integer", "minimum": 1}


def _numbers(count: int) -> Schema:
    return {"type": "array", "items": {"type": "number"}, "minItems": count, "maxItems": count}


def _one(name: str, schema: Schema) -> Schema:
    return {"type": "object", "required": [name], "properties": {name: schema}}


def _geometry(kind: str, coordinates: Schema) -> Schema:
    properties = {"type": {"const": kind}, "coordinates": coordinates}
    return {"type": "object", "required": ["type", "coordinates"], "properties": properties}


_REGION: Schema = {
    "description": "a rectangle [min x, min y, max x, max y], a circle [x, y, radius], or a polygon",
    "anyOf": [
        _one("rect", _numbers(4)),
        _one("circle", _numbers(3)),
        _one("polygon", {"type": "array", "minItems": 1, "items": _RING}),
        _geometry("Polygon", {"type": "array", "minItems": 1, "items": _RING}),
        _geometry("MultiPolygon", {"type": "array", "items": {"type": "array", "minItems": 1, "items": _RING}}),
    ],
}  # fmt: skip
_K: Schema = {"type": "integer", "minimum": 1, "maximum": 1_000}
_TEXT: Schema = {"keywords": _WORDS, "match": {"enum": ["all", "any"]}}
_NONE: Schema = {"none": _WORDS}
_TIME: Schema = {"ts": {"type": ["integer", "string", "null"], "description": "missing: on arrival"}}


def _kind(name: str, required: list[str], properties: Schema) -> Schema:
    return {
        "title": name,
        "type": "object",
        "required": ["type", *required],
        "properties": {"type": {"const": name}, **properties},
        "additionalProperties": False,
    }


def _queries(*, asked: bool) -> Schema:
    often: Schema = {**_TIME, "continuous": {"const": False}, "window": _MS} if asked else {**_TIME, "ttl": _MS}
    kinds = [
        _kind("range", ["region"], {**often, "region": _REGION, **_TEXT, **_NONE}),
        _kind("knn", ["at", "k"], {**often, "at": _POSITION, "k": _K, **_TEXT, **_NONE}),
        _kind("terms", ["region", "k"], {**often, "region": _REGION, "k": _K, **_TEXT, **_NONE}),
    ]
    if not asked:
        kinds[0]["properties"]["detect"] = {"type": "array", "items": {"enum": ["enter", "exit", "inside"]}}
        kinds[2]["required"] += ["window", "slide"]
        kinds[2]["properties"] |= {"window": _MS, "slide": _MS}
        alpha = {"type": "number", "minimum": 0, "maximum": 1}
        best = {**often, "at": _POSITION, "k": _K, "alpha": alpha, "keywords": {**_WORDS, "minItems": 1}}
        kinds.append(_kind("topk", ["at", "k", "alpha", "keywords"], best))
    return {"oneOf": kinds, "discriminator": {"propertyName": "type"}}


#: What is registered, and what is asked once.
STANDING, ASKED = _queries(asked=False), _queries(asked=True)
