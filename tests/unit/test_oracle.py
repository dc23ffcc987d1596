import math

import pytest
from plain_records import object_batch, query_batch

from streams.batches import ObjectBatch, QueryBatch
from streams.errors import DeclarationError, InputError
from streams.geometry import Rect
from streams.oracle import Oracle
from streams.vocabulary import Encoder, Vocabulary
from streams.window import Window

UNIT = Rect(0, 0, 1, 1)
EVERYWHERE = {"rect": [0, 0, 1, 1]}


def objects_of(*rows):
    """Objects from (id, ts, x, y, words[, op])."""
    names = ("id", "ts", "x", "y", "keywords", "op")
    return [{**dict(zip(names, row, strict=False)), "keywords": row[4].split()} for row in rows]


def query(kind, ts=0, name="q", **fields):
    """One registration."""
    words = fields.pop("keywords", "")
    return {"op": "register", "id": name, "ts": ts, "type": kind, "keywords": words.split(), **fields}


def unregister(ts, name="q"):
    """One unregistration."""
    return {"op": "unregister", "id": name, "ts": ts}


def lines_of(objects, operations, *, vocabulary=None, space=UNIT, **topology):
    """Return the lines that the oracle has for an input."""
    encoder = Encoder(vocabulary or Vocabulary())
    spoken = sorted({word for o in objects for word in o["keywords"]})
    words = dict(zip(encoder.words(spoken).tolist(), spoken, strict=True))
    batches = object_batch(objects, encoder), query_batch(operations, encoder)
    return list(Oracle(*batches, space=space, vocabulary=vocabulary, words=words, **topology).lines())


def results(lines, field="objects"):
    """Return lines as (ts, result)."""
    return [(line["ts"], line[field]) for line in lines]


# Range queries


def test_range_life_includes_its_start_and_excludes_its_end():
    """With ttl 10 from 5, objects at 5 and 14 count and those at 4 and 15 do not."""
    objects = objects_of(
        ("a", 4, 0.5, 0.5, ""), ("b", 5, 0.5, 0.5, ""), ("c", 14, 0.5, 0.5, ""), ("d", 15, 0.5, 0.5, "")
    )
    lines = lines_of(objects, [query("range", 5, region=EVERYWHERE, ttl=10)])
    assert results(lines, "object") == [(5, "b"), (14, "c")]


def test_range_unregistration_comes_before_objects_of_its_time():
    """An object with the timestamp of the unregistration is no match, wherever it stands in the files."""
    objects = objects_of(("a", 7, 0.5, 0.5, ""), ("b", 8, 0.5, 0.5, ""))
    lines = lines_of(objects, [query("range", region=EVERYWHERE, ttl=100), unregister(8)])
    assert results(lines, "object") == [(7, "a")]


def test_range_ttl_ends_before_a_later_unregistration():
    """The first of ttl and unregistration ends a query."""
    objects = objects_of(("a", 3, 0.5, 0.5, ""), ("b", 6, 0.5, 0.5, ""))
    lines = lines_of(objects, [query("range", region=EVERYWHERE, ttl=5), unregister(9)])
    assert results(lines, "object") == [(3, "a")]


def test_range_unregistered_at_its_own_time_has_no_result():
    """A life that is empty gives nothing, neither matches nor a snapshot."""
    objects = objects_of(("a", 0, 0.5, 0.5, ""))
    operations = [query("range", 0, "q", region=EVERYWHERE), unregister(0, "q")]
    snapshot = [query("range", 0, "s", region=EVERYWHERE, continuous=False), unregister(0, "s")]
    assert lines_of(objects, operations + snapshot) == []


def test_range_regions_are_closed():
    """Points on the border of a rectangle and of a circle are inside, points beyond are not."""
    objects = objects_of(
        ("corner", 0, 0.25, 0.25, ""), ("out", 0, 0.75, 0.76, ""), ("rim", 0, 0.5, 0.75, ""), ("edge", 0, 0.25, 0.5, "")
    )
    rect = lines_of(objects, [query("range", region={"rect": [0.25, 0.25, 0.75, 0.75]})])
    circle = lines_of(objects, [query("range", region={"circle": [0.5, 0.5, 0.25]})])
    assert [line["object"] for line in rect] == ["corner", "rim", "edge"]
    assert [line["object"] for line in circle] == ["rim", "edge"]


def test_range_degenerate_region_holds_its_point():
    """A rectangle without area and a circle of radius 0 contain exactly one place."""
    objects = objects_of(("on", 0, 0.5, 0.5, ""), ("off", 0, 0.5, 0.5000001, ""))
    for region in ({"rect": [0.5, 0.5, 0.5, 0.5]}, {"circle": [0.5, 0.5, 0.0]}):
        assert [line["object"] for line in lines_of(objects, [query("range", region=region)])] == ["on"]


def test_range_keywords_all_any_and_none():
    """All means every keyword, any means one, and no keywords means no condition."""
    objects = objects_of(
        ("both", 0, 0, 0, "sushi ramen tea"),
        ("one", 0, 0, 0, "ramen"),
        ("other", 0, 0, 0, "tea"),
        ("mute", 0, 0, 0, ""),
    )

    def found(**fields):
        return [line["object"] for line in lines_of(objects, [query("range", region=EVERYWHERE, **fields)])]

    assert found(keywords="sushi ramen", match="all") == ["both"]
    assert found(keywords="sushi ramen", match="any") == ["both", "one"]
    assert found(match="any") == found(match="all") == ["both", "one", "other", "mute"]


def test_range_objects_with_the_same_id_are_different_objects():
    """An identifier that comes again is matched again."""
    objects = objects_of(("a", 1, 0, 0, ""), ("a", 1, 0, 0, ""), ("a", 2, 0, 0, ""))
    assert results(lines_of(objects, [query("range", region=EVERYWHERE)]), "object") == [(1, "a"), (1, "a"), (2, "a")]


def test_range_snapshot_window_excludes_its_old_edge():
    """At 10 with window 4, objects at 7 to 10 count, also those at 10 that come after the query; 6 and 11 do not."""
    objects = objects_of(*((f"o{ts}", ts, 0, 0, "") for ts in (6, 7, 10, 10, 11)))
    lines = lines_of(objects, [query("range", 10, region=EVERYWHERE, continuous=False, window=4)])
    assert lines == [{"query": "q", "ts": 10, "objects": ["o7", "o10", "o10"]}]


def test_range_snapshot_without_window_sees_all_so_far():
    """No window means everything up to the snapshot's time; an empty answer is an answer."""
    objects = objects_of(("a", 0, 0, 0, ""), ("b", 9, 0, 0, ""), ("c", 10, 0, 0, ""))
    operations = [
        query("range", 9, "q", region=EVERYWHERE, continuous=False),
        query("range", 9, "r", region={"rect": [0.5, 0.5, 1, 1]}, continuous=False),
    ]
    assert lines_of(objects, operations) == [
        {"query": "q", "ts": 9, "objects": ["a", "b"]},
        {"query": "r", "ts": 9, "objects": []},
    ]


def test_range_identifier_used_again_is_another_query():
    """Two lives of one identifier each have their own matches."""
    objects = objects_of(*((f"o{ts}", ts, 0, 0, "") for ts in range(6)))
    operations = [query("range", 0, region=EVERYWHERE, ttl=2), query("range", 4, region=EVERYWHERE)]
    assert [line["object"] for line in lines_of(objects, operations)] == ["o0", "o1", "o4", "o5"]


def test_range_haversine_circle_is_measured_in_metres():
    """One degree along the equator is 111,195 m, so a circle of 111,200 m reaches it and one of 111,190 m does not."""
    objects = objects_of(("a", 0, 1.0, 0.0, ""))
    earth = Rect(-180, -90, 180, 90)
    for radius, found in ((111_200, 1), (111_190, 0)):
        operations = [query("range", region={"circle": [0, 0, radius]})]
        assert len(lines_of(objects, operations, space=earth, metric="haversine")) == found


