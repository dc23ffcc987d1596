import copy

import pytest
from plain_records import object_batch, query_batch

from streams.comparison import Comparison, Difference, compare, explain
from streams.geometry import Rect
from streams.oracle import Oracle
from streams.vocabulary import Encoder
from streams.window import Window

UNIT = Rect(0, 0, 1, 1)
EVERYWHERE = {"rect": [0, 0, 1, 1]}


def oracle_of(objects, operations, **topology):
    """Return the oracle of objects as (id, ts, x, words) and of query operations."""
    encoder = Encoder()
    records = [{"id": name, "ts": ts, "x": x, "y": 0.0, "keywords": words.split()} for name, ts, x, words in objects]
    spoken = sorted({word for record in records for word in record["keywords"]})
    return Oracle(
        object_batch(records, encoder),
        query_batch(operations, encoder),
        space=UNIT,
        words=dict(zip(encoder.words(spoken).tolist(), spoken, strict=True)),
        **topology,
    )


def kinds(comparison):
    """Return the number of differences by type and kind."""
    return dict(comparison.differing)


OBJECTS = [
    ("o1", 1, 0.75, "tea"),
    ("o2", 3, 0.5, "tea jam"),
    (3, 5, 0.25, "jam"),
    ("o4", 5, 0.0, "tea"),
    ("o5", 9, 1.0, "ham"),
]
RANGE = {"id": "r", "ts": 0, "type": "range", "region": EVERYWHERE}
SNAPSHOT = {"id": "s", "ts": 5, "type": "range", "region": EVERYWHERE, "continuous": False}
KNN = {"id": "n", "ts": 0, "type": "knn", "at": [0.0, 0.0], "k": 2}
KNN_SNAPSHOT = {"id": "m", "ts": 5, "type": "knn", "at": [0.0, 0.0], "k": 2, "continuous": False}
TOPK = {"id": "k", "ts": 0, "type": "topk", "at": [0.0, 0.0], "k": 2, "alpha": 1.0, "keywords": ["tea"]}
TERMS = {"id": "t", "ts": 0, "type": "terms", "region": EVERYWHERE, "k": 2, "window": 4, "slide": 3}
ALL = [RANGE, KNN, TOPK, TERMS, SNAPSHOT, KNN_SNAPSHOT]


@pytest.fixture
def oracle():
    """All types of queries over a few objects."""
    return oracle_of(OBJECTS, ALL, window=Window(ms=6))


@pytest.fixture
def lines(oracle):
    """The right lines, free to be changed."""
    return copy.deepcopy(list(oracle.lines()))


def of(lines, query):
    """Return the places of a query's lines."""
    return [place for place, line in enumerate(lines) if line["query"] == query]


def test_comparison_right_results_are_ok(oracle, lines):
    """The oracle's own lines have no difference, and are counted by type."""
    comparison = compare(oracle, lines)
    assert comparison.ok
    assert comparison.total == 0
    assert comparison.differences == ()
    assert comparison.expected == {
        "range": 5, "range snapshot": 1, "knn": 1, "knn snapshot": 1, "topk": 1, "terms": 3,
    }  # fmt: skip
    assert comparison.found == {**comparison.expected, "knn": 3, "topk": len(of(lines, "k"))}


def test_comparison_order_between_queries_is_free(oracle, lines):
    """Lines of different queries may be interleaved in any way."""
    assert compare(oracle, sorted(lines, key=lambda line: line["ts"])).ok


def test_comparison_takes_any_iterable_once(oracle, lines):
    """A generator of lines will do."""
    assert compare(oracle, (line for line in lines)).ok


@pytest.mark.parametrize(
    ("query", "type_"),
    [("r", "range"), ("s", "range snapshot"), ("m", "knn snapshot"), ("t", "terms"), ("n", "knn"), ("k", "topk")],
)
def test_comparison_dropped_line_is_missing(oracle, lines, query, type_):
    """Without its last line, every type of query lacks a result."""
    del lines[of(lines, query)[-1]]
    comparison = compare(oracle, lines)
    assert kinds(comparison) == {(type_, "missing"): 1}
    assert not comparison.ok


