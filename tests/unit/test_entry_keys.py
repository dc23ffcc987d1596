"""Keys of buffer entries: scores to the last bit, places, and the order of both."""

import numpy as np
import pytest

from operators.indexes.topk.entry_keys import PLACES, fits, high_of, low_of, place_at, score_at

NARROW, WIDE = np.zeros(1, np.uint16), np.zeros(1, np.uint32)


def drawn_scores(rng, count):
    """Scores of all sizes between 0 and 1, some of them next to each other."""
    some = np.concatenate([rng.random(count), 2.0 ** -rng.uniform(0, 30.9, count), [0.0, 1.0, 2.0**-30, 0.5]])
    return np.concatenate([some, np.nextafter(some[some > 0], 2.0)])


@pytest.mark.parametrize(("low", "most"), [(NARROW, PLACES[0]), (WIDE, PLACES[1])])
def test_a_key_gives_back_its_score_and_place_and_sorts_by_them(low, most):
    """Of two keys the larger one has the higher score, of equal scores the later place."""
    rng = np.random.default_rng(7)
    scores = drawn_scores(rng, 500)
    if low is WIDE:
        scores = np.concatenate([scores, [-1e-17, -3.0, 1e-300, 5e9, -1e300]])
    scores = np.concatenate([scores, scores[:100]])
    places = np.concatenate([rng.integers(0, most, len(scores) - 2), [0, most - 1]])
    high, lows = np.empty(len(scores), np.int64), np.empty(len(scores), low.dtype)
    for i, (score, place) in enumerate(zip(scores, places, strict=True)):
        assert fits(score, low)
        high[i], lows[i] = high_of(score, place, low), low_of(place, low)
        assert score_at(high, lows, i) == score
        assert place_at(high, lows, i) == place
    assert np.lexsort((lows, high)).tolist() == np.lexsort((places, scores)).tolist()


@pytest.mark.parametrize("score", [-1e-17, -0.5, 2.0, 1e9, 2.0**-31, 1e-300, np.inf])
def test_a_score_that_narrow_keys_do_not_have_is_said_to_be_none_of_theirs(score):
    """Scores below 0, next to it, or from 2 on take wide keys."""
    assert not fits(score, NARROW)
    assert fits(score, WIDE)


@pytest.mark.parametrize("low", [NARROW, WIDE])
def test_the_two_zeros_are_one_score(low):
    """-0.0 and 0.0 are equal scores, so the place decides between them."""
    assert high_of(-0.0, 5, low) == high_of(0.0, 5, low)