# Nearest neighbours


def test_knn_line_for_each_timestamp_that_changes_the_result():
    """Farther objects than the k-th change nothing; fewer than k are listed as they come."""
    objects = objects_of(
        ("far", 1, 1.0, 0.0, ""), ("near", 2, 0.25, 0.0, ""), ("farther", 3, 1.0, 0.5, ""), ("mid", 4, 0.5, 0.0, "")
    )
    lines = lines_of(objects, [query("knn", at=[0, 0], k=2)])
    assert results(lines) == [
        (1, [["far", 1.0]]),
        (2, [["near", 0.25], ["far", 1.0]]),
        (4, [["near", 0.25], ["mid", 0.5]]),
    ]


def test_knn_ties_go_to_the_earlier_object():
    """Of equal distances the smaller seq wins, in the list and at its end."""
    objects = objects_of(("a", 0, 0.5, 0.0, ""), ("b", 0, 0.0, 0.5, ""), ("c", 1, 0.5, 0.0, ""))
    assert results(lines_of(objects, [query("knn", at=[0, 0], k=2)])) == [(0, [["a", 0.5], ["b", 0.5]])]


def test_knn_counts_only_objects_of_its_life_that_match():
    """Objects before the query, at its end and without its keywords are not listed."""
    objects = objects_of(
        ("old", 1, 0, 0, "tea"), ("in", 2, 0.5, 0, "tea"), ("other", 3, 0, 0, "jam"), ("late", 5, 0, 0, "tea")
    )
    lines = lines_of(objects, [query("knn", 2, at=[0, 0], k=3, keywords="tea", ttl=3)])
    assert results(lines) == [(2, [["in", 0.5]])]


def test_knn_without_any_result_has_no_line():
    """A result that never was anything is not written."""
    assert lines_of(objects_of(("a", 0, 0, 0, "tea")), [query("knn", at=[0, 0], k=1, keywords="jam")]) == []


def test_knn_unregistered_keeps_its_last_result():
    """After its end a query's result is frozen, also by an object at the end itself."""
    objects = objects_of(("a", 1, 0.5, 0, ""), ("b", 4, 0, 0, ""), ("c", 9, 0, 0, ""))
    encoder = Encoder()
    operations = [query("knn", at=[0, 0], k=1), unregister(4)]
    oracle = Oracle(object_batch(objects, encoder), query_batch(operations, encoder), space=UNIT)
    ranking = oracle.ranking(oracle.registration(0))
    assert ranking.lasts == 3
    assert [oracle.listed(ranking.at(ts)) for ts in (0, 1, 4, 9)] == [[], [["a", 0.5]], [["a", 0.5]], [["a", 0.5]]]


def test_knn_snapshot_sees_its_window_only():
    """At 10 with window 5 the object at 5 is too old; without a window it is the nearest."""
    objects = objects_of(("old", 5, 0, 0, ""), ("new", 6, 0.5, 0, ""), ("now", 10, 0.75, 0, ""), ("next", 11, 0, 0, ""))
    snapshot = {"at": [0, 0], "k": 2, "continuous": False}
    lines = lines_of(objects, [query("knn", 10, "w", **snapshot, window=5), query("knn", 10, "all", **snapshot)])
    assert results(lines) == [(10, [["new", 0.5], ["now", 0.75]]), (10, [["old", 0.0], ["new", 0.5]])]


def test_knn_results_within_a_timestamp_are_told_apart():
    """While the objects of one time come in, each change of the result is seen in turn."""
    objects = objects_of(("a", 1, 0.75, 0, ""), ("b", 2, 0.5, 0, ""), ("c", 2, 1, 1, ""), ("d", 2, 0.25, 0, ""))
    oracle = Oracle(object_batch(objects), query_batch([query("knn", at=[0, 0], k=1)]), space=UNIT)
    passing = oracle.ranking(oracle.registration(0)).during(2)
    assert [oracle.listed(ranked) for ranked in passing] == [[["a", 0.75]], [["b", 0.5]], [["d", 0.25]]]


