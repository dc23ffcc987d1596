"""One suite over all indexes of kept objects: what snapshot queries find, whatever came and went before."""

import os
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from object_model import GLOBE, SPACE, Drawn, PlainObjects, batch_of, requests_of

from operators.indexes.objects import OBJECT_INDEXES, make_object_index
from operators.indexes.objects.object_index import Requests
from streams.batches import QueryBatch
from streams.errors import DeclarationError, InputError
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, Rect
from streams.state import pack_apart, pack_state, unpack_state

#: Sizes at which structures are built, merged and left after a few objects.
TIERS = {"chunk": 8, "middle": 3, "large": 2}
SMALL = {"brute": {}, "segments": TIERS, "r-tree": TIERS}

every_index = pytest.mark.parametrize("name", list(OBJECT_INDEXES))

CHECKED = "OBJECT_INDEX_CHECKED" in os.environ


class Run:
    """An index and its model, side by side."""

    def __init__(self, name, seed, space=SPACE, metric="euclidean", options=None, **drawn):
        self.rng = Random(seed)
        self.drawn = Drawn(self.rng, space, metric, **drawn)
        self.make = lambda: make_object_index(name, space, metric, **(SMALL[name] if options is None else options))
        self.model, self.index = PlainObjects(metric), self.make()

    def add(self, count, batch=7):
        for start in range(0, count, batch):
            rows = [self.drawn.object() for _ in range(min(batch, count - start))]
            deleted = {o["seq"] for o in rows if self.rng.random() < 0.03}
            self.index.add(batch_of(rows, deleted))
            self.model.rows.extend(o for o in rows if o["seq"] not in deleted)

    def drop(self, keep):
        kept = self.model.rows[max(len(self.model.rows) - keep, 0) :]
        self.index.drop(kept[0]["seq"] if kept else self.drawn.seq + 1)
        self.model.rows = kept

    def check(self, count=40):
        asked = [self.drawn.request(self.model.rows) for _ in range(count)]
        self.compare(asked)

    def compare(self, asked):
        given, requests, index, model = asked, requests_of(asked), self.index, self.model
        assert len(index) == len(model.rows)
        found = index.srq(requests)
        assert len(found.off) == len(asked) + 1
        for row, q in enumerate(asked):
            assert sorted(found.seq[found.off[row] : found.off[row + 1]].tolist()) == model.srq(q), q
        asked = [q | {"region": REGION_NONE, "shape": [*self.drawn.within(q["shape"]), 0.0, 0.0]} for q in asked]
        nearest = index.skq(requests_of(asked))
        for row, q in enumerate(asked):
            part = slice(nearest.off[row], nearest.off[row + 1])
            pairs = list(zip(nearest.distance[part].tolist(), nearest.seq[part].tolist(), strict=True))
            assert pairs == model.skq(q), q
        counts = index.stq(requests)
        for row, q in enumerate(given):
            part = slice(counts.off[row], counts.off[row + 1])
            listed, left_out = model.stq(q)
            assert list(zip(counts.term[part].tolist(), counts.count[part].tolist(), strict=True)) == listed, q
            assert left_out <= counts.rest[row] < (listed[-1][1] if listed else 1)
            assert q["k"] or counts.rest[row] == 0
        return found, nearest, counts

    def restored(self, state):
        self.index = self.make()
        self.index.restore(unpack_state(pack_state(state)))


@every_index
@pytest.mark.parametrize(("space", "metric"), [(SPACE, "euclidean"), (GLOBE, "haversine")], ids=["plane", "globe"])
def test_answers_are_those_of_the_definition_while_objects_come_and_go(name, space, metric):
    """All three kinds, after every step: nothing held, one object, many, merges under way, and back to nothing."""
    run = Run(name, 1, space, metric, gaps=True)
    run.check(4)
    steps = ((1, 1), (5, 3), (120, 110), (200, 250)) if CHECKED else ((1, 1), (5, 3), (150, 140), (300, 330), (250, 90))
    for count, keep in (*steps, (10, 0), (20, 20)):
        run.add(count)
        run.check()
        run.drop(keep)
        run.check(20)


@every_index
def test_equal_distances_and_equal_counts_are_not_cut_by_chance(name):
    """Four places and a handful of words: of equal distances the older object is nearer, of equal counts all are listed."""
    run = Run(name, 2, grid=1, words=3, longest=2)
    for _ in range(3):
        run.add(110)
        run.drop(200)
        run.check(60)


