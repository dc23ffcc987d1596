"""KAG's grids: they follow the number of postings, and their blocks are used again."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from range_model import PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from operators.indexes import make_range_index
from operators.indexes.core.quanta import places_in_quanta
from operators.indexes.range.kag_kernels import (
    CELLS_TOP,
    COUNT,
    POSTINGS_PER_HOLE,
    POSTINGS_TOP,
    SIDE,
    UNUSED,
    _class_of,
    _holes,
    _size_of,
)
from streams.geometry import REGION_RECT, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def squares(numbers, seed, side=0.01, keywords=(1,)):
    random = Random(seed)
    return [
        PlainQuery(
            n, REGION_RECT, (x := random.random(), y := random.random(), x + side, y + side), frozenset(keywords)
        )
        for n in numbers
    ]


def groups_of(index):
    """Return (postings, side) of each group in use."""
    groups = index._structure._groups[: index._structure._state[2]]
    return [(int(g[COUNT]), int(g[SIDE])) for g in groups if g[COUNT] > 0]


@pytest.mark.parametrize("size", [*range(1, 70), 1000, 4097, 100_000])
def test_block_classes_have_room_and_little_to_spare(size):
    """The smallest class with room is at most a quarter too large."""
    block = _size_of(_class_of(size))
    assert size <= block <= size * 1.25 + 1
    assert _class_of(block) == _class_of(size)


def test_quanta_are_monotone_and_stay_in_the_space():
    """Values in order have quanta in order, and what lies outside becomes the border."""
    values = np.sort(np.concatenate([np.random.default_rng(1).uniform(-0.2, 1.2, 1000), [-np.inf, 0.0, 1.0, np.inf]]))
    out, _ = places_in_quanta(values, values, SPACE)
    assert (np.diff(out) >= 0).all()
    assert out[0] == 0
    assert out[-1] == 65535


def test_grid_of_a_keyword_follows_its_postings():
    """A short list becomes a grid, the grid grows finer with its postings and turns into a list again."""
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(squares(range(8), 1)))
    assert groups_of(index) == [(8, 1)]
    index.insert(query_batch(squares(range(8, 2000), 2)))
    [(count, side)] = groups_of(index)
    assert count == 2000
    assert side * side >= 2000
    index.remove(np.arange(2, 2000))
    assert groups_of(index) == [(2, 1)]
    index.remove(np.arange(2))
    assert groups_of(index) == []


def test_sizes_of_one_keyword_have_grids_of_their_own():
    """Tiny and space-filling queries with one keyword do not spoil each other's cells, and both are found."""
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(squares(range(500), 1, side=0.001)))
    index.insert(
        query_batch([PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset([1])) for n in range(500, 520)])
    )
    assert sorted(count for count, _ in groups_of(index)) == [20, 500]
    index.match(object_batch([PlainObject(0.5, 0.5, frozenset([1]))]))
    assert index.cost().matches >= 20
    assert index.cost().candidates < 60


def test_blocks_are_used_again_under_churn():
    """Queries that come and go in turn need no more room than at the height of the first round."""
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(squares(range(3000), 1, keywords=[1])))
    state, tops = index._structure._state, []
    for round_ in range(1, 40):
        index.remove(np.arange((round_ - 1) * 3000, round_ * 3000)[::2])
        index.remove(np.arange((round_ - 1) * 3000, round_ * 3000)[1::2])
        index.insert(query_batch(squares(range(round_ * 3000, (round_ + 1) * 3000), round_)))
        tops.append((int(state[POSTINGS_TOP]), int(state[CELLS_TOP])))
    assert tops[-1][0] <= 1.1 * tops[9][0]
    assert tops[-1][1] == tops[9][1]
    assert 0 <= state[UNUSED] < state[POSTINGS_TOP]