@pytest.mark.parametrize(
    ("query", "type_"),
    [("r", "range"), ("s", "range snapshot"), ("m", "knn snapshot"), ("t", "terms"), ("n", "knn"), ("k", "topk")],
)
def test_comparison_line_written_twice_is_repeated(oracle, lines, query, type_):
    """The same line again is found for every type of query."""
    place = of(lines, query)[-1]
    lines.insert(place, copy.deepcopy(lines[place]))
    comparison = compare(oracle, lines)
    assert kinds(comparison) == {(type_, "repeated"): 1}


@pytest.mark.parametrize(
    ("query", "field", "value", "type_"),
    [
        ("s", "objects", ["o1"], "range snapshot"),
        ("s", "objects", ["o1", "o2", 3, "o4", "o4"], "range snapshot"),
        ("s", "objects", ["o1", "o2", "3", "o4"], "range snapshot"),
        ("s", "objects", [["o1", 0.75]], "range snapshot"),
        ("m", "objects", [[3, 0.25], ["o4", 0.0]], "knn snapshot"),
        ("m", "objects", [["o4", 0.0], [3, 0.25000000000000006]], "knn snapshot"),
        ("m", "objects", ["o4", 3], "knn snapshot"),
        ("t", "terms", [["tea", 1], ["jam", 1]], "terms"),
        ("t", "terms", [["jam", 2.0]], "terms"),
        ("t", "terms", "jam", "terms"),
        ("n", "objects", [["o4", 0.0], ["3", 0.25]], "knn"),
        ("n", "objects", None, "knn"),
        ("k", "objects", [["o4", 0.5]], "topk"),
    ],
)
def test_comparison_line_that_says_something_else_is_wrong(oracle, lines, query, field, value, type_):
    """Other objects, another order, another number or another form: all are found, with both sides."""
    place = of(lines, query)[-1]
    right, lines[place][field] = lines[place][field], value
    comparison = compare(oracle, lines)
    assert kinds(comparison) == {(type_, "wrong"): 1}
    (difference,) = comparison.differences
    assert difference == Difference(query, lines[place]["ts"], type_, "wrong", right, value)


def test_comparison_snapshot_objects_are_a_set(oracle, lines):
    """The order of a range snapshot's objects is free."""
    lines[of(lines, "s")[0]]["objects"].reverse()
    assert compare(oracle, lines).ok


def test_comparison_match_with_another_object_is_missing_and_unexpected(oracle, lines):
    """A changed match is one that is not there and one that should not be."""
    lines[of(lines, "r")[0]]["object"] = "o5"
    assert kinds(compare(oracle, lines)) == {("range", "missing"): 1, ("range", "unexpected"): 1}


@pytest.mark.parametrize("query", ["r", "t", "n"])
def test_comparison_swapped_lines_are_out_of_order(oracle, lines, query):
    """Two lines of a query that change places go back in time."""
    first, *_, last = of(lines, query)
    lines[first], lines[last] = lines[last], lines[first]
    types = {"r": "range", "t": "terms", "n": "knn"}
    assert kinds(compare(oracle, lines))[types[query], "out_of_order"] >= 1


def test_comparison_swapped_snapshots_of_one_identifier_are_out_of_order():
    """Time order holds for an identifier that is asked with twice."""
    oracle = oracle_of(OBJECTS, [SNAPSHOT, {**SNAPSHOT, "ts": 7}])
    lines = list(oracle.lines())
    assert compare(oracle, lines).ok
    assert kinds(compare(oracle, lines[::-1])) == {("range snapshot", "out_of_order"): 1}


