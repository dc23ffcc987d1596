import itertools
import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.scoring import cosine, cosines, score, unit_weights
from streams.vocabulary import Vocabulary

STATISTICS = Vocabulary.of({"a": 50, "b": 20, "c": 3, "d": 3, "e": 1}, documents=60)
keyword_sets = st.lists(st.integers(0, 9), unique=True, max_size=8).map(sorted)


def columns(rows):
    """Ragged columns of keyword lists."""
    off = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return off, np.array([kw for row in rows for kw in row], np.int64)


def test_score_weighs_nearness_against_likeness():
    """A quarter of the diagonal away with cosine 0.5 and alpha 0.8: 0.8 * 0.75 + 0.2 * 0.5."""
    assert score(1.0, 0.5, 0.8, 4.0) == 0.8 * 0.75 + (1.0 - 0.8) * 0.5


def test_unit_weights_have_length_one_without_statistics():
    """Four keywords of equal weight are a half each; a row without keywords has no weights."""
    off, kw = columns([[1, 2, 3, 4], [], [7]])
    assert unit_weights(off, kw, Vocabulary()).tolist() == [0.5, 0.5, 0.5, 0.5, 1.0]


def test_unit_weights_use_the_idf_of_the_vocabulary():
    """Weights are in the ratio of the idf, and unseen words count as rarest."""
    off, kw = columns([[0, 4, 1 << 62]])
    weight = unit_weights(off, kw, STATISTICS)
    idf = [math.log(1 + 60 / 51), math.log(1 + 60 / 2), math.log(1 + 60)]
    assert weight == pytest.approx(np.array(idf) / math.sqrt(sum(v * v for v in idf)))


def test_cosine_of_equal_sets_is_one_and_of_disjoint_sets_zero():
    """The two ends of the scale."""
    off, kw = columns([[1, 5, 9, 12], [2, 3]])
    weight = unit_weights(off, kw, Vocabulary())
    assert cosine(kw[:4], weight[:4], kw[:4], weight[:4]) == 1.0
    assert cosine(kw[:4], weight[:4], kw[4:], weight[4:]) == 0.0


@given(rows=st.lists(keyword_sets, max_size=6), asked=keyword_sets, known=st.booleans())
def test_cosines_over_columns_equal_cosine_of_each_pair(rows, asked, known):
    """The column form gives the bits of the left-to-right sum, and so does the pair form compiled by numba."""
    vocabulary = STATISTICS if known else Vocabulary()
    off, kw = columns(rows)
    weight = unit_weights(off, kw, vocabulary)
    query_off, query_kw = columns([asked])
    query_weight = unit_weights(query_off, query_kw, vocabulary)
    found = cosines(off, kw, weight, query_kw, query_weight)
    for row, (start, stop) in enumerate(itertools.pairwise(off)):
        pair = (kw[start:stop], weight[start:stop], query_kw, query_weight)
        assert found[row] == cosine(*pair) == COMPILED(*pair)


COMPILED = numba.njit(cosine)


@given(values=st.lists(st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1.0]), min_size=1, max_size=40))
def test_sums_go_from_left_to_right(values):
    """No pairwise summation: the dot product is the plain loop's, also where rounding makes orders differ."""
    kw = np.arange(len(values))
    off = np.array([0, len(values)], np.int32)
    total = 0.0
    for value in values:
        total += value * 1.0
    assert cosines(off, kw, np.array(values), kw, np.ones(len(values))).tolist() == [total]
