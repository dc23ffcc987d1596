"""Sixteen numbers at a time: the vector instructions that kernels need and numpy has no word for.

Balls and boxes lie in rows of sixteen, field by field, so one instruction compares a field of all of them. What comes back is
a mask, a bit for each. Rows are read whole: behind the last one there must be room for another. An array is flat, of float32.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "LANES", "balls_around", "boxes_around", "greatest", "greatest_edge", "least", "least_edge", "lowest",
    "same_as", "scored_balls_around",
]  # fmt: skip

#: Numbers that are compared at a time.
LANES = 16


class _Rows:
    """Writes instructions over rows of sixteen."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        from llvmlite import ir

        self.ir, self.builder = ir, builder
        self.row = ir.VectorType(ir.FloatType(), LANES)
        self.data = context.make_array(array_type)(context, builder, array).data

    def load(self, index: Any, rows: int, stride: Any) -> Any:
        """Read the row that lies so many strides behind an index."""
        far = self.builder.mul(stride, self.ir.Constant(self.ir.IntType(64), rows))
        place = self.builder.gep(self.data, [self.builder.add(index, far)])
        return self.builder.load(self.builder.bitcast(place, self.row.as_pointer()), align=4)

    def spread(self, number: Any) -> Any:
        """Return a row that has one number sixteen times."""
        nothing, zero = self.ir.Constant(self.row, self.ir.Undefined), self.ir.Constant(self.ir.IntType(32), 0)
        places = self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(self.builder.insert_element(nothing, number, zero), nothing, places)

    def root(self, row: Any) -> Any:
        """Return square roots."""
        return self.builder.call(self._intrinsic("llvm.sqrt.v16f32", self.row), [row])

    def extreme(self, row: Any, count: Any, *, upper: bool) -> Any:
        """Return the least or the greatest of the first numbers of a row."""
        wide = self.ir.VectorType(self.ir.IntType(32), LANES)
        zero, nothing = self.ir.Constant(self.ir.IntType(32), 0), self.ir.Constant(wide, self.ir.Undefined)
        many = self.builder.insert_element(nothing, self.builder.trunc(count, self.ir.IntType(32)), zero)
        many = self.builder.shuffle_vector(many, nothing, self.ir.Constant(wide, [0] * LANES))
        counted = self.builder.icmp_signed("<", self.ir.Constant(wide, list(range(LANES))), many)
        neutral = self.spread(self.ir.Constant(self.ir.FloatType(), -np.inf if upper else np.inf))
        name = f"llvm.vector.reduce.{'fmax' if upper else 'fmin'}.v16f32"
        chosen = self.builder.select(counted, row, neutral)
        return self.builder.call(self._intrinsic(name, self.ir.FloatType()), [chosen])

    def _intrinsic(self, name: str, result: Any) -> Any:
        kind = self.ir.FunctionType(result, [self.row])
        return cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]

    def mask(self, truths: Any) -> Any:
        """Return truths as the bits of a number."""
        return self.builder.zext(self.builder.bitcast(truths, self.ir.IntType(LANES)), self.ir.IntType(64))


def _balls_around(
    typing_context: Any, array: Any, index: Any, stride: Any, dimensions: Any, a: Any, b: Any, c: Any
) -> Any:
    """Tell which balls a point is in: rows of a coordinate each, and then the square of how far they reach."""
    real, whole = types.float32, types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, at, step, count, *point = arguments
        rows = _Rows(context, builder, signature.args[0], data)

        def square(number: int) -> Any:
            off = builder.fsub(rows.load(at, number, step), rows.spread(point[number]))
            return builder.fmul(off, off)

        plane = builder.icmp_signed("==", count, count.type(2))
        flat = builder.fadd(square(0), square(1))
        far = builder.select(plane, flat, builder.fadd(flat, square(2)))
        reach = builder.select(plane, rows.load(at, 2, step), rows.load(at, 3, step))
        return rows.mask(builder.fcmp_ordered("<", far, reach))

    return whole(array, whole, whole, whole, real, real, real), generate


