"""The wire format: a version byte, a msgpack header, raw column buffers. Nothing is ever unpickled.

    byte 0        version
    bytes 1..4    length of the header, little-endian
    header        msgpack: [meta, [[stream, type, [[column, kind, rows], ...]], ...]]
    buffers       in the order of the header, each at a multiple of 8 bytes from the start

A column's kind is a numpy type (``<i8``; ``<f8:4`` for rows of four), ``ids:...`` (int64 values, or Arrow offsets and
UTF-8 bytes) or ``any`` (msgpack). Decoding copies nothing: the arrays look into the message. Sizes, types and offsets
are checked before anything is read through them, because the kernels behind have no bounds checks.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.batches import (
    AnswerBatch,
    Batch,
    MatchBatch,
    ObjectBatch,
    QueryBatch,
    RejectBatch,
    TupleBatch,
    plain_columns,
)
from streams.columns import Ids
from streams.errors import CodecError

__all__ = ["VERSION", "Buffers", "decode", "encode", "size_of", "unpack_plain"]

VERSION = 1

#: The types of batch that may cross the wire, by name.
WIRE_TYPES: Mapping[str, type[Any]] = {
    cls.__name__: cls for cls in (ObjectBatch, QueryBatch, MatchBatch, AnswerBatch, RejectBatch)
}
_COLUMN_NAMES = {name: tuple(field.name for field in dataclass_fields(cls)) for name, cls in WIRE_TYPES.items()}
#: The types of the columns of each batch, so that no kernel meets another.
_EXPECTED: dict[str, dict[str, Any]] = {
    name: {
        column: value.dtype if isinstance(value := getattr(cls.empty(), column), np.ndarray) else Ids
        for column in _COLUMN_NAMES[name]
    }
    for name, cls in WIRE_TYPES.items()
}
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


def _column_buffers(name: str, column: Any) -> tuple[list[Any], list[bytes | memoryview]]:
    if isinstance(column, Ids):
        if column.kind == "int":
            return [name, "ids:int", len(column)], [_raw(column.values)]
        values = column.values
        _, offsets, data = values.buffers()
        n = len(values)
        if n == 0 or offsets is None:
            return [name, f"ids:{column.kind}", n], [bytes(4), b""]
        off = np.frombuffer(offsets, np.int32, n + 1, values.offset * 4)
        text = memoryview(data)[off[0] : off[-1]] if data is not None else b""
        return [name, f"ids:{column.kind}", n], [_raw(off - off[0]), text]
    if isinstance(column, list):
        return [name, "any", len(column)], [msgpack.packb(column)]
    code = _CODES.get(column.dtype)
    if code is None:
        raise CodecError(f"column '{name}' has type {column.dtype}, which does not travel; use int64, float64 or bool")
    kind = code if column.ndim == 1 else f"{code}:{column.shape[1]}"
    return [name, kind, len(column)], [_raw(column)]


def encode(parts: Sequence[Part], meta: Any = None) -> Buffers:
    """Return the buffers of one message: batches by stream, and a little metadata that msgpack knows."""
    head: list[Any] = []
    body: Buffers = []
    for stream, batch in parts:
        if isinstance(batch, TupleBatch):
            kind, named = "TupleBatch", list(zip(batch.fields, batch.columns, strict=True))
        else:
            kind = type(batch).__name__
            named = [(name, getattr(batch, name)) for name in _COLUMN_NAMES[kind]]
        columns = []
        for name, column in named:
            entry, raws = _column_buffers(name, column)
            entry.append([len(raw) for raw in raws])
            columns.append(entry)
            for raw in raws:
                body.append(raw)
                if pad := _padded(len(raw)):
                    body.append(_PADDING[:pad])
        head.append([stream, kind, columns])
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
        for stream, kind, columns in head:
            named: dict[str, Any] = {}
            for name, code, rows, sizes in columns:
                raws = []
                for size in sizes:
                    if not 0 <= size <= len(view) - position:
                        raise CodecError(f"column '{name}' is cut off: {size} bytes announced")
                    raws.append(view[position : position + size])
                    position += size + _padded(size)
                if type(name) is not str or type(rows) is not int or rows < 0:
                    raise CodecError(f"column {name!r:.60} announces {rows!r:.60} rows")
                named[name] = _decode_column(name, code, rows, raws)
            if not isinstance(stream, str | int):
                raise CodecError(f"a batch for the stream {stream!r:.60}, expected a name or a number")
            parts.append((stream, _decode_batch(kind, named)))
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


def _decode_column(name: str, code: str, rows: int, raws: list[memoryview]) -> Any:
    if code == "any":
        values = unpack_plain(raws[0])
        if not isinstance(values, list) or len(values) != rows:
            raise CodecError(f"column '{name}' is not a list of {rows} values")
        return values
    if code == "ids:int":
        return Ids("int", np.frombuffer(raws[0], np.int64, rows))
    if code in ("ids:text", "ids:json"):
        off, text = np.frombuffer(raws[0], np.int32, rows + 1), raws[1]
        _check_offsets(name, off, len(text))
        values = pa.StringArray.from_buffers(rows, pa.py_buffer(raws[0]), pa.py_buffer(text))
        values.validate(full=True)
        if code == "ids:json":
            _check_json(name, values)
        return Ids("text" if code == "ids:text" else "json", values)
    base, _, width = code.partition(":")
    dtype = _DTYPES[base]
    if width and int(width) < 1:
        raise CodecError(f"column '{name}' has rows of {width} values")
    count = rows * int(width or 1)
    if len(raws[0]) != count * dtype.itemsize:
        raise CodecError(f"column '{name}' has {len(raws[0])} bytes, expected {count * dtype.itemsize}")
    array = np.frombuffer(raws[0], dtype, count) if count else np.empty(0, dtype)
    return array.reshape(rows, int(width)) if width else array


def _check_json(name: str, values: Any) -> None:
    if not pc.all(pc.match_substring_regex(values, _JSON_ID), min_count=0).as_py():
        raise CodecError(f"column '{name}' has identifiers that are neither integers nor strings as JSON has them")
    for text in values.filter(pc.greater(pc.binary_length(values), _LONG_DIGITS)).to_pylist():
        json.loads(text)  # an integer of thousands of digits is refused, as everywhere


def _check_offsets(name: str, off: Any, size: int) -> None:
    if len(off) == 0 or off[0] != 0 or off[-1] != size or (off[1:] < off[:-1]).any():
        raise CodecError(f"column '{name}' has offsets that do not fit its {size} values")


def _decode_batch(kind: str, named: dict[str, Any]) -> Batch:
    if kind == "TupleBatch":
        if len({len(column) for column in named.values()}) > 1:
            raise CodecError("a tuple batch has columns of different lengths")
        return TupleBatch(tuple(named), tuple(named.values()))
    if kind not in WIRE_TYPES:
        raise CodecError(f"unknown type of batch '{kind}'")
    batch: Batch = WIRE_TYPES[kind](**named)
    assert not isinstance(batch, TupleBatch)
    for name, expected in _EXPECTED[kind].items():
        if expected is Ids:
            if not isinstance(named[name], Ids):
                raise CodecError(f"column '{name}' of a {kind} has no identifiers")
            continue
        found = getattr(named[name], "dtype", None)
        if found != expected or np.ndim(named[name]) != (2 if name == "shape" else 1):
            raise CodecError(f"column '{name}' of a {kind} has type {found}, expected {expected}")
    rows = len(batch)
    for off_name, value_names in batch.RAGGED:
        for name in value_names:
            _check_offsets(off_name, named[off_name], len(named[name]))
        if len(named[off_name]) != rows + 1:
            raise CodecError(f"a {kind} has {rows} rows but {len(named[off_name])} offsets")
    for name in plain_columns(type(batch)):
        if len(named[name]) != rows:
            raise CodecError(f"a {kind} has columns of different lengths")
    return batch
