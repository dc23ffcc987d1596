"""Bodies of requests: read as far as they may be, and turned into lines that the readers of files know."""

import asyncio
import contextlib
import json
from collections.abc import Collection
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from service.problems import ProblemError
from streams.files.objections import shown

__all__ = ["BodyLimits", "Lines", "json_object", "object_lines", "operation_records", "query_object", "read_body"]

#: Who is refused in the middle of a body need not send the rest.
_CLOSE = {"Connection": "close"}

#: What some write in front of UTF-8, though it means nothing there.
_BOM = b"\xef\xbb\xbf"

#: An object with more names is none of ours, and is refused for that.
_MOST_NAMES = 1_000

NDJSON, JSON, GEOJSON = "application/x-ndjson", "application/json", "application/geo+json"
_NDJSON_TOO = ("application/ndjson", "application/jsonl", "application/x-jsonlines")


class BodyLimits:
    """How much may be sent at once, by one and by all.

    Attributes:
        body_bytes: the largest body.
        records: the most records in one.
        all_bytes: of all bodies that are being received.
        idle_seconds: how long a body may pause.
        bytes_per_s: beyond that long, it must have come at least so fast in all: a byte now and then is no body.
    """

    def __init__(
        self,
        body_bytes: int = 32 << 20,
        records: int = 200_000,
        all_bytes: int = 256 << 20,
        idle_seconds: float = 30.0,
        bytes_per_s: float = 1_000.0,
    ) -> None:
        self.body_bytes, self.records = body_bytes, records
        self.all_bytes, self.idle_seconds, self.bytes_per_s = all_bytes, idle_seconds, bytes_per_s
        self.receiving = 0


class Lines:
    """Records as lines, and what is wrong with those that could not be made into one, by line from 1 on."""

    __slots__ = ("data", "wrong")

    def __init__(self, data: bytes, wrong: dict[int, str] | None = None) -> None:
        self.data, self.wrong = data, wrong or {}


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, limits: BodyLimits) -> bytes:
    """Return the body of a request; raise a problem for one that is too large, too slow, or compressed."""
    if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise ProblemError("media-type", "compressed bodies are not taken; send it plain")
    announced = request.headers.get("content-length", "")
    most = limits.body_bytes
    if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > most):
        raise ProblemError(
            "too-large",
            f"a body of {announced} bytes is announced, more than {most:,}; send less at once",
            headers=_CLOSE,
        )
    received = 0
    pieces: list[bytes] = []
    now = asyncio.get_running_loop().time
    began = now()
    try:
        async with asyncio.timeout(limits.idle_seconds) as patience:
            async for piece in request.stream():
                received += len(piece)
                limits.receiving += len(piece)
                if received > most:
                    raise ProblemError(
                        "too-large", f"a body of more than {most:,} bytes; send less at once", headers=_CLOSE
                    )
                if limits.receiving > limits.all_bytes:
                    raise ProblemError(
                        "busy", "too many bodies are being received", headers={"Retry-After": "1", **_CLOSE}
                    )
                pieces.append(piece)
                latest = began + limits.idle_seconds + received / limits.bytes_per_s
                patience.reschedule(min(now() + limits.idle_seconds, latest))
    except TimeoutError:
        raise ProblemError(
            "timeout",
            f"the body paused for {limits.idle_seconds:g} s, or came at less than {limits.bytes_per_s:,g} bytes/s",
            headers=_CLOSE,
        ) from None
    except ClientDisconnect:
        raise ProblemError("bad-request", "the body ended before its end") from None
    finally:
        limits.receiving -= received
    return b"".join(pieces)


def _expect(found: str, known: Collection[str]) -> None:
    if found not in known:
        raise ProblemError("media-type", f"Content-Type is {found or 'not given'}, expected {', '.join(known)}")


def _items(data: bytes) -> list[bytes]:
    """Return one JSON value, or those of an array, as lines; their text stays as it was, so nothing of it is lost."""
    try:
        if data.lstrip()[:1] == b"[":
            return [bytes(item).replace(b"\n", b" ").replace(b"\r", b" ") for item in _RAWS.decode(data)]
        one = bytes(_RAW.decode(data)).replace(b"\n", b" ").replace(b"\r", b" ")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError("bad-request", f"the body is no JSON: {error}") from None
    if one.lstrip()[:1] != b"{":
        raise ProblemError(
            "invalid", f"found {one[:60].decode(errors='replace')}, expected a JSON object, or an array of these"
        )
    return [one]


