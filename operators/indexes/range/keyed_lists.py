"""The arrays behind GI2 and FAST: inverted lists of slots found by key, and what all probes need.

Lists are cleaned lazily, as both papers do: a query that has gone is skipped when it is met, and when a quarter of the
queries are dead all lists are written anew, which also lets them follow the frequencies as they are by then.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Found
from operators.indexes.range import list_kernels
from operators.indexes.range.list_kernels import ARENA_TOP, MOST_NEW_NODES, NEED_ARENA, NODES_TOP, STATE_SIZE

__all__ = ["KeyedLists"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

#: The share of dead queries, as a divisor of the living, and the least number at which lists are written anew.
DEAD_SHARE, LEAST_DEAD = 4, 1024
#: Lists that are noted before they are read, and keys that objects ask for together, unless one alone asks for more.
RUNS, KEYS = 16384, 16384


class KeyedLists:
    """Lists of slots by key, with bits for words and output space for probes."""

    def __init__(self) -> None:
        self.clear()
        self.present: NDArray[np.uint64] = np.zeros(1, np.uint64)
        self.runs: Slots = np.empty((RUNS, 4), np.int32)
        self._asked = (np.empty(KEYS, np.int64), np.empty(KEYS, np.int32))
        self._out: Slots = np.empty(4096, np.int32)
        self._dead: list[Slots] = []

    def clear(self) -> None:
        """Forget all lists."""
        self.table: Ints = np.full((256, 2), -1, np.int64)
        self.nodes: Slots = np.empty((128, 4), np.int32)
        self.arena: Slots = np.empty(256, np.int32)
        self.free: Slots = np.full(32, -1, np.int32)
        self.state: Ints = np.zeros(STATE_SIZE, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        own = self.table.nbytes + 16 * int(self.state[NODES_TOP]) + 4 * int(self.state[ARENA_TOP])
        return own + self.present.nbytes + sum(part.nbytes for part in self._dead)

    def make_room(self) -> None:
        """Let everything grow that is nearly full."""
        nodes, arena = int(self.state[NODES_TOP]), int(self.state[ARENA_TOP])
        if nodes + MOST_NEW_NODES > len(self.nodes):
            self.nodes = _grown(self.nodes, nodes)
        if arena + int(self.state[NEED_ARENA]) > len(self.arena):
            self.arena = _grown(self.arena, arena, int(self.state[NEED_ARENA]))
        if (nodes + MOST_NEW_NODES) * 10 > len(self.table) * 7:
            table = np.full((len(self.table) * 2, 2), -1, np.int64)
            list_kernels.rehash(self.table, table)
            self.table = table

    def asked(self, keys: int) -> tuple[Ints, Slots]:
        """Return space for the keys that an object asks for, at least so many, and for the objects that do."""
        return self._asked if keys <= KEYS else (np.empty(keys, np.int64), np.empty(keys, np.int32))

    def bury(self, slots: Slots, table: QueryTable) -> Slots | None:
        """Take note of dead queries; return all of them when it is time to write the lists anew."""
        self._dead.append(slots)
        if sum(len(part) for part in self._dead) <= max(LEAST_DEAD, len(table) // DEAD_SHARE):
            return None
        dead, self._dead = np.concatenate(self._dead), []
        return dead

    def probe(self, words: int, count: int, run: Callable[[int, Slots, Ints, Ints], Any]) -> Found:
        """Call ``run(start, out, off, examined)`` until all objects are done, with more room each time."""
        if words > 64 * len(self.present):
            self.present = np.zeros(words // 32 + 1, np.uint64)
        off, examined = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
        done = 0
        while done < count:
            done = int(run(done, self._out, off, examined))
            if done < count:
                self._out = _grown(self._out, int(off[done]), len(self._out))
        return Found(off, self._out[: off[-1]], examined)


def _grown(array: NDArray[Any], used: int, needed: int = MOST_NEW_NODES) -> NDArray[Any]:
    larger = np.empty((used + needed + used // 2 + 64, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger
