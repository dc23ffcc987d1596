"""The wire format: a version byte, a msgpack header, raw column buffers. Nothing is ever unpickled.

    byte 0        version
    bytes 1..4    length of the header, little-endian
    header        msgpack: [meta, [[stream, type, kinds of its identifiers, sizes of its buffers], ...]]
    buffers       in the order of the columns, each at a multiple of 8 bytes from the start

A type of batch says which columns it has and of which numpy type; identifiers are int64 values, or Arrow offsets and UTF-8
bytes. Plain tuples have columns of any kind, so these say it themselves, in place of the identifiers' kinds:
[stream, ``TupleBatch``, [[column, kind, rows], ...], sizes], a kind being a numpy type (``<i8``; ``<f8:4`` for rows of
four), ``ids:...`` or ``any`` (msgpack). Decoding copies nothing: the arrays look into the message. Sizes, types and
offsets are checked before anything is read through them, because the kernels behind have no bounds checks.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from itertools import accumulate
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.batches import (
    AnswerBatch,
    Batch,
    CountBatch,
    CrossingBatch,
    EventBatch,
    HitBatch,
    MatchBatch,
    ObjectBatch,
    PrintBatch,
    QueryBatch,
    RankedBatch,
    RejectBatch,
    TupleBatch,
)
from streams.columns import Ids
from streams.errors import CodecError

__all__ = ["VERSION", "Buffers", "decode", "encode", "size_of", "unpack_plain"]

VERSION = 5

#: The types of batch that may cross the wire, by name.
WIRE_TYPES: Mapping[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        ObjectBatch,
        QueryBatch,
        HitBatch,
        CrossingBatch,
        RankedBatch,
        MatchBatch,
        EventBatch,
        AnswerBatch,
        CountBatch,
        PrintBatch,
        RejectBatch,
    )
}
_RAGGED = {
    name: {column for off, values in cls.RAGGED for column in (off, *values)} for name, cls in WIRE_TYPES.items()
}


def _layout(name: str, cls: type[Any]) -> tuple[tuple[str, Any, int, bool], ...]:
    """Return the columns of a batch: name, numpy type (none: identifiers), values a row, and whether each row has one."""
    empty, columns = cls.empty(), []
    for column in (field.name for field in dataclass_fields(cls)):
        value = getattr(empty, column)
        array = isinstance(value, np.ndarray)
        width = value.shape[1] if array and value.ndim == 2 else 1
        columns.append((column, value.dtype.newbyteorder("<") if array else None, width, column not in _RAGGED[name]))
    return tuple(columns)


_LAYOUTS = {name: _layout(name, cls) for name, cls in WIRE_TYPES.items()}
_PREFIX = struct.Struct("<BI")
_DTYPES = {
    code: np.dtype(code) for code in ("<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "<f8", "<f4", "|b1")
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_PADDING = bytes(8)

#: Identifiers as JSON has them, without escaped halves of characters.
_ESCAPE = r'\\(["\\/bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2})'
_JSON_ID = rf'^(-?(0|[1-9][0-9]*)|"([^"\\\x00-\x1f]|{_ESCAPE})*")$'
_LONG_DIGITS = 4_000

Buffers = list[bytes | memoryview]
Label = str | int
Part = tuple[Label, Batch]


def _padded(size: int) -> int:
    return -size % 8


#: Packed values longer than this are walked through before they are unpacked.
_WALKED_BYTES = 1 << 12

#: Arrays up to this size are copied at once, which costs less than a view; larger ones are sent from where they are.
_COPIED_BYTES = 1 << 14


def _raw(array: Any) -> bytes | memoryview:
    if array.nbytes <= _COPIED_BYTES:
        return array.tobytes()  # type: ignore[no-any-return]
    contiguous: Any = np.ascontiguousarray(array)
    return memoryview(contiguous).cast("B")


def _id_buffers(name: str, column: Any) -> list[bytes | memoryview]:
    if not isinstance(column, Ids):
        raise CodecError(f"column '{name}' has no identifiers but {type(column).__name__}")
    values = column.values
    if column.kind == "int":
        if values.dtype != np.int64:
            raise CodecError(f"column '{name}' has identifiers of type {values.dtype}, expected int64")
        return [_raw(values)]
    _, offsets, data = values.buffers()
    n = len(values)
    if n == 0 or offsets is None:
        return [bytes(4), b""]
    off = np.frombuffer(offsets, np.int32, n + 1, values.offset * 4)
    return [_raw(off - off[0]), memoryview(data)[off[0] : off[-1]] if data is not None else b""]


def _column_buffers(name: str, column: Any) -> tuple[list[Any], list[bytes | memoryview]]:
    """Return what a column of plain tuples says of itself, and its buffers."""
    if isinstance(column, Ids):
        return [name, f"ids:{column.kind}", len(column)], _id_buffers(name, column)
    if isinstance(column, list):
        return [name, "any", len(column)], [msgpack.packb(column)]
    code = _CODES.get(column.dtype)
    if code is None:
        raise CodecError(f"column '{name}' has type {column.dtype}, which does not travel; use int64, float64 or bool")
    kind = code if column.ndim == 1 else f"{code}:{column.shape[1]}"
    return [name, kind, len(column)], [_raw(column)]


def _batch_buffers(kind: str, batch: Batch) -> tuple[list[Any], list[bytes | memoryview]]:
    """Return the kinds of identifiers of a batch, and the buffers of all its columns."""
    kinds: list[Any] = []
    raws: list[bytes | memoryview] = []
    for name, dtype, width, _ in _LAYOUTS[kind]:
        column = getattr(batch, name)
        if dtype is None:
            raws += _id_buffers(name, column)
            kinds.append(column.kind)
        elif not isinstance(column, np.ndarray) or column.dtype != dtype:
            found = getattr(column, "dtype", type(column).__name__)
            raise CodecError(f"column '{name}' of a {kind} has type {found}, expected {dtype}")
        elif column.ndim != (1 if width == 1 else 2) or (width > 1 and column.shape[1] != width):
            raise CodecError(
                f"column '{name}' of a {kind} has rows of shape {column.shape[1:]}, expected {width} values"
            )
        else:
            raws.append(_raw(column))
    return kinds, raws


def encode(parts: Sequence[Part], meta: Any = None) -> Buffers:
    """Return the buffers of one message: batches by stream, and a little metadata that msgpack knows."""
    head: list[Any] = []
    body: Buffers = []
    for stream, batch in parts:
        kind = type(batch).__name__
        if isinstance(batch, TupleBatch):
            columns = [_column_buffers(*pair) for pair in zip(batch.fields, batch.columns, strict=True)]
            kinds, raws = [entry for entry, _ in columns], [raw for _, some in columns for raw in some]
        else:
            kinds, raws = _batch_buffers(kind, batch)
        sizes = list(map(len, raws))
        head.append([stream, kind, kinds, sizes])
        for raw, size in zip(raws, sizes, strict=True):
            body.append(raw)
            if size & 7:
                body.append(_PADDING[size & 7 :])
    header = msgpack.packb([meta, head])
    pad = _padded(_PREFIX.size + len(header))
    return [_PREFIX.pack(VERSION, len(header)) + header + _PADDING[:pad], *body]


def size_of(buffers: Buffers) -> int:
    """Return the number of bytes of an encoded message."""
    return sum(map(len, buffers))


def decode(data: bytes | bytearray | memoryview) -> tuple[Any, list[Part]]:
    """Return metadata and batches of one message; raise `CodecError` for anything that is not one."""
    view = memoryview(data)
    try:
        version, header_size = _PREFIX.unpack_from(view)
        if version != VERSION:
            raise CodecError(f"message of version {version}, expected {VERSION}; run the same release everywhere")
        start = _PREFIX.size + header_size
        meta, head = unpack_plain(view[_PREFIX.size : start])
        position = start + _padded(start)
        parts: list[Part] = []
        for stream, kind, kinds, sizes in head:
            if not isinstance(stream, str | int):
                raise CodecError(f"a batch for the stream {stream!r:.60}, expected a name or a number")
            starts = list(accumulate([size + (-size & 7) for size in sizes], initial=position))
            position = starts.pop()
            if min(sizes, default=0) < 0 or position > len(view):
                raise CodecError(
                    f"a batch of type {kind!r:.60} is cut off: columns of {sizes!r:.200} bytes are announced"
                )
            decode_batch = _decode_tuples if kind == "TupleBatch" else _decode_batch
            parts.append((stream, decode_batch(kind, kinds, view, list(zip(starts, sizes, strict=True)))))
    except CodecError:
        raise
    except Exception as error:  # whatever a broken header trips over: it is one and the same fault
        raise CodecError(f"not a message of ours: {type(error).__name__}: {str(error)[:200]}") from error
    return meta, parts


def unpack_plain(raw: bytes | memoryview, **options: Any) -> Any:
    """Unpack msgpack, with no more memory than bytes that are really there deserve.

    A list is made as long as it is announced before its items are read, and lists may be nested: a few bytes could ask
    for gigabytes. So what is not short is walked through once before anything is made of it.
    """
    if len(raw) > _WALKED_BYTES:
        walker = msgpack.Unpacker(max_buffer_size=len(raw), strict_map_key=False)
        walker.feed(raw)
        walker.skip()
    return msgpack.unpackb(raw, **({"strict_map_key": False, "max_ext_len": 0} | options))


def _decode_tuples(_kind: str, entries: list[Any], view: memoryview, places: list[tuple[int, int]]) -> TupleBatch:
    left = iter([view[position : position + size] for position, size in places])
    named = {}
    for name, code, rows in entries:
        if type(name) is not str or type(rows) is not int or rows < 0:
            raise CodecError(f"column {name!r:.60} announces {rows!r:.60} rows")
        raws = [next(left) for _ in range(2 if code in ("ids:text", "ids:json") else 1)]
        named[name] = _decode_column(name, code, rows, raws)
    if len({len(column) for column in named.values()}) > 1:
        raise CodecError("a tuple batch has columns of different lengths")
    return TupleBatch(tuple(named), tuple(named.values()))


def _decode_column(name: str, code: str, rows: int, raws: list[memoryview]) -> Any:
    if code == "any":
        values = unpack_plain(raws[0])
        if not isinstance(values, list) or len(values) != rows:
            raise CodecError(f"column '{name}' is not a list of {rows} values")
        return values
    base, _, width = code.partition(":")
    if base == "ids":
        ids = _decode_ids(name, width, raws)
        if len(ids) != rows:
            raise CodecError(f"column '{name}' has {len(ids)} identifiers, expected {rows}")
        return ids
    dtype = _DTYPES[base]
    if width and int(width) < 1:
        raise CodecError(f"column '{name}' has rows of {width} values")
    count = rows * int(width or 1)
    if len(raws[0]) != count * dtype.itemsize:
        raise CodecError(f"column '{name}' has {len(raws[0])} bytes, expected {count * dtype.itemsize}")
    array = np.frombuffer(raws[0], dtype, count)
    return array.reshape(rows, int(width)) if width else array


def _decode_ids(name: str, kind: str, raws: Sequence[memoryview]) -> Ids:
    if kind == "int":
        if len(raws[0]) % 8:
            raise CodecError(f"column '{name}' has {len(raws[0])} bytes, expected a multiple of 8")
        return Ids("int", np.frombuffer(raws[0], np.int64, len(raws[0]) // 8))
    if kind not in ("text", "json"):
        raise CodecError(f"column '{name}' has identifiers of kind {kind!r:.60}, expected int, text or json")
    off, text = np.frombuffer(raws[0], np.int32), raws[1]
    _check_offsets(name, off, len(text))
    values = pa.StringArray.from_buffers(len(off) - 1, pa.py_buffer(raws[0]), pa.py_buffer(text))
    values.validate(full=True)
    if kind == "json":
        _check_json(name, values)
    return Ids("text" if kind == "text" else "json", values)


def _check_json(name: str, values: Any) -> None:
    if not pc.all(pc.match_substring_regex(values, _JSON_ID), min_count=0).as_py():
        raise CodecError(f"column '{name}' has identifiers that are neither integers nor strings as JSON has them")
    for text in values.filter(pc.greater(pc.binary_length(values), _LONG_DIGITS)).to_pylist():
        json.loads(text)  # an integer of thousands of digits is refused, as everywhere


def _check_offsets(name: str, off: Any, size: int) -> None:
    if len(off) == 0 or off[0] != 0 or off[-1] != size or np.count_nonzero(off[1:] < off[:-1]):
        raise CodecError(f"column '{name}' has offsets that do not fit its {size} values")


def _decode_batch(kind: str, id_kinds: list[Any], view: memoryview, places: list[tuple[int, int]]) -> Batch:
    if kind not in WIRE_TYPES:
        raise CodecError(f"unknown type of batch {kind!r:.60}")
    left, kinds = iter(places), iter(id_kinds)
    named: dict[str, Any] = {}
    column: Any
    rows = -1
    for name, dtype, width, plain in _LAYOUTS[kind]:
        position, size = next(left)
        if dtype is None:
            id_kind = next(kinds)
            spans = [(position, size)] if id_kind == "int" else [(position, size), next(left)]
            column = named[name] = _decode_ids(name, id_kind, [view[start : start + length] for start, length in spans])
        else:
            count, rest = divmod(size, dtype.itemsize)
            if rest or count % width:
                raise CodecError(f"column '{name}' of a {kind} has {size} bytes, which are no rows of {dtype}")
            array = np.frombuffer(view, dtype, count, position)
            column = named[name] = array if width == 1 else array.reshape(-1, width)
        if plain:
            rows = len(column) if rows < 0 else rows
            if len(column) != rows:
                raise CodecError(f"a {kind} has columns of different lengths")
    if next(left, None) or next(kinds, None):
        raise CodecError(f"a {kind} with more columns than it has")
    batch: Batch = WIRE_TYPES[kind](**named)
    assert not isinstance(batch, TupleBatch)
    for off_name, value_names in batch.RAGGED:
        for name in value_names:
            _check_offsets(off_name, named[off_name], len(named[name]))
        if len(named[off_name]) != rows + 1:
            raise CodecError(f"a {kind} has {rows} rows but {len(named[off_name])} offsets")
    return batch