def _scored_balls_around(
    typing_context: Any, array: Any, signs: Any, index: Any, stride: Any, a: Any, b: Any, weight: Any, norm: Any, bits: Any
) -> Any:  # fmt: skip
    """Tell which balls of `operators.indexes.topk.balls` a message is in: rows of two coordinates, two factors and a start.

    `signs` are int32: where one has none of the `bits`, its second factor does not count.
    """
    real, whole = types.float32, types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        data, marks, at, step, *message, chosen = arguments
        rows = _Rows(context, builder, signature.args[0], data)
        at_u, at_v, of_word, of_rest = (rows.spread(number) for number in message)
        wide = ir.VectorType(ir.IntType(32), LANES)
        first = builder.gep(context.make_array(signature.args[1])(context, builder, marks).data, [at])
        signed = builder.load(builder.bitcast(first, wide.as_pointer()), align=4)
        zero, nothing = ir.Constant(ir.IntType(32), 0), ir.Constant(wide, ir.Undefined)
        bits_row = builder.insert_element(nothing, chosen, zero)
        bits_row = builder.shuffle_vector(bits_row, nothing, ir.Constant(wide, [0] * LANES))
        shared = builder.icmp_signed("!=", builder.and_(signed, bits_row), ir.Constant(wide, [0] * LANES))
        none = rows.spread(ir.Constant(ir.FloatType(), 0.0))
        rest = builder.select(shared, builder.fmul(rows.load(at, 3, step), of_rest), none)
        radius = builder.fadd(builder.fadd(builder.fmul(rows.load(at, 2, step), of_word), rows.load(at, 4, step)), rest)
        across, up = builder.fsub(rows.load(at, 0, step), at_u), builder.fsub(rows.load(at, 1, step), at_v)
        far = builder.fadd(builder.fmul(across, across), builder.fmul(up, up))
        near = builder.fcmp_ordered(">=", builder.fmul(radius, radius), far)
        return rows.mask(builder.and_(builder.fcmp_ordered(">=", radius, none), near))

    return whole(array, signs, whole, whole, real, real, real, real, types.int32), generate


def _boxes_around(typing_context: Any, array: Any, index: Any, dimensions: Any, a: Any, b: Any, c: Any) -> Any:
    """Tell which boxes a point is in: coordinate by coordinate a row of lower bounds and one of upper ones."""
    real, whole = types.float32, types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, at, count, *point = arguments
        rows = _Rows(context, builder, signature.args[0], data)
        step = at.type(LANES)

        def between(number: int) -> Any:
            place = rows.spread(point[number])
            low = builder.fcmp_ordered("<=", rows.load(at, 2 * number, step), place)
            return builder.and_(low, builder.fcmp_ordered("<=", place, rows.load(at, 2 * number + 1, step)))

        plane = builder.icmp_signed("==", count, count.type(2))
        flat = builder.and_(between(0), between(1))
        return rows.mask(builder.select(plane, flat, builder.and_(flat, between(2))))

    return whole(array, whole, whole, real, real, real), generate


def _same_as(typing_context: Any, array: Any, index: Any, number: Any) -> Any:
    """Tell which of sixteen int32 are a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        data, at, wanted = arguments
        wide = ir.VectorType(ir.IntType(32), LANES)
        first = builder.gep(context.make_array(signature.args[0])(context, builder, data).data, [at])
        row = builder.load(builder.bitcast(first, wide.as_pointer()), align=4)
        zero, nothing = ir.Constant(ir.IntType(32), 0), ir.Constant(wide, ir.Undefined)
        sought = builder.insert_element(nothing, wanted, zero)
        sought = builder.shuffle_vector(sought, nothing, ir.Constant(wide, [0] * LANES))
        same = builder.icmp_signed("==", row, sought)
        return builder.zext(builder.bitcast(same, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(array, types.int64, types.int32), generate


def _lowest(typing_context: Any, mask: Any) -> Any:
    """Return the place of the lowest bit of a mask that has one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _extreme(*, upper: bool) -> Callable[..., Any]:
    def extreme(typing_context: Any, array: Any, index: Any, count: Any) -> Any:
        """Return the least, or the greatest, of the first numbers of a row."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data, at, many = arguments
            rows = _Rows(context, builder, signature.args[0], data)
            return rows.extreme(rows.load(at, 0, at), many, upper=upper)

        return types.float32(array, types.int64, types.int64), generate

    return extreme


def _edge(*, upper: bool) -> Callable[..., Any]:
    def edge(typing_context: Any, array: Any, index: Any, reach: Any, count: Any) -> Any:
        """Return where the first balls of a row begin, or end, in one coordinate; of their reach the square is given."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data, at, far, many = arguments
            rows = _Rows(context, builder, signature.args[0], data)
            middle, radius = rows.load(at, 0, at), rows.root(rows.load(far, 0, far))
            ends = builder.fadd(middle, radius) if upper else builder.fsub(middle, radius)
            return rows.extreme(ends, many, upper=upper)

        return types.float32(array, types.int64, types.int64, types.int64), generate

    return edge