# Scored results


def test_topk_score_adds_nearness_and_cosine():
    """Half the diagonal away and one of two keywords shared: 0.4 * 0.5 + 0.6 * 1/sqrt(2)."""
    objects = objects_of(("a", 0, 0.5, 0.5, "sushi jam"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=1, alpha=0.4, keywords="sushi")])
    ((ts, ((name, value),)),) = results(lines)
    assert (ts, name) == (0, "a")
    assert value == pytest.approx(0.4 * 0.5 + 0.6 / math.sqrt(2))


def test_topk_weighs_keywords_by_the_vocabulary():
    """With N = 9 and df = 8 and 2, the idf are ln 2 and ln 4: the rare keyword weighs twice as much."""
    vocabulary = Vocabulary.of({"tea": 8, "jam": 2}, documents=9)
    objects = objects_of(("tea", 0, 0, 0, "tea"), ("jam", 0, 0, 0, "jam"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=0.0, keywords="tea jam")], vocabulary=vocabulary)
    ((_, listed),) = results(lines)
    assert listed == [["jam", pytest.approx(2 / math.sqrt(5))], ["tea", pytest.approx(1 / math.sqrt(5))]]


def test_topk_ties_go_to_the_later_object():
    """Of equal scores the larger seq wins: the newer object pushes the older one out."""
    objects = objects_of(("a", 0, 0, 0, "tea"), ("b", 1, 0, 0, "tea"), ("c", 2, 0, 0, "tea"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=0.5, keywords="tea")], window=Window(objects=9))
    assert [[name for name, _ in listed] for _, listed in results(lines)] == [["a"], ["b", "a"], ["c", "b"]]


def test_topk_needs_a_shared_keyword():
    """An object at the very place without a keyword of the query is not listed; match = all does not matter."""
    objects = objects_of(("near", 0, 0, 0, "jam"), ("far", 0, 1, 1, "tea"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=1.0, keywords="tea ham", match="all")])
    assert results(lines) == [(0, [["far", 0.0]])]


def test_topk_window_by_objects_counts_all_objects():
    """Objects that the query does not list push listed ones out of the window too."""
    objects = objects_of(("a", 0, 0, 0, "tea"), ("x", 1, 0, 0, "jam"), ("y", 2, 0, 0, "jam"), ("b", 3, 0, 0, "tea"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=1.0, keywords="tea")], window=Window(objects=2))
    assert results(lines) == [(0, [["a", 1.0]]), (2, []), (3, [["b", 1.0]])]


def test_topk_window_by_time_excludes_its_old_edge():
    """With 5 ms, an object at 0 is there until 4 and gone at 5, whether or not something comes then."""
    objects = objects_of(("a", 0, 0, 0, "tea"), ("b", 9, 0, 0, "tea"))
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=1.0, keywords="tea")], window=Window(ms=5))
    assert results(lines) == [(0, [["a", 1.0]]), (5, []), (9, [["b", 1.0]])]


def test_topk_lists_objects_older_than_the_query():
    """The window is the topology's, so a new query has a result at once."""
    objects = objects_of(("old", 0, 0, 0, "tea"), ("gone", 1, 0, 0, "tea"))
    operations = [query("topk", 4, at=[0, 0], k=1, alpha=1.0, keywords="tea"), unregister(9)]
    assert results(lines_of(objects, operations, window=Window(ms=100))) == [(4, [["gone", 1.0]])]


