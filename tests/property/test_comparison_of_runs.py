"""Results as a run with random epochs would write them are right; any change to them is found."""

import copy
import itertools
import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inputs import both, streams_of_objects, streams_of_operations, windows

from streams.comparison import compare
from streams.vocabulary import Vocabulary

TYPES = ["range", "range snapshot", "knn", "knn", "knn snapshot", "terms", "terms snapshot", "topk", "topk"]


def points_of_epochs(naive, cuts):
    """Return (objects seen, time) at which results that changed are written.

    An epoch that ends between two objects of one time is followed by a point at the end of that time, because the last
    line of a time speaks for all of it.
    """
    times = [o["ts"] for o in naive.objects]
    points = set()
    for cut in cuts:
        seen = cut % (len(times) + 1)
        if not seen:
            continue
        now = times[seen - 1]
        points.add((seen, now))
        if seen < len(times) and times[seen] == now:
            points.add((max(i for i, ts in enumerate(times) if ts == now) + 1, now))
    return sorted(points | {(len(times), naive.last)})


def changing_lines(naive, cuts):
    """Return the lines of knn and topk queries, in the order of a run with these epochs."""
    queries = [q for q in naive.queries if q["type"] in ("knn", "topk") and q.get("continuous", True)]
    before, lines = [[] for _ in queries], []
    for seen, now in points_of_epochs(naive, cuts):
        for place, q in enumerate(queries):
            if q["ts"] > now:
                continue
            last = min(now, q["end"] - 1)
            result = naive.state(q, last, [o for o in naive.objects[:seen] if o["ts"] <= last])
            if result != before[place]:
                lines.append({"query": q["id"], "ts": now, "objects": result})
                before[place] = result
    return lines


def run_lines(naive, cuts, seed):
    """Return all lines of a run; of one identifier, lines of the same form are in time order, others as they come."""
    piles = {}
    for line in changing_lines(naive, cuts):
        piles.setdefault(("changing", line["query"]), []).append(line)
    fixed = [q for q in naive.queries if q["type"] in ("range", "terms") or not q.get("continuous", True)]
    for line in (line for q in fixed for line in naive.lines_of(q)):
        piles.setdefault((*line.keys(), line["query"]), []).append(line)
    chooser, mixed = random.Random(seed), []
    waiting = [pile for pile in piles.values() if pile]
    while waiting:
        pile = chooser.choice(waiting)
        mixed.append(pile.pop(0))
        waiting = [pile for pile in waiting if pile]
    return mixed


@st.composite
def runs(draw, types=TYPES):
    """Draw an oracle and the lines of a right run."""
    dynamic = draw(st.booleans())
    window = None if dynamic else draw(windows)
    objects = draw(streams_of_objects("euclidean", dynamic))
    operations = draw(streams_of_operations("euclidean", [*types, "fence"] if dynamic and types == TYPES else types))
    assume(objects or operations)
    oracle, naive = both(objects, operations, "euclidean", Vocabulary(), window, dynamic)
    cuts = draw(st.lists(st.integers(0, 30), max_size=6))
    return oracle, run_lines(naive, cuts, draw(st.integers(0, 1000)))


@settings(deadline=None, max_examples=100)
@given(run=runs())
def test_comparison_of_a_right_run_is_ok(run):
    """Whatever the epochs, the interleaving and the reuse of identifiers, there is no false alarm."""
    oracle, lines = run
    comparison = compare(oracle, lines)
    assert comparison.differences == ()
    assert comparison.ok


def change(line):
    """Make a line say something else."""
    if "object" in line:
        line["object"] = "nobody"
    elif "terms" in line:
        line["terms"] = [*line["terms"], ["nothing", 1]]
    elif line["objects"] and isinstance(line["objects"][0], list):
        line["objects"][0] = [line["objects"][0][0], line["objects"][0][1] + 1e-9]
    else:
        line["objects"] = [*line["objects"], "nobody"]


@settings(deadline=None, max_examples=100)
@given(run=runs(), place=st.integers(0, 10_000))
def test_comparison_finds_any_changed_line(run, place):
    """A number, an object or a term that is not the oracle's is a difference."""
    oracle, lines = run
    assume(lines)
    lines = copy.deepcopy(lines)
    change(lines[place % len(lines)])
    assert not compare(oracle, lines).ok


@settings(deadline=None, max_examples=100)
@given(run=runs(), place=st.integers(0, 10_000))
def test_comparison_finds_any_repeated_line(run, place):
    """The same line twice in a row is a difference, unless two changing queries of one identifier could each have it."""
    oracle, lines = run
    assume(lines)
    place %= len(lines)
    assume(sum(q.ranked for q in oracle.registrations if q.id == lines[place]["query"]) < 2)
    assert not compare(oracle, [*lines[: place + 1], *lines[place:]]).ok


@settings(deadline=None, max_examples=100)
@given(run=runs(), place=st.integers(0, 10_000))
def test_comparison_finds_any_dropped_result(run, place):
    """A line that is left out is missing, unless it is one of several of a result that changed."""
    oracle, lines = run
    assume(lines)
    dropped = lines[place % len(lines)]
    rest = [line for line in lines if line is not dropped]
    changing = {q.id for q in oracle.registrations if q.ranked}
    later = [line for line in rest if line["query"] == dropped["query"] and line["ts"] >= dropped["ts"]]
    assume(dropped["query"] not in changing or not later)
    empties = dropped.get("objects") == [] and dropped["query"] in changing
    assume(not empties)
    assert not compare(oracle, rest).ok


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])  # few lines have a peer
@given(run=runs(types=["range", "terms"]), data=st.data())
def test_comparison_finds_swapped_lines(run, data):
    """Two matches or instants of one query that change places are out of order."""
    oracle, lines = run
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(lines)), 2)
        if lines[a]["ts"] != lines[b]["ts"] and [*lines[a], lines[a]["query"]] == [*lines[b], lines[b]["query"]]
    ]
    assume(pairs)
    first, second = data.draw(st.sampled_from(pairs))
    swapped = list(lines)
    swapped[first], swapped[second] = lines[second], lines[first]
    assert "out_of_order" in {kind for _, kind in compare(oracle, swapped).differing}
