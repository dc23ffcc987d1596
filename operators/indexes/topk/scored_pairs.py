"""Pairs of a message and a subscription, scored as `streams.scoring` says and held against the subscription's threshold.

Every structure ends here, so hits are the same to the last bit whatever led to them. A candidate is an int64: the slot above,
the number of the probe it came through in the low 32 bits. A probe has a message and, where a pair is found through several
keywords, the word that it is found through: it counts only through the last word that both have, so it counts once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.core.standing_queries import plain
from operators.indexes.topk.scored_table import ALPHA, COUNT, FIRST, INLINE, NORM, THETA, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages
from streams.geometry import distance
from streams.kernel import lean_kernel

__all__ = ["PROBE_BITS", "KnownMessages", "Verifier", "known_messages"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

PROBE_BITS = 32
_PROBE = (1 << PROBE_BITS) - 1
_AHEAD = 16
#: One in so many candidates is named among those that were looked at.
LOOKED = 8
#: Words are told apart by their remainder, at first: a bit each, in so many words of 64 bits.
KINDS, _WORDS = 256, 4
#: Columns of a probe as the verifier has it, two of them in the int32 view: the place and the word's weight; message and word.
_PLACE_X, _PLACE_Y, _WEIGHT = range(3)
_ROW, _THROUGH = 6, 7


@dataclass(frozen=True, slots=True, eq=False)
class KnownMessages:
    """Messages with those of their keywords that some subscription has.

    Attributes:
        off, words, weights: ragged rows, ids of keywords ascending.
        places: where the hash of each message begins: powers of two, at most half full.
        hashed, weight_of: the words of hashes, -1 where there is none, and their weights.
        present: rows of `KINDS` bits; where that of a word is 0 the message does not have it.
    """

    x: Floats
    y: Floats
    off: Ints
    words: Slots
    weights: Floats
    places: Ints
    hashed: Slots
    weight_of: Floats
    present: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.x)


@lean_kernel
def _arrange(
    off: Slots, found: Slots, weight: Floats, out_off: Ints, words: Slots, weights: Floats, places: Ints
) -> None:
    """Write rows without the words that nobody has, and how large their hashes are to be."""
    count = 0
    places[0] = 0
    for i in range(off.shape[0] - 1):
        out_off[i] = count
        for j in range(off[i], off[i + 1]):
            if found[j] >= 0:
                words[count], weights[count] = found[j], weight[j]
                count += 1
        size = 2
        while size < 2 * (count - out_off[i]):
            size *= 2
        places[i + 1] = places[i] + size
    out_off[off.shape[0] - 1] = count


@lean_kernel
def _hash(
    off: Ints,
    words: Slots,
    weights: Floats,
    places: Ints,
    hashed: Slots,
    weight_of: Floats,
    present: NDArray[np.uint64],
) -> None:
    for i in range(off.shape[0] - 1):
        first, last = places[i], places[i + 1] - places[i] - 1
        for p in range(first, first + last + 1):
            hashed[p] = -1
        for j in range(off[i], off[i + 1]):
            place = np.int64(words[j]) & last
            while hashed[first + place] >= 0:
                place = (place + 1) & last
            hashed[first + place], weight_of[first + place] = words[j], weights[j]
            kind = np.uint64(words[j] & (KINDS - 1))
            present[i, kind >> np.uint64(6)] |= np.uint64(1) << (kind & np.uint64(63))


def known_messages(messages: Messages, table: ScoredTable) -> KnownMessages:
    """Return messages as the table's words."""
    kw_off = plain(messages.kw_off, np.int32)
    found = table.words.find(plain(messages.kw, np.int64))
    off, places = np.empty(len(messages) + 1, np.int64), np.empty(len(messages) + 1, np.int64)
    words, weights = np.empty(len(found), np.int32), np.empty(len(found))
    _arrange(kw_off, found, plain(messages.weight, np.float64), off, words, weights, places)
    hashed, weight_of = np.empty(places[-1], np.int32), np.empty(places[-1])
    present = np.zeros((len(messages), _WORDS), np.uint64)
    _hash(off, words, weights, places, hashed, weight_of, present)
    x, y = plain(messages.x, np.float64), plain(messages.y, np.float64)
    return KnownMessages(x, y, off, words[: off[-1]], weights[: off[-1]], places, hashed, weight_of, present)


@lean_kernel
def _packed(rows: Slots, words: Slots, weights: Floats, x: Floats, y: Floats, out: Floats, parts: Slots) -> None:
    """Put what is known of each probe side by side: candidates come in the order of subscriptions, so each is a leap."""
    for p in range(rows.shape[0]):
        out[p, _PLACE_X], out[p, _PLACE_Y], out[p, _WEIGHT] = x[rows[p]], y[rows[p]], weights[p]
        parts[p, _ROW], parts[p, _THROUGH] = rows[p], words[p]