@every_index
def test_places_are_told_apart_however_close_they_are(name):
    """Places that differ in the last bits, far from the origin, and a city in the space of the world with some outside."""
    run = Run(name, 3, Rect(1e7, 1e7, 1e7 + 1e-6, 1e7 + 1e-6), grid=40)
    run.add(150)
    run.check(60)
    world = Run(name, 4, GLOBE)
    world.drawn.space = Rect(13.3, 52.4, 13.4, 52.5)
    world.add(150)
    world.drawn.space = GLOBE
    world.add(20)
    world.check(60)


@every_index
def test_the_date_line_and_the_poles_are_no_borders(name):
    """Circles and nearest objects across the line of 180 degrees, and around a pole."""
    for space in (Rect(170.0, -90.0, 180.0, -80.0), Rect(-180.0, -1.0, 180.0, 1.0)):
        run = Run(name, 5, space, "haversine", grid=40)
        run.add(150)
        run.check(40)
    run = Run(name, 6, GLOBE, "haversine")
    rows = [{"seq": n, "x": x, "y": 0.0, "kw": [n % 2]} for n, x in enumerate((179.9, -179.95, 0.0, -180.0, 180.0))]
    run.index.add(batch_of(rows))
    run.model.rows, run.drawn.seq = rows, 4
    whole = {"any": False, "first": 0, "stop": 5, "k": 3, "reach": np.inf, "region": REGION_CIRCLE}
    asked = [
        whole | {"shape": [x, y, 30_000.0, 0.0], "kw": kw}
        for x, y in ((179.9, 0.0), (-179.95, 0.0), (180.0, 0.1))
        for kw in ([], [0])
    ]
    found, nearest, _ = run.compare(asked)
    assert sorted(found.seq[: found.off[1]].tolist()) == [0, 1, 3, 4]
    assert sorted(nearest.seq[:3].tolist()) == [0, 3, 4]


@every_index
def test_long_texts_and_many_words(name):
    """Objects of hundreds of keywords, and words that come once and never again, while the oldest objects leave."""
    run = Run(name, 7, words=600, longest=300)
    for _ in range(4):
        run.add(25)
        fresh = [run.drawn.object() for _ in range(20)]
        for o in fresh:
            o["kw"] = sorted({*o["kw"][:3], 10**6 + o["seq"] * 7, 2**62 + o["seq"]})
        run.index.add(batch_of(fresh))
        run.model.rows.extend(fresh)
        run.drop(60)
        run.check(20)


@every_index
def test_a_saved_index_goes_on_as_if_nothing_had_happened(name):
    """Saved and restored in the middle of merges; objects that never change again are in parts, and parts stay the same."""
    run = Run(name, 8, gaps=True)
    run.add(150)
    run.drop(100)
    before = {key: part.value for key, part in pack_apart(run.index.snapshot()).parts.items()}
    run.restored(run.index.snapshot())
    run.check()
    assert set(pack_apart(run.index.snapshot()).parts) == set(before)
    run.add(60)
    run.check()
    after = pack_apart(run.index.snapshot()).parts
    assert set(before) <= set(after)
    with pytest.raises(InputError, match="order of the input"):
        run.index.add(batch_of([{"seq": run.drawn.seq, "x": 0.0, "y": 0.0, "kw": []}]))
    run.drop(0)
    run.restored(run.index.snapshot())
    run.check(5)


@every_index
def test_objects_come_back_as_they_were(name):
    """Whoever stores objects before they are dropped gets them by ranges of seq, keywords by their own ids."""
    run = Run(name, 9, gaps=True)
    run.add(130)
    run.drop(100)
    rows = run.model.rows
    for first, stop in ((0, 10**9), (rows[3]["seq"], rows[50]["seq"]), (rows[20]["seq"] + 1, rows[20]["seq"] + 1)):
        wanted = batch_of([o for o in rows if first <= o["seq"] < stop])
        kept = run.index.kept(first, stop)
        for column in ("seq", "x", "y", "kw_off", "kw"):
            assert getattr(kept, column).tolist() == getattr(wanted, column).tolist()


@every_index
def test_waiting_work_ends_and_changes_no_answer(name, monkeypatch):
    """`tend` comes to an end, however small its steps, and what is left behind is smaller, not other."""
    monkeypatch.setattr("operators.indexes.objects.segment_parts.STEP", 3)
    run = Run(name, 10)
    run.add(200, batch=200)
    run.check(10)
    for _ in range(10_000):
        if not run.index.tend(1):
            break
    else:
        pytest.fail("there is always work left")
    run.check()
    run.drop(1)
    while run.index.tend(1000):
        pass
    held = run.index.nbytes
    run.add(400)
    assert run.index.nbytes > held
    run.drop(1)
    while run.index.tend(1000):
        pass
    assert run.index.nbytes <= 2 * held


