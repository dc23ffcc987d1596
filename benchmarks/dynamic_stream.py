"""The stream of the experiments with dynamic objects (Section VIII), from memory: objects that walk, and queries among them.

Places and words of objects are those of `synthetic_stream`. An update moves an object by 0.05 in each direction, back or forth,
and in half of the updates its keywords are replaced. Queries are at places of objects of their own, with one to five of their
words.
"""

from dataclasses import replace

import numpy as np

from benchmarks.skype_stream import skype_subscriptions, skype_vocabulary
from benchmarks.synthetic_stream import synthetic_objects
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import Rect
from streams.vocabulary import Vocabulary

__all__ = ["SPACE", "MovingObjects", "moving_objects", "standing_queries", "word_statistics"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
STEP, REPLACED, WORDS = 0.05, 0.5, 5
#: The stream of the seed that objects are.
_OBJECTS = 5000


def word_statistics(seed: int = 1) -> Vocabulary:
    """Return the words, with the documents of a sample that have them."""
    return skype_vocabulary(seed)


def standing_queries(
    count: int, seed: int = 1, *, k: int = 20, most_words: int = 5, alpha: float | None = None
) -> QueryBatch:
    """Return queries for the k best; with `alpha`, all have the same one."""
    return skype_subscriptions(count, seed, k=k, most_words=most_words, alpha=alpha)


class MovingObjects:
    """Objects by number, and what becomes of them, batch after batch.

    An update moves one by a part of the space in each direction, back from its edge; the keywords that replace those that it
    has are the first ones of another object.
    """

    def __init__(self, first: ObjectBatch, space: Rect, seed: int = 1) -> None:
        self.first = first
        self._places = [
            (first.x.copy(), space.min_x, space.max_x),
            (first.y.copy(), space.min_y, space.max_y),
        ]
        self._keywords_of = np.arange(len(first))
        self._random = np.random.default_rng([seed, _OBJECTS])
        self._seq = len(first)

    def updates(self, count: int) -> ObjectBatch:
        """Return the next updates, of objects drawn evenly."""
        random, objects = self._random, len(self.first)
        who = random.integers(0, objects, count)
        replaced = who[random.random(count) < REPLACED]
        self._keywords_of[replaced] = random.integers(0, objects, len(replaced))
        for place, low, high in self._places:
            moved = place[who] + np.where(random.random(count) < 0.5, -STEP, STEP) * (high - low)
            place[who] = np.where(moved > high, 2 * high - moved, np.where(moved < low, 2 * low - moved, moved))
        seq = np.arange(self._seq, self._seq + count)
        self._seq += count
        (x, _, _), (y, _, _) = self._places
        return replace(
            self.first.take(self._keywords_of[who]), seq=seq, ts=seq, x=x[who], y=y[who], ids=Ids("int", who)
        )


def moving_objects(count: int, seed: int = 1) -> MovingObjects:
    """Return objects of the synthetic stream."""
    return MovingObjects(synthetic_objects(count, seed, _OBJECTS, WORDS), SPACE, seed)
