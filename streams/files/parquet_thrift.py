"""The headers and the footer of a Parquet file in Thrift's compact protocol (parquet.thrift of the format's repository).

A value is its kind and its bytes; a struct is made of values by the number of their field:

    struct   fields, each a byte (step of the field's number << 4 | kind) and the value; a byte 0 ends it
    integer  zigzag, seven bits a byte, the lowest first
    text     its length (not zigzag), then its bytes
    list     a byte (length << 4 | kind), or 15 as length and then the length (not zigzag); then the values
"""

from collections.abc import Mapping, Sequence

__all__ = ["Value", "integer", "listed", "long", "short", "struct", "text", "varint"]

_I16, _I32, _I64, _TEXT, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
_MOST_SHORT = 15

#: The kind of a value, and its bytes.
Value = tuple[int, bytes]


def varint(value: int) -> bytes:
    """Return a number that is not negative, seven bits a byte."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else -value * 2 - 1)


def short(value: int) -> Value:
    """Return an integer of 16 bits."""
    return _I16, _zigzag(value)


def integer(value: int) -> Value:
    """Return an integer of 32 bits, or a member of an enumeration."""
    return _I32, _zigzag(value)


def long(value: int) -> Value:
    """Return an integer of 64 bits."""
    return _I64, _zigzag(value)


def text(value: str | bytes) -> Value:
    """Return a text, or bytes."""
    data = value.encode() if isinstance(value, str) else value
    return _TEXT, varint(len(data)) + data


def listed(values: Sequence[Value]) -> Value:
    """Return a list of values of one kind; where there are none, of structs."""
    kind, count = values[0][0] if values else _STRUCT, len(values)
    head = bytes([count << 4 | kind]) if count < _MOST_SHORT else bytes([_MOST_SHORT << 4 | kind]) + varint(count)
    return _LIST, head + b"".join(data for _, data in values)


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Return a struct of fields by number, in ascending order; what is None is not there."""
    out, last = bytearray(), 0
    for number, value in fields.items():
        if value is None:
            continue
        kind, data = value
        step = number - last
        out += bytes([step << 4 | kind]) if step <= _MOST_SHORT else bytes([kind]) + _zigzag(number)
        out += data
        last = number
    return _STRUCT, bytes(out) + b"\0"