@every_index
def test_bad_input_is_refused_before_anything_is_kept(name):
    """A batch out of order, or with a place that is none, leaves the index as it was."""
    run = Run(name, 11)
    run.add(20)
    rows = [run.drawn.object() for _ in range(3)]
    with pytest.raises(InputError, match="order of the input"):
        run.index.add(batch_of(rows[::-1]))
    with pytest.raises(InputError, match=r"object 1 of the batch is at \(nan"):
        run.index.add(batch_of([rows[0], rows[1] | {"x": np.nan}]))
    run.check(10)


@pytest.mark.parametrize("name", [name for name in OBJECT_INDEXES if name != "brute"])
def test_many_objects_are_searched_as_by_brute_force(name):
    """Thousands of objects around hot spots, thousands of words: what small indexes never have, such as heads of terms."""
    random = np.random.default_rng(12)
    tiers = {"chunk": 512, "middle": 8, "large": 2}
    truth, index = make_object_index("brute", SPACE), make_object_index(name, SPACE, **tiers)
    drawn, seq = Drawn(Random(12), words=3000), 0
    for count, keep in ((5000, 5000), (5000, 9000), (600, 8700)):
        hot = random.random(count) < 0.8
        x = np.where(hot, random.normal(0.5, 0.1, count), random.uniform(-1, 3, count))
        y = np.where(hot, random.normal(1.2, 0.05, count), random.uniform(0, 2, count))
        words = np.minimum(random.pareto(0.8, (count, 8)) * 3, 2999).astype(int).tolist()
        rows = [
            {"seq": seq + n, "x": x[n], "y": y[n], "kw": sorted({*words[n], n % 7} if n % 5 else {n % 7})}
            for n in range(count)
        ]
        seq += count
        drawn.seq = seq - 1
        for one in (truth, index):
            for start in range(0, count, 1000):
                one.add(batch_of(rows[start : start + 1000]))
            one.drop(seq - keep)
        asked = [drawn.request(rows) for _ in range(60)]
        whole = {"first": 0, "stop": seq, "kw": [], "any": False, "reach": np.inf}
        for size in (0.02, 0.1, 0.3, 2.0):
            rect = {"region": REGION_RECT, "shape": [0.5 - size, 1.2 - size / 2, 0.5 + size, 1.2 + size / 2]}
            circle = {"region": REGION_CIRCLE, "shape": [0.5, 1.2, size, 0.0]}
            asked += [whole | shape | {"k": k} for shape in (rect, circle) for k in (1, 10, 100, 2000)]
        requests = requests_of(asked)
        found, wanted = index.srq(requests), truth.srq(requests)
        assert found.off.tolist() == wanted.off.tolist()
        pairs = zip(found.off, found.off[1:], strict=False)
        assert all(sorted(found.seq[a:b].tolist()) == wanted.seq[a:b].tolist() for a, b in pairs)
        nearest = [one.skq(requests_of([q | {"region": REGION_NONE} for q in asked])) for one in (index, truth)]
        for column in ("off", "seq", "distance"):
            assert getattr(nearest[0], column).tolist() == getattr(nearest[1], column).tolist()
        counts, expected = index.stq(requests), truth.stq(requests)
        for column in ("off", "term", "count"):
            assert getattr(counts, column).tolist() == getattr(expected, column).tolist()
        assert (counts.rest >= expected.rest).all()
        assert max(found.examined, nearest[0].examined) < wanted.examined / 2
        assert counts.examined < expected.examined


def test_requests_share_the_columns_of_queries():
    """What a query says of place, text and k is asked as it stands."""
    requests = Requests.of(QueryBatch.empty(), np.empty(0, np.int64), np.empty(0, np.int64))
    for name in OBJECT_INDEXES:
        index = make_object_index(name, SPACE)
        assert (
            index.srq(requests).off.tolist()
            == index.skq(requests).off.tolist()
            == index.stq(requests).off.tolist()
            == [0]
        )


def test_names_and_options_are_checked():
    """A typo is answered with what there is."""
    with pytest.raises(DeclarationError, match=r"object index 'brut' \(did you mean 'brute'\?\)"):
        make_object_index("brut", SPACE)
    with pytest.raises(DeclarationError, match="option 'side' of object index 'brute', expected none"):
        make_object_index("brute", SPACE, side=3)


@pytest.mark.skipif(CHECKED, reason="is itself run in this way")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    passes_with_checked_bounds(checked_kernels, __file__, OBJECT_INDEX_CHECKED="1")
