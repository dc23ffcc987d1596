"""State of operators as bytes: msgpack with arrays, identifiers, batches, tuples, sets, parts and large integers; no pickle.

    bytes 0..7    length of the head, little-endian
    head          msgpack; a batch, a column of identifiers or an array is an extension that tells its size
    messages      of `streams.codec`, one for each of these, in their order; each begins at a multiple of 8 bytes

Columns are copied once, on their way into the result: a state is large, and is packed while a task could be working. The
pieces are not joined, and are read one by one, so that nobody needs memory for a state twice.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from streams.batches import TupleBatch
from streams.codec import Buffers, decode, encode, size_of, unpack_plain
from streams.columns import Ids
from streams.errors import CodecError
from streams.row_columns import RowColumns
from streams.state_parts import Part

__all__ = ["PackedState", "Part", "pack_apart", "pack_part", "pack_state", "read_state", "unpack_state"]

_BATCH, _COLUMN, _TUPLE, _SET, _INT, _ARRAY, _PART = range(1, 8)
#: Of one array or batch, and of all that is neither: msgpack cannot hold more of the latter.
_MAX_BYTES, _MAX_HEAD_BYTES = 1 << 40, 2**31 - 1
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class PackedState:
    """A state as pieces of bytes that follow each other, and the parts that it refers to and does not hold, by their keys."""

    pieces: Buffers
    parts: Mapping[str, Part]

    @property
    def size(self) -> int:
        """Return the number of bytes, without those of parts."""
        return size_of(self.pieces)


def pack_state(state: Any) -> bytes:
    """Return state as bytes that need nothing else: parts are packed with their values, each once."""
    return b"".join(_packed(state, _Packing(whole=True)))


def pack_apart(state: Any) -> PackedState:
    """Return state packed without the values of its parts; what changes later in its arrays is not seen any more."""
    packing = _Packing(whole=False)
    pieces = _packed(state, packing)
    return PackedState([bytes(piece) for piece in pieces], packing.parts)


def pack_part(part: Part) -> Buffers:
    """Return the value of a part as pieces of bytes; they look into its arrays, which never change."""
    return _packed(part.value, _Packing(whole=True))


def _packed(state: Any, packing: "_Packing") -> Buffers:
    try:
        head = packing.head(state)
    except (ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"state cannot be saved: {error}; use smaller values, and nothing nested deep") from error
    if len(head) > _MAX_HEAD_BYTES:
        raise CodecError(
            f"state holds {len(head):,} bytes that are in no array, more than can be saved ({_MAX_HEAD_BYTES:,}); use arrays"
        )
    return [_SIZE.pack(len(head)) + head + bytes(-len(head) % 8), *packing.messages]


class _Packing:
    """What a state is packed into: a head, and messages beside it."""

    def __init__(self, *, whole: bool) -> None:
        self.messages: Buffers = []
        self.parts: dict[str, Part] = {}
        self._whole = whole

    def head(self, value: Any) -> bytes:
        packed: bytes = msgpack.Packer(default=self._extend, strict_types=True).pack(value)
        return packed

    def _extend(self, value: Any) -> Any:
        if isinstance(value, RowColumns | TupleBatch):
            return self._beside(_BATCH, value)
        if isinstance(value, Ids):
            return self._beside(_COLUMN, TupleBatch(("_",), (value,)))
        if isinstance(value, np.ndarray):
            flat = TupleBatch(("_",), (np.ascontiguousarray(value).reshape(-1),))
            return self._beside(_ARRAY, flat, list(value.shape))
        if isinstance(value, tuple):
            return msgpack.ExtType(_TUPLE, self.head(list(value)))
        if isinstance(value, set | frozenset):
            return msgpack.ExtType(_SET, self.head(sorted(value)))
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, int):
            return msgpack.ExtType(_INT, str(value).encode())
        if isinstance(value, Part):
            held = self._whole and value.key not in self.parts
            self.parts.setdefault(value.key, value)
            return msgpack.ExtType(_PART, self.head([value.key, value.value] if held else [value.key]))
        raise CodecError(
            f"state holds a {type(value).__name__}, which cannot be saved; use numbers, strings, lists or arrays"
        )

    def _beside(self, code: int, batch: Any, shape: Any = None) -> msgpack.ExtType:
        message = encode([("", batch)], shape)
        size = size_of(message)
        if size > _MAX_BYTES:
            raise CodecError(f"state holds a value of {size:,} bytes, more than can be saved ({_MAX_BYTES:,})")
        self.messages += message
        return msgpack.ExtType(code, _SIZE.pack(size))


def _no_part(key: str) -> Part:
    raise CodecError(f"a saved state refers to the part {key!r:.100}, which is not there")


PartOf = Callable[[str], Part]


def unpack_state(data: bytes | memoryview, part_of: PartOf = _no_part) -> Any:
    """Return the state that was packed; raise `CodecError` for anything else.

    Args:
        data: what `pack_state` returned, or the pieces of `pack_apart`, joined.
        part_of: finds a part whose value was not packed, by its key.
    """
    view = memoryview(data)
    place = 0

    def read(size: int) -> bytes:
        # A copy of its own: what stays in use for long does not keep all the others in memory.
        nonlocal place
        place += size
        return bytes(view[place - size : place])

    return read_state(read, len(view), part_of)


def read_state(read: Callable[[int], bytes], size: int, part_of: PartOf = _no_part) -> Any:
    """Return a state of so many bytes, read piece by piece; raise `CodecError` for anything else.

    Args:
        read: returns the next so many bytes, fewer only at the end.
        size: how many bytes there are in all.
        part_of: as for `unpack_state`.
    """
    try:
        reading = _Reading(read, size)
        (length,) = _SIZE.unpack(reading.take(_SIZE.size))
        head = reading.take(length)
        reading.take(-length % 8)
        state = _Unpacking(reading, part_of).value(head)
        if reading.left:
            raise CodecError("a saved state that has bytes that belong to nothing")
    except CodecError:
        raise
    except OSError:
        raise
    except Exception as error:  # whatever bytes of another make trip over: it is one and the same fault
        raise CodecError(f"not a saved state: {type(error).__name__}: {str(error)[:200]}") from error
    return state


class _Reading:
    """Bytes of which so many are left: no more is asked for than can be there."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read = read
        self.left = size

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise CodecError("a saved state that is cut off")
        data = self._read(size) if size else b""
        if len(data) != size:
            raise CodecError("a saved state that is cut off")
        self.left -= size
        return data


