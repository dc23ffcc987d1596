"""The stream of Skype's experiments (section 8.1), from memory: messages, and subscriptions drawn from some of their kind.

Places and words are those of `synthetic_stream`. A subscription is at the place of a message and has one to five of its words;
alpha is drawn from 0 to 1, k is 20. Weights are by the frequencies of words in a sample.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic_stream import VOCABULARY, drawn_subscriptions, synthetic_objects
from streams.batches import TYPE_TOPK, ObjectBatch, QueryBatch
from streams.geometry import Rect
from streams.vocabulary import Vocabulary

__all__ = ["SPACE", "K", "skype_messages", "skype_subscriptions", "skype_vocabulary"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
K, MOST_WORDS = 20, 5
#: Rows made at a time, and those that frequencies are taken from.
BLOCK, SAMPLED = 500_000, 100_000
#: Streams of the seed: the sample of frequencies, those that subscriptions are drawn from, and the messages.
_SAMPLE, _DRAWN, _MESSAGES = 0, 1000, 2000


@lru_cache(maxsize=2)
def skype_vocabulary(seed: int = 1) -> Vocabulary:
    """Return the words of the stream, with the documents of a sample that have them."""
    sample = synthetic_objects(SAMPLED, seed, _SAMPLE)
    return Vocabulary(
        tuple(f"w{rank}" for rank in range(VOCABULARY)), np.bincount(sample.kw, minlength=VOCABULARY), SAMPLED
    )


def skype_messages(count: int, seed: int = 1, block: int = 0) -> ObjectBatch:
    """Return the messages of a block; blocks of one seed and count follow each other in `seq` and `ts`."""
    messages = synthetic_objects(count, seed, _MESSAGES + block)
    seq = messages.seq + block * count
    return replace(messages, seq=seq, ts=seq)


def _evenly(off: NDArray[np.int32], random: np.random.Generator) -> NDArray[np.int64]:
    """Return distinct words for each row, drawn evenly from the vocabulary, ascending."""
    rows, most = len(off) - 1, int(np.diff(off).max(initial=0))
    words = np.sort(random.integers(0, VOCABULARY - most, (rows, most)), axis=1) + np.arange(most)
    # Any of them, so that rows with fewer words have no smaller ones.
    chosen = np.argsort(random.random((rows, most)), axis=1).argsort(axis=1) < np.diff(off)[:, None]
    return np.asarray(words[chosen])


def skype_subscriptions(
    count: int, seed: int = 1, *, k: int = K, most_words: int = MOST_WORDS, alpha: float | None = None, even: bool = False,
    first: int = 0,
) -> QueryBatch:  # fmt: skip
    """Return subscriptions from a number on, at the start of a block; with `alpha`, all have the same one.

    Their words are those of messages, by Zipf's law, or drawn evenly.
    """
    parts = []
    for start in range(first, first + count, BLOCK):
        size = min(BLOCK, first + count - start)
        objects = synthetic_objects(size, seed, _DRAWN + start // BLOCK)
        drawn = drawn_subscriptions(objects, size, seed, start, most_words=most_words)
        alphas = np.random.default_rng([seed, start, 8]).random(size) if alpha is None else np.full(size, alpha)
        if even:
            drawn = replace(drawn, kw=_evenly(drawn.kw_off, np.random.default_rng([seed, start, 9])))
        parts.append(
            replace(drawn, type=np.full(size, TYPE_TOPK, np.uint8), k=np.full(size, k, np.int32), alpha=alphas)
        )
    return QueryBatch.concat(parts)
