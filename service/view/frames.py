"""Frames of the live view: a JSON header and columns of numbers behind it, as a browser reads them without copying.

    "WSV1"   4 bytes
    length   of the header, unsigned 32 bits, little endian
    header   JSON (UTF-8), padded with spaces so that what follows begins at a multiple of 8
    columns  each begins at a multiple of 8; ``header["arrays"]`` has [type, offset behind the header, count] by name

The same frames go from the process that runs a topology to the one that serves the page, and from there to browsers.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.errors import CodecError

__all__ = ["MOST_FRAME_BYTES", "Header", "decode_frame", "encode_frame"]

MAGIC = b"WSV1"
_HEAD = struct.Struct("<4sI")
_TYPES: dict[str, np.dtype[Any]] = {
    "u1": np.dtype("<u1"),
    "u2": np.dtype("<u2"),
    "u4": np.dtype("<u4"),
    "f4": np.dtype("<f4"),
}

#: No frame is larger: a plan of so many shapes has a tenth of it.
MOST_FRAME_BYTES = 8 << 20

Header = dict[str, Any]
Columns = Mapping[str, NDArray[Any]]


def encode_frame(header: Mapping[str, Any], columns: Columns | None = None) -> bytes:
    """Return a frame; columns are of unsigned numbers of 8, 16 or 32 bits, or of floats of 32 bits."""
    arrays: dict[str, list[Any]] = {}
    body = bytearray()
    for name, column in (columns or {}).items():
        kind = f"{column.dtype.kind}{column.dtype.itemsize}"
        body += bytes(-len(body) % 8)
        arrays[name] = [kind, len(body), column.size]
        body += column.astype(_TYPES[kind], copy=False).tobytes()
    text = json.dumps({**header, "arrays": arrays}, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(_HEAD.size + len(text)) % 8)
    return _HEAD.pack(MAGIC, len(text)) + text + bytes(body)


def decode_frame(data: bytes) -> tuple[Header, dict[str, NDArray[Any]]]:
    """Return header and columns of a frame; raise `CodecError` for bytes that are none."""
    try:
        magic, length = _HEAD.unpack_from(data)
        if magic != MAGIC or len(data) > MOST_FRAME_BYTES:
            raise CodecError(f"{len(data):,} bytes that are no frame of the live view")
        start = _HEAD.size + length
        header = json.loads(data[_HEAD.size : start])
        found = {}
        for name, (kind, offset, count) in header.pop("arrays").items():
            if min(offset, count) < 0:
                raise CodecError(f"a frame of the live view whose column {name!r:.60} lies outside of it")
            found[name] = np.frombuffer(data, _TYPES[kind], count, start + offset)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CodecError(f"a frame of the live view that cannot be read: {error}") from error
    if not isinstance(header.get("frame"), str):
        raise CodecError("a frame of the live view that does not say what it is")
    return header, found