_RAW, _RAWS = msgspec.json.Decoder(msgspec.Raw), msgspec.json.Decoder(list[msgspec.Raw])


def object_lines(request: Request, data: bytes, limits: BodyLimits) -> Lines:
    """Return the objects of a body as lines of an objects file."""
    kind = _media_type(request)
    kind = NDJSON if kind in _NDJSON_TOO else kind
    _expect(kind, (NDJSON, JSON, GEOJSON))
    if kind == NDJSON:
        found = Lines(data)
    elif kind == JSON:
        found = Lines(b"\n".join(_items(data)))
    else:
        found = _features(data)
    _bounded(found.data.count(b"\n") + 1, limits)
    return found


def _bounded(records: int, limits: BodyLimits) -> None:
    if records > limits.records:
        raise ProblemError(
            "too-large", f"{records:,} records in one body, more than {limits.records:,}; send fewer at once"
        )


def _features(data: bytes) -> Lines:
    """Return the points of a GeoJSON Feature or FeatureCollection as lines, with what their properties say."""
    whole = json_object(data)
    kind = whole.get("type")
    features = whole.get("features") if kind == "FeatureCollection" else [whole]
    if kind not in ("Feature", "FeatureCollection") or not isinstance(features, list):
        raise ProblemError(
            "invalid", f'type is {shown(kind)}, expected "Feature", or "FeatureCollection" with a list of features'
        )
    lines, wrong = [], {}
    for place, feature in enumerate(features, 1):
        record = _record(feature)
        if isinstance(record, str):
            wrong[place], record = record, {}
        lines.append(msgspec.json.encode(record))
    return Lines(b"\n".join(lines), wrong)


def _record(feature: Any) -> dict[str, Any] | str:
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        return f"found {shown(feature)}, expected a Feature"
    geometry, properties = feature.get("geometry"), feature.get("properties")
    point = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    if not isinstance(point, list) or not 2 <= len(point) <= 3:
        return f"geometry is {shown(geometry)}, expected a Point with two coordinates"
    found = dict(properties) if isinstance(properties, dict) else {}
    for name in ("x", "y", "lon", "lat"):
        found.pop(name, None)
    if feature.get("id") is not None:
        found["id"] = feature["id"]
    return {**found, "x": point[0], "y": point[1]}


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a body."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError("bad-request", f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ProblemError("invalid", f"found {shown(found)}, expected a JSON object")
    return found


def query_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a body whose fields are given once each."""
    found = json_object(data)
    if (twice := _given_twice(data, found)) is not None:
        raise ProblemError("invalid", twice)
    return found


def _given_twice(data: bytes, found: dict[str, Any]) -> str | None:
    """Say which field of an object is given more than once; None where none is.

    Each name has a colon behind it. Where there are no more colons than names that were found, none of them was there twice.
    """
    if data.count(b":") == _names_in(found):
        return None
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        twice.extend(sorted({name for name in names if names.count(name) > 1}) if len(names) < _MOST_NAMES else ())

    with contextlib.suppress(RecursionError, ValueError):
        json.loads(data, object_pairs_hook=once)
    return f"field '{min(twice)[:60]}' is given more than once" if twice else None


def _names_in(found: dict[str, Any]) -> int:
    return len(found) + sum(_names_in(value) for value in found.values() if isinstance(value, dict))


def operation_records(request: Request, data: bytes, limits: BodyLimits) -> list[tuple[int, dict[str, Any] | str]]:
    """Return the operations of a body, or what is wrong with each, with the numbers of their lines."""
    kind = _media_type(request)
    kind = NDJSON if kind in _NDJSON_TOO else kind
    _expect(kind, (NDJSON, JSON))
    lines = data.removeprefix(_BOM).split(b"\n") if kind == NDJSON else _items(data)
    _bounded(len(lines) - (kind == NDJSON and not lines[-1]), limits)
    return [(number, _operation(line)) for number, line in enumerate(lines, 1) if line.strip()]


def _operation(line: bytes) -> dict[str, Any] | str:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"no JSON: {error}"
    if not isinstance(found, dict):
        return f"found {shown(found)}, expected a JSON object"
    return _given_twice(line, found) or found