def test_topk_is_frozen_just_before_its_end():
    """What leaves the window at the end of a query or later is still in its last result."""
    objects = objects_of(("a", 0, 0, 0, "tea"), ("b", 3, 0, 0, "jam"), ("c", 30, 0, 0, "jam"))
    asked = {"at": [0, 0], "k": 1, "alpha": 1.0, "keywords": "tea"}
    operations = [query("topk", 0, "at the edge", **asked, ttl=5), query("topk", 0, "after it", **asked, ttl=6)]
    lines = lines_of(objects, operations, window=Window(ms=5))
    assert [(line["query"], line["ts"], line["objects"]) for line in lines] == [
        ("at the edge", 0, [["a", 1.0]]),
        ("after it", 0, [["a", 1.0]]),
        ("after it", 5, []),
    ]


def test_topk_dynamic_follows_updates_and_deletions():
    """An update replaces the state, losing the keyword leaves the result, a deletion ends the object."""
    objects = objects_of(
        ("a", 0, 1, 1, "tea"),
        ("b", 1, 0, 0, "tea"),
        ("b", 2, 1, 1, "jam"),
        ("a", 3, 0, 0, "tea"),
        ("a", 4, 0, 0, "", "delete"),
    )
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=1.0, keywords="tea")], dynamic=True)
    assert results(lines) == [
        (0, [["a", 0.0]]),
        (1, [["b", 1.0], ["a", 0.0]]),
        (2, [["a", 0.0]]),
        (3, [["a", 1.0]]),
        (4, []),
    ]


def test_topk_dynamic_ties_go_to_the_object_first_seen():
    """An update keeps the object's place, a new life after a deletion does not."""
    objects = objects_of(
        ("a", 0, 0, 0, "tea"),
        ("b", 1, 0, 0, "tea"),
        ("a", 2, 0, 0, "tea ham"),
        ("a", 3, 0, 0, "tea"),
        ("a", 4, 0, 0, "", "delete"),
        ("a", 5, 0, 0, "tea"),
    )
    lines = lines_of(objects, [query("topk", at=[0, 0], k=2, alpha=1.0, keywords="tea")], dynamic=True)
    assert [[name for name, _ in listed] for _, listed in results(lines)] == [["a"], ["a", "b"], ["b"], ["b", "a"]]


def test_knn_dynamic_follows_states_of_any_age():
    """The nearest state counts, also one older than the query; it gets farther, stops matching, and is deleted."""
    objects = objects_of(
        ("a", 0, 0.25, 0, "tea"),
        ("b", 0, 0.5, 0, ""),
        ("a", 5, 0.75, 0, "tea"),
        ("b", 6, 0.75, 0, "tea"),
        ("a", 7, 0.25, 0, ""),
        ("b", 8, 0, 0, "", "delete"),
    )
    plain, tea = (query("knn", 3, at=[0, 0], k=1, keywords=words) for words in ("", "tea"))
    assert results(lines_of(objects, [plain], dynamic=True)) == [
        (3, [["a", 0.25]]), (5, [["b", 0.5]]), (6, [["a", 0.75]]), (7, [["a", 0.25]]),
    ]  # fmt: skip
    assert results(lines_of(objects, [tea], dynamic=True)) == [
        (3, [["a", 0.25]]), (5, [["a", 0.75]]), (7, [["b", 0.75]]), (8, []),
    ]  # fmt: skip


def test_topk_dynamic_deletion_of_an_unknown_object_does_nothing():
    """Deleting what is not there, or is there no more, changes no result."""
    objects = objects_of(
        ("x", 0, 0, 0, "", "delete"),
        ("a", 1, 0, 0, "tea"),
        ("x", 2, 0, 0, "", "delete"),
        (7, 3, 0, 0, "tea"),
        ("7", 4, 0, 0, "", "delete"),
    )
    lines = lines_of(objects, [query("topk", at=[0, 0], k=3, alpha=1.0, keywords="tea")], dynamic=True)
    assert results(lines) == [(1, [["a", 1.0]]), (3, [["a", 1.0], [7, 1.0]])]


# Terms


