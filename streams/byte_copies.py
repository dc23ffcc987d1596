"""Short stretches of bytes, copied sixteen at a time: a loop over bytes costs more than everything else there is to a line."""

from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = ["SLACK", "copied", "padded"]

Bytes = NDArray[np.uint8]

#: So many bytes behind the last one are read and written too.
SLACK = 16


def _copy_16(typing_context: Any, source: Any, start: Any, out: Any, at: Any) -> Any:
    """Copy ``source[start : start + 16]`` to ``out[at : at + 16]``, wherever both begin."""
    from llvmlite import ir

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(ir.IntType(8), SLACK).as_pointer()
        pointers = []
        for array, place in ((0, 1), (2, 3)):
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            pointers.append(builder.bitcast(builder.gep(data, [arguments[place]]), wide))
        builder.store(builder.load(pointers[0], align=1), pointers[1], align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, out, types.int64), generate


def _copy_16_slowly(source: Any, start: Any, out: Any, at: Any) -> None:
    """Stand in for `_copy_16` where kernels run as plain Python."""
    out[at : at + SLACK] = source[start : start + SLACK]


copy_16: Any = _copy_16_slowly if config.DISABLE_JIT else intrinsic(_copy_16)  # type: ignore[attr-defined]


@lean_kernel
def copied(source: Bytes, start: Any, length: Any, out: Bytes, at: Any) -> Any:
    """Copy bytes between arrays that both have `SLACK` behind them, and return the place behind the copy."""
    for k in range(0, length, SLACK):
        copy_16(source, np.int64(start + k), out, np.int64(at + k))
    return at + length


def padded(data: Bytes) -> Bytes:
    """Return a copy of bytes that `copied` may read."""
    return np.concatenate([data, np.zeros(SLACK, np.uint8)])
