"""Results in words: matches and lists of every type, for whom, and what was asked."""

import io
from pathlib import Path

import numpy as np
from range_inputs import write_lines
from rich.console import Console

from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS, TYPE_TOPK, AnswerBatch, MatchBatch
from streams.columns import Ids
from topology import load_topology
from topology.amendments import with_columns, with_source
from topology.cli.showcase import print_alerts

QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.toml"
OBJECTS = [{"id": i, "ts": 0, "x": 0, "y": 0, "text": f"the text of {i}"} for i in range(6)]
QUERIES = [
    {"id": "a", "type": "range", "region": {"circle": [1.0, 2.0, 0.5]}, "keywords": ["fire"]},
    {"id": "b", "type": "knn", "at": [1.5, 2.0], "k": 5, "keywords": ["fire", "flood"], "match": "any"},
    {"id": "c", "type": "terms", "region": {"rect": [0, 0, 1, 1]}, "k": 2, "window": 259_200_000, "slide": 1000},
    {"id": "d", "type": "topk", "at": [0, 0], "k": 1, "keywords": ["fire"]},
    {"id": "e", "type": "range", "continuous": False, "region": {"rect": [0, 0, 1, 1]}, "window": 1_500},
]


def answers(*rows):
    """Return lists: (query, ts, type, items, values)."""
    off = np.cumsum([0, *(len(row[3]) for row in rows)]).astype(np.int32)
    items, values = [i for row in rows for i in row[3]], [v for row in rows for v in row[4]]
    ts, types = np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.uint8)
    return AnswerBatch(Ids.of([row[0] for row in rows]), ts, types, off, Ids.of(items), np.array(values, np.float64))


def shown(folder, *sample, objects=OBJECTS, settings=()):
    """Return what a person reads, line by line."""
    topology = load_topology(QUICKSTART, settings)
    topology = with_source(topology, "leads", write_lines(folder / "objects.jsonl", objects))
    queries = [{"op": "register", "ts": 0, **query} for query in QUERIES]
    topology = with_source(topology, "follows", write_lines(folder / "queries.jsonl", queries))
    out = io.StringIO()
    print_alerts(Console(file=out, width=60), topology, sample)
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


def test_matches_and_lists_are_shown_in_the_order_of_time(tmp_path):
    """An object with its text; the first of a list with distance, score or count, and how many more there are."""
    matches = MatchBatch(Ids.of(["a"]), np.array([60_000]), Ids.of([4]))
    nearest = answers(("b", 0, TYPE_KNN, [1, 2, 3, 0, 5], [0.25, 1.0, 12_345.6, 1.0, 1.0]))
    terms = answers(("c", 120_000, TYPE_TERMS, ["1", "fire"], [12.0, 3.0]))
    best = answers(("d", 180_000, TYPE_TOPK, [7], [0.5]))
    instants = answers(("e", 240_000, TYPE_RANGE, [2], [0.0]), ("e", 300_000, TYPE_RANGE, [], []))
    assert shown(tmp_path, best, matches, terms, nearest, instants) == [
        "Some of the results",
        "00:00:00       0.250 units of the space  the text of 1",
        "1.000 units of the space  the text of 2",
        "12,345.600 units of the space  the text of 3",
        "and 2 more",
        "for b: the 5 nearest with 'fire' or 'flood' from (1.5, 2)",
        "00:01:00  the text of 4",
        "for a: 'fire' within 0.500 units of the space of (1, 2)",
        "00:02:00  12  1",
        "3  fire",
        "for c: the 2 most frequent words of anything in the rectangle from (0, 0) to (1, 1), in the last 3 days, every second",
        "00:03:00  0.500  7",
        "for d: the 1 best for 'fire' from (0, 0)",
        "00:04:00  the text of 2",
        "for e: anything in the rectangle from (0, 0) to (1, 1), in the last 1,500 milliseconds, asked once",
        "00:05:00  nothing",
        "for e: anything in the rectangle from (0, 0) to (1, 1), in the last 1,500 milliseconds, asked once",
    ]


