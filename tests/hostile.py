"""What hostile input is made of: damage to valid bytes, values at the edges, and a plain reading of what is left."""

import json
import math
import re

from hypothesis import strategies as st

from streams.timestamps import read_time
from streams.tokens import tokenise
from streams.vocabulary import unseen_id

_MAX_DEPTH = 200
_KNOWN = ("id", "ts", "x", "y", "lon", "lat", "keyword_ids", "keywords", "text", "op")
_NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)\s*", re.I | re.ASCII)

#: Pieces that break readers which do not expect them.
ODD_BYTES = (
    b"\0", b"\r", b"\n", b"\r\n", b'"', b'""', b",", b"\\", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"[" * 260,
    b"{" * 9, b"}", b"]", b"null", b"NaN", b"-Infinity", b"1e999", b"9" * 30, b"9" * 5_000, b"0x10", b"1_0", b"-0", b"\\ud800",
    b"a" * 3_000, b"   ", b"\t", b"\x1f", b"\xe2\x80\xa8", b'{"id":', b'"id":2,', b"'", b"=", b"#", b"[[", b".",
)  # fmt: skip

#: Values that are JSON, or that json.loads takes for it, but no field of an object.
ODD_JSON = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([2**31, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63) - 1]),
    st.sampled_from([10**400, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, -0.0]),
    st.sampled_from(["", " ", "\0", "\ud800", "\udfff", "ﷺ", "ß" * 40, "a" * 2_500, "2018-01-31T01:49:59Z"]),
    st.sampled_from(["0001-01-01T00:00+14:00", "9999-12-31T24:00", "2018-01-31T01:49:59.9999999999Z", "٣"]),
    st.sampled_from([[], [[]], [None], [""], ["a", 1], ["\ud800"], [2**64], [-1], {}, {"a": {}}, "upsert", "delete", "DELETE"]),
    st.lists(st.sampled_from("abcdefgh"), max_size=9),
)  # fmt: skip


@st.composite
def damaged(draw, whole, pieces=ODD_BYTES, most=6):
    """Return bytes with some flipped, cut out, put in, doubled or swapped, or cut off at the end."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, most))):
        at, stop = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        stop = min(stop, at + 40)
        kind = draw(st.sampled_from(["flip", "cut", "insert", "double", "swap", "end"]))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del data[at:stop]
        elif kind == "insert":
            data[at:at] = draw(st.one_of(st.sampled_from(pieces), st.binary(max_size=8)))
        elif kind == "double":
            data[at:at] = data[at:stop]
        elif kind == "swap":
            data[at:stop], data[:8] = data[:8], data[at:stop]
        elif kind == "end":
            del data[max(at, len(data) - 60) :]
    return bytes(data)


def _depth(text):
    depth = deepest = 0
    for letter in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        depth += (letter in "[{") - (letter in "]}")
        deepest = max(deepest, depth)
    return deepest


def _is_text(value):
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _object(pairs):
    names = [name for name, _ in pairs]
    found = dict(pairs)
    found["\0twice"] = {name for name in names if names.count(name) > 1}
    return found


def json_object(line, space, limits):
    """Return (id, ts, x, y, deletes, keyword ids) of a line, read with the json module alone; None for one of no use."""
    try:
        text = line.decode()
        record = (
            None
            if len(line) > limits.line_bytes or _depth(text) > _MAX_DEPTH
            else json.loads(text, object_pairs_hook=_object)
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record["\0twice"] & set(_KNOWN):
        return None
    if not all(record.get(name) is None or _is_text(record[name]) for name in ("text", "op")):
        return None
    for name, fine in (("keywords", _is_text), ("keyword_ids", lambda v: type(v) is int and -(2**63) <= v < 2**63)):
        value = record.get(name)
        if value is not None and not (isinstance(value, list) and all(item is None or fine(item) for item in value)):
            return None
    ts = record.get("ts")
    ts = read_time(ts) if isinstance(ts, str) else ts if type(ts) is int else None
    return plain_object(record, ts, space, limits)


def csv_object(record, space, limits):
    """Return the same for a CSV record, which has only texts: a dictionary by column."""
    if re.fullmatch(r"0|-?[1-9][0-9]*", record["id"]) and len(record["id"]) <= limits.id_bytes:
        record = record | {"id": int(record["id"])}
    for name in ("x", "y"):
        record = record | {name: float(record[name]) if _NUMBER.fullmatch(record[name]) else None}
    return plain_object(record, read_time(record["ts"]), space, limits)


def plain_object(record, ts, space, limits):
    """Return what a record with values of the right types says, or None."""
    name = record.get("id")
    if not (type(name) is int or (_is_text(name) and name)) or len(str(name).encode()) > limits.id_bytes:
        return None
    named = ("x", "y") if record.get("x") is not None or record.get("y") is not None else ("lon", "lat")
    x, y = (record.get(axis) for axis in named)
    if not all(type(value) in (int, float) for value in (x, y)):
        return None
    if not (space.min_x <= x <= space.max_x and space.min_y <= y <= space.max_y):
        return None
    if ts is None or not -(2**62) < ts < 2**62 or record.get("op") not in (None, "", "upsert", "delete"):
        return None
    if record.get("op") == "" and not record.get("\0csv"):
        return None
    words = _keywords(record)
    if words is None or len(words) > limits.keywords:
        return None
    return name, ts, float(x), float(y), record.get("op") == "delete", sorted(words)


def _keywords(record):
    if record.get("keyword_ids") is not None:
        ids = record["keyword_ids"]
        return None if any(item is None or item < 0 for item in ids) else set(ids)
    if record.get("keywords") is not None:
        listed = record["keywords"]
        return None if None in listed else {unseen_id(word.casefold()) for word in listed if word}
    return set(map(unseen_id, tokenise(record.get("text") or "")))


def in_time_order(found):
    """Return (place, object) of those that are there and not older than one before."""
    latest, kept = None, []
    for place, item in enumerate(found):
        if item is not None and (latest is None or item[1] >= latest):
            latest = item[1]
            kept.append((place, *item))
    return kept