def test_terms_instants_start_one_slide_after_the_query_and_stop_before_its_end():
    """From 10 every 5 ms until 30: at 15, 20 and 25; 30 is the end itself."""
    objects = objects_of(("a", 0, 0, 0, "tea"), ("b", 99, 0, 0, "tea"))
    operations = [query("terms", 10, region=EVERYWHERE, k=1, window=100, slide=5, ttl=20)]
    assert results(lines_of(objects, operations), "terms") == [(ts, [["tea", 1]]) for ts in (15, 20, 25)]


def test_terms_instants_end_with_the_input():
    """Event time ends at the largest timestamp of objects and query operations, that instant included."""
    operations = [query("terms", 0, region=EVERYWHERE, k=1, window=10, slide=4), query("range", 8, "r", region={})]
    lines = lines_of(objects_of(("a", 5, 0, 0, "tea")), operations)
    assert results([line for line in lines if line["query"] == "q"], "terms") == [(4, []), (8, [["tea", 1]])]


def test_terms_window_includes_now_and_excludes_its_old_edge():
    """At 10 with window 4, objects at 7 and 10 count, 6 does not."""
    objects = objects_of(("a", 6, 0, 0, "old"), ("b", 7, 0, 0, "in"), ("c", 10, 0, 0, "in now"), ("d", 10, 0, 0, "now"))
    operations = [query("terms", 0, region=EVERYWHERE, k=9, window=4, slide=10)]
    assert results(lines_of(objects, operations), "terms") == [(10, [["in", 2], ["now", 2]])]


def test_terms_window_slides_from_instant_to_instant():
    """Each instant counts its own window, from the first, which reaches back before the query, to the last."""
    objects = objects_of(("a", 1, 0, 0, "tea"), ("b", 4, 0, 0, "tea"), ("c", 6, 0, 0, "jam"), ("d", 9, 0, 0, "ham"))
    operations = [query("terms", 2, region=EVERYWHERE, k=9, window=3, slide=1)]
    listed = dict(results(lines_of(objects, operations), "terms"))
    assert [listed[now] for now in (3, 4, 6, 7, 9)] == [
        [["tea", 1]], [["tea", 1]], [["jam", 1], ["tea", 1]], [["jam", 1]], [["ham", 1]],
    ]  # fmt: skip
    assert list(listed) == [3, 4, 5, 6, 7, 8, 9]


def test_terms_ties_are_in_alphabetical_order():
    """Equal counts are listed by term, and the k-th place is decided so too."""
    objects = objects_of(("a", 0, 0, 0, "pear fig plum"), ("b", 0, 0, 0, "plum fig"), ("c", 0, 0, 0, "pear kiwi apple"))
    operations = [query("terms", 0, region=EVERYWHERE, k=4, continuous=False)]
    lines = lines_of(objects, operations)
    assert results(lines, "terms") == [(0, [["fig", 2], ["pear", 2], ["plum", 2], ["apple", 1]])]


def test_terms_count_objects_inside_the_region_that_match():
    """An object outside, or without the query's keywords if it has some, is not counted."""
    objects = objects_of(("a", 0, 0.5, 0.5, "tea jam"), ("b", 0, 0.9, 0.9, "tea jam"), ("c", 0, 0.5, 0.5, "tea"))
    region = {"rect": [0, 0, 0.5, 0.5]}
    plain = query("terms", 0, "plain", region=region, k=2, continuous=False)
    about = query("terms", 0, "about", region=region, k=2, continuous=False, keywords="jam")
    assert results(lines_of(objects, [plain, about]), "terms") == [
        (0, [["tea", 2], ["jam", 1]]),
        (0, [["jam", 1], ["tea", 1]]),
    ]


