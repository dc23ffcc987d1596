"""Plans and changes of plans as bytes: msgpack behind a checksum, arrays as raw bytes of a few permitted types.

    bytes 0..7    magic
    bytes 8..9    version of the format, little-endian
    bytes 10..41  BLAKE2b over magic, version and body
    body          msgpack

Nothing in a frame is ever executed.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from streams.codec import unpack_plain
from streams.errors import InputError, WaterspoutError

__all__ = [
    "FORMAT_VERSION",
    "FRAME_HEAD",
    "MAX_PLAN_BYTES",
    "digest",
    "framed",
    "packed_array",
    "unframed",
    "unpacked_array",
]

FORMAT_VERSION = 1

#: The largest frame that is read or written.
MAX_PLAN_BYTES = 1 << 30

_VERSION = struct.Struct("<H")
_MAGIC_BYTES = 8
#: Bytes before the body.
FRAME_HEAD = _MAGIC_BYTES + _VERSION.size + 32
_DTYPES = {code: np.dtype(code) for code in ("<i8", "<i4", "<f8", "<f4", "|u1", "|b1")}

T = TypeVar("T")


def framed(magic: bytes, body: Mapping[str, Any], what: str) -> bytes:
    """Return a body as a frame; `what` it is stands in an error."""
    packed: bytes = msgpack.packb(body)
    if len(packed) > MAX_PLAN_BYTES - FRAME_HEAD:
        raise InputError(f"{what} of {len(packed):,} bytes exceeds {MAX_PLAN_BYTES:,}; build it with a coarser grid")
    head = magic + _VERSION.pack(FORMAT_VERSION)
    return head + digest(head, packed) + packed


def unframed(magic: bytes, data: bytes, what: str, path: str, make: Callable[[Any], T]) -> T:
    """Return what `make` makes of the body of a frame; whatever is wrong with it is an `InputError` with the path."""
    head, body = data[: _MAGIC_BYTES + _VERSION.size], data[FRAME_HEAD:]
    if not head.startswith(magic) or len(data) < FRAME_HEAD:
        raise InputError(f"{path}: not a {what} file; make one with 'waterspout build'")
    (version,) = _VERSION.unpack(head[_MAGIC_BYTES:])
    if version != FORMAT_VERSION:
        raise InputError(f"{path}: a {what} of format {version}, expected {FORMAT_VERSION}; build it again")
    if data[len(head) : FRAME_HEAD] != digest(head, body):
        raise InputError(f"{path}: the {what} is damaged (its checksum differs); build or copy it again")
    try:
        return make(unpack_plain(body, strict_map_key=True))
    except WaterspoutError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # whatever a body of another make trips over: it is one and the same fault
        raise InputError(f"{path}: not a {what} of ours: {type(error).__name__}: {str(error)[:200]}") from error


def digest(head: bytes, body: bytes) -> bytes:
    """Return the checksum of a frame."""
    return hashlib.blake2b(head + body, digest_size=32).digest()


def packed_array(value: NDArray[Any]) -> list[Any]:
    """Return an array as type, shape and raw bytes."""
    return [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]


def unpacked_array(name: str, code: str, shape: list[int], raw: bytes) -> NDArray[Any]:
    """Return the array that was packed; raise unless type, shape and bytes agree."""
    if code not in _DTYPES:
        raise InputError(f"array '{name}' has type '{code}', expected one of {sorted(_DTYPES)}")
    if any(size < 0 for size in shape) or np.prod(shape, dtype=object) * _DTYPES[code].itemsize != len(raw):
        raise InputError(f"array '{name}' has {len(raw)} bytes, which is not {shape} of '{code}'")
    return np.frombuffer(raw, _DTYPES[code]).reshape(shape)