@pytest.mark.parametrize(
    "line",
    [
        {"query": "nobody", "ts": 1, "object": "o1"},
        {"query": "r", "ts": 1, "object": "nothing"},
        {"query": "r", "ts": "1", "object": "o1"},
        {"query": "r", "ts": 2**80, "object": "o1"},
        {"query": "r", "ts": 1, "object": ["o1"]},
        {"query": ["r"], "ts": 1, "object": "o1"},
        {"query": True, "ts": 1, "object": "o1"},
        {"query": "s", "ts": 1, "object": "o1"},
        {"query": "r", "ts": 1},
        {"query": "r", "ts": 1, "objects": ["o1"]},
        {"query": "s", "ts": 6, "objects": []},
        {"query": "t", "ts": 4, "terms": []},
        {"query": "n", "ts": 3, "terms": []},
        ["not", "an", "object"],
    ],
)
def test_comparison_line_of_no_result_is_unexpected(oracle, lines, line):
    """A line that no query can have is told, whatever is odd about it."""
    comparison = compare(oracle, [*lines, line])
    assert kinds(comparison) == {("unknown", "unexpected"): 1}
    assert explain(comparison)


def test_comparison_match_at_another_time_is_unexpected(oracle, lines):
    """A match line carries its object's time."""
    lines[of(lines, "r")[0]]["ts"] = 2
    assert kinds(compare(oracle, lines)) == {("range", "missing"): 1, ("range", "unexpected"): 1}


def test_comparison_same_object_id_at_one_time_is_a_multiset():
    """Two objects that share id and time are two matches: one line is too few, three are too many."""
    oracle = oracle_of([("o", 1, 0.0, ""), ("o", 1, 0.5, "")], [RANGE])
    line = {"query": "r", "ts": 1, "object": "o"}
    assert kinds(compare(oracle, [line])) == {("range", "missing"): 1}
    assert compare(oracle, [line] * 2).ok
    assert kinds(compare(oracle, [line] * 4)) == {("range", "repeated"): 2}


def test_comparison_integer_and_text_ids_differ():
    """7 and "7" are different queries and different objects."""
    oracle = oracle_of([(7, 1, 0.0, ""), ("7", 2, 0.0, "")], [{**RANGE, "id": 7}])
    lines = [{"query": 7, "ts": 1, "object": 7}, {"query": 7, "ts": 2, "object": "7"}]
    assert compare(oracle, lines).ok
    assert not compare(oracle, [{**line, "query": "7"} for line in lines]).ok


# Results that change


def test_comparison_changes_of_an_epoch_may_be_one_line(oracle, lines):
    """Of the lines of a knn query only the last is needed, also with a later time."""
    early, last = of(lines, "n")[:-1], of(lines, "n")[-1]
    lines[last]["ts"] = 8
    assert compare(oracle, [line for place, line in enumerate(lines) if place not in early]).ok


def test_comparison_several_lines_of_one_time_pass_through_its_results():
    """Before the last line of a time, lines may state the result after some of the objects of that time."""
    oracle = oracle_of([("a", 1, 0.75, ""), ("b", 1, 0.5, ""), ("c", 1, 0.25, "")], [{**KNN, "k": 1}])

    def line(name, far):
        return {"query": "n", "ts": 1, "objects": [[name, far]]}

    a, b, c = line("a", 0.75), line("b", 0.5), line("c", 0.25)
    assert compare(oracle, [a, b, c]).ok
    assert compare(oracle, [b, c]).ok
    assert compare(oracle, [c]).ok
    assert kinds(compare(oracle, [a, b])) == {("knn", "wrong"): 1}
    assert kinds(compare(oracle, [b, a, c])) == {("knn", "wrong"): 1}
    assert kinds(compare(oracle, [a, a, c])) == {("knn", "repeated"): 1}
    assert kinds(compare(oracle, [c, b])) == {("knn", "wrong"): 1}


def test_comparison_stale_line_is_wrong():
    """A line whose time has seen a newer result is wrong even if the result was right earlier."""
    old = {"query": "n", "ts": 6, "objects": [["a", 0.75]]}
    new = {"query": "n", "ts": 7, "objects": [["b", 0.5]]}
    oracle = oracle_of([("a", 1, 0.75, ""), ("b", 5, 0.5, ""), ("z", 9, 1.0, "")], [{**KNN, "k": 1}])
    assert kinds(compare(oracle, [old, new])) == {("knn", "wrong"): 1}


