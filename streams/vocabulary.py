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

from streams.columns import Ints, Offsets
from streams.errors import InputError, RunError
from streams.files.read_limits import DEFAULT_LIMITS
from streams.tokens import is_keyword
from streams.word_table import WordTable, distinct_rows

__all__ = ["UNSEEN_BASE", "Encoder", "Vocabulary", "unseen_id"]

#: Ids at or above this belong to words that the prepared vocabulary does not have.
UNSEEN_BASE = 1 << 62
_DROPPED = -1


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


class Encoder:
    """Turns columns of text or of keyword lists into ragged columns of ascending, distinct keyword ids.

    Args:
        vocabulary: gives its words their ranks; all others get hashed ids.
        track_words: whether `new_words` tells which words were met.
        remember: how many words to remember the ids of, each for texts, for keywords and for `new_words`; beyond
            that the encoder starts afresh. A bound on memory, not on the number of words.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        track_words: bool = False,
        remember: int = DEFAULT_LIMITS.words,
    ) -> None:
        self.vocabulary = vocabulary or Vocabulary()
        self._ranks = {word: rank for rank, word in enumerate(self.vocabulary.words)}
        self._track = track_words
        self._remember = remember
        self._told: set[int] = set()
        self._new: dict[int, str] = {}
        self._tokens = WordTable(self._token_id, remember)
        self._keywords = WordTable(self._keyword_id, remember)

    def _word_id(self, word: str) -> int:
        found = self._ranks.get(word)
        found = unseen_id(word) if found is None else found
        if self._track and found not in self._told:
            if len(self._new) >= self._remember:
                raise RunError(
                    f"{len(self._new)} new words wait to be asked for, the most an encoder keeps; "
                    "call new_words() after each batch"
                )
            if len(self._told) >= self._remember:
                self._told.clear()
            self._told.add(found)
            self._new[found] = word
        return found

    def _token_id(self, token: str) -> int:
        return self._word_id(token) if is_keyword(token) else _DROPPED

    def _keyword_id(self, keyword: str) -> int:
        return self._word_id(keyword.casefold()) if keyword else _DROPPED

    def new_words(self) -> list[tuple[int, str]]:
        """Return (id, word) of the words met since the last call, for what must print words; empty unless they are tracked.

        Each word is told once. Only after `remember` words may one be told again, because the encoder has forgotten
        that it was; none is ever left out.
        """
        new, self._new = list(self._new.items()), {}
        return new

    def texts(self, texts: Sequence[str] | pa.StringArray) -> tuple[Offsets, Ints]:
        """Tokenise texts and return the keyword ids of each."""
        return self._tokens.rows(texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string()))

    def words(self, words: Sequence[str]) -> Ints:
        """Return the ids of keywords as users give them: case-folded, otherwise taken whole."""
        return np.array([self._word_id(word.casefold()) for word in words], np.int64)

    def lists(self, column: pa.ListArray) -> tuple[Offsets, Ints]:
        """Return the keyword ids of each list of keywords; a null list is an empty one, an empty keyword is none."""
        column = column.fill_null([]) if column.null_count else column
        off = np.asarray(column.offsets)
        return distinct_rows(off - off[0], self._keywords.items(column.flatten()))
