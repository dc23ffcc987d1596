import json
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import both, streams_of_objects, streams_of_operations, vocabularies, windows

from streams.vocabulary import Vocabulary

ANY = ["range", "range snapshot", "knn", "knn snapshot", "terms", "terms snapshot"]


def as_multiset(lines):
    """Lines as texts, so that 3 and "3" differ."""
    return Counter(json.dumps(line) for line in lines)


def without_repeats(states):
    """Leave out each state that equals the one before it."""
    return [state for state, _ in groupby(states)]


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_oracle_ranges_nearest_and_terms_equal_naive(metric, data):
    """Range, knn and terms results, continuous and snapshot, are those of the plain reference."""
    objects = data.draw(streams_of_objects(metric))
    operations = data.draw(streams_of_operations(metric, ANY))
    oracle, naive = both(objects, operations, metric, Vocabulary())
    assert as_multiset(oracle.lines()) == as_multiset(naive.lines())


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@settings(deadline=None, max_examples=150)
@given(data=st.data(), window=windows, vocabulary=vocabularies)
def test_oracle_topk_over_a_window_equals_naive(metric, data, window, vocabulary):
    """Top-k results over windows by objects, by time and without end are those of the plain reference, bit for bit."""
    objects = data.draw(streams_of_objects(metric))
    operations = data.draw(streams_of_operations(metric, ["topk"]))
    oracle, naive = both(objects, operations, metric, vocabulary, window)
    assert as_multiset(oracle.lines()) == as_multiset(naive.lines())


@settings(deadline=None, max_examples=200)
@given(data=st.data(), vocabulary=vocabularies)
def test_oracle_dynamic_objects_equal_naive(data, vocabulary):
    """With updates and deletions, top-k, nearest and fences follow states; all other types see each update as an object."""
    objects = data.draw(streams_of_objects("euclidean", dynamic=True))
    operations = data.draw(streams_of_operations("euclidean", ["topk", "fence", "fence", *ANY]))
    oracle, naive = both(objects, operations, "euclidean", vocabulary, dynamic=True)
    assert as_multiset(oracle.lines()) == as_multiset(naive.lines())


@settings(deadline=None, max_examples=150)
@given(data=st.data(), window=windows, dynamic=st.booleans())
def test_oracle_results_within_a_timestamp_equal_naive(data, window, dynamic):
    """The results while the objects of one timestamp come in are those of the plain reference after each of them."""
    objects = data.draw(streams_of_objects("euclidean", dynamic))
    operations = data.draw(streams_of_operations("euclidean", ["topk", "knn"]))
    oracle, naive = both(objects, operations, "euclidean", Vocabulary(), None if dynamic else window, dynamic)
    living = [q for q in oracle.registrations if q.lives]
    for q, plain in zip(living, naive.queries, strict=True):
        for now in range(q.ts, min(q.end, oracle.last_ts + 1)):
            earlier = [o for o in naive.objects if o["ts"] < now]
            current = [o for o in naive.objects if o["ts"] == now]
            expected = [naive.state(plain, now, earlier + current[:n]) for n in range(len(current) + 1)]
            found = [oracle.listed(ranked) for ranked in oracle.ranking(q).during(now)]
            assert without_repeats(found) == without_repeats(expected)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_oracle_matches_agree_with_its_lines(data):
    """The ragged columns of matches say the same as the lines of the range queries."""
    objects = data.draw(streams_of_objects("euclidean"))
    operations = data.draw(streams_of_operations("euclidean", ["range"]))
    oracle, naive = both(objects, operations, "euclidean", Vocabulary())
    found = oracle.matches()
    lines = []
    for number, start, stop in zip(found.number.tolist(), found.off[:-1], found.off[1:], strict=True):
        rows = found.object[start:stop].tolist()
        name = oracle.registration(number).id
        lines += [{"query": name, "ts": objects[row]["ts"], "object": objects[row]["id"]} for row in rows]
    assert lines == naive.lines()