def test_distances_over_longitudes_have_their_unit(tmp_path):
    """On the globe metres, or kilometres where it is far, radii of questions too; in a plane of degrees, degrees."""
    objects = [{"id": 1, "ts": 0, "lon": 0, "lat": 0, "text": "one"}]
    nearest = answers(("b", 0, TYPE_KNN, [1, 1], [950.4, 12_345.6]))
    match = MatchBatch(Ids.of(["a"]), np.array([60_000]), Ids.of([1]))
    lines = shown(tmp_path, nearest, match, objects=objects)
    assert lines[1:3] == ["00:00:00    950 m  one", "12.3 km  one"]
    assert lines[-1] == "for a: 'fire' within 0.5 m of (1, 2)"
    told = shown(tmp_path, nearest, match, objects=objects, settings=["topology.metric=euclidean"])
    assert told[1] == "00:00:00     950.400 degrees  one"
    assert told[-1] == "for a: 'fire' within 0.500 degrees of (1, 2)"


def test_times_are_dates_unless_they_count_from_elsewhere(tmp_path):
    """Of a shift that began at zero what has gone by, of records that are numbered their numbers, of all else the date."""
    match = MatchBatch(Ids.of(["a", "a"]), np.array([65_000, 90_061_000]), Ids.of([1, 1]))
    assert [line[:14] for line in shown(tmp_path, match)[1::2]] == ["00:01:05  the ", "day 2 01:01:01"]
    dated = MatchBatch(Ids.of(["a", "a"]), np.array([65_000, 1_517_363_399_650]), Ids.of([1, 1]))
    assert [line[:16] for line in shown(tmp_path, dated)[1::2]] == ["1970-01-01 00:01", "2018-01-31 01:49"]
    before = MatchBatch(Ids.of(["a"]), np.array([-60_000]), Ids.of([1]))
    assert shown(tmp_path, before)[1].startswith("1969-12-31 23:59")
    numbered = shown(tmp_path, match, settings=["spout.objects.ts=row"])
    assert [line.partition("  ")[0] for line in numbered[1::2]] == ["record 65,000", "record 90,061,000"]


def test_objects_are_shown_under_whatever_names_a_file_has_them(tmp_path):
    """Texts of declared columns, of numbered records, in another encoding; and questions that leave out what has a default."""
    path = tmp_path / "mine.csv"
    path.write_bytes("when,east,north,title,body\n0,1,1,Feu,brûlé\n".encode("latin-1"))
    asked = {"id": "a", "type": "range", "region": {"polygon": []}, "keywords": ["feu"], "none": ["exercice"]}
    settings = ["spout.objects.id=row", "spout.objects.encoding=latin-1"]
    topology = with_source(load_topology(QUICKSTART, settings), "leads", path)
    topology = with_columns(topology, "ts=when,lon=east,lat=north,text=title+body")
    topology = with_source(topology, "follows", write_lines(tmp_path / "queries.jsonl", ["no object", asked]))
    out = io.StringIO()
    print_alerts(Console(file=out, width=60), topology, [MatchBatch(Ids.of(["a"]), np.array([0]), Ids.of([0]))])
    lines = [line.strip() for line in out.getvalue().splitlines() if line.strip()]
    assert lines[1:] == ["00:00:00  Feu brûlé", "for a: 'feu' without 'exercice' in a polygon"]


def test_of_a_moving_object_the_last_text_is_shown(tmp_path):
    """An object that changes has several records, and a deletion says nothing."""
    objects = [
        {"id": 1, "ts": n, "x": 0, "y": 0, "keywords": words} for n, words in enumerate([["soup"], ["hot", "tea"]])
    ]
    objects.append({"id": 1, "ts": 2, "op": "delete"})
    match = MatchBatch(Ids.of(["a"]), np.array([1]), Ids.of([1]))
    assert shown(tmp_path, match, objects=objects)[1] == "00:00:00  hot tea"


def test_a_run_without_results_says_so(tmp_path):
    """Instead of a heading over nothing."""
    assert shown(tmp_path) == ["There are no results to show"]
