"""The first records of a file that nobody has described, as far as they can be read without knowing more."""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pyarrow.parquet as pq

from streams.files.file_blocks import file_kind
from streams.files.file_bytes import ByteForm, read_bytes
from streams.files.remedies import DECIMAL_COMMA, DECIMAL_POINT, commas_name, compression_of, lines_name

__all__ = ["FIRST_RECORDS", "Records", "first_json", "first_records", "head_made_over", "leaves"]

#: By so many records it is told what a file is like.
FIRST_RECORDS = 1_000

_HEAD_BYTES = 1 << 20

#: How JSON begins that is one value as a whole, in a file that should have an object a line.
_WHOLE = re.compile(r'\s*(\[|\{\s*"type"\s*:\s*"FeatureCollection")')

Records = list[dict[str, Any]]


def first_records(path: str, text: ByteForm) -> tuple[Records, str]:
    """Return the first records of a file, those of JSON by paths, and a likely encoding."""
    kind = file_kind(path)
    if kind.format == "parquet":
        return _table_records(path), text.encoding
    head = _head(path)
    encoding = _encoding(head, text)
    if kind.format == "csv":
        return _csv(head, encoding), encoding
    return [dict(leaves(record)) for record in _json_records(head, encoding)], encoding


def head_made_over(path: str, text: ByteForm) -> tuple[str, bytes] | None:
    """Return the name and the beginning of what the command makes of a file that is no input as it is; None of all others."""
    compression = compression_of(path)
    bare = (path.rpartition(".")[0] if compression else path).lower()
    if not bare.endswith((".csv", ".tsv", ".json", ".geojson", ".jsonl", ".ndjson")):
        return None
    head = next(read_bytes(path, compression), b"")[:_HEAD_BYTES]
    encoding = _encoding(head, text)
    whole = head.decode(encoding, "replace").removeprefix("\ufeff")
    if bare.endswith((".jsonl", ".ndjson")) and not _WHOLE.match(whole):
        return None
    if not bare.endswith((".csv", ".tsv")):
        records = [one for one in itertools.islice(_elements(whole), FIRST_RECORDS) if isinstance(one, dict)]
        return (lines_name(path), "".join(json.dumps(one) + "\n" for one in records).encode()) if records else None
    made = _in_commas(whole)
    return None if made is None else (commas_name(path), made.encode(encoding, "replace"))


def _elements(text: str) -> Iterator[Any]:
    """Yield the elements of a JSON array, or the features of a GeoJSON collection, as far as the text has them whole."""
    begin = re.match(r"\s*\[", text) or re.search(r'"features"\s*:\s*\[', text)
    at, decoder = begin.end() if begin else len(text), json.JSONDecoder()
    while (first := re.compile(r"[\s,]*(?=[^\s,\]])").match(text, at)) is not None:
        try:
            element, at = decoder.raw_decode(text, first.end())
        except (ValueError, RecursionError):
            return
        yield element


def _in_commas(whole: str) -> str | None:
    names = whole.split("\n", 1)[0]
    separators = [one for one in ";\t|" if one in names]
    if "," in names or not separators:
        return None
    made = io.StringIO(newline="")
    rows: Iterator[list[str]] = csv.reader(io.StringIO(whole[: whole.rfind("\n") + 1]), delimiter=separators[0])
    if separators[0] == ";":
        rows = ([re.sub(DECIMAL_COMMA, DECIMAL_POINT, one) for one in row] for row in rows)
    try:
        csv.writer(made).writerows(itertools.islice(rows, FIRST_RECORDS + 1))
    except csv.Error:
        return None
    return made.getvalue()


def first_json(path: str, encoding: str) -> Records:
    """Return the first objects of a file of JSON lines."""
    return _json_records(_head(path), encoding)


def _head(path: str) -> bytes:
    return next(read_bytes(path, file_kind(path).compression), b"")[:_HEAD_BYTES]


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


def _json_records(head: bytes, encoding: str) -> Records:
    records = []
    for line in head.decode(encoding, "replace").removeprefix("\ufeff").splitlines()[:FIRST_RECORDS]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the head ends in the middle of a line
        if isinstance(record, dict):
            records.append(record)
    return records


def _table_records(path: str) -> Records:
    """Return the first rows of a Parquet file; times as texts."""
    with pq.ParquetFile(path) as file:
        first = next(file.iter_batches(FIRST_RECORDS), None)
    rows = [] if first is None else first.to_pylist()
    return [{k: v.isoformat() if isinstance(v, date | datetime) else v for k, v in row.items()} for row in rows]


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what a record has, by paths such as ``place.lon`` and ``coordinates.0``."""
    if isinstance(value, dict) and depth < 8:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, list) and len(value) in (2, 3) and all(type(one) in (int, float) for one in value):
        for place, inner in enumerate(value):
            yield f"{path}.{place}", inner
    else:
        yield path, value
