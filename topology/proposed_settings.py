"""What to declare of a file of objects, as far as its first records show it: for a message, never done silently.

A file that nobody has described fails one setting at a time: names of columns, then the encoding, the unit of times, their
order. This looks at all of them at once. A proposal is made only where more of the first records can be used with it.
"""

import csv
import io
import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streams.errors import InputError
from streams.files.file_blocks import ReadLimits, file_kind
from streams.files.file_bytes import ByteForm, read_bytes
from streams.files.object_files import read_objects
from streams.files.object_form import ObjectForm
from streams.geometry import Rect
from streams.timestamps import read_time
from streams.vocabulary import Encoder

__all__ = ["USUAL_TIMES", "proposed", "usable"]

#: By so many records it is told what a file is like.
FIRST_RECORDS = 1_000

_HEAD_BYTES = 1 << 20

#: Times that need no second look: 1990 up to 2100, in milliseconds.
USUAL_TIMES = range(631_152_000_000, 4_102_444_800_000)

#: Words in the name of a column that make it likely for a field.
_LIKELY = {
    "id": ("id", "no", "nr", "number", "key", "uuid", "guid"),
    "ts": ("ts", "time", "timestamp", "date", "datetime", "when", "epoch", "created", "occurred", "at", "zeit", "datum"),
    "lon": ("lon", "lng", "long", "longitude", "east", "laenge"),
    "lat": ("lat", "latitude", "north", "breite"),
    "text": (
        "text", "title", "headline", "subject", "body", "description", "desc", "message", "msg", "content", "narrative",
        "comment", "comments", "remarks", "summary", "caption",
    ),
    "name": ("name", "label"),
}  # fmt: skip
_DEGREES = {"lon": 180.0, "lat": 90.0}
_WORDS = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+(?![a-z])|[0-9]+")

Records = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Proposal:
    """What would be declared: a form, and the words that declare it."""

    form: ObjectForm
    words: str


def usable(paths: Sequence[str], space: Rect, limits: ReadLimits, form: ObjectForm) -> tuple[int, int]:
    """Return how many of the first records of some files can be used, and how many there are; (0, 0) where none has come."""
    chunks = read_objects(
        paths, space=space, encoder=Encoder(), chunk_rows=FIRST_RECORDS, limits=limits, form=form
    )  # fmt: skip
    first = next(iter(chunks), None)
    return (0, 0) if first is None else (first.records - first.refused, first.records)


def proposed(spout: str, paths: Sequence[Any], space: Rect, limits: ReadLimits, form: ObjectForm) -> str | None:
    """Return options with which more of the first records can be used, as on the command line; None where there are none."""
    first = [str(path) for path in paths[:1]]
    if not first or form.text.follow:
        return None
    try:
        found = _proposal(spout, first[0], form)
        if found is None:
            return None
        before = _used(first, space, limits, form)
        after, records = usable(first, space, limits, found.form)
    except InputError:
        return None
    return f"{found.words} (so {after:,} of the first {records:,} records can be used)" if after > before else None


def _used(paths: list[str], space: Rect, limits: ReadLimits, form: ObjectForm) -> int:
    try:
        return usable(paths, space, limits, form)[0]
    except InputError:
        return -1


def _proposal(spout: str, path: str, form: ObjectForm) -> _Proposal | None:
    kind = file_kind(path)
    if kind.format == "parquet":
        return None  # its types say what can be known, and its names are in the message
    head = next(read_bytes(path, kind.compression), b"")[:_HEAD_BYTES]
    encoding = _encoding(head, form.text)
    records = _csv(head, encoding) if kind.format == "csv" else _json(head, encoding)
    if not records:
        return None
    columns, made = _columns(path, records, form)
    text = ByteForm(encoding)
    shaped = replace(form, columns={**form.columns, **columns}, row_ids="id" in made, row_times="ts" in made, text=text)
    unit, lateness_ms = _times(path, records, shaped)
    wanted = replace(shaped, time_unit=unit, lateness_ms=max(lateness_ms, form.lateness_ms))
    words = _words(spout, columns, wanted, form)
    return _Proposal(wanted, words) if words else None


def _words(spout: str, columns: Mapping[str, tuple[str, ...]], wanted: ObjectForm, form: ObjectForm) -> str:
    """Return what is new in a form as options; nothing where a name cannot be written in one."""
    if any(letter in source for sources in columns.values() for source in sources for letter in ",+="):
        return ""
    whole = {**form.columns, **columns} if columns else {}
    said = ",".join(f"{name}={'+'.join(sources)}" for name, sources in whole.items())
    options = [f"--columns {shlex.quote(said)}"] if said else []
    for name, now, before in (
        ("id", "row" if wanted.row_ids else None, "row" if form.row_ids else None),
        ("ts", "row" if wanted.row_times else None, "row" if form.row_times else None),
        ("time_unit", wanted.time_unit, form.time_unit),
        ("encoding", wanted.text.encoding, form.text.encoding),
        ("lateness_ms", wanted.lateness_ms, form.lateness_ms),
    ):
        options += [f"--set spout.{spout}.{name}={now}"] if now != before else []
    return " ".join(options)


