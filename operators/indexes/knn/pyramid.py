"""The radius pyramid: for every keyword a tree of boxes around balls.

A subscription is filed under each of its keywords (under the rarest where it wants all of them) by its place: balls that are
near each other lie in one block of at most sixteen, under a box that encloses them; blocks that are near each other under a
larger one; and so on. An object goes down from the top of each of its keywords through the boxes that it is in, and what it
finds in blocks are the balls that it is in or nearly in. Sixteen boxes, or balls, are compared with it at a time.

As a ball shrinks, its record is written in place and the boxes that it held open become smaller. It moves twice in its life: a
ball without an end, while the list is not full, is in a tree of its own, all of which every object with the keyword reads; and
a ball without room, where k objects are at the very place of the subscription, is in none, because nothing can enter any more.
Each object with its keyword enters a list that is not full, so a posting is read k times at most before its ball has an
end; what is read in vain is what wants all of several keywords, which hangs on the rarest of them, and what sleeps.

Trees grow as B-trees do: a full block, or node, is divided by the coordinate in which its places differ most, one that has
little left is joined with a neighbour. On the globe places are unit vectors, and boxes have three coordinates.

Costs: see `docs/indexes.md`. Memory: a record of 16 bytes (20 on the globe) in blocks that are little more than half full, 4
bytes to find it again, and about 7 of boxes for a posting.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn import pyramid_kernels as kernels
from operators.indexes.knn import pyramid_records as layout
from operators.indexes.knn.blocks import BLOCK_CLASSES
from operators.indexes.knn.knn_index import Near, Radii
from operators.indexes.knn.lanes import LANES
from operators.indexes.knn.pyramid_probe import TOGETHER, probe
from streams.errors import DeclarationError, RunError

__all__ = ["RadiusPyramid"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]

#: A probe ends after the objects that bring it to so many pairs: while balls have no end, lists must be settled often.
ENOUGH = 1 << 18
#: Units of four records that can be numbered.
MOST_UNITS = 1 << 26


class RadiusPyramid:
    """Subscriptions by keyword and place, under boxes around their balls.

    Options:
        fan_out: balls of a block, and children of a node, at most.
    """

    def __init__(self, table: QueryTable, lists: Radii, *, fan_out: int = LANES) -> None:
        if not 4 <= fan_out <= LANES:
            raise DeclarationError(f"fan_out = {fan_out}, expected a whole number from 4 to {LANES}")
        self._table, self._lists = table, lists
        space, globe = table.space, table.metric == "haversine"
        longer = max(space.max_x - space.min_x, space.max_y - space.min_y)
        self._frame: Floats = np.array([space.min_x, space.min_y, 1.0 / longer, float(globe)])
        self._dimensions = 3 if globe else 2
        self._units: Singles = np.empty(0, np.float32)
        self._owner: Slots = np.empty(0, np.int32)
        self._nodes: Singles = np.empty(0, np.float32)
        self._links: Slots = np.empty((0, 3), np.int32)
        self._words: Slots = np.empty((0, 3), np.int32)
        self._where: Slots = np.empty(0, np.int32)
        self._begin: Slots = np.empty(0, np.int32)
        self._stage: NDArray[np.int8] = np.empty(0, np.int8)
        self._free: Slots = np.full(3, -1, np.int32)
        self._free_places: Slots = np.full(BLOCK_CLASSES, -1, np.int32)
        self._state: Ints = np.zeros(layout.STATE_SIZE, np.int64)
        self._state[layout.FREE_NODE] = -1
        self._state[layout.DIMENSIONS], self._state[layout.MOST] = self._dimensions, fan_out
        self._nodes_left: Ints = np.empty(1 << 13, np.int64)
        self._blocks_left: Ints = np.empty(1 << 13, np.int64)
        self._hits: Slots = np.empty((1 << 16, 3), np.int32)
        self._found: Slots = np.empty((2, 1 << 17), np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        state = self._state
        units = (4 * self._unit + 4) * int(state[layout.UNITS_TOP])
        nodes = (4 * self._node + 12) * int(state[layout.NODES_TOP])
        slots = 5 * self._table.roster.top + 4 * int(state[layout.WHERE_TOP])
        return units + nodes + slots + 12 * self._table.words.top

    @property
    def _unit(self) -> int:
        """Numbers of a unit."""
        return layout.UNIT * (self._dimensions + 2)

    @property
    def _node(self) -> int:
        """Numbers of a node."""
        return LANES * (4 * self._dimensions + 1)

    @property
    def _pool(self) -> tuple[Any, ...]:
        return (self._units, self._units.view(np.int32), self._owner, self._nodes, self._nodes.view(np.int32), self._links,
                self._words, self._where, self._begin, self._free, self._state)  # fmt: skip

    def _keys(self, slots: Slots) -> tuple[Slots, Slots]:
        table = self._table
        off, keys = np.empty(len(slots) + 1, np.int32), np.empty(3 * len(slots), np.int32)
        count = kernels.keys_of(slots, table.kw, table.pool, table.traits, off, keys)
        if count > len(keys):
            keys = np.empty(count, np.int32)
            kernels.keys_of(slots, table.kw, table.pool, table.traits, off, keys)
        return off, keys[:count]

    def add(self, slots: Slots) -> None:
        """File subscriptions as their balls are."""
        self._reserve()
        off, keys = self._keys(slots)
        while not kernels.open_places(
            slots, off, self._stage, self._begin, self._where, self._free_places, self._state
        ):
            self._where = grown(self._where, 2 * int(self._state[layout.WHERE_TOP]) + 32 * len(keys) + 64)
        self._refile(slots, off, keys)

    def _reserve(self) -> None:
        room, words = len(self._table.traits), self._table.words.top
        if room > len(self._begin):
            self._begin, self._stage = grown(self._begin, room), grown(self._stage, room)
        if words > len(self._words):
            had = len(self._words)
            self._words = grown(self._words, 2 * words + 16)
            self._words[had:] = (-1, -1, 0)

    def _refile(self, slots: Slots, off: Slots, keys: Slots, *, gone: bool = False) -> None:
        """Put subscriptions where they belong, with more room each time that some is missing."""
        done, table = np.zeros(2, np.int64), self._table
        while not kernels.refile(
            done, gone, slots, off, keys, self._lists.radius, table.shape, table.kw, table.traits, self._frame, self._stage,
            self._pool,
        ):  # fmt: skip
            units, nodes = int(self._state[layout.UNITS_TOP]), int(self._state[layout.NODES_TOP])
            if units + layout.UNIT_ROOM > len(self._owner):
                room = 2 * units + 4 * layout.UNIT_ROOM
                if room > MOST_UNITS:
                    raise RunError(
                        f"{len(self._table):,} subscriptions are more than one index can number; use more evaluators"
                    )
                # Rows are read whole, so behind the last unit there is room for a block.
                self._units = grown(self._units, (room + 4) * self._unit)
                self._owner = grown(self._owner, room)
            if nodes + layout.NODE_ROOM > len(self._links):
                room = 2 * nodes + 4 * layout.NODE_ROOM
                self._nodes, self._links = grown(self._nodes, room * self._node), grown(self._links, room)

    def discard(self, slots: Slots) -> Slots:
        """Take subscriptions out."""
        off, keys = self._keys(slots)
        self._refile(slots, off, keys, gone=True)
        kernels.close_places(slots, off, self._begin, self._where, self._free_places)
        return slots

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Note new radii, and move subscriptions whose balls have got an end, or have no room any more.

        After a probe the records that it has read learn the new radii; others of the same subscriptions have old ones, which
        are larger, until they are read as well.
        """
        if near is not None:
            moving, due = np.empty(len(slots), np.int32), np.empty(len(near.slots), np.int64)
            count = kernels.learn(
                near.slots, near.at, slots, self._lists.radius, self._table.shape, self._frame, self._stage, moving,
                due, self._pool,
            )  # fmt: skip
            slots = moving[:count]
        if len(slots):
            self._refile(slots, *self._keys(slots))

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Return the subscriptions whose balls objects are in, and some at their edges."""
        self._reserve()
        spots = self._spots(objects)
        off = np.empty(len(objects.x) - first + 1, np.int64)
        words = int(np.diff(objects.word_off).max(initial=0)) + 1
        self._make_room(2 * TOGETHER * words + LANES, 2 * TOGETHER * words + LANES, 0)
        tally, counts = np.zeros(4, np.int64), np.empty(TOGETHER + 1, np.int64)
        while (
            stop := probe(
                first, everything, ENOUGH, spots, objects.word_off, objects.words, self._pool, self._nodes_left,
                self._blocks_left, self._hits, self._found, off, tally, counts,
            )
        ) < 0:  # fmt: skip
            self._make_room(*tally[1:].tolist())
        off = off[: stop - first + 1]
        slots, at = self._found[:, : off[-1]].copy()
        return Near(first, int(stop), off, slots, int(tally[0]), at)

    def _make_room(self, nodes: int, blocks: int, hits: int) -> None:
        """Let scratch arrays have at least so much room."""
        if nodes > len(self._nodes_left):
            self._nodes_left = np.empty(nodes, np.int64)
        if blocks > len(self._blocks_left):
            self._blocks_left = np.empty(blocks, np.int64)
        if hits > len(self._hits):
            self._hits = np.empty((hits, 3), np.int32)
        if hits > self._found.shape[1]:
            self._found = np.empty((2, hits), np.int32)

    def _spots(self, objects: Probe) -> Singles:
        """Return objects as records have places: in units of the space, or as unit vectors."""
        spots = np.zeros((len(objects.x), 3), np.float32)
        if self._dimensions == 3:
            lon, lat = np.radians(objects.x), np.radians(objects.y)
            spots[:, 0], spots[:, 1] = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)
            spots[:, 2] = np.sin(lat)
            return spots
        spots[:, 0] = (objects.x - self._frame[0]) * self._frame[2]
        spots[:, 1] = (objects.y - self._frame[1]) * self._frame[2]
        return spots
