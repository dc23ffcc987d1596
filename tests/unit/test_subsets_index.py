"""SOP's subsets: divided by place, each with a rectangle that always encloses the balls of its subscriptions."""

from random import Random

import numpy as np
import pytest
from knn_model import Drawn, knn_batch, objects_batch

from operators.indexes.knn import subsets as subsets_module
from operators.indexes.knn.ball_grid import ball_boxes
from operators.indexes.knn.quarters import divided
from operators.indexes.knn.registry import make_knn_index
from streams.batches import FOREVER
from streams.errors import DeclarationError
from streams.geometry import Rect, distance

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
GLOBE = Rect(-180.0, -90.0, 180.0, 90.0)


def subscription(number, x, y, keywords=(1,), k=1):
    return {"number": number, "x": x, "y": y, "keywords": frozenset(keywords), "ts": 0, "end": FOREVER, "k": k,
            "match_any": True}  # fmt: skip


def thing(seq, x, y, keywords=(1,)):
    return {"seq": seq, "ts": 0, "x": x, "y": y, "keywords": frozenset(keywords), "op": 0, "id": seq}


def enclosed(index):
    """Assert that every rectangle encloses the balls of its subset; return how many have an end."""
    structure, held = index._structure, index._table.roster.held()
    boxes, rects = ball_boxes(held, index._table, index._lists), structure._rects[structure._subset[held]]
    assert (boxes[:, :2] >= rects[:, :2]).all()
    assert (boxes[:, 2:] <= rects[:, 2:]).all()
    endless = structure._subset[held][structure._lists.endless(held)]
    assert np.bincount(endless, minlength=len(structure._rects)).tolist() == structure._endless.tolist()
    return int(np.isfinite(structure._rects).all(axis=1).sum())


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize("seed", range(5))
def test_rectangles_enclose_the_balls(metric, seed):
    """Whatever comes, goes and shrinks; and they have ends once the balls do."""
    rng = Random(seed)
    space = SPACE if metric == "euclidean" else GLOBE
    index = make_knn_index("subsets", space, metric, subsets=7)
    drawn = Drawn(rng, space)
    drawn.keywords = lambda: frozenset([1])
    for _ in range(30):
        usual = {"k": 1, "end": FOREVER, "ts": 0, "none": frozenset()}
        index.insert(knn_batch([drawn.query() | usual for _ in range(rng.randrange(1, 9))]))
        assert enclosed(index) < len(index._structure._rects)
        index.take(objects_batch([drawn.object() | {"op": 0} for _ in range(10)]))
        enclosed(index)
        index.remove(np.array([n for n in index.numbers().tolist() if rng.random() < 0.1], np.int64))
        index.take(objects_batch([drawn.object() | {"op": 0} for _ in range(10)]))
        assert enclosed(index) > 0
    at = index._table.shape[index._table.roster.held()]
    assert len(set(index._structure._quarters.of(at[:, 0].copy(), at[:, 1].copy()).tolist())) > 3


def test_objects_outside_of_a_rectangle_skip_the_subset():
    """Four corners, a small ball in each: an object looks at one, one in the middle at none."""
    corners = [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)]
    places = [(x + dx, y + dy) for x, y in corners for dx in (0.0, 0.01) for dy in (0.0, 0.01)]
    index = make_knn_index("subsets", SPACE, subsets=4)
    index.insert(knn_batch([subscription(n, x, y) for n, (x, y) in enumerate(places)]))
    index.take(objects_batch([thing(n, x, y) for n, (x, y) in enumerate(corners, 1)]))
    index.reset_cost()
    index.take(objects_batch([thing(10, 0.5, 0.5)]))
    assert index.cost().candidates == 0
    index.take(objects_batch([thing(11, 0.9, 0.1)]))
    assert index.cost().candidates == 4
    index.insert(knn_batch([subscription(99, 0.1, 0.1)]))
    index.reset_cost()
    assert index.take(objects_batch([thing(12, 0.5, 0.5)])).tolist() == [99]
    assert index.cost().candidates == 5


