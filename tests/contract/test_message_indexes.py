"""One suite over all indexes of a window's messages: what requests want, whatever came and went before."""

import os
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from window_model import SPACE, Drawn, PlainWindow, asked, messages_of, requests_of

from operators.indexes.topk.message_indexes import MESSAGE_INDEXES, make_message_index
from streams.errors import DeclarationError
from streams.geometry import Rect

every_index = pytest.mark.parametrize("name", list(MESSAGE_INDEXES))

GLOBE = Rect(-180.0, -90.0, 180.0, 90.0)


class Run:
    """An index and its model, side by side."""

    def __init__(self, name, seed, space=SPACE, metric="euclidean", options=None, **drawn):
        self.rng = Random(seed)
        self.drawn = Drawn(self.rng, space, **drawn)
        self.model, self.index = PlainWindow(space, metric), make_message_index(name, space, metric, **(options or {}))

    def add(self, count):
        rows = [self.drawn.message() for _ in range(count)]
        self.model.rows.extend(rows)
        self.index.add(messages_of(rows))

    def drop(self, keep):
        kept = self.model.rows[max(len(self.model.rows) - keep, 0) :]
        first = kept[0]["seq"] if kept else self.drawn.seq + 1
        self.index.drop(first)
        self.model.rows = kept

    def request(self, held):
        """Return a subscription and what it asks for: the best few, all above a bound, or a part of a score."""
        rng = self.rng
        subscription = self.drawn.subscription(10)
        least = rng.choice([1, rng.randint(1, 30), max(held, 1), held + 5])
        most = least + rng.choice([0, 0, rng.randint(0, 40), 10**6])
        bound, ratio = rng.choice([(np.inf, 0.0), (rng.random(), 0.0), (-np.inf, 0.0), (0.0, 0.95), (0.0, 1.0)])
        first, stop = self.drawn.seq - held, self.drawn.seq + 1
        if rng.random() < 0.3:
            first, stop = sorted(rng.randint(max(first, 0), stop) for _ in range(2))
        return subscription, least, most, bound, ratio, first, stop

    def check(self, requests=30):
        held = len(self.model.rows)
        drawn = [self.request(held) for _ in range(requests)]
        answers = self.index.search(requests_of(*zip(*drawn, strict=True)))
        assert len(answers.off) == requests + 1
        for row, (subscription, least, most, bound, ratio, first, stop) in enumerate(drawn):
            ranking = self.model.ranking(subscription, first, stop)
            wanted, left_out = asked(ranking, least, most, bound, ratio)
            part = slice(answers.off[row], answers.off[row + 1])
            assert list(zip(answers.score[part].tolist(), answers.seq[part].tolist(), strict=True)) == wanted
            floor = answers.floor[row]
            assert floor >= (-np.inf if left_out is None else left_out)
            assert (
                floor == -np.inf
                if len(wanted) < least
                else floor <= max(wanted[-1][0], bound if not ratio else -np.inf)
            )
        return answers


@every_index
def test_searches_find_what_is_wanted_while_messages_come_and_go(name):
    """After every step answers are those of a look at all messages: empty windows, one message, many, and back."""
    run = Run(name, 1)
    run.check(3)
    for count, keep in ((1, 1), (5, 3), (300, 200), (400, 500), (700, 600), (30, 40), (10, 0), (20, 20)):
        run.add(count)
        run.check()
        run.drop(keep)
        run.check()


@every_index
def test_equal_scores_are_ordered_by_the_newer_message(name):
    """Four places and a handful of words: most scores are equal to others, also at the end of what is wanted."""
    run = Run(name, 2, grid=1, words=3, longest=2, gaps=True)
    for _ in range(4):
        run.add(250)
        run.drop(400)
        run.check(60)


@every_index
def test_long_messages_are_filed_under_all_of_their_words(name):
    """Texts of hundreds of words, subscriptions to a few of them."""
    run = Run(name, 3, words=600, longest=400)
    run.add(60)
    run.check()
    run.drop(20)
    run.add(10)
    run.check()


@every_index
def test_a_city_in_the_space_of_the_world_is_searched_exactly(name):
    """Places that differ by a ten-thousandth of the space and less, far from its corner; then some elsewhere."""
    space = Rect(-180.0, -90.0, 180.0, 90.0)
    run = Run(name, 4, space=space)
    run.drawn.space = Rect(13.3, 52.4, 13.4, 52.5)
    run.add(900)
    run.check(60)
    run.drawn.space = space
    run.add(50)
    run.drop(800)
    run.check(60)


@every_index
def test_large_windows_are_searched_as_by_brute_force(name):
    """Words with thousands of messages, around a few hot spots, while the window grows, moves on and shrinks."""
    rng, random = Random(6), np.random.default_rng(6)
    truth, index = (make_message_index(n, SPACE) for n in ("brute", name))
    drawn = Drawn(rng, words=30)
    for count, keep in ((9000, 9000), (3000, 8000), (1000, 1500)):
        rows = [drawn.message() for _ in range(count)]
        part = messages_of(rows)
        hot = random.random(count) < 0.7
        part.x[hot], part.y[hot] = 0.5 + random.normal(0, 0.03, hot.sum()), 1.2 + random.normal(0, 0.01, hot.sum())
        for one in (truth, index):
            one.add(part)
            one.drop(drawn.seq + 1 - keep)
        asks = [drawn.subscription(10) for _ in range(40)]
        least = random.integers(1, 40, len(asks))
        ratio = np.where(random.random(len(asks)) < 0.5, 0.9, 0.0)
        whole = np.zeros(len(asks)), np.full(len(asks), drawn.seq + 1)
        requests = requests_of(
            asks, least, least + random.integers(0, 40, len(asks)), np.full(len(asks), 0.6), ratio, *whole
        )
        found, wanted = index.search(requests), truth.search(requests)
        assert found.off.tolist() == wanted.off.tolist()
        assert found.seq.tolist() == wanted.seq.tolist()
        assert found.score.tolist() == wanted.score.tolist()
        assert (found.floor >= wanted.floor).all()
        assert name == "brute" or found.examined < wanted.examined / 2


@every_index
def test_memory_returns_when_messages_leave(name):
    """After a large window has gone, and after many small ones with words of their own, hardly anything is held."""
    run = Run(name, 7, words=2000, longest=60)
    run.add(1500)
    most = run.index.nbytes
    run.drop(0)
    assert run.index.nbytes < most / 3
    for turn in range(30):
        run.drawn.words = list(range(1000 * turn, 1000 * turn + 300))
        run.add(100)
        run.drop(10)
    run.check()
    run.drop(0)
    assert run.index.nbytes < most / 3


def test_an_ir_tree_of_many_levels_is_exact_while_messages_pass_through_it_one_by_one():
    """Nodes of five children are split and joined all the time, some of them with boxes without area."""
    for grid in (0, 2):
        run = Run("ir-tree", 8, options={"fanout": 5}, grid=grid)
        run.add(200)
        for keep in (200, 60, 120):
            for _ in range(100):
                run.add(1)
                run.drop(keep)
            run.check()


@every_index
def test_distances_on_the_globe_are_those_of_the_definition(name):
    """Haversine distances, to the last bit, also across the date line, near the poles and on the far side."""
    for space in (GLOBE, Rect(170.0, -90.0, 180.0, -80.0), Rect(-180.0, 0.0, 180.0, 1.0)):
        run = Run(name, 5, space=space, metric="haversine", grid=0 if space is GLOBE else 40)
        run.add(800)
        run.check(60)
        run.drop(300)
        run.check(20)


@every_index
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_nothing_is_left_out_of_a_window_that_is_found_whole(name, metric):
    """All messages match, and fewer are there than are wanted: then all is known, however bad it is."""
    run = Run(name, 6, space=GLOBE, metric=metric, words=3, longest=3)
    run.drawn.words = run.drawn.words[:3]
    for count in (1, 1, 2, 20, 200, 900):
        run.add(count)
        held = run.model.rows = [row for row in run.model.rows if row["kw"]]
        wanted = len(held) + 1, len(held) + 1, np.inf, 0.0, 0, run.drawn.seq + 1
        drawn = [(run.drawn.subscription(10), *wanted) for _ in range(30)]
        answers = run.index.search(requests_of(*zip(*drawn, strict=True)))
        found = [len(run.model.ranking(subscription, 0, run.drawn.seq + 1)) for subscription, *_ in drawn]
        assert np.diff(answers.off).tolist() == found
        assert set(answers.floor.tolist()) == {-np.inf}


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="is itself run in this way")
@pytest.mark.timeout(900)  # everything is compiled anew
@pytest.mark.parametrize("name", ["keyword-grids", "ir-tree"])
def test_kernels_stay_inside_of_their_arrays(name, checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    test = f"{__file__}::{test_searches_find_what_is_wanted_while_messages_come_and_go.__name__}[{name}]"
    passes_with_checked_bounds(checked_kernels, test)


def test_names_and_options_are_checked():
    """A typo is answered with what there is."""
    with pytest.raises(DeclarationError, match=r"message index 'brut' \(did you mean 'brute'\?\)"):
        make_message_index("brut", SPACE)
    with pytest.raises(DeclarationError, match="option 'side' of message index 'brute', expected none"):
        make_message_index("brute", SPACE, side=3)
    with pytest.raises(DeclarationError, match="an IR-tree with nodes of 4 children; expected at least 5"):
        make_message_index("ir-tree", SPACE, fanout=4)
