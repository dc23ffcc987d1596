"""The stream of the experiments with dynamic objects (Section VIII), from memory: objects that walk, and queries among them.

Places and words of objects are those of `synthetic_stream`. An update moves an object by 0.05 in each direction, back or forth,
and in half of the updates its keywords are replaced. Queries are at places of objects of their own, with one to five of their
words.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.skype_stream import skype_subscriptions, skype_vocabulary
from benchmarks.synthetic_stream import synthetic_objects
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import Rect
from streams.vocabulary import Vocabulary

__all__ = ["SPACE", "MovingObjects", "standing_queries", "word_statistics"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
STEP, REPLACED, WORDS = 0.05, 0.5, 5
#: Streams of the seed: the objects, and what their keywords become.
_OBJECTS, _KEYWORDS = 5000, 6000
#: Other keywords are made for so many updates at a time.
BLOCK = 50_000


def word_statistics(seed: int = 1) -> Vocabulary:
    """Return the words, with the documents of a sample that have them."""
    return skype_vocabulary(seed)


def standing_queries(
    count: int, seed: int = 1, *, k: int = 20, most_words: int = 5, alpha: float | None = None
) -> QueryBatch:
    """Return queries for the k best; with `alpha`, all have the same one."""
    return skype_subscriptions(count, seed, k=k, most_words=most_words, alpha=alpha)


class MovingObjects:
    """Objects by number, and what becomes of them, batch after batch."""

    def __init__(self, count: int, seed: int = 1) -> None:
        self._first = synthetic_objects(count, seed, _OBJECTS, WORDS)
        self._x, self._y = self._first.x.copy(), self._first.y.copy()
        self._kw = self._first.kw.reshape(count, WORDS).copy()
        self._random = np.random.default_rng([seed, _OBJECTS])
        self._seed, self._blocks, self._spare = seed, 0, self._kw[:0]
        self._seq = count

    @property
    def first(self) -> ObjectBatch:
        """The states in the beginning."""
        return self._first

    def updates(self, count: int) -> ObjectBatch:
        """Return the next updates, of objects drawn evenly."""
        random = self._random
        who = random.integers(0, len(self._x), count)
        replaced = random.random(count) < REPLACED
        other = self._keywords(int(replaced.sum()))
        self._kw[who[replaced]] = other
        for place in (self._x, self._y):
            moved = place[who] + np.where(random.random(count) < 0.5, -STEP, STEP)
            place[who] = np.abs(np.where(moved > 1, 2 - moved, moved))
        seq = np.arange(self._seq, self._seq + count)
        self._seq += count
        off = np.arange(0, WORDS * count + 1, WORDS, dtype=np.int32)
        return replace(
            self._first, seq=seq, ts=seq, x=self._x[who], y=self._y[who], op=np.zeros(count, np.uint8) + self._first.op[0],
            kw_off=off, kw=self._kw[who].ravel(), ids=Ids("int", who),
        )  # fmt: skip

    def _keywords(self, count: int) -> NDArray[np.int64]:
        while len(self._spare) < count:
            made = synthetic_objects(BLOCK, self._seed, _KEYWORDS + self._blocks, WORDS).kw.reshape(BLOCK, WORDS)
            self._spare, self._blocks = np.concatenate([self._spare, made]), self._blocks + 1
        taken, self._spare = self._spare[:count], self._spare[count:]
        return taken
