"""JSON lines, fast where the lines are plain and exact everywhere.

Arrow parses a run of lines at once but gives up on the whole run at the first line it does not like, and it is laxer
than the standard in a few places. So a run goes through Arrow only if every line of it can be trusted there; a run that
cannot is halved, and what remains is read line by line. To set Arrow up costs as much as hundreds of lines, so a few are
read into Python values at once. Python's json module is the definition of all three.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json
from numpy.typing import NDArray

from streams.files.file_blocks import RecordBlock
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.files.objections import shown
from streams.files.record_kernels import count_keys, deepest_bracket, plain_lines

__all__ = [
    "FEW_LINES",
    "MAX_DEPTH",
    "Repeated",
    "first_types",
    "is_unicode",
    "load_few",
    "load_line",
    "parse_run",
    "parse_runs",
    "trusted_lines",
]

#: How deep brackets may be nested; Python's parser has a limit that depends on who calls it.
MAX_DEPTH = 200

#: Runs up to this length are read line by line when Arrow does not take them.
_SHORT_RUN = 32

#: Blocks up to this length are worth less than Arrow's set-up.
FEW_LINES = 500

#: What Arrow parses at a time, on as many threads as it has.
_ARROW_BLOCK = 1 << 20

_DECODER = msgspec.json.Decoder()

Part = TypeVar("Part")


class Repeated(dict[str, Any]):
    """A JSON object that gives some of its fields more than once."""

    fields: frozenset[str] = frozenset()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    repeated = Repeated(record)
    counts = Counter(name for name, _ in pairs)
    repeated.fields = frozenset(name for name, count in counts.items() if count > 1)
    return repeated


def load_line(line: bytes, form: ByteForm = PLAIN_BYTES) -> dict[str, Any] | str:
    """Return the JSON object of a line, or the reason why it has none."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} of the line is {form.unreadable}"
    if _brackets(text) > MAX_DEPTH and (depth := deepest_bracket(np.frombuffer(line, np.uint8))) > MAX_DEPTH:
        return f"not read: brackets are nested {depth} deep, at most {MAX_DEPTH} are"
    try:
        record = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at place {error.pos + 1} of the line"
    except ValueError as error:  # a number with thousands of digits
        return f"not JSON: {error}"
    return record if isinstance(record, dict) else f"{shown(record)} is not a JSON object"


def _brackets(text: str) -> int:
    return text.count("[") + text.count("{")


def is_unicode(text: str) -> bool:
    """Tell whether a string can be written as UTF-8; JSON can escape halves of characters, which cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def trusted_lines(block: RecordBlock) -> NDArray[np.bool_]:
    """Tell which lines Arrow reads as Python does, if it reads them at all.

    Not those that it would take for less or more than one object (they must begin and end with a brace), whose nesting
    may be too deep, or that are not UTF-8; and not those with a literal NaN or Inf, which would go unnoticed in a field
    that is ignored.
    """
    plain = np.empty(len(block), np.bool_)
    raw = block.data.tobytes()
    plain_lines(block.data, block.start, block.stop, MAX_DEPTH, b"NaN" in raw or b"Inf" in raw, plain)
    return plain & ~block.not_utf8()


def parse_run(block: RecordBlock, first: int, stop: int, schema: pa.Schema) -> pa.Table | None:
    """Parse trusted lines with Arrow, without the fields that the schema does not have.

    None where it does not take all lines for what the schema says.
    """
    lines = pa.py_buffer(block.data[block.start[first] : block.stop[stop - 1]])
    longest = int(block.size[first:stop].max())
    reading = pyarrow.json.ReadOptions(block_size=max(_ARROW_BLOCK, 2 * longest + 2))
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(pa.BufferReader(lines), read_options=reading, parse_options=parsing)
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == stop - first else None


def load_few(block: RecordBlock, first: int, stop: int) -> list[dict[str, Any]] | None:
    """Return the JSON objects of trusted lines; None where that might be less than `load_line` says of them.

    A line that begins with a brace does not go on with what the line before has begun, so as many values as lines are one a
    line. That a field is given more than once is seen by the number of keys.
    """
    data = block.data[block.start[first] : block.stop[stop - 1]]
    try:
        records: list[dict[str, Any]] = _DECODER.decode_lines(data.tobytes())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(records) != stop - first or sum(map(len, records)) != count_keys(data):
        return None
    return records


def parse_runs(
    block: RecordBlock,
    fast: Callable[[int, int], Part | None],
    exact: Callable[[int, int], Part],
) -> list[Part]:
    """Parse a block in runs of lines, in order: each by `fast`, or by `exact` where `fast` gives up or may not try."""
    trusted = trusted_lines(block)
    parts: list[Part] = []
    runs = [(0, len(block))]
    while runs:
        first, stop = runs.pop()
        part = fast(first, stop) if trusted[first:stop].all() else None
        if part is not None:
            parts.append(part)
        elif stop - first <= _SHORT_RUN:
            parts.append(exact(first, stop))
        else:
            middle = (first + stop) // 2
            runs += [(middle, stop), (first, middle)]
    return parts


def first_types(block: RecordBlock, row: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Tell the Arrow types of fields that may be numbers or strings, by one line of a run."""
    record = load_line(block.record(row))
    found = record if isinstance(record, dict) else {}
    return {name: pa.string() if isinstance(found.get(name), str) else pa.int64() for name in names}