class _Unpacking:
    """The messages beside a head, each of which is taken once: no bytes are read twice, whatever the head asks for."""

    def __init__(self, reading: _Reading, part_of: PartOf) -> None:
        self._reading, self._part_of = reading, part_of
        self._parts: dict[str, Part] = {}

    def value(self, head: bytes | memoryview) -> Any:
        return unpack_plain(head, ext_hook=self._contract, max_ext_len=_MAX_HEAD_BYTES)

    def _contract(self, code: int, data: bytes) -> Any:
        if code == _TUPLE:
            return tuple(self.value(data))
        if code == _SET:
            return set(self.value(data))
        if code == _INT:
            return int(data)
        if code == _PART:
            return self._part(*self.value(data))
        if code not in (_BATCH, _COLUMN, _ARRAY):
            raise CodecError(f"state of an unknown kind ({code})")
        (size,) = _SIZE.unpack(data)
        shape, [(_, batch)] = decode(self._reading.take(size))
        if code == _BATCH:
            return batch
        assert isinstance(batch, TupleBatch)
        return batch.columns[0].reshape(shape) if code == _ARRAY else batch.columns[0]

    def _part(self, key: str, *value: Any) -> Part:
        if key not in self._parts:
            self._parts[key] = Part.of(key, *value) if value else self._part_of(key)
        return self._parts[key]
