"""Raw records to clean columns: types, checks and tokens, a batch of Arrow columns at a time.

No Spark in here: the functions run inside Spark's Python workers and, for tests, anywhere. A record that cannot be used
keeps its place and gets a kind and a sentence that says what was found.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.split_rows import SplitRows, source_numbers
from pipeline.words import SEPARATOR, joined, listed_words, split_words, word_lists
from streams.geometry import Rect
from streams.timestamps import TIME_EXPECTED, read_times

__all__ = ["CLEAN_DDL", "CLEAN_SCHEMA", "MAX_KEYWORDS", "MAX_TEXT_BYTES", "NO_TS", "TORN", "Cleaner", "Rules"]

#: A text longer than this is most likely an unclosed quote that swallowed a file.
MAX_TEXT_BYTES = 1 << 20
MAX_KEYWORDS = 65_536

#: The kind of a record whose only fault is that it has no time: it is used where no record of the data has one.
NO_TS = "no ts"

#: The kind of a line of CSV that is only a part of its record: the file is read again in another way.
TORN = "torn record"

CLEAN_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("id_number", pa.bool_()),
        ("ts", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("words", pa.string()),
        ("word_count", pa.int32()),
        ("text", pa.string()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("source", pa.int32()),
        ("block", pa.int64()),
        ("row", pa.int64()),
    ]
)

#: The same schema in Spark's words.
CLEAN_DDL = (
    "id string, id_number boolean, ts bigint, x double, y double, words string, word_count int, "
    "text string, kind string, reason string, source int, block bigint, row bigint"
)

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rules:
    """What makes a record usable, and what is kept of it.

    Attributes:
        space: objects outside are rejected; None accepts every place.
        geographic: the coordinates are degrees, so a latitude beyond 90 is an error of the source.
        keep_text: hand on the text next to its words.
        listed: the words come as a list of keywords, each taken whole, instead of a text.
        latin: the bytes of the source were read as Latin-1 characters, one each, and must be turned back.
    """

    space: Rect | None = None
    geographic: bool = False
    keep_text: bool = False
    listed: bool = False
    latin: bool = False


class _Verdict:
    """The first fault found of each row of a batch."""

    def __init__(self, rows: int) -> None:
        self.usable: Flags = np.ones(rows, np.bool_)
        self.kinds: list[str | None] = [None] * rows
        self.reasons: list[str | None] = [None] * rows

    def reject(self, at_fault: Flags, kind: str, sentence: str, found: Callable[[int], Any] | None = None) -> None:
        """Note a fault of the rows that have none yet; the sentence quotes what `found` gives for a row."""
        for row in np.flatnonzero(at_fault & self.usable).tolist():
            self.kinds[row] = kind
            self.reasons[row] = sentence.format(_quoted(found(row))) if found else sentence
            self.usable[row] = False


class Cleaner:
    """Cleans the batches of one Spark task, which arrive in the order of the files it reads."""

    def __init__(self, rules: Rules, sources: Mapping[str, int]) -> None:
        self._rules = rules
        self._sources = sources
        self._splits = SplitRows()

    def clean(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn raw batches into batches of `CLEAN_SCHEMA`.

        A raw batch has `id`, `id_kind`, `ts`, `x`, `y`, `words` (text or a list), `broken` (the record where it could
        not be parsed), `valid` (false where its bytes are not UTF-8), `path`, `block` and `place`; lines of CSV also have
        `torn`.
        """
        for batch in batches:
            if batch.num_rows:
                yield self._clean(batch)

    def _clean(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._rules.latin:
            batch = _as_in_the_source(batch)
        verdict = _Verdict(batch.num_rows)
        source, block, row = self._places(batch)
        verdict.reject(~_flags(batch["valid"], True), "bad utf-8", "the record is not UTF-8; convert the file to UTF-8")
        if "torn" in batch.schema.names:
            verdict.reject(_flags(batch["torn"], False), TORN, "the record goes over the end of its line")
        broken = batch["broken"]
        verdict.reject(_present(broken), "unreadable record", "the record cannot be parsed: {}", broken.__getitem__)
        ids, id_number = _ids(batch, verdict)
        x = self._coordinate(batch["x"], "x", verdict)
        y = self._coordinate(batch["y"], "y", verdict)
        self._check_place(x, y, verdict)
        words, word_count, text = self._words(batch["words"], verdict)
        ts = _timestamps(batch["ts"], verdict)
        columns = [
            ids,
            pa.array(id_number),
            ts,
            pa.array(x),
            pa.array(y),
            words,
            word_count,
            text,
            pa.array(verdict.kinds, pa.string()),
            pa.array(verdict.reasons, pa.string()),
            source,
            block,
            row,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=CLEAN_SCHEMA)

    def _places(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return source, block and row: an order of all records that no partitioning changes."""
        source = source_numbers(batch["path"], self._sources)
        block = batch["block"].to_numpy(zero_copy_only=False)
        row = self._splits.rows(source, block, batch["place"].to_numpy(zero_copy_only=False))
        return pa.array(source), pa.array(block), pa.array(row)

    def _coordinate(self, column: Any, name: str, verdict: _Verdict) -> NDArray[np.float64]:
        """Return a coordinate as numbers, NaN where there is none that can be used."""
        missing = ~_present(column)
        verdict.reject(missing, "no coordinate", f"{name} is missing")
        values = _numbers(column)
        verdict.reject(
            ~missing & ~np.isfinite(values), "bad coordinate", f"{name} is {{}}, expected a number", column.__getitem__
        )
        return values

    def _check_place(self, x: NDArray[np.float64], y: NDArray[np.float64], verdict: _Verdict) -> None:
        def place(row: int) -> tuple[float, float]:
            return float(x[row]), float(y[row])

        with np.errstate(invalid="ignore"):
            if self._rules.geographic:
                off_earth = (np.abs(x) > 180.0) | (np.abs(y) > 90.0)
                verdict.reject(off_earth, "bad coordinate", "{} is no longitude and latitude in degrees", place)
            if self._rules.space is not None:
                outside = ~self._rules.space.contains(x, y)
                area = list(self._rules.space.as_tuple())
                verdict.reject(outside, "outside the space", f"{{}} is outside of the space {area}", place)

    def _words(self, column: Any, verdict: _Verdict) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return the distinct words of each row, joined, their number, and its text; rows at fault have none."""
        rows = len(column)
        if pa.types.is_list(column.type):
            torn = np.array(
                [any(SEPARATOR in (word or "") for word in row or ()) for row in column.to_pylist()], np.bool_
            )
            verdict.reject(torn, "bad keyword", "a keyword has the character U+0000, which no keyword may have")
            lists, texts = listed_words(column), None
        else:
            texts = _checked_text(column, verdict)
            lists = split_words(texts) if self._rules.listed else word_lists(texts)
        counts = lists.value_lengths().to_numpy(zero_copy_only=False)
        verdict.reject(counts > MAX_KEYWORDS, "too many keywords", f"the record has more than {MAX_KEYWORDS} keywords")
        words = joined(lists)
        if not verdict.usable.all():
            words = pc.if_else(pa.array(verdict.usable), words, "")
            counts = np.where(verdict.usable, counts, 0)
        kept = (
            pa.array(texts, pa.string()) if self._rules.keep_text and texts is not None else pa.nulls(rows, pa.string())
        )
        return words, pa.array(counts, pa.int32()), kept


def _as_in_the_source(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn Latin-1 characters back to the bytes that they were read from."""
    columns = [_latin_bytes(c) if pa.types.is_binary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _latin_bytes(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return values whose characters up to U+00FF are bytes again, the whole column at once."""
    _, offsets, data = column.buffers()
    if data is None:
        return column
    off = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    raw = memoryview(data)[off[0] : off[-1]].tobytes()
    if raw.isascii():
        return column
    lengths = pc.fill_null(pc.utf8_length(column.cast(pa.string())), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    turned = raw.decode("utf-8").encode("latin-1")
    found = pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(starts), pa.py_buffer(turned)])
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.binary())) if column.null_count else found