def test_holes_of_a_grid_match_nothing_and_are_filled_again():
    """A posting taken out of a grid leaves a hole: no object finds it, and the next posting of the cell takes its place."""
    index = make_range_index("kag", SPACE)
    queries = [PlainQuery(n, REGION_RECT, (0.99, 0.99, 1.0, 1.0), frozenset([1])) for n in range(30)]
    index.insert(query_batch([*queries, *squares(range(30, 600), 1)]))
    structure, corner = index._structure, object_batch([PlainObject(1.0, 1.0, frozenset([1]))])
    top = int(structure._state[POSTINGS_TOP])
    for _ in range(40):
        index.remove(np.arange(0, 30, 3))
        assert _holes(0, structure._groups) == 10
        assert pairs_of(index.match(corner)) == [(0, n) for n in range(30) if n % 3]
        index.insert(query_batch(queries[::3]))
        assert _holes(0, structure._groups) == 0
        assert len(index.match(corner)) == 30
    assert structure._state[POSTINGS_TOP] == top


def test_grid_with_many_holes_is_laid_out_anew():
    """Holes never outgrow their share of the postings, so objects do not read the past."""
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(squares(range(4000), 1)))
    most = 0
    for start in range(0, 3900, 10):
        index.remove(np.arange(start, start + 10))
        [(count, _)] = groups_of(index)
        holes = int(_holes(0, index._structure._groups))
        assert holes * POSTINGS_PER_HOLE <= count
        most = max(most, holes)
    assert most > 500


def test_words_beyond_the_exact_tags_are_verified():
    """With more words than tags, words that share a tag are told apart by the table."""
    index = make_range_index("kag", SPACE)
    words = range(10, 80_010)
    index.insert(query_batch([PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset([n])) for n in words]))
    pairs = [(2_000_000 + n, frozenset([n, 80_009])) for n in (79_000, 79_000 - 32_768, 50)]
    index.insert(query_batch([PlainQuery(number, REGION_RECT, (0.4, 0.4, 0.6, 0.6), kw) for number, kw in pairs]))
    objects = [PlainObject(0.5, 0.5, kw) for _, kw in pairs] + [PlainObject(0.5, 0.5, frozenset([80_009]))]
    found = pairs_of(index.match(object_batch(objects)))
    assert [pair for pair in found if pair[1] >= 2_000_000] == [(i, number) for i, (number, _) in enumerate(pairs)]
    assert len(found) == 7 + 3


SMALL_BUFFER = """
import numpy as np
from benchmarks.synthetic_stream import registrations
from operators.indexes import make_range_index
from operators.indexes.range import kag, kag_probe
from range_model import PlainObject, object_batch
from streams.geometry import Rect

kag.RUNS = kag_probe.RUNS = 8
kag_probe.MOST_ROWS = 1  # each word here has one short list, which is one run
index = make_range_index("kag", Rect(0.0, 0.0, 1.0, 1.0))
shape = np.tile([0.25, 0.25, 0.5, 0.5], (50, 1))
index.insert(registrations(np.arange(50), shape, np.arange(51, dtype=np.int32), np.arange(50)))
found = index.match(object_batch([PlainObject(0.3, 0.3, frozenset(range(50)))] * 2))
assert sorted(found.number.tolist()) == sorted([*range(50), *range(50)]), found
"""


def test_runs_are_settled_before_their_buffer_is_full():
    """Objects of more words than the buffer of runs has room for find all queries, with no write beyond its end."""
    folder = Path(__file__).parents[1]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{folder.parent}{os.pathsep}{folder}"}
    command = [sys.executable, "-c", SMALL_BUFFER]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_small_index_examines_little_where_its_queries_are_in_a_small_part_of_the_space():
    """Four times the area, with as many queries to each part of it, is no more work for each object."""
    examined = []
    for width, count in ((1 / 128, 60), (1 / 64, 240)):
        index = make_range_index("kag", SPACE, "euclidean", (64, 64))
        random = Random(1)
        low = [(0.5 + width * random.random(), 0.5 + width * random.random()) for _ in range(count)]
        index.insert(
            query_batch(
                [
                    PlainQuery(n, REGION_RECT, (x, y, x + 0.001, y + 0.001), frozenset((1,)))
                    for n, (x, y) in enumerate(low)
                ]
            )
        )
        places = [(0.5 + width * random.random(), 0.5 + width * random.random()) for _ in range(400)]
        index.match(object_batch([PlainObject(x, y, frozenset((1,))) for x, y in places]))
        examined.append(index.cost().candidates / len(places))
    assert examined[1] <= examined[0]