def _plain_balls(array: Any, index: int, stride: int, dimensions: int, *point: Any) -> int:
    """Stand in for `balls_around` where kernels run as plain Python."""
    far = np.zeros(LANES, np.float32)
    for number in range(dimensions):
        start = index + number * stride
        far += (array[start : start + LANES] - np.float32(point[number])) ** 2
    start = index + dimensions * stride
    return _bits(far < array[start : start + LANES])


def _plain_scored_balls(
    array: Any, signs: Any, index: int, stride: int, a: Any, b: Any, weight: Any, norm: Any, bits: Any
) -> int:
    """Stand in for `scored_balls_around` where kernels run as plain Python."""
    flat = array.ravel()
    u, v, own, rest, start = (flat[index + row * stride :][:LANES] for row in range(5))
    rest = np.where(signs.ravel()[index:][:LANES] & bits != 0, rest * np.float32(norm), np.float32(0.0))
    radius = own * np.float32(weight) + start + rest
    far = (u - np.float32(a)) ** 2 + (v - np.float32(b)) ** 2
    return _bits((radius >= 0) & (radius * radius >= far))


def _plain_same(array: Any, index: int, number: int) -> int:
    """Stand in for `same_as` where kernels run as plain Python."""
    return _bits(array.ravel()[index:][:LANES] == number)


def _plain_boxes(array: Any, index: int, dimensions: int, *point: Any) -> int:
    """Stand in for `boxes_around` where kernels run as plain Python."""
    inside = np.ones(LANES, np.bool_)
    for number in range(dimensions):
        low, high = (index + (2 * number + bound) * LANES for bound in (0, 1))
        inside &= (array[low : low + LANES] <= point[number]) & (point[number] <= array[high : high + LANES])
    return _bits(inside)


def _bits(truths: Any) -> int:
    return int(np.flatnonzero(truths).astype(np.int64).__rpow__(2).sum())


def _plain_lowest(mask: int) -> int:
    """Stand in for `lowest` where kernels run as plain Python."""
    return (int(mask) & -int(mask)).bit_length() - 1


def _plain_extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda array, index, count: choose(array[index : index + count])


def _plain_edge(choose: Callable[..., Any], sign: float) -> Callable[..., Any]:
    def edge(array: Any, index: int, reach: int, count: int) -> Any:
        return choose(array[index : index + count] + np.float32(sign) * np.sqrt(array[reach : reach + count]))

    return edge


def _instruction(generator: Callable[..., Any], plain: Callable[..., Any]) -> Any:
    return plain if config.DISABLE_JIT else intrinsic(generator)  # type: ignore[attr-defined]


balls_around: Any = _instruction(_balls_around, _plain_balls)
scored_balls_around: Any = _instruction(_scored_balls_around, _plain_scored_balls)
boxes_around: Any = _instruction(_boxes_around, _plain_boxes)
same_as: Any = _instruction(_same_as, _plain_same)
lowest: Any = _instruction(_lowest, _plain_lowest)
least: Any = _instruction(_extreme(upper=False), _plain_extreme(np.min))
greatest: Any = _instruction(_extreme(upper=True), _plain_extreme(np.max))
least_edge: Any = _instruction(_edge(upper=False), _plain_edge(np.min, -1.0))
greatest_edge: Any = _instruction(_edge(upper=True), _plain_edge(np.max, 1.0))
