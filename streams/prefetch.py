"""The one instruction that kernels need and numpy has no word for."""

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``, the index counted in items of the flat array."""
    from llvmlite import ir

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")  # type: ignore[no-untyped-call]
        read, keep_in_all_caches, data_cache = (ir.Constant(int32, number) for number in (0, 3, 1))
        builder.call(instruction, [place, read, keep_in_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _no_prefetch(array: Any, index: Any) -> None:
    """Stand in for `prefetch` where kernels run as plain Python."""


#: A hint, never a read: an index outside of the array does no harm.
prefetch: Any = _no_prefetch if config.DISABLE_JIT else intrinsic(_prefetch)  # type: ignore[attr-defined]