def test_rectangle_has_an_end_soon_after_the_last_ball_of_its_subset():
    """A new ball among forty opens it for one object, which gives the ball an end: the next objects pass everybody over."""
    index = make_knn_index("subsets", SPACE, subsets=1)
    index.insert(knn_batch([subscription(n, n / 400, n / 400) for n in range(40)]))
    index.take(objects_batch([thing(n, n / 400, n / 400) for n in range(1, 41)]))
    index.take(objects_batch([thing(50, 0.0, 0.0)]))
    assert enclosed(index) == 1
    index.insert(knn_batch([subscription(99, 0.05, 0.05)]))
    assert enclosed(index) == 0
    index.reset_cost()
    examined = []
    for seq, far in ((60, 0.1), (61, 0.9), (62, 0.9)):
        index.take(objects_batch([thing(seq, far, far)]))
        examined.append(index.cost().candidates)
    assert examined == [41, 41, 41]
    assert enclosed(index) == 1


def test_rectangles_are_computed_anew_when_that_is_worth_it(monkeypatch):
    """A few balls that shrink do not make everybody's box be computed."""
    computed = []
    monkeypatch.setattr(
        subsets_module, "ball_boxes", lambda slots, *rest: computed.append(len(slots)) or ball_boxes(slots, *rest)
    )
    rng = Random(5)
    index = make_knn_index("subsets", SPACE, subsets=4)
    index.insert(knn_batch([subscription(n, rng.random(), rng.random(), (n,)) for n in range(100)]))
    computed.clear()
    for seq in range(1, 25):
        index.take(objects_batch([thing(seq, rng.random(), rng.random(), (seq,))]))
    assert computed == []
    index.take(objects_batch([thing(30, 0.5, 0.5, (40, 41))]))
    index.take(objects_batch([thing(31, 0.5, 0.5, ())]))
    assert computed == [100]


def test_dearest_subspaces_are_quartered_first():
    """Where most subscriptions are the subspaces are small; where no object comes they cost nothing."""
    rng = np.random.default_rng(1)
    x, y = np.append(rng.random(900) / 2, 0.5 + rng.random(100) / 2), np.append(rng.random(900) / 2, rng.random(100))
    boxes = np.column_stack([x, y, x, y])
    everywhere = rng.random((500, 2))
    crowded = divided(SPACE, x, y, boxes, everywhere, 16)
    assert crowded.leaves == 16
    assert len(set(crowded.of(x[:900], y[:900]).tolist())) > 8
    east = np.column_stack([0.5 + rng.random(500) / 2, rng.random(500)])
    visited = divided(SPACE, x, y, boxes, east, 16)
    assert len(set(visited.of(x[:900], y[:900]).tolist())) == 1
    assert len(set(visited.of(x[900:], y[900:]).tolist())) > 8


def test_subscriptions_at_one_place_are_one_subset():
    """Quartering ends; the subset is where every lookup of that place leads to."""
    x = y = np.full(50, 1 / 3)
    quarters = divided(SPACE, x, y, np.column_stack([x, y, x, y]), np.empty((0, 2)), 500)
    assert 1 < quarters.leaves < 500
    assert len(set(quarters.of(x, y).tolist())) == 1


def test_division_follows_growth():
    """With twice the subscriptions the space is divided anew, and everybody is found in the new subsets."""
    rng = Random(8)
    index = make_knn_index("subsets", SPACE, subsets=4)
    sizes = []
    for first in range(0, 400, 10):
        index.insert(knn_batch([subscription(first + n, rng.random(), rng.random()) for n in range(10)]))
        sizes.append(index._structure._divided_at)
    assert sorted(set(sizes)) == [10, 30, 70, 150, 310]
    assert len(index.take(objects_batch([thing(1, 0.5, 0.5)]))) == 400
    numbers = index.take(objects_batch([thing(2, 0.25, 0.75)]))
    shape = index._table.shape[index._table.roster.find(np.arange(400))]
    nearer = distance(shape[:, 0], shape[:, 1], 0.25, 0.75) < distance(shape[:, 0], shape[:, 1], 0.5, 0.5)
    assert numbers.tolist() == np.flatnonzero(nearer).tolist()


@pytest.mark.parametrize("count", [0, -3, 5000])
def test_options_are_checked(count):
    """There is at least one subset, and not more than can be numbered."""
    with pytest.raises(DeclarationError, match=r"subsets = -?[0-9]+, expected a whole number from 1 to 4096"):
        make_knn_index("subsets", SPACE, subsets=count)
