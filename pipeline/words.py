"""Columns of text or of keyword lists to the distinct words of each row.

The words are those of `streams.tokens`, so that what is prepared offline and what is read online agree.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.columns import sorted_rows
from streams.tokens import ROW_END, is_keyword, split_rows

__all__ = ["SEPARATOR", "joined", "listed_words", "separated", "split_words", "word_lists"]

#: Between the words of a row where they travel as one string: a row of many short lists is what Java is slowest at.
#: No token has it, and a listed keyword that does is rejected.
SEPARATOR = ROW_END


def word_lists(texts: list[str]) -> pa.ListArray:
    """Return the distinct keywords of each text, exactly those of `streams.tokens.tokenise`.

    Each token becomes the place of its word in a dictionary first, so that a word is judged once a batch and rows are
    made distinct on integers.
    """
    coded = pa.array(split_rows(texts), pa.string()).dictionary_encode()
    words = coded.dictionary.to_pylist()
    judged = [-2 if word == ROW_END else place if is_keyword(word) else -1 for place, word in enumerate(words)]
    codes = np.array(judged, np.int64)[coded.indices.to_numpy(zero_copy_only=False)]
    row = np.cumsum(codes == -2)
    keep = codes >= 0
    off, values = sorted_rows(row[keep], codes[keep], len(texts))
    return pa.ListArray.from_arrays(pa.array(off), coded.dictionary.take(pa.array(values)))


def split_words(texts: list[str]) -> pa.ListArray:
    """Return the keywords of a column that lists them in one string with spaces between, as CSV files do."""
    return listed_words(pa.array([text.split() for text in texts], pa.list_(pa.string())))


def listed_words(column: pa.ListArray) -> pa.ListArray:
    """Return lists of keywords case-folded, distinct and without empty ones; each keyword is taken whole."""
    column = column.fill_null([]) if column.null_count else column
    coded = column.flatten().dictionary_encode()
    folded = pa.array([(word or "").casefold() for word in coded.dictionary.to_pylist()], pa.string())
    merged = folded.dictionary_encode()
    codes = merged.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    words = merged.dictionary.to_pylist()
    empty = np.array([word == "" for word in words] + [True])
    values = np.where(places >= 0, codes[places] if len(codes) else 0, len(words))
    row = np.repeat(np.arange(len(column)), column.value_lengths().to_numpy(zero_copy_only=False))
    keep = ~empty[values]
    off, distinct = sorted_rows(row[keep], values[keep], len(column))
    return pa.ListArray.from_arrays(pa.array(off), merged.dictionary.take(pa.array(distinct)))


def joined(lists: pa.ListArray) -> pa.StringArray:
    """Return each row's words as one string, `SEPARATOR` between them."""
    return pc.binary_join(lists, SEPARATOR)


def separated(column: pa.StringArray) -> pa.ListArray:
    """Return what `joined` put together; a row without words is an empty list."""
    filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    return pc.split_pattern(filled, SEPARATOR).fill_null([])
