"""State of operators as bytes: msgpack with arrays, identifiers, batches, tuples, sets and large integers; no pickle."""

from typing import Any

import msgpack
import numpy as np

from streams.batches import TupleBatch, _Columns
from streams.codec import decode, encode, unpack_plain
from streams.columns import Ids
from streams.errors import CodecError

__all__ = ["pack_state", "unpack_state"]

_BATCH, _COLUMN, _TUPLE, _SET, _INT, _ARRAY = range(1, 7)
_MAX_BYTES = 2**31 - 1
#: Of the buffer that a state is packed into: its least size, and what goes with an array. Larger dicts hold no large arrays.
_SMALLEST_BUFFER, _HEAD_BYTES, _FEW = 1 << 10, 256, 64


def _extend(value: Any) -> msgpack.ExtType:
    if isinstance(value, _Columns | TupleBatch):
        return _extension(_BATCH, b"".join(encode([("", value)])))  # type: ignore[list-item]
    if isinstance(value, Ids):
        return _extension(_COLUMN, b"".join(encode([("", TupleBatch(("_",), (value,)))])))
    if isinstance(value, np.ndarray):
        flat = TupleBatch(("_",), (np.ascontiguousarray(value).reshape(-1),))
        return _extension(_ARRAY, b"".join(encode([("", flat)], list(value.shape))))
    if isinstance(value, tuple):
        return _extension(_TUPLE, pack_state(list(value)))
    if isinstance(value, set | frozenset):
        return _extension(_SET, pack_state(sorted(value)))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int):
        return msgpack.ExtType(_INT, str(value).encode())
    raise CodecError(
        f"state holds a {type(value).__name__}, which cannot be saved; use numbers, strings, lists or arrays"
    )


def _extension(code: int, data: bytes) -> msgpack.ExtType:
    """Return one value; larger ones than could be unpacked again are refused."""
    if len(data) > _MAX_BYTES:
        raise CodecError(f"state holds a value of {len(data):,} bytes, more than can be saved ({_MAX_BYTES:,})")
    return msgpack.ExtType(code, data)


def _contract(code: int, data: bytes) -> Any:
    if code in (_BATCH, _COLUMN, _ARRAY):
        meta, [(_, batch)] = decode(data)
        if code == _BATCH:
            return batch
        assert isinstance(batch, TupleBatch)
        return batch.columns[0].reshape(meta) if code == _ARRAY else batch.columns[0]
    if code == _TUPLE:
        return tuple(unpack_state(data))
    if code == _SET:
        return set(unpack_state(data))
    if code == _INT:
        return int(data)
    raise CodecError(f"state of an unknown kind ({code})")


def _room(value: Any) -> int:
    """Return about how many bytes the large arrays of a state take: a buffer that need not grow is several times faster."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + _HEAD_BYTES
    if isinstance(value, Ids):
        return _room(value.values) if isinstance(value.values, np.ndarray) else 0
    if isinstance(value, dict) and len(value) <= _FEW:
        return sum(map(_room, value.values()))
    return 0


def pack_state(state: Any) -> bytes:
    """Return state as bytes."""
    try:
        packer = msgpack.Packer(default=_extend, strict_types=True, buf_size=_SMALLEST_BUFFER + _room(state))
        packed: bytes = packer.pack(state)
    except (ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"state cannot be saved: {error}; use smaller values, and nothing nested deep") from error
    return packed


def unpack_state(data: bytes) -> Any:
    """Return the state that was packed; raise `CodecError` for anything else."""
    try:
        return unpack_plain(data, ext_hook=_contract, max_ext_len=_MAX_BYTES)
    except CodecError:
        raise
    except Exception as error:  # whatever bytes of another make trip over: it is one and the same fault
        raise CodecError(f"not a saved state: {type(error).__name__}: {str(error)[:200]}") from error
