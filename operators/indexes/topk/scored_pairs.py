"""Pairs of a message and a subscription, scored as `streams.scoring` says and held against the subscription's threshold.

Every structure ends here, so hits are the same to the last bit whatever led to them. A candidate is an int64: the slot above,
the number of the probe it came through in the low 32 bits. A probe has a message and, where a pair is found through several
keywords, the word that it is found through: it counts only through the last word that both have, so it counts once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.standing_queries import plain
from operators.indexes.knn.lanes import LANES, lowest, same_as
from operators.indexes.topk.scored_table import ALPHA, COUNT, FIRST, INLINE, NORM, THETA, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages
from streams.geometry import distance
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["PROBE_BITS", "Columns", "KnownMessages", "Verifier", "known_messages"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Columns = tuple[Slots, Slots, Floats]  # messages, slots and scores of hits
Int = Any  # a machine integer, numpy's or Python's

PROBE_BITS = 32
_PROBE = (1 << PROBE_BITS) - 1
_AHEAD = 16
#: One in so many candidates is named among those that were looked at.
LOOKED = 8
#: A record of a message: sixteen words, as int32, of which `_BESIDE` are used; then in float64 the place; its number of words,
#: and where further records of it begin, as int32; of each word its weight and `idf`. These are five lines of the cache, the
#: last of them for more than ten words.
_X, _Y = LANES // 2, LANES // 2 + 1
_COUNT, _MORE = 2 * (_Y + 1), 2 * (_Y + 1) + 1
_WEIGHTS, _WIDTH = _Y + 2, 40
_BESIDE, _USUAL = (_WIDTH - _WEIGHTS) // 2, 32
#: No word.
_NONE = -2


@dataclass(frozen=True, slots=True, eq=False)
class KnownMessages:
    """Messages with those of their keywords that some subscription has.

    Attributes:
        off, words, weights: ragged rows, ids of keywords ascending.
        records: float64 rows; the first one of each message, then what does not fit into these.
    """

    x: Floats
    y: Floats
    off: Ints
    words: Slots
    weights: Floats
    records: Floats

    def __len__(self) -> int:
        return len(self.x)


@lean_kernel
def _arrange(off: Slots, found: Slots, weight: Floats, out_off: Ints, words: Slots, weights: Floats) -> int:
    """Write rows without the words that nobody has; return how many records they take."""
    count, records = 0, 0
    for i in range(off.shape[0] - 1):
        out_off[i] = count
        for j in range(off[i], off[i + 1]):
            if found[j] >= 0:
                words[count], weights[count] = found[j], weight[j]
                count += 1
        records += max(1, -(-(count - out_off[i]) // _BESIDE))
    out_off[off.shape[0] - 1] = count
    return records


@lean_kernel
def _record(
    x: Floats, y: Floats, off: Ints, words: Slots, weights: Floats, idf: Floats, records: Floats, parts: Slots
) -> None:
    """Write what scores need of each message side by side: candidates come in the order of subscriptions, so each is a leap."""
    more = x.shape[0]
    for i in range(x.shape[0]):
        at = i
        records[i, _X], records[i, _Y] = x[i], y[i]
        parts[i, _COUNT], parts[i, _MORE] = off[i + 1] - off[i], more
        for first in range(off[i], max(off[i + 1], off[i] + 1), _BESIDE):
            if first > off[i]:
                at = more
                more += 1
            for j in range(LANES):
                parts[at, j] = words[first + j] if j < min(off[i + 1] - first, _BESIDE) else _NONE
            for j in range(_BESIDE):
                some = min(first + j, off[i + 1] - 1)
                records[at, _WEIGHTS + 2 * j] = weights[some] if some >= 0 else 1.0
                records[at, _WEIGHTS + 2 * j + 1] = idf[words[some]] if some >= 0 else 1.0


def known_messages(messages: Messages, table: ScoredTable) -> KnownMessages:
    """Return messages as the table's words."""
    kw_off = plain(messages.kw_off, np.int32)
    found = table.words.find(plain(messages.kw, np.int64))
    off, words, weights = np.empty(len(messages) + 1, np.int64), np.empty(len(found), np.int32), np.empty(len(found))
    count = _arrange(kw_off, found, plain(messages.weight, np.float64), off, words, weights)
    x, y = plain(messages.x, np.float64), plain(messages.y, np.float64)
    records = _lines_of_cache(count)
    _record(x, y, off, words, weights, table.idf, records, records.view(np.int32))
    return KnownMessages(x, y, off, words[: off[-1]], weights[: off[-1]], records)


def _lines_of_cache(count: int) -> Floats:
    """Return records, each of which begins where a line of the cache does."""
    room = np.empty(count * _WIDTH + 8)
    start = -room.ctypes.data // 8 % 8
    return room[start : start + count * _WIDTH].reshape(count, _WIDTH)


