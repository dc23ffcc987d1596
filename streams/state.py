"""State of operators as bytes: msgpack with arrays, identifiers, batches, tuples, sets and large integers; no pickle.

    bytes 0..7    length of the head, little-endian
    head          msgpack; a batch, a column of identifiers or an array is an extension that tells its size
    messages      of `streams.codec`, one for each of these, in their order; each begins at a multiple of 8 bytes

Columns are copied once, on their way into the result: a state is large, and is packed while a task could be working.
"""

import struct
from typing import Any

import msgpack
import numpy as np

from streams.batches import TupleBatch, _Columns
from streams.codec import Buffers, decode, encode, size_of, unpack_plain
from streams.columns import Ids
from streams.errors import CodecError

__all__ = ["pack_state", "unpack_state"]

_BATCH, _COLUMN, _TUPLE, _SET, _INT, _ARRAY = range(1, 7)
_MAX_BYTES = 2**31 - 1
_SIZE = struct.Struct("<Q")


def pack_state(state: Any) -> bytes:
    """Return state as bytes."""
    packing = _Packing()
    try:
        head = packing.head(state)
    except (ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"state cannot be saved: {error}; use smaller values, and nothing nested deep") from error
    return b"".join([_SIZE.pack(len(head)), head, bytes(-len(head) % 8), *packing.messages])


class _Packing:
    """What a state is packed into: a head, and messages beside it."""

    def __init__(self) -> None:
        self.messages: Buffers = []

    def head(self, value: Any) -> bytes:
        packed: bytes = msgpack.Packer(default=self._extend, strict_types=True).pack(value)
        return packed

    def _extend(self, value: Any) -> Any:
        if isinstance(value, _Columns | TupleBatch):
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


def unpack_state(data: bytes | memoryview) -> Any:
    """Return the state that was packed; raise `CodecError` for anything else."""
    view = memoryview(data)
    try:
        (size,) = _SIZE.unpack_from(view)
        end = _SIZE.size + size
        unpacking = _Unpacking(view[end + -size % 8 :])
        state = unpacking.value(view[_SIZE.size : end])
        if end > len(view) or len(unpacking.messages):
            raise CodecError("a saved state that is cut off, or has bytes that belong to nothing")
    except CodecError:
        raise
    except Exception as error:  # whatever bytes of another make trip over: it is one and the same fault
        raise CodecError(f"not a saved state: {type(error).__name__}: {str(error)[:200]}") from error
    return state


class _Unpacking:
    """The messages beside a head, each of which is taken once: no bytes are read twice, whatever the head asks for."""

    def __init__(self, messages: memoryview) -> None:
        self.messages = messages

    def value(self, head: bytes | memoryview) -> Any:
        return unpack_plain(head, ext_hook=self._contract, max_ext_len=_MAX_BYTES)

    def _contract(self, code: int, data: bytes) -> Any:
        if code == _TUPLE:
            return tuple(self.value(data))
        if code == _SET:
            return set(self.value(data))
        if code == _INT:
            return int(data)
        if code not in (_BATCH, _COLUMN, _ARRAY):
            raise CodecError(f"state of an unknown kind ({code})")
        (size,) = _SIZE.unpack(data)
        # A copy of its own: what stays in use for long does not keep all the others in memory.
        message, self.messages = bytes(self.messages[:size]), self.messages[size:]
        shape, [(_, batch)] = decode(message)
        if code == _BATCH:
            return batch
        assert isinstance(batch, TupleBatch)
        return batch.columns[0].reshape(shape) if code == _ARRAY else batch.columns[0]