def test_terms_words_come_from_the_vocabulary_too():
    """A keyword of the prepared vocabulary needs no entry in the words."""
    vocabulary = Vocabulary.of({"tea": 3}, documents=3)
    objects = object_batch(objects_of(("a", 0, 0, 0, "tea")), Encoder(vocabulary))
    queries = query_batch([query("terms", 0, region=EVERYWHERE, k=1, continuous=False)], Encoder(vocabulary))
    oracle = Oracle(objects, queries, space=UNIT, vocabulary=vocabulary)
    assert [line["terms"] for line in oracle.lines()] == [[["tea", 1]]]


# Input that has no defined result


def test_oracle_of_nothing_has_no_results():
    """No objects and no queries give no lines and no end of time."""
    oracle = Oracle(ObjectBatch.empty(), QueryBatch.empty(), space=UNIT)
    assert oracle.last_ts is None
    assert list(oracle.lines()) == []
    assert len(oracle.matches().object) == 0


def test_oracle_queries_without_objects_still_answer():
    """Snapshots and instants of terms are due even if nothing ever came."""
    operations = [
        query("range", 0, "r", region=EVERYWHERE, continuous=False),
        query("knn", 0, "n", at=[0, 0], k=1, continuous=False),
        query("terms", 0, "t", region=EVERYWHERE, k=1, window=5, slide=2),
        query("knn", 2, "c", at=[0, 0], k=1),
    ]
    assert lines_of([], operations) == [
        {"query": "r", "ts": 0, "objects": []},
        {"query": "n", "ts": 0, "objects": []},
        {"query": "t", "ts": 2, "terms": []},
    ]


def test_oracle_word_that_nobody_knows_is_an_error():
    """A term without a word cannot be printed, so the oracle says what it needs."""
    objects = object_batch(objects_of(("a", 0, 0, 0, "tea")))
    queries = query_batch([query("terms", 0, region=EVERYWHERE, k=1, continuous=False)])
    with pytest.raises(InputError, match="no word is known for keyword"):
        list(Oracle(objects, queries, space=UNIT).lines())


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (query("topk", at=[0, 0], k=1, alpha=0.5), "without keywords"),
        (query("topk", at=[0, 0], k=1, alpha=0.5, keywords="tea", continuous=False), "topk snapshot"),
        (query("knn", at=[0, 0], k=0), "k = 0"),
        (query("terms", region={}, k=1, window=5), "slide = 0"),
    ],
)
def test_oracle_query_without_defined_result_is_refused(operation, message):
    """What the contract does not allow is named, with the query."""
    with pytest.raises(InputError, match=message):
        lines_of([], [operation])


def test_oracle_objects_out_of_order_are_refused():
    """Time must not go back, for objects or for operations."""
    with pytest.raises(InputError, match="not in input order"):
        lines_of(objects_of(("a", 2, 0, 0, ""), ("b", 1, 0, 0, "")), [])
    with pytest.raises(InputError, match="back in time"):
        lines_of([], [query("range", 2, "a", region={}), query("range", 1, "b", region={})])


def test_oracle_deletion_among_objects_that_are_not_dynamic_is_refused():
    """A deletion has no meaning unless records are states of objects."""
    with pytest.raises(InputError, match="deletion"):
        lines_of(objects_of(("a", 0, 0, 0, "", "delete")), [])


def test_oracle_window_over_dynamic_objects_is_refused():
    """The two exclude each other."""
    with pytest.raises(DeclarationError, match="dynamic"):
        lines_of([], [], dynamic=True, window=Window(ms=1))


def test_oracle_unregistration_of_an_unknown_number_is_refused():
    """The end of a query that is not there cannot be placed."""
    operations = query_batch([query("range", 0, region={}), unregister(1)])
    with pytest.raises(InputError, match="ends query 0, which is not registered"):
        Oracle(ObjectBatch.empty(), operations.slice(1, 2), space=UNIT)


def test_oracle_unknown_number_is_an_error():
    """Asking for a registration that is not there names the number."""
    with pytest.raises(InputError, match="number 5"):
        Oracle(ObjectBatch.empty(), QueryBatch.empty(), space=UNIT).registration(5)
