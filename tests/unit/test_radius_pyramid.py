"""The radius pyramid: its trees are whole whatever comes and goes, its boxes close, and what cannot change is in none."""

from random import Random

import numpy as np
import pytest
from knn_model import Drawn, PlainKnn, knn_batch, lists_of, objects_batch

from operators.indexes.knn import lanes, pyramid
from operators.indexes.knn.pyramid_kernels import NOWHERE
from operators.indexes.knn.pyramid_records import CHILDREN, CLOSED, COUNT, COUNTS, HEIGHT, OPEN, PLACE, UP
from operators.indexes.knn.registry import make_knn_index
from streams.errors import DeclarationError
from streams.geometry import Rect

SPACES = {"euclidean": Rect(0.0, 0.0, 1.0, 1.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
every_metric = pytest.mark.parametrize("metric", list(SPACES))


def drawn_from(seed, metric="euclidean"):
    """Many at few words, at places that differ."""
    rng = Random(seed)
    drawn = Drawn(rng, SPACES[metric])
    space = SPACES[metric]
    drawn.place = lambda: (rng.uniform(space.min_x, space.max_x), rng.uniform(space.min_y, space.max_y))
    drawn.keywords = lambda: frozenset(rng.sample([1, 2, 3], rng.randrange(1, 3)))
    return drawn


class Walk:
    """All records of a pyramid, by word and tree, with every promise of the layout checked on the way."""

    def __init__(self, index):
        structure = index._structure
        (self.units, self.slots, self.owner, self.nodes, self.children, self.links, self.words, self.where, self.begin, _,
         _) = structure._pool  # fmt: skip
        self.dimensions, self.size, self.width = structure._dimensions, structure._unit, structure._node
        self.most = int(structure._state[5])
        self.found = []  # (word, tree, slot)
        self.highest = 0
        for word in range(index._table.words.top):
            for tree in (CLOSED, OPEN):
                ref = int(self.words[word, tree])
                if ref >= 0:
                    room = -int(self.owner[ref >> COUNT])
                    assert ref & COUNTS <= room
                    self.block(word, tree, ref, room)
                elif ref < -1:
                    assert self.links[-2 - ref, UP] == -1
                    assert self.links[-2 - ref, CHILDREN] > 1
                    self.node(word, tree, -2 - ref, int(self.links[-2 - ref, HEIGHT]))

    def block(self, word, tree, ref, room):
        """Return the box of a block."""
        unit, count = ref >> COUNT, ref & COUNTS
        assert 1 <= count <= self.most
        first = unit * self.size
        fields = self.units[first : first + room * (self.dimensions + 2)].reshape(-1, room)[:, :count]
        slots = self.slots[first + (self.dimensions + 1) * room :][:count]
        for lane, slot in enumerate(slots.tolist()):
            assert (unit << PLACE) | lane in self.where[self.begin[slot] : self.begin[slot] + 3]
            self.found.append((word, tree, slot))
        reach = np.sqrt(fields[self.dimensions])
        assert np.isinf(reach).all() == (tree == OPEN)
        places = fields[: self.dimensions]
        return (places - reach).min(1), (places + reach).max(1), places

    def node(self, word, tree, node, height):
        """Return the box of a node, and the places under it."""
        assert self.links[node, HEIGHT] == height
        self.highest = max(self.highest, height)
        rows = self.nodes[node * self.width : (node + 1) * self.width].reshape(-1, 16)
        links = self.children[node * self.width :][2 * self.dimensions * 16 :][:16]
        count = int(self.links[node, CHILDREN])
        assert 1 <= count <= self.most
        assert (rows[0, count:] == np.inf).all()
        lows, highs, everywhere = [], [], []
        for place, child in enumerate(links[:count].tolist()):
            up = (node << PLACE) | place
            if height == 1:
                assert self.owner[child >> COUNT] == up
                low, high, places = self.block(word, tree, child, 16)
            else:
                assert self.links[child, UP] == up
                low, high, places = self.node(word, tree, child, height - 1)
            box, region = rows[: 2 * self.dimensions, place], rows[2 * self.dimensions + 1 :, place]
            assert box[0::2].tolist() == low.tolist()
            assert box[1::2].tolist() == high.tolist()
            if tree == CLOSED:
                assert (region[0::2, None] <= places).all()
                assert (places <= region[1::2, None]).all()
            lows.append(low)
            highs.append(high)
            everywhere.append(places)
        return np.min(lows, 0), np.max(highs, 0), np.concatenate(everywhere, 1)


def checked(index):
    """Return the walk of a pyramid that has each subscription under its words, and only there."""
    walk, table = Walk(index), index._table
    wanted = set()
    held = np.sort(table.roster.held())
    off, words = table.words_of(held)
    for row, slot in enumerate(held.tolist()):
        mine = words[off[row] : off[row + 1]].tolist() or [0]
        stage = int(index._structure._stage[slot])
        radius = index._lists.radius[slot]
        assert stage == (NOWHERE if radius == 0 else CLOSED if radius < np.inf else OPEN)
        for word in mine if table.traits[slot] & 4 else mine[:1]:
            if stage != NOWHERE:
                wanted.add((word, stage, slot))
    assert len(walk.found) == len(set(walk.found))
    assert set(walk.found) == wanted
    return walk


@every_metric
@pytest.mark.parametrize("fan_out", [4, 16])
def test_trees_are_whole_whatever_comes_and_goes(metric, fan_out):
    """Every box encloses its balls closely, every record is where its subscription says, and trees grow high and low."""
    index, model = make_knn_index("pyramid", SPACES[metric], metric, fan_out=fan_out), PlainKnn(metric)
    drawn, rng = drawn_from(7, metric), Random(8)
    highest = 0
    for step in range(14):
        queries = [drawn.query() | {"ts": 0, "end": 10**9} for _ in range(60 if step < 7 else 5)]
        index.insert(knn_batch(queries))
        model.insert(queries)
        objects = [drawn.object() for _ in range(25)]
        assert index.take(objects_batch(objects)).tolist() == model.take(objects)
        highest = max(highest, checked(index).highest)
        gone = rng.sample(sorted(model.rows), len(model.rows) // (10 if step < 7 else 2))
        index.remove(np.array(gone, np.int64))
        model.remove(gone)
        checked(index)
        assert lists_of(index.results(index.numbers())) == model.results()
    assert highest >= (3 if fan_out == 4 else 1)
    assert len(index) < 20
    assert checked(index).highest < highest


def test_what_nothing_can_enter_is_in_no_tree():
    """A list with k objects at the very place of its subscription cannot change, and costs nothing any more."""
    index, drawn = make_knn_index("pyramid", SPACES["euclidean"]), drawn_from(3)
    here = {"x": 0.25, "y": 0.5, "keywords": frozenset([1])}
    index.insert(knn_batch([drawn.query() | here | {"k": k, "ts": 0, "end": 10**9} for k in (1, 2)]))
    take = lambda: index.take(objects_batch([drawn.object() | here | {"op": 0}])).tolist()  # noqa: E731
    numbers = index.numbers().tolist()
    assert take() == numbers
    assert take() == numbers[1:]
    index.reset_cost()
    assert take() == []
    assert index.cost().candidates == 0
    assert checked(index).found == []
    index.remove(index.numbers())
    assert len(index) == 0


def test_who_wants_several_keywords_is_read_by_those_with_two_of_them():
    """A list that is not full and wants all of its keywords is found by objects that have its two rarest, and by no others."""
    index, drawn = make_knn_index("pyramid", SPACES["euclidean"]), drawn_from(9)
    wants = [frozenset([1]), frozenset([1, 2]), frozenset([1, 2, 3]), frozenset()]
    queries = [
        drawn.query() | {"keywords": words, "none": frozenset(), "match_any": False, "k": 9, "ts": 0, "end": 10**9}
        for words in wants
    ]
    index.insert(knn_batch(queries))
    numbers = [query["number"] for query in queries]
    found = []
    probe = index._structure.probe
    index._structure.probe = lambda *given, **more: found.append(near := probe(*given, **more)) or near
    for words, changed, pairs in (
        ([1], [0, 3], 2),
        ([1, 2], [0, 1, 3], 4),
        ([1, 2, 3], [0, 1, 2, 3], 4),
        ([5], [3], 1),
    ):
        objects = [drawn.object() | {"keywords": frozenset(words), "op": 0} for _ in range(20)]
        assert index.take(objects_batch(objects[:1])).tolist() == [numbers[i] for i in changed]
        assert len(found[-1].slots) <= pairs
    assert (index._structure._words[:, 2] == 0).all()


def test_a_crowd_at_one_place_is_divided_and_removed():
    """Places that do not differ fill many blocks, whose balls differ."""
    index, drawn = make_knn_index("pyramid", SPACES["euclidean"], fan_out=4), drawn_from(4)
    here = {"x": 0.5, "y": 0.5, "keywords": frozenset([1]), "ts": 0, "end": 10**9, "k": 1}
    index.insert(knn_batch([drawn.query() | here for _ in range(200)]))
    index.take(objects_batch([drawn.object() | {"keywords": frozenset([1]), "op": 0}]))
    assert len(checked(index).found) == 200
    for _ in range(4):
        index.remove(index.numbers()[::2])
        checked(index)
    assert len(index) == 12


def test_memory_does_not_grow_with_churn():
    """As many come as go: what the gone had is used again."""
    index, drawn = make_knn_index("pyramid", SPACES["euclidean"]), drawn_from(5)
    batch = lambda: knn_batch([drawn.query() | {"ts": 0, "end": 10**9} for _ in range(400)])  # noqa: E731
    for _ in range(5):
        index.insert(batch())
    index.take(objects_batch([drawn.object() for _ in range(200)]))
    full = index._structure.nbytes
    for _ in range(20):
        index.remove(index.numbers()[:400])
        index.insert(batch())
        index.take(objects_batch([drawn.object() for _ in range(40)]))
    assert index._structure.nbytes < 1.5 * full
    checked(index)


def test_room_is_made_as_it_is_needed(monkeypatch):
    """Scratch arrays that are too small for one object grow, for several fewer go together."""
    drawn = drawn_from(6)
    queries = [drawn.query() | {"ts": 0, "end": 10**9} for _ in range(300)]
    objects = objects_batch([drawn.object() for _ in range(40)])
    lists = []
    for room in (None, 24):
        index = make_knn_index("pyramid", SPACES["euclidean"], fan_out=4)
        if room:
            structure = index._structure
            structure._nodes_left, structure._blocks_left = np.empty(room, np.int64), np.empty(room, np.int64)
            structure._hits, structure._found = np.empty((room, 3), np.int32), np.empty((2, room), np.int32)
            monkeypatch.setattr(pyramid, "ENOUGH", 50)
        index.insert(knn_batch(queries))
        index.take(objects)
        lists.append(lists_of(index.results(index.numbers())))
    assert lists[0] == lists[1]


def test_fan_out_is_checked():
    """It is what a vector has room for, at most."""
    for wrong in (3, 17):
        with pytest.raises(DeclarationError, match=f"fan_out = {wrong}, expected a whole number from 4 to 16"):
            make_knn_index("pyramid", SPACES["euclidean"], fan_out=wrong)


def test_lanes_agree_with_plain_python():
    """Vector instructions and their stand-ins tell the same, lane by lane."""
    numbers = np.random.default_rng(1).random(16 * 12).astype(np.float32)
    point = tuple(np.float32(value) for value in (0.4, 0.5, 0.6))
    ball = _compiled(lambda a, i, s, d, p, q, r: lanes.balls_around(a, i, s, d, p, q, r))
    box = _compiled(lambda a, i, d, p, q, r: lanes.boxes_around(a, i, d, p, q, r))
    for dimensions in (2, 3):
        for stride in (4, 8, 16):
            for start in range(0, 40, 7):
                assert ball(numbers, start, stride, dimensions, *point) == lanes._plain_balls(
                    numbers, start, stride, dimensions, *point
                )
        for start in range(0, 40, 7):
            assert box(numbers, start, dimensions, *point) == lanes._plain_boxes(numbers, start, dimensions, *point)
    least, greatest = (
        _compiled(lambda a, i, n: lanes.least(a, i, n)),
        _compiled(lambda a, i, n: lanes.greatest(a, i, n)),
    )
    low = _compiled(lambda a, i, r, n: lanes.least_edge(a, i, r, n))
    high = _compiled(lambda a, i, r, n: lanes.greatest_edge(a, i, r, n))
    for count in range(1, 17):
        mine, reach = numbers[5 : 5 + count], np.sqrt(numbers[40 : 40 + count])
        assert (least(numbers, 5, count), greatest(numbers, 5, count)) == (mine.min(), mine.max())
        assert (low(numbers, 5, 40, count), high(numbers, 5, 40, count)) == ((mine - reach).min(), (mine + reach).max())
    lowest = _compiled(lambda mask: lanes.lowest(mask))
    for mask in (1, 6, 8, 1 << 15):
        assert lowest(mask) == lanes._plain_lowest(mask)


def _compiled(function):
    import numba

    return numba.njit(function)