@lean_kernel
def _verify(
    candidates: Ints, count: int, probes: Floats, probed: Slots, places: Ints, hashed: Slots, weight_of: Floats,
    present: NDArray[np.uint64], lines: Floats, parts: Slots, long: Slots, idf: Floats, max_distance: float, euclidean: bool,
    row: Slots, slots: Slots, value: Floats,
) -> int:  # fmt: skip
    """Write the candidates that are hits, with their scores; where distances are not Euclidean, those that share a keyword.

    These have their cosine as value. The sum goes by ids of keywords, which is the order of a line. Most pairs that are found
    through a word have only that one in common, and one look at each word tells so.
    """
    hits = 0
    for i in range(count):
        if i + 2 * _AHEAD < count:
            prefetch(lines, (candidates[i + 2 * _AHEAD] >> PROBE_BITS) * 8)
            prefetch(probes, (candidates[i + 2 * _AHEAD] & _PROBE) * 4)
        if i + _AHEAD < count:
            prefetch(present, np.int64(probed[candidates[i + _AHEAD] & _PROBE, _ROW]) * _WORDS)
        # Unsigned: nothing is counted from the end, which costs some instructions at each of these places.
        slot, probe = np.uint64(candidates[i]) >> np.uint64(PROBE_BITS), np.uint64(candidates[i]) & np.uint64(_PROBE)
        message, through = np.uint64(probed[probe, _ROW]), probed[probe, _THROUGH]
        norm, words = lines[slot, NORM], np.int64(parts[slot, COUNT])
        maybe = np.uint64(0)
        for j in range(INLINE):
            kind = np.uint64(parts[slot, FIRST + j] & (KINDS - 1))
            maybe += (present[message, kind >> np.uint64(6)] >> (kind & np.uint64(63))) & np.uint64(1)
        if maybe == 1 and through >= 0 and words <= INLINE:
            total = probes[probe, _WEIGHT] * (idf[through] / norm)
        elif maybe == 0 and words <= INLINE:
            continue
        else:
            first = places[message]
            last = places[message + np.uint64(1)] - first - 1
            total, shared = 0.0, np.int32(-1)
            for j in range(words):
                word = parts[slot, FIRST + j] if words <= INLINE else long[parts[slot, FIRST] + j]
                place = np.int64(word) & last
                while hashed[first + place] >= 0:
                    if hashed[first + place] == word:
                        total += weight_of[first + place] * (idf[word] / norm)
                        shared = word
                        break
                    place = (place + 1) & last
            if shared < 0 or (through >= 0 and through != shared):
                continue
        if euclidean:
            dx, dy = probes[probe, _PLACE_X] - lines[slot, X], probes[probe, _PLACE_Y] - lines[slot, Y]
            alpha = lines[slot, ALPHA]
            total = alpha * (1.0 - np.sqrt(dx * dx + dy * dy) / max_distance) + (1.0 - alpha) * total
            if not total >= lines[slot, THETA]:
                continue
        row[hits], slots[hits], value[hits] = message, slot, total
        hits += 1
    return hits


class Verifier:
    """Scores candidates of one table; what it writes them into is kept, because fresh memory costs more than the scores."""

    def __init__(self, table: ScoredTable) -> None:
        self._table = table
        self._row, self._slots, self._value = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._row.nbytes + self._slots.nbytes + self._value.nbytes

    def hits(
        self, candidates: Ints, messages: KnownMessages, probes: tuple[Slots, Slots, Floats] | None = None
    ) -> Hits:
        """Return the candidates that are hits.

        Probes have a message, a word and its weight. Without them, the low half of a candidate is its message.
        """
        if probes is None:
            count = len(messages)
            probes = np.arange(count, dtype=np.int32), np.full(count, -1, np.int32), np.empty(count)
        table, count = self._table, len(candidates)
        if count > len(self._row):
            self._row, self._slots, self._value = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
        euclidean = table.metric == "euclidean"
        known = np.empty((len(probes[0]), 4))
        _packed(*probes, messages.x, messages.y, known, known.view(np.int32))
        hits = _verify(
            candidates, count, known, known.view(np.int32), messages.places, messages.hashed, messages.weight_of,
            messages.present, table.lines, table.parts, table.long, table.idf, table.max_distance, euclidean,
            self._row, self._slots, self._value,
        )  # fmt: skip
        row, slots, value = self._row[:hits], self._slots[:hits], self._value[:hits]
        looked = (candidates[::LOOKED] >> PROBE_BITS).astype(np.int32)
        if euclidean:
            return Hits(row.copy(), slots.copy(), value.copy(), count, looked)
        # A kernel's sine may differ in the last bit from that of the definition, so distances are computed out here.
        lines = table.lines[slots]
        far = distance(messages.x[row], messages.y[row], lines[:, X], lines[:, Y], table.metric)
        alpha = lines[:, ALPHA]
        value = alpha * (1.0 - far / table.max_distance) + (1.0 - alpha) * value
        enough = value >= lines[:, THETA]
        return Hits(row[enough], slots[enough], value[enough], count, looked)