@lean_kernel
def _of_many(
    slot: Int, message: Int, words: Int, records: Floats, known: Slots, parts: Slots, long: Slots, norm: float,
) -> tuple[float, Int]:  # fmt: skip
    """Return the cosine of a pair and its last common word, or -1, however many words they have."""
    total, shared = 0.0, np.int64(-1)
    rows = -(-np.int64(known[message, _COUNT]) // _BESIDE)
    for j in range(words):
        word = parts[slot, FIRST + j] if words <= INLINE else long[parts[slot, FIRST] + j]
        for row in range(rows):
            at = np.int64(message) if row == 0 else known[message, _MORE] + row - 1
            same = same_as(known, at * (2 * _WIDTH), word)
            if same:
                pair = _WEIGHTS + 2 * lowest(same)
                total += records[at, pair] * (records[at, pair + 1] / norm)
                shared = np.int64(word)
                break
    return total, shared


@lean_kernel
def _verify(
    candidates: Ints, rows: Slots, words_of: Slots, records: Floats, known: Slots, lines: Floats, parts: Slots, long: Slots,
    max_distance: float, euclidean: bool, row: Slots, slots: Slots, value: Floats,
) -> int:  # fmt: skip
    """Write the candidates that are hits, with their scores; where distances are not Euclidean, those that share a keyword.

    These have their cosine as value. The sum goes by ids of keywords, which is the order of a line. Without branches, for
    those with few words: which words a pair shares, and whether it is a hit, cannot be foreseen, and a wrong guess costs more
    than to write what is written over next. All indexes are unsigned: nothing is counted from the end.
    """
    hits, count = np.uint64(0), candidates.shape[0]
    for i in range(count):
        if i + 2 * _AHEAD < count:
            prefetch(lines, (candidates[i + 2 * _AHEAD] >> PROBE_BITS) * 8)
        if i + _AHEAD < count:
            ahead = np.int64(rows[np.uint64(candidates[i + _AHEAD] & _PROBE)]) * _WIDTH
            for at in range(0, _USUAL, 8):
                prefetch(records, ahead + at)
        slot, probe = np.uint64(candidates[i]) >> np.uint64(PROBE_BITS), np.uint64(candidates[i]) & np.uint64(_PROBE)
        message, through = np.uint64(rows[probe]), np.int64(words_of[probe])
        norm, words = lines[slot, NORM], np.int64(parts[slot, COUNT])
        total, shared = 0.0, np.int64(-1)
        if words > INLINE or known[message, _COUNT] > _BESIDE:
            total, shared = _of_many(slot, message, words, records, known, parts, long, norm)
        else:
            for j in range(INLINE):
                word = parts[slot, FIRST + j]
                same = same_as(known, np.int64(message) * (2 * _WIDTH), word)
                # Where there is no such word, the first one is weighed for nothing.
                pair = np.uint64(_WEIGHTS + 2 * (lowest(same | 1 << LANES) & (LANES - 1)))
                part = records[message, pair] * (records[message, pair + np.uint64(1)] / norm)
                total += part if same else 0.0
                shared = np.int64(word) if same else shared
        right = (shared >= 0) & ((through < 0) | (through == shared))
        if euclidean:
            dx, dy = records[message, np.uint64(_X)] - lines[slot, X], records[message, np.uint64(_Y)] - lines[slot, Y]
            alpha = lines[slot, ALPHA]
            total = alpha * (1.0 - np.sqrt(dx * dx + dy * dy) / max_distance) + (1.0 - alpha) * total
            right &= total >= lines[slot, THETA]
        row[hits], slots[hits], value[hits] = message, slot, total
        hits += np.uint64(right)
    return int(hits)


def _first(count: int, columns: Columns) -> Columns:
    return columns[0][:count], columns[1][:count], columns[2][:count]


class Verifier:
    """Scores candidates of one table; what it writes them into is kept, because fresh memory costs more than the scores."""

    def __init__(self, table: ScoredTable) -> None:
        self._table = table
        self._own: Columns = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(column.nbytes for column in self._own)

    def hits(
        self,
        candidates: Ints,
        messages: KnownMessages,
        probes: tuple[Slots, Slots] | None = None,
        into: Columns | None = None,
    ) -> Hits:
        """Return the candidates that are hits.

        Probes have a message and a word. Without them, the low half of a candidate is its message. With `into`, hits are
        written there and stay there; the scores may take the place of the candidates, which are read before.
        """
        if probes is None:
            count = len(messages)
            probes = np.arange(count, dtype=np.int32), np.full(count, -1, np.int32)
        table, count = self._table, len(candidates)
        looked = (candidates[::LOOKED] >> PROBE_BITS).astype(np.int32)
        if into is None and count > len(self._own[0]):
            self._own = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
        euclidean = table.metric == "euclidean"
        out = self._own if into is None else into
        hits = _verify(
            candidates, *probes, messages.records, messages.records.view(np.int32), table.lines, table.parts, table.long,
            table.max_distance, euclidean, out[0], out[1], out[2],
        )  # fmt: skip
        row, slots, value = _first(hits, out)
        if euclidean and into is not None:
            return Hits(row, slots, value, count, looked)
        if euclidean:
            return Hits(row.copy(), slots.copy(), value.copy(), count, looked)
        # A kernel's sine may differ in the last bit from that of the definition, so distances are computed out here.
        lines = table.lines[slots]
        far = distance(messages.x[row], messages.y[row], lines[:, X], lines[:, Y], table.metric)
        alpha = lines[:, ALPHA]
        value = alpha * (1.0 - far / table.max_distance) + (1.0 - alpha) * value
        enough = value >= lines[:, THETA]
        return Hits(row[enough], slots[enough], value[enough], count, looked)