def test_comparison_wrong_line_before_a_missing_one_counts_both():
    """A wrong last line does not hide that the result changed once more."""
    oracle = oracle_of([("a", 1, 0.75, ""), ("b", 5, 0.5, "")], [{**KNN, "k": 1}])
    line = {"query": "n", "ts": 2, "objects": [["b", 0.5]]}
    assert kinds(compare(oracle, [line])) == {("knn", "wrong"): 1}
    line["objects"] = [["a", 0.5]]
    assert kinds(compare(oracle, [line])) == {("knn", "wrong"): 1, ("knn", "missing"): 1}


def test_comparison_empty_first_line_is_repeated():
    """A query without a line has an empty result, so saying so is a repetition."""
    oracle = oracle_of([("a", 1, 0.75, "")], [{**KNN, "ts": 0}])
    empty = {"query": "n", "ts": 0, "objects": []}
    line = {"query": "n", "ts": 1, "objects": [["a", 0.75]]}
    assert kinds(compare(oracle, [empty, line])) == {("knn", "repeated"): 1}


@pytest.mark.parametrize("ts", [1, 99])
def test_comparison_line_outside_of_event_time_is_unexpected(ts):
    """Before its query and after the end of the input nothing is said."""
    oracle = oracle_of([("a", 3, 0.75, "")], [{**KNN, "ts": 2}])
    right = {"query": "n", "ts": 3, "objects": [["a", 0.75]]}
    odd = {"query": "n", "ts": ts, "objects": [["a", 0.75]]}
    assert kinds(compare(oracle, sorted([right, odd], key=lambda line: line["ts"]))) == {("knn", "unexpected"): 1}


def test_comparison_ended_query_may_be_written_at_the_end_of_its_epoch():
    """The frozen result of an ended query is right at any later time, the result it would have had is not."""
    oracle = oracle_of([("a", 1, 0.75, ""), ("b", 5, 0.5, "")], [{**KNN, "k": 1, "ttl": 3}])
    assert compare(oracle, [{"query": "n", "ts": 5, "objects": [["a", 0.75]]}]).ok
    assert not compare(oracle, [{"query": "n", "ts": 5, "objects": [["b", 0.5]]}]).ok


def test_comparison_two_lives_of_an_identifier_have_their_own_results():
    """Both final results may come at the end of one epoch, the ended one's first; none may be left out."""
    operations = [{**KNN, "k": 1, "ttl": 3}, {**KNN, "k": 1, "ts": 4}]
    oracle = oracle_of([("a", 1, 0.25, ""), ("b", 5, 0.5, "")], operations)
    first = {"query": "n", "ts": 5, "objects": [["a", 0.25]]}
    second = {"query": "n", "ts": 5, "objects": [["b", 0.5]]}
    assert compare(oracle, [first, second]).ok
    assert compare(oracle, [{**first, "ts": 1}, second]).ok
    assert kinds(compare(oracle, [first])) == {("knn", "missing"): 1}
    assert kinds(compare(oracle, [second])) == {("knn", "missing"): 1}
    assert not compare(oracle, [second, first]).ok


def test_comparison_two_lives_with_equal_results_have_a_line_each():
    """A second query of the same identifier states its result although the first had the same."""
    operations = [{**TOPK, "k": 1, "ttl": 3}, {**TOPK, "k": 1, "ts": 4}]
    oracle = oracle_of([("a", 1, 0.0, "tea"), ("x", 6, 0.0, "ham")], operations)
    line = {"query": "k", "ts": 6, "objects": [["a", 1.0]]}
    assert compare(oracle, [line, line]).ok
    assert kinds(compare(oracle, [line])) == {("topk", "missing"): 1}
    assert kinds(compare(oracle, [line] * 3)) == {("topk", "repeated"): 1}