def _checked_text(column: Any, verdict: _Verdict) -> list[str]:
    """Return texts, empty where missing or at fault; what is not UTF-8 or too long is rejected."""
    sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    verdict.reject(sizes > MAX_TEXT_BYTES, "text too long", f"the text has more than {MAX_TEXT_BYTES} bytes")
    texts, bad = _decoded(column)
    verdict.reject(bad, "bad utf-8", "the text is not UTF-8; convert the file to UTF-8")
    if not verdict.usable.all():
        usable = verdict.usable.tolist()
        return [(text or "") if ok else "" for text, ok in zip(texts, usable, strict=True)]
    return [text or "" for text in texts]


def _decoded(column: Any) -> tuple[list[str | None], Flags]:
    """Return a column of bytes as strings, and which are not UTF-8; the whole column at once where all are."""
    try:
        return column.cast(pa.string()).to_pylist(), np.zeros(len(column), np.bool_)
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    bad = np.zeros(len(column), np.bool_)
    for row, value in enumerate(column.to_pylist()):
        try:
            texts.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError:
            bad[row] = True
            texts.append(None)
    return texts, bad


def _ids(batch: pa.RecordBatch, verdict: _Verdict) -> tuple[pa.Array, Flags]:
    """Return identifiers as strings, and which of them are integers in the source.

    `id_kind` says it where the format does (``number``, ``text``, ``other``); in CSV (null) it is a value that prints
    back as it was written, so 17 is a number and 007 is not.
    """
    column = batch["id"]
    texts, bad = _decoded(column)
    missing = ~_present(column)
    verdict.reject(bad, "bad utf-8", "the id is not UTF-8; convert the file to UTF-8")
    verdict.reject(missing & ~bad, "no id", "id is missing")
    kinds = batch["id_kind"]
    verdict.reject(_is(kinds, "other"), "bad id", "id is {}, expected a string or an integer", column.__getitem__)
    if kinds.null_count == len(kinds):
        number = np.array([text is not None and _prints_back(text) for text in texts], np.bool_)
    else:
        number = _is(kinds, "number")
    return pa.array(texts, pa.string()), number


