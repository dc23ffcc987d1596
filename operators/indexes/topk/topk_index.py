"""The seams between the parts of top-k subscriptions over a sliding window (Skype, Sections 4 to 6).

A subscription has a place, keywords, k and alpha; its score for a message is that of `streams.scoring`, to the last bit. A
message counts while it is in the window and shares a keyword. Of equal scores the newer message (the larger `seq`) is better.

theta(s), the *threshold* of a subscription, is what a new message must come up to in order to matter: every message of the
window that is better, by (score, seq), is in the buffer of s, or k newer ones that are at least as good are. It is -inf
where all is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streams.batches import ObjectBatch
from streams.columns import Ints, Offsets
from streams.scoring import unit_weights
from streams.vocabulary import Vocabulary

__all__ = ["Answers", "Dissemination", "Hits", "MessageIndex", "Messages", "Requests", "joined_hits", "messages_of"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages in the order of the input, with their keywords (ids ascending) and the unit weight of each."""

    seq: Ints
    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.seq)


def messages_of(objects: ObjectBatch, vocabulary: Vocabulary) -> Messages:
    """Return objects as messages; one without keywords is among them, and matters to nobody."""
    weight = unit_weights(objects.kw_off, objects.kw, vocabulary)
    return Messages(objects.seq, objects.x, objects.y, objects.kw_off, objects.kw, weight)


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Pairs of a message (its row) and a subscription (its slot) that share a keyword, with score >= theta; each pair once.

    Attributes:
        examined: how many candidates were looked at: the work done.
        looked: the slots of some of these candidates, evenly drawn: whose the work was.
        through: for each of these the word (of the table) that it was looked at for, or -1; empty where nobody knows.
    """

    row: Slots
    slot: Slots
    score: Floats
    examined: int
    looked: Slots
    through: Slots = field(default_factory=lambda: np.empty(0, np.int32))


def joined_hits(parts: Sequence[Hits]) -> Hits:
    """Return the pairs of several looks at the same messages as one."""
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int32)
    return Hits(
        row=np.concatenate([none, *(part.row for part in parts)]),
        slot=np.concatenate([none, *(part.slot for part in parts)]),
        score=np.concatenate([np.empty(0), *(part.score for part in parts)]),
        examined=sum(part.examined for part in parts),
        looked=np.concatenate([none, *(part.looked for part in parts)]),
    )


class Dissemination(Protocol):
    """Finds the subscriptions that messages enter: Skype's message dissemination module (Section 5).

    Rows of slots, and their thresholds, are in the table it was made with.
    """

    def add(self, slots: Slots) -> None:
        """Take in subscriptions whose rows are filled and whose thresholds are set."""

    def discard(self, slots: Slots) -> None:
        """Remove subscriptions, before their rows die."""

    def retune(self, slots: Slots) -> None:
        """Take note that the thresholds of these slots, each named once, have changed, up or down."""

    def probe(self, messages: Messages) -> Hits:
        """Return what messages enter, all of it."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """What the window is searched for, a row a subscription.

    Wanted are, best first, all messages with ``first <= seq < stop`` that share a keyword and score at least `bound`; the
    `least` best in any case, as far as there are so many; and no more than `most`, which is at least `least`. Where `ratio`
    is not 0 the bound is that part of the score at rank `least` instead.
    """

    x: Floats
    y: Floats
    alpha: Floats
    kw_off: Offsets
    kw: Ints
    weight: Floats
    least: Slots
    most: Slots
    bound: Floats
    ratio: Floats
    first: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What was found, as ragged rows, best first.

    `floor` is what was left out can score at most: -inf where nothing was, otherwise the score of the last one listed, or
    the bound.
    """

    off: Ints
    seq: Ints
    score: Floats
    floor: Floats
    examined: int


class MessageIndex(Protocol):
    """The messages of the window, searched for many subscriptions a call (Section 4: any spatial-keyword index will do)."""

    def add(self, messages: Messages) -> None:
        """Take in messages, all of them newer than those held; their `seq` ascend and may have gaps."""

    def drop(self, first: int) -> None:
        """Forget messages with ``seq < first``, so that their memory is used again."""

    def search(self, requests: Requests) -> Answers:
        """Answer requests; their ranges of `seq` cover what is held or less."""

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