def test_comparison_snapshot_and_changing_result_share_an_identifier():
    """Lists of objects go to the snapshot that is waiting for them, the others to the query that changes."""
    operations = [{**KNN, "id": "q", "ttl": 3, "k": 1}, {**KNN_SNAPSHOT, "id": "q"}]
    oracle = oracle_of([("a", 1, 0.25, ""), ("b", 5, 0.0, "")], operations)
    state = {"query": "q", "ts": 5, "objects": [["a", 0.25]]}
    answer = {"query": "q", "ts": 5, "objects": [["b", 0.0], ["a", 0.25]]}
    assert compare(oracle, [state, answer]).ok
    assert compare(oracle, [answer, state]).ok
    assert kinds(compare(oracle, [answer])) == {("knn", "missing"): 1}
    assert kinds(compare(oracle, [state])) == {("knn snapshot", "missing"): 1}


def test_comparison_snapshot_and_changing_result_may_be_equal():
    """Where a snapshot and an ended query of one identifier have the same list at the same time, two lines are due."""
    operations = [{**KNN, "id": "q", "ttl": 3}, {**KNN_SNAPSHOT, "id": "q"}]
    oracle = oracle_of([("a", 1, 0.25, "")], operations)
    line = {"query": "q", "ts": 5, "objects": [["a", 0.25]]}
    assert compare(oracle, [line, line]).ok
    assert kinds(compare(oracle, [line])) == {("knn", "missing"): 1}
    assert kinds(compare(oracle, [line] * 3)) == {("knn", "repeated"): 1}


def test_comparison_unchanged_scores_of_a_window_are_followed():
    """A topk line after something left the window must not list it."""
    oracle = oracle_of([("a", 0, 0.0, "tea"), ("b", 9, 0.0, "ham")], [TOPK], window=Window(ms=5))
    listed = {"query": "k", "ts": 4, "objects": [["a", 1.0]]}
    gone = {"query": "k", "ts": 9, "objects": []}
    assert compare(oracle, [listed, gone]).ok
    assert compare(oracle, []).ok
    assert kinds(compare(oracle, [listed])) == {("topk", "missing"): 1}
    assert kinds(compare(oracle, [{**listed, "ts": 5}, gone])) == {("topk", "wrong"): 1}


# The report


def test_comparison_keeps_a_limited_number_of_differences():
    """All differences are counted, some are kept, of each type and kind."""
    oracle = oracle_of([(number, number, 0.0, "tea") for number in range(300)], [RANGE, {**TERMS, "slide": 1}])
    comparison = compare(oracle, [{"query": "nobody", "ts": 0, "object": 1}] * 50, limit=7)
    assert kinds(comparison) == {("range", "missing"): 300, ("terms", "missing"): 299, ("unknown", "unexpected"): 50}
    assert comparison.total == 649
    assert len(comparison.differences) == 21
    assert len(explain(comparison).splitlines()) < 40


def test_explain_says_that_results_are_right(oracle, lines):
    """A comparison without differences names its counts."""
    text = explain(compare(oracle, lines))
    assert text.startswith(f"the results are right: all {len(lines)} lines agree")
    assert "range snapshot" in text


def test_explain_shows_where_lists_part(oracle, lines):
    """Ranked lists show the first place that differs, sets what is in one only."""
    lines[of(lines, "m")[0]]["objects"] = [["o4", 0.0], ["o2", 0.5]]
    lines[of(lines, "s")[0]]["objects"] = ["o1", "o2", "o4", "o5"]
    text = explain(compare(oracle, lines))
    assert 'query "m", ts 5: place 2 of 2, expected [3, 0.25], found ["o2", 0.5]' in text
    assert 'query "s", ts 5: lacks [3] and has besides ["o5"]' in text


def test_explain_of_a_shorter_list_names_the_place_that_is_empty(oracle, lines):
    """A list that stops early differs where it stops."""
    lines[of(lines, "m")[0]]["objects"] = [["o4", 0.0]]
    assert "place 2 of 2, expected [3, 0.25], found nothing" in explain(compare(oracle, lines))


def test_explain_cuts_long_values():
    """One difference is one line of limited length, whatever is in it."""
    huge = Difference("q" * 5000, 1, "range snapshot", "missing", expected=list(range(100_000)))
    comparison = Comparison({"range snapshot": 1}, {}, {("range snapshot", "missing"): 1}, (huge,))
    assert max(map(len, explain(comparison).splitlines())) < 400
