"""Words as integers.

A prepared vocabulary numbers its words by document frequency, the most frequent first, so that a comparison of ids is a
comparison of frequencies, as the papers want it. A word outside of it gets an id that any process can compute without
asking another: 2^62 plus 62 bits of a hash of the word. Two unseen words share an id with a probability of about
n^2 / 2^63 for n of them (5e-8 for a million).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.columns import Ints, Offsets, sorted_rows
from streams.errors import InputError
from streams.tokens import ROW_END, is_keyword, split_rows

__all__ = ["UNSEEN_BASE", "Encoder", "Vocabulary", "unseen_id"]

#: Ids at or above this belong to words that the prepared vocabulary does not have.
UNSEEN_BASE = 1 << 62
_DROPPED, _ROW_END = -1, -2

#: How many words an encoder remembers before it starts afresh; a bound on memory, not on the number of words.
MAX_REMEMBERED_WORDS = 2_000_000


def unseen_id(word: str) -> int:
    """Return the id of a word that no vocabulary has: the same in every process and every run."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return UNSEEN_BASE | (int.from_bytes(digest, "little") & (UNSEEN_BASE - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words by rank, with the statistics that scores need.

    Attributes:
        words: the words, most frequent first; a word's place is its id.
        df: for each word, the number of documents that contain it.
        documents: the number of documents, the N of idf.
    """

    words: tuple[str, ...] = ()
    df: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    documents: int = 0

    def __post_init__(self) -> None:
        if len(self.df) != len(self.words):
            raise InputError(f"a vocabulary has {len(self.words)} words but {len(self.df)} document frequencies")

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def of(cls, counts: dict[str, int], documents: int) -> "Vocabulary":
        """Rank words by document frequency, ties in alphabetical order."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(tuple(w for w, _ in ranked), np.array([n for _, n in ranked], np.int64), documents)

    def idf(self, ids: Ints) -> NDArray[np.float64]:
        """Return ln(1 + N / (1 + df)) for each id; 1 for all where there are no statistics."""
        if self.documents == 0:
            return np.ones(len(ids))
        seen = ids < len(self.words)
        df = np.where(seen, self.df[np.where(seen, ids, 0)] if len(self.df) else 0, 0)
        return np.log(1.0 + self.documents / (1.0 + df))


class _Table(dict[str, int]):
    """Token to id, filled as tokens are met: what is no keyword becomes a marker."""

    __slots__ = ("_ranks",)

    def __init__(self, ranks: dict[str, int]) -> None:
        super().__init__({ROW_END: _ROW_END})
        self._ranks = ranks

    def __missing__(self, token: str) -> int:
        if is_keyword(token):
            found = self._ranks.get(token)
            found = unseen_id(token) if found is None else found
        else:
            found = _DROPPED
        self[token] = found
        return found


class Encoder:
    """Turns columns of text or of keyword lists into ragged columns of ascending, distinct keyword ids.

    It remembers the ids of the words it meets, at most `MAX_REMEMBERED_WORDS`.
    """

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self.vocabulary = vocabulary or Vocabulary()
        self._ranks = {word: rank for rank, word in enumerate(self.vocabulary.words)}
        self._table = _Table(self._ranks)

    def texts(self, texts: Sequence[str]) -> tuple[Offsets, Ints]:
        """Tokenise texts and return the keyword ids of each."""
        if len(self._table) > MAX_REMEMBERED_WORDS:
            self._table = _Table(self._ranks)
        tokens = split_rows(texts)
        ids = np.fromiter(map(self._table.__getitem__, tokens), np.int64, len(tokens))
        row = np.cumsum(ids == _ROW_END)
        keep = ids >= 0
        return sorted_rows(row[keep], ids[keep], len(texts))

    def words(self, words: Sequence[str]) -> Ints:
        """Return the ids of keywords as users give them: case-folded, otherwise taken whole."""
        ranks = self._ranks
        folded = [word.casefold() for word in words]
        return np.array([ranks[w] if w in ranks else unseen_id(w) for w in folded], np.int64)

    def lists(self, column: pa.ListArray) -> tuple[Offsets, Ints]:
        """Return the keyword ids of each list of keywords; a null list is an empty one."""
        column = column.fill_null([]) if column.null_count else column
        flat = column.flatten().dictionary_encode()
        ids = self.words(flat.dictionary.to_pylist())
        row = np.repeat(np.arange(len(column)), column.value_lengths().to_numpy(zero_copy_only=False))
        return sorted_rows(row, ids[flat.indices.to_numpy(zero_copy_only=False)], len(column))
