"""The stream of Skype's experiments (section 8.1), from memory: messages, and subscriptions drawn from some of their kind.

Places and words are those of `synthetic_stream`. A subscription is at the place of a message and has one to five of its words;
alpha is drawn from 0 to 1, k is 20. Weights are by the frequencies of words in a sample.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

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


def skype_subscriptions(
    count: int, seed: int = 1, *, k: int = K, most_words: int = MOST_WORDS, alpha: float | None = None
) -> QueryBatch:
    """Return subscriptions; with `alpha`, all have the same one."""
    parts = []
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        objects = synthetic_objects(size, seed, _DRAWN + start // BLOCK)
        drawn = drawn_subscriptions(objects, size, seed, start, most_words=most_words)
        alphas = np.random.default_rng([seed, start, 8]).random(size) if alpha is None else np.full(size, alpha)
        parts.append(
            replace(drawn, type=np.full(size, TYPE_TOPK, np.uint8), k=np.full(size, k, np.int32), alpha=alphas)
        )
    return QueryBatch.concat(parts)
