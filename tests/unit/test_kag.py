"""KAG's grids: they follow the number of postings, and their blocks are used again."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from range_model import PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from operators.indexes import make_range_index
from operators.indexes.core.quanta import places_in_quanta
from operators.indexes.range.kag import MOST_MET
from operators.indexes.range.kag_group_kernels import (
    APART,
    CELLS_TOP,
    COUNT,
    POSTINGS_PER_HOLE,
    POSTINGS_TOP,
    SECOND_WORDS,
    SIDE,
    TAG_BITS,
    UNUSED,
    _class_of,
    _holes,
    _size_of,
)
from streams.geometry import REGION_CIRCLE, REGION_RECT, Rect

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
        query_batch([PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 2.0 + n), frozenset([1])) for n in range(500, 520)])
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
    queries = [PlainQuery(n, REGION_RECT, (0.99 + n * 1e-6, 0.99, 1.0, 1.0), frozenset([1])) for n in range(30)]
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


def test_city_is_told_apart_in_a_world_as_in_a_space_of_its_own():
    """Small queries meet few candidates whatever the space; a frame is at most four times as wide as what is in it."""
    queries = squares(range(3000), 1, side=0.005)
    objects = object_batch([PlainObject(q.shape[0] + 0.001, q.shape[1] + 0.001, frozenset([1])) for q in queries[:200]])
    candidates = []
    for space in (SPACE, Rect(-3600.0, -1800.0, 3600.0, 1800.0)):
        index = make_range_index("kag", space)
        index.insert(query_batch(queries))
        found = pairs_of(index.match(objects))
        candidates.append((index.cost().candidates, found))
    assert candidates[0][1] == candidates[1][1]
    assert candidates[1][0] < 4 * candidates[0][0]


def test_second_words_tell_apart_what_space_does_not():
    """With regions of half the space, questions of few words do not read the whole list of their rarest one."""
    random = Random(3)
    queries = [
        PlainQuery(n, REGION_RECT, (0.0, 0.0, 0.9, 0.9 + n * 1e-7), frozenset(random.sample(range(40), 3)))
        for n in range(30_000)
    ]
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(queries))
    asked = [frozenset(random.sample(range(40), 6)) for _ in range(30)]
    objects = [PlainObject(0.5, 0.5, words) for words in asked]
    expected = [(i, q.number) for i, words in enumerate(asked) for q in queries if q.keywords <= words]
    assert pairs_of(index.match(object_batch(objects))) == expected
    assert index.cost().candidates < 0.4 * 30 * 6 * len(queries) / 40
    index.remove(np.arange(0, 30_000, 2))
    assert pairs_of(index.match(object_batch(objects))) == [pair for pair in expected if pair[1] % 2]
    index.remove(np.arange(1, 30_000, 2))
    assert groups_of(index) == []
    assert index._structure._directory.max() == -1


def test_second_words_of_the_same_bits_are_not_taken_for_each_other():
    """Queries of two to five words in groups by second word, two of which share a group: each finds what it asks for."""
    rare, first, second, frequent = 1, 2, 3, (4, 5, 6)
    alone = [*[first] * 900, *range(1000, 1255), *[second] * 900, *(word for word in frequent for _ in range(1400))]
    spread = [PlainQuery(n, REGION_RECT, (0.9, 0.9, 0.9, 0.9), frozenset([word])) for n, word in enumerate(alone)]
    random, asked = Random(5), []
    for n in range(600):
        further = frequent[: n % 4]
        words = (
            frozenset([rare, (first, second)[n % 2], *further]) if n % 5 else frozenset([rare, first, second, *further])
        )
        low = random.random() / 10
        asked.append(PlainQuery(10_000 + n, REGION_RECT, (low, low, 0.7 + low, 0.7 + low), words))
    index, brute = make_range_index("kag", SPACE), make_range_index("brute", SPACE)
    for each in (index, brute):
        each.insert(query_batch(spread))
        each.insert(query_batch(asked))
    words = index._table.words.find(np.array([first, second]))
    assert words[0] != words[1]
    assert words[0] % SECOND_WORDS == words[1] % SECOND_WORDS
    sets = [
        frozenset([rare, *some, *further])
        for some in ((first,), (second,), (first, second), ())
        for further in ((), (4,), (5, 6), frequent)
    ]
    objects = object_batch([PlainObject(x, 0.4, words) for words in sets for x in (0.05, 0.4, 0.72)])
    assert index._structure._state[APART] > 200
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))
    gone = np.arange(10_000, 10_600, 2)  # all whose second word opened the group, or most
    for each in (index, brute):
        assert each.remove(gone) == len(gone)
        each.insert(query_batch(asked[::4]))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))


def test_equal_queries_share_a_posting_and_leave_one_by_one():
    """A thousand equal queries cost an object what a few cost; whoever goes, the others are still found."""
    same = [PlainQuery(n, REGION_RECT, (0.4, 0.4, 0.5, 0.5), frozenset([1, 2])) for n in range(1000)]
    index = make_range_index("kag", SPACE)
    index.insert(query_batch([*same, *squares(range(1000, 1200), 1)]))
    objects = object_batch([PlainObject(0.45, 0.45, frozenset([1, 2, 3])), PlainObject(0.45, 0.45, frozenset([1]))])
    left = set(range(1000))
    others = [pair for pair in pairs_of(index.match(objects)) if pair[1] >= 1000]
    assert index.cost().candidates < 100
    random = Random(7)
    for size in (1, 1, 7, 300, 400, 200, 80):
        gone = random.sample(sorted(left), size)
        left -= set(gone)
        index.remove(np.array(gone))
        assert pairs_of(index.match(objects)) == sorted([(0, n) for n in left] + others)
    index.remove(np.array(sorted(left)))
    assert pairs_of(index.match(objects)) == others
    index.insert(query_batch(same[:20]))
    assert pairs_of(index.match(objects)) == sorted([(0, n) for n in range(20)] + others)


def test_crowded_cell_gives_up_a_whole_batch():
    """Queries that are nearly equal crowd one cell, from which batches of any composition are taken."""
    near = [PlainQuery(n, REGION_RECT, (0.4, 0.4, 0.5 + n * 1e-7, 0.5), frozenset([1])) for n in range(2000)]
    any_of = [
        PlainQuery(n, REGION_RECT, (0.4, 0.4, 0.5 + n * 1e-7, 0.5), frozenset([1, 2]), True) for n in range(2000, 3000)
    ]
    index = make_range_index("kag", SPACE)
    index.insert(query_batch([*near, *any_of]))
    objects = object_batch([PlainObject(0.45, 0.45, frozenset([1])), PlainObject(0.45, 0.45, frozenset([2]))])
    left, random = set(range(3000)), Random(5)
    for size in (1, 3, 500, 1500, 700, 200):
        gone = random.sample(sorted(left), size)
        left -= set(gone)
        index.remove(np.array(gone))
        expected = [(0, n) for n in sorted(left)] + [(1, n) for n in sorted(left) if n >= 2000]
        assert pairs_of(index.match(objects)) == expected
    index.remove(np.array(sorted(left)))
    assert groups_of(index) == []


@pytest.mark.parametrize(("metric", "space"), [("euclidean", SPACE), ("haversine", Rect(-180.0, -90.0, 180.0, 90.0))])
def test_circles_are_decided_by_quanta_only_where_these_are_sure(metric, space):
    """Places all around the rim of circles of many sizes and latitudes are judged as the definition does."""
    random, queries, objects = Random(11), [], []
    for n in range(300):
        if metric == "haversine":
            x, y, r = random.uniform(-179, 179), random.uniform(-88, 88), 10 ** random.uniform(1, 6.5)
            reach = r / 111_000
        else:
            x, y, reach = random.random(), random.random(), 10 ** random.uniform(-4, -0.5)
            r = reach
        queries.append(PlainQuery(n, REGION_CIRCLE, (x, y, r, 0.0), frozenset([1])))
        for _ in range(12):
            angle, share = random.uniform(0, 2 * math.pi), random.choice([0.9, 0.97, 0.999, 1.0, 1.001, 1.03, 1.1])
            stretch = 1 / max(math.cos(math.radians(y)), 0.02) if metric == "haversine" else 1.0
            at_x, at_y = x + reach * stretch * share * math.cos(angle), y + reach * share * math.sin(angle)
            if space.min_x <= at_x <= space.max_x and space.min_y <= at_y <= space.max_y:
                objects.append(PlainObject(at_x, at_y, frozenset([1])))
    plain, index = make_range_index("brute", space, metric), make_range_index("kag", space, metric)
    for one in (plain, index):
        one.insert(query_batch(queries))
    assert pairs_of(index.match(object_batch(objects))) == pairs_of(plain.match(object_batch(objects)))


def test_circles_as_small_as_the_steps_of_their_coordinates_are_judged_by_the_definition():
    """Far from the origin float64 rounds the box of a tiny circle by whole quanta, which then are sure of nothing."""
    random, corner = Random(3), 5e6
    space = Rect(corner, corner, corner + 1.0, corner + 1.0)
    circles = [[corner + 0.5 + random.random() * 2e-6 for _ in "xy"] + [random.uniform(3e-9, 3e-7)] for _ in range(40)]
    objects = []
    for _ in range(400):
        (x, y, r), angle = random.choice(circles), random.uniform(0, 2 * math.pi)
        away = r * random.uniform(0.8, 1.2)
        objects.append(PlainObject(x + away * math.cos(angle), y + away * math.sin(angle), frozenset([1])))
    plain, index = make_range_index("brute", space), make_range_index("kag", space)
    for one in (plain, index):
        one.insert(
            query_batch([PlainQuery(n, REGION_CIRCLE, (*c, 0.0), frozenset([1])) for n, c in enumerate(circles)])
        )
    assert pairs_of(index.match(object_batch(objects))) == pairs_of(plain.match(object_batch(objects)))


def test_words_beyond_the_exact_tags_are_verified():
    """With more words than tags, words that share a tag are told apart by the table."""
    index = make_range_index("kag", SPACE)
    words = range(10, 80_010)
    index.insert(query_batch([PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset([n])) for n in words]))
    pairs = [(2_000_000 + n, frozenset([n, 80_009])) for n in (79_000, 79_000 - (TAG_BITS + 1), 50)]
    index.insert(query_batch([PlainQuery(number, REGION_RECT, (0.4, 0.4, 0.6, 0.6), kw) for number, kw in pairs]))
    objects = [PlainObject(0.5, 0.5, kw) for _, kw in pairs] + [PlainObject(0.5, 0.5, frozenset([80_009]))]
    found = pairs_of(index.match(object_batch(objects)))
    assert [pair for pair in found if pair[1] >= 2_000_000] == [(i, number) for i, (number, _) in enumerate(pairs)]
    assert len(found) == 7 + 3


def test_query_that_many_words_find_hangs_on_its_place():
    """It has one posting where its region is small, is found by each of its words and no other, and leaves nothing behind."""
    random = Random(7)
    index, plain = make_range_index("kag", SPACE), make_range_index("brute", SPACE)
    many = [
        replace(q, match_any=True, keywords=frozenset(random.sample(range(300), 40)))
        for q in squares(range(200), 3, 0.3)
    ]
    few = [
        replace(q, match_any=True, keywords=frozenset(random.sample(range(300), 3)))
        for q in squares(range(200, 300), 4, 0.3)
    ]
    one = [replace(q, number=300 + n) for n, q in enumerate(many[:20])]  # as others, and without a word of its own
    for made in (index, plain):
        made.insert(query_batch(many[:100] + few))
        made.insert(query_batch(many[100:] + one))
    structure = index._structure
    assert 200 <= sum(count for count, _ in groups_of(index)) < 200 + 20 + 3 * 100 + 1
    objects = [
        PlainObject(random.random(), random.random(), frozenset(random.sample(range(330), random.randint(0, 6))))
        for _ in range(300)
    ]
    gone = np.array([*range(0, 200, 2), 250, 305])
    for _ in range(2):
        found = pairs_of(index.match(object_batch(objects)))
        assert found == pairs_of(plain.match(object_batch(objects)))
        assert len(found) > 300
        for made in (index, plain):
            made.remove(gone)
        gone = index.numbers()
    assert not groups_of(index)
    assert structure._met < 1e-6
    assert not structure._by_place.any()


def test_queries_of_many_words_hang_on_their_words_where_too_many_would_be_met():
    """Large regions are held against the words of every object only up to a number of them."""
    wide = [
        PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset(range(20 * n, 20 * n + 20)), True)
        for n in range(100)
    ]
    index = make_range_index("kag", SPACE)
    index.insert(query_batch(wide))
    assert index._structure._met <= MOST_MET
    assert index._structure._by_place.sum() == MOST_MET
    assert pairs_of(index.match(object_batch([PlainObject(0.5, 0.5, frozenset([5, 1999]))]))) == [(0, 0), (0, 99)]
    assert index.cost().candidates <= MOST_MET + 2
    index.remove(np.arange(0, 100, 3))
    index.insert(query_batch([replace(q, number=1000 + q.number) for q in wide[:50]]))
    assert pairs_of(index.match(object_batch([PlainObject(0.5, 0.5, frozenset([5, 1999]))]))) == [(0, 1000)]
    assert index._structure._by_place.sum() == MOST_MET


SMALL_BUFFER = """
import numpy as np
from benchmarks.synthetic_stream import registrations
from operators.indexes import make_range_index
from operators.indexes.range import kag, kag_probe_kernels
from range_model import PlainObject, object_batch
from streams.geometry import Rect

kag.RUNS = kag_probe_kernels.RUNS = 8
kag_probe_kernels.MOST_ROWS = 1  # each word here has one short list, which is one run
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
    """Four times the area, with as many queries to each part of it, is about the same work for each object."""
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
    assert 0.6 * examined[0] <= examined[1] <= 1.6 * examined[0]
