"""The keywords of objects as files have them: prepared ids, lists of words, or text to be tokenised.

A record that has several of these counts by the first it has, in this order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.columns import Ints, Offsets, csr_concat, csr_take
from streams.files.objections import Objections
from streams.tokens import tokenise
from streams.vocabulary import UNSEEN_BASE, Encoder
from streams.word_table import distinct_rows

__all__ = ["KeywordColumns", "KeywordKind"]

KeywordKind = Literal["ids", "keywords", "text"]

_IDS, _LISTS, _TEXTS = pa.list_(pa.int64()), pa.list_(pa.string()), pa.string()

Ragged = tuple[Offsets, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class KeywordColumns:
    """Three Arrow columns of which each row has a value in at most one; a column without values is None."""

    rows: int
    ids: Any
    lists: Any
    texts: Any

    @classmethod
    def of(cls, rows: int, ids: Any = None, lists: Any = None, texts: Any = None) -> "KeywordColumns":
        """Make columns of what a file has; a later column loses the rows that an earlier one has."""
        kept: list[Any] = []
        taken = None
        for column in (ids, lists, texts):
            if column is None or column.null_count == rows:
                kept.append(None)
                continue
            if taken is not None:
                column = pc.if_else(taken, pa.scalar(None, column.type), column)
            valid = column.is_valid()
            taken = valid if taken is None else pc.or_(taken, valid)
            kept.append(column)
        return cls(rows, *kept)

    @property
    def kind(self) -> KeywordKind | None:
        """What the rows have, the first of several; None where no row has any."""
        if self.ids is not None:
            return "ids"
        if self.lists is not None:
            return "keywords"
        return None if self.texts is None else "text"

    def _present(self) -> Iterator[tuple[Any, Callable[[Any, Encoder], Ragged], Callable[[Any], int]]]:
        """Yield each column that has values, how to encode it, and how to count the keywords of one value."""
        if self.ids is not None:
            yield self.ids, lambda column, _: _encode_ids(column), lambda ids: len(set(ids))
        if self.lists is not None:
            yield self.lists, lambda column, by: by.lists(column), lambda words: len({w.casefold() for w in words if w})
        if self.texts is not None:
            yield self.texts, lambda column, by: by.texts(column), lambda text: len(tokenise(text))

    def take(self, rows: NDArray[np.integer]) -> "KeywordColumns":
        """Return the columns of these rows."""
        places = pa.array(rows)
        taken = [None if c is None else c.take(places) for c in (self.ids, self.lists, self.texts)]
        return KeywordColumns(len(rows), *taken)

    @classmethod
    def concat(cls, parts: list["KeywordColumns"]) -> "KeywordColumns":
        """Put columns one after the other."""

        def joined(name: str, kind: Any) -> Any:
            columns = [(getattr(part, name), part.rows) for part in parts]
            if all(column is None for column, _ in columns):
                return None
            return pa.concat_arrays([pa.nulls(rows, kind) if c is None else c for c, rows in columns])

        rows = sum(part.rows for part in parts)
        return cls(rows, joined("ids", _IDS), joined("lists", _LISTS), joined("texts", _TEXTS))

    def encode(self, encoder: Encoder) -> Ragged:
        """Return the keyword ids of each row, ascending and distinct."""
        parts = [(column, encode(column, encoder)) for column, encode, _ in self._present()]
        if not parts:
            return np.zeros(self.rows + 1, np.int32), np.empty(0, np.int64)
        if len(parts) == 1:
            return parts[0][1]
        source = np.arange(self.rows)
        for place, (column, _) in enumerate(parts):
            source[column.is_valid().to_numpy(zero_copy_only=False)] += place * self.rows
        return csr_take(*csr_concat([ragged for _, ragged in parts]), source)

    def note_objections(self, objections: Objections, most: int) -> None:
        """Note the rows with a null or a negative id among their keywords, and those with too many."""
        if self.lists is not None and (empty := self.lists.flatten()).null_count:
            objections.note(_rows_with(self.lists, empty.is_null()), lambda _: "keywords has a null among its words")
        if self.ids is not None:
            unusable = pc.less(self.ids.flatten(), 0).fill_null(True)
            if pc.any(unusable, min_count=0).as_py():
                objections.note(_rows_with(self.ids, unusable), lambda _: "keyword_ids has a null or a negative id")
        for column, _, count in self._present():
            many = np.flatnonzero(_may_exceed(column, most) & ~objections.bad)
            for row in many.tolist():
                if (found := count(column[row].as_py())) > most:
                    objections.note_row(row, f"{found} keywords, more than the limit of {most}")

    def note_unnumbered(self, objections: Objections, words: int) -> None:
        """Note the rows with an id that none of so many words has, and that is no hash of a word either."""
        if self.ids is None:
            return
        ids = self.ids.flatten()
        most = pc.max(ids).as_py()
        if most is None or most < words:
            return
        unknown = pc.and_(pc.greater_equal(ids, words), pc.less(ids, UNSEEN_BASE)).fill_null(False)
        objections.note(_rows_with(self.ids, unknown), lambda row: _unnumbered(self.ids[row].as_py(), words))


def _unnumbered(ids: list[int], words: int) -> str:
    found = next(one for one in ids if one is not None and words <= one < UNSEEN_BASE)
    return (
        f"keyword_ids has {found}, but the vocabulary has {words} words; set topology.vocabulary to the prepared data set "
        "that the ids come from, or give words as keywords"
    )


def _encode_ids(column: Any) -> Ragged:
    off = np.zeros(len(column) + 1, np.int64)
    np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), out=off[1:])
    return distinct_rows(off, column.flatten().to_numpy(zero_copy_only=False))


def _rows_with(column: Any, values: Any) -> NDArray[np.bool_]:
    """Tell which lists have one of these of their values."""
    parents = pc.list_parent_indices(column).to_numpy()
    rows = np.zeros(len(column), np.bool_)
    rows[parents[values.to_numpy(zero_copy_only=False)]] = True
    return rows


def _size(column: Any) -> int:
    """Return how many keywords all values together may have at most."""
    whole: Any = column.buffers()
    if pa.types.is_string(column.type):
        return 0 if whole[2] is None else -(-whole[2].size * 4 // 3)
    return len(column.values)


def _may_exceed(column: Any, most: int) -> NDArray[np.bool_]:
    """Tell which values are so long that they might have more keywords than `most`.

    Three bytes of text make at most four words (NFKC turns U+FDFA into four).
    """
    if _size(column) <= most:
        return np.zeros(len(column), np.bool_)
    if pa.types.is_string(column.type):
        return np.asarray(pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False) * 4 > most * 3)
    return np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) > most)