def _encoding(head: bytes, text: ByteForm) -> str:
    """Return the declared encoding, or a likely one where the declared one is UTF-8 and this is not."""
    if not text.is_utf8:
        return text.encoding
    whole = head[: head.rfind(b"\n") + 1] or head
    try:
        whole.decode("utf-8")
    except UnicodeDecodeError:
        if whole[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        return "cp1252" if any(0x80 <= byte < 0xA0 for byte in whole) else "latin-1"
    return text.encoding


def _csv(head: bytes, encoding: str) -> Records:
    text = head.decode(encoding, "replace").removeprefix("\ufeff")
    try:
        rows = list(itertools.islice(csv.reader(io.StringIO(text)), FIRST_RECORDS + 1))
    except csv.Error:
        return []
    names = [name.strip() for name in rows[0]] if rows else []
    whole = rows[1:] if len(rows) > FIRST_RECORDS or text.endswith("\n") else rows[1:-1] or rows[1:]
    return [dict(zip(names, row, strict=True)) for row in whole if len(row) == len(names)]


def _json(head: bytes, encoding: str) -> Records:
    records = []
    for line in head.decode(encoding, "replace").removeprefix("\ufeff").splitlines()[:FIRST_RECORDS]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the head ends in the middle of a line
        if isinstance(record, dict):
            records.append(dict(_leaves(record, "", 0)))
    return records


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what a record has, by paths such as ``place.lon`` and ``coordinates.0``."""
    if isinstance(value, dict) and depth < 8:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, list) and len(value) in (2, 3) and all(type(one) in (int, float) for one in value):
        for place, inner in enumerate(value):
            yield f"{path}.{place}", inner
    else:
        yield path, value


def _columns(path: str, records: Records, form: ObjectForm) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Return likely columns for the fields that were not found, and which of `id` and `ts` the records do not have at all."""
    names = list(dict.fromkeys(name for record in records for name in record))
    known = form.sources(path, names)
    free = [name for name in names if not any(name in sources for sources in known.values())]
    values = {name: [record.get(name) for record in records] for name in free}
    chosen: dict[str, tuple[str, ...]] = {}
    placed = {"x", "y"} <= known.keys() or {"lon", "lat"} <= known.keys()
    there = {
        name for name, sources in known.items() if any(r.get(one) not in (None, "") for one in sources for r in records)
    }
    for field, fits in (("ts", _is_time), ("lon", _is_degrees("lon")), ("lat", _is_degrees("lat")), ("id", _is_id)):
        if field in known or (placed and field in _DEGREES):
            continue
        fitting = [name for name in free if _named(name, field) and fits(values[name])]
        if fitting:
            chosen[field] = (fitting[0],)
            there.add(field)
            free.remove(fitting[0])
    if not known.keys() & {"text", "keywords", "keyword_ids"}:
        words = [name for name in free if _is_text(values[name])]
        texts = [name for name in words if _named(name, "text")] or [name for name in words if _named(name, "name")]
        chosen |= {"text": tuple(texts)} if texts else {}
    declared = {name for name, made in (("id", form.row_ids), ("ts", form.row_times)) if made}
    return chosen, declared | {name for name in ("id", "ts") if not there & {name}}


def _named(name: str, field: str) -> bool:
    if field in _DEGREES and re.search(r"coordinates\.[01]$", name):
        return name.endswith("0") == (field == "lon")
    return any(word.casefold() in _LIKELY[field] for word in _WORDS.findall(name))


def _is_time(values: Sequence[Any]) -> bool:
    return all(_moment(value, "s") is not None for value in values)


def _moment(value: Any, unit: str) -> int | None:
    if type(value) in (int, float):
        return read_time(repr(value), unit)
    return read_time(value, unit) if isinstance(value, str) else None


def _is_degrees(field: str) -> Any:
    def fits(values: Sequence[Any]) -> bool:
        try:
            return all(abs(float(value)) <= _DEGREES[field] for value in values)
        except (TypeError, ValueError):
            return False

    return fits


def _is_id(values: Sequence[Any]) -> bool:
    plain = all(isinstance(value, str | int) and value != "" for value in values)
    return plain and len(set(values)) == len(values)


def _is_text(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return bool(texts) and any(re.search(r"[^\W\d_]{2}", text) for text in texts)


def _times(path: str, records: Records, form: ObjectForm) -> tuple[str, int]:
    """Return the unit in which the times are of our days, and how late the latest of them is, in whole minutes."""
    column = form.sources(path, list(records[0])).get("ts")
    given = [record.get(column[0]) for record in records] if column else []
    numbers = any(type(one) in (int, float) or (isinstance(one, str) and re.fullmatch(r"[\d.]+", one)) for one in given)

    def read(unit: str) -> list[int]:
        return [ts for ts in (_moment(value, unit) for value in given) if ts is not None]

    unit, times = form.time_unit, read(form.time_unit)
    if numbers and not (times and times[0] in USUAL_TIMES):
        fitting = [one for one in ("ms", "s", "us") if (first := read(one)) and first[0] in USUAL_TIMES]
        unit = fitting[0] if fitting else unit
        times = read(unit)
    newest = itertools.accumulate(times, max)
    late = max((most - ts for most, ts in zip(newest, times, strict=True)), default=0)
    return unit, -(-late // 60_000) * 60_000