def _prints_back(text: str) -> bool:
    if not text.isascii() or len(text) > 20 or not text.lstrip("-").isdigit():
        return False
    value = int(text) if text.count("-") <= 1 else None
    return value is not None and str(value) == text and -(2**63) <= value < 2**63


def _timestamps(column: Any, verdict: _Verdict) -> pa.Array:
    """Return event times, null where a row has none that can be read."""
    missing = ~_present(column)
    texts, bad = _decoded(column)
    ts, readable = read_times(pa.array(texts, pa.string(), mask=missing | bad))
    verdict.reject(~missing & ~readable, "bad ts", f"ts is {{}}, expected {TIME_EXPECTED}", column.__getitem__)
    verdict.reject(missing, NO_TS, "ts is missing")
    return pa.array(ts, pa.int64(), mask=~readable)


def _numbers(column: Any) -> NDArray[np.float64]:
    """Return a column as float64, NaN where a value is no number."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        try:
            texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            column = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            return np.array([_number(value) for value in column.to_pylist()], np.float64)
    return np.asarray(pc.fill_null(column.cast(pa.float64()), math.nan).to_numpy(zero_copy_only=False), np.float64)


def _number(value: bytes | str | None) -> float:
    try:
        return float(value) if value is not None else math.nan
    except ValueError:
        return math.nan


def _present(column: Any) -> Flags:
    """Tell which values are there: neither null nor empty."""
    present = pc.is_valid(column)
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        present = pc.and_(present, pc.fill_null(pc.greater(pc.binary_length(column), 0), False))
    return np.asarray(present.to_numpy(zero_copy_only=False), np.bool_)


def _flags(column: Any, default: bool) -> Flags:
    return np.asarray(pc.fill_null(column, default).to_numpy(zero_copy_only=False), np.bool_)


def _is(column: Any, value: str) -> Flags:
    return _flags(pc.equal(column, value), False)


def _quoted(value: Any) -> str:
    """Show a value of a reject, cut to what a person reads."""
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    if isinstance(plain, tuple):
        return str(plain)
    text = plain.decode("utf-8", "replace") if isinstance(plain, bytes) else str(plain)
    return repr(text if len(text) <= 80 else text[:77] + "...")
