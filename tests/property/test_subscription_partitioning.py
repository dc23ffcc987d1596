"""Algorithm 2 of DkM-SKS against the paper's lines, subset by subset."""

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.builders.dkm_sks import Subscriptions, subscription_partitioning
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.subscription_costs import ball_rects
from streams.columns import sorted_rows
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def _drawn(rng, objects, count, words):
    """Draw objects and subscriptions; many subscriptions share places, some have no keywords or words that nobody has."""
    x, y = rng.integers(0, 33, (2, objects)) / 32
    row = np.repeat(np.arange(objects), rng.integers(0, 4, objects))
    initial = InitialObjects.of(x, y, *sorted_rows(row, rng.integers(0, words, len(row)), objects))
    at_x, at_y = rng.integers(0, 9, (2, count)) / 8
    row = np.repeat(np.arange(count), rng.integers(0, 4, count))
    kw_off, kw = sorted_rows(row, rng.integers(0, words + 2, len(row)), count)
    radius = initial.kth_distances(at_x, at_y, kw_off, kw, rng.integers(1, 4, count), np.ones(count, np.bool_))
    return initial, Subscriptions(at_x, at_y, ball_rects(at_x, at_y, radius, SPACE), kw_off, kw)


class _Paper:
    """Algorithm 2 with sets of rows and a sorted collection, costs counted object by object."""

    def __init__(self, initial, subscriptions):
        self.initial, self.s = initial, subscriptions

    def counts(self, rows):
        """Return C(s) * |O_init| of the rows of a subset, R enclosing their balls."""
        ball = self.s.ball[rows]
        rect = np.array([[*ball[:, :2].min(axis=0), *ball[:, 2:].max(axis=0)]])
        found = []
        for row in rows:
            words = self.s.kw[self.s.kw_off[row] : self.s.kw_off[row + 1]]
            held = self.initial.counts_within(rect, np.zeros(max(len(words), 1), int), words if len(words) else None)
            found.append(int(held.sum()))
        return found

    def quarters(self, box, rows):
        (a, b, c, d), found = box, {}
        x, y = a / 2 + c / 2, b / 2 + d / 2
        for row in rows:
            found.setdefault((self.s.y[row] >= y, self.s.x[row] >= x), []).append(row)
        return [((x if r else a, y if t else b, c if r else x, d if t else y), found[t, r]) for t, r in sorted(found)]

    def dealt(self, rows):
        rows = sorted(rows)
        bins = [[0, 0, n, []] for n in range(4)]
        for cost, row in sorted(zip(self.counts(rows), rows, strict=True), key=lambda pair: -pair[0]):
            least = min(bins)
            least[0], least[1] = least[0] + cost, least[1] + 1
            least[3].append(row)
        return [sorted(one) for *_, one in bins if one]

    def run(self, subsets, hybrid_at_most, max_depth=40):
        heap, single, number = [(0, 0, (0.0, 0.0, 1.0, 1.0), 0, list(range(len(self.s))))], [], 0
        while heap and len(heap) + len(single) < subsets:
            _, _, box, depth, rows = heapq.heappop(heap)
            if len(rows) == 1:
                single.append(rows)
                continue
            parts = self.quarters(box, rows) if depth < max_depth else []
            if not parts or len(rows) <= hybrid_at_most:
                mixed = [(box, part) for part in self.dealt(rows)]
                costs = [sum(sum(self.counts(part)) for _, part in choice) for choice in (parts, mixed)]
                if not parts or costs[0] >= costs[1]:
                    parts = mixed
            for part_box, part in parts:
                number += 1
                heapq.heappush(heap, (-sum(self.counts(part)), number, part_box, depth + 1, part))
        return sorted(map(sorted, [*(rows for *_, rows in heap), *single]))


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    share=st.floats(0.0, 1.1),
    hybrid_at_most=st.sampled_from([0, 1, 4, 20, 100]),
)
def test_subsets_are_those_of_algorithm_2(seed, count, share, hybrid_at_most):
    """The kernel divides as the paper's lines do, to the last subset; all subscriptions are in one, small rectangles first."""
    rng, subsets = np.random.default_rng(seed), 1 + int(share * count)
    initial, subscriptions = _drawn(rng, int(rng.integers(0, 120)), count, 5)
    found = subscription_partitioning(initial, subscriptions, SPACE, subsets, hybrid_at_most)
    assert sorted(sorted(rows.tolist()) for rows in found) == _Paper(initial, subscriptions).run(
        subsets, hybrid_at_most
    )
    assert len(found) >= min(subsets, count)
    rects = subscriptions.enclosing(found)
    assert (np.diff((rects[:, 2] - rects[:, 0]) * (rects[:, 3] - rects[:, 1])) >= 0).all()
