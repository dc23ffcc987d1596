"""Queries from files: what is accepted, and what is rejected and why."""

import json
import math

import pytest

from streams.batches import (
    FOREVER,
    NO_WINDOW,
    OP_REGISTER,
    OP_UNREGISTER,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    TYPE_TOPK,
    QueryBatch,
)
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import ReadLimits
from streams.files.open_queries import OpenQueries
from streams.files.query_files import read_queries
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, Rect
from streams.vocabulary import Encoder, unseen_id

SPACE = Rect(0, 0, 1, 1)
RANGE = {"op": "register", "id": "q", "ts": 5, "type": "range", "region": {"rect": [0, 0, 1, 1]}}
KNN = {"op": "register", "id": "q", "ts": 5, "type": "knn", "at": [0.5, 0.5], "k": 3}
TOPK = {"op": "register", "id": "q", "ts": 5, "type": "topk", "at": [0.5, 0.5], "k": 3, "alpha": 0.4, "keywords": ["a"]}
TERMS = {"op": "register", "id": "q", "ts": 5, "type": "terms", "region": {"circle": [0, 0, 1]}, "k": 3}
STEADY = {"window": 60, "slide": 5}


def without(record, *names):
    """Return a record without some of its fields."""
    return {name: value for name, value in record.items() if name not in names}


def read(folder, *records, **options):
    """Write records as JSON lines and return the chunks that are read of them."""
    path = folder / "queries.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return list(read_queries(path, **({"space": SPACE, "encoder": Encoder(), "open_queries": OpenQueries()} | options)))


def accepted(chunks):
    """Return the operations of all chunks."""
    return QueryBatch.concat([chunk.batch for chunk in chunks])


def rejects(chunks):
    """Return (line, reason) of all rejects."""
    return [
        pair
        for chunk in chunks
        for pair in zip(chunk.rejects.line.tolist(), chunk.rejects.reason.to_list(), strict=True)
    ]


def test_queries_of_the_contract_are_read(tmp_path):
    """Each example of the contract becomes the row that it says."""
    examples = """
    {"op":"register","id":"q1","ts":0,"type":"range","region":{"rect":[0.1,0.1,0.2,0.2]},"keywords":["sushi"],"match":"all","ttl":60000}
    {"op":"register","id":"q2","ts":0,"type":"knn","at":[0.5,0.5],"k":10,"keywords":["sushi","Ramen"],"match":"any"}
    {"op":"register","id":"q3","ts":0,"type":"topk","at":[0.5,0.5],"k":20,"alpha":0.4,"keywords":["sushi","ramen"]}
    {"op":"register","id":"q4","ts":0,"type":"terms","region":{"circle":[0.5,0.5,0.1]},"k":10,"window":60000,"slide":5000,"ttl":600000}
    {"op":"register","id":"q5","ts":900,"type":"range","continuous":false,"region":{"rect":[0,0,1,1]},"keywords":["sushi"],"window":60000}
    {"op":"unregister","id":"q1","ts":30000}
    """.strip()  # as users see them
    chunks = read(tmp_path, *(line.strip() for line in examples.splitlines()))
    assert rejects(chunks) == []
    batch = accepted(chunks)
    assert batch.number.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.target.tolist() == [0, 1, 2, 3, 4, 0]
    assert batch.op.tolist() == [OP_REGISTER] * 5 + [OP_UNREGISTER]
    assert batch.ts.tolist() == [0, 0, 0, 0, 900, 30000]
    assert batch.end.tolist() == [60000, FOREVER, FOREVER, 600000, 901, 30000]
    assert batch.type.tolist()[:5] == [TYPE_RANGE, TYPE_KNN, TYPE_TOPK, TYPE_TERMS, TYPE_RANGE]
    assert batch.continuous.tolist()[:5] == [True, True, True, True, False]
    assert batch.match_any.tolist()[:5] == [False, True, True, False, False]
    assert batch.region.tolist()[:5] == [REGION_RECT, REGION_NONE, REGION_NONE, REGION_CIRCLE, REGION_RECT]
    assert batch.shape.tolist()[:4] == [[0.1, 0.1, 0.2, 0.2], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0.1, 0]]
    assert batch.k.tolist() == [0, 10, 20, 10, 0, 0]
    assert batch.alpha.tolist() == [0, 0, 0.4, 0, 0, 0]
    assert batch.window.tolist() == [NO_WINDOW, NO_WINDOW, NO_WINDOW, 60000, 60000, NO_WINDOW]
    assert batch.slide.tolist() == [0, 0, 0, 5000, 0, 0]
    assert batch.kw_off.tolist() == [0, 1, 3, 5, 5, 6, 6]
    assert batch.kw[1:3].tolist() == sorted(map(unseen_id, ["sushi", "ramen"]))
    assert batch.ids.to_list() == ["q1", "q2", "q3", "q4", "q5", "q1"]


REJECTED = [
    ("{", "not JSON: "),
    ("[]", "[] is not a JSON object"),
    ('{"op":"unregister","id":1,"ts":1,"ts":1}', "field 'ts' is given more than once"),
    (RANGE | {"radius": 1}, 'unknown field "radius"'),
    (RANGE | {"keyword": ["a"]}, "unknown field \"keyword\" (did you mean 'keywords'?)"),
    (RANGE | {"op": "regster"}, "op is \"regster\", expected register or unregister (did you mean 'register'?)"),
    (RANGE | {"op": 1}, "op is 1, expected register or unregister"),
    (without(RANGE, "id"), "no id"),
    (RANGE | {"id": ""}, "no id"),
    (RANGE | {"id": 1.5}, "id is 1.5, expected a string or an integer"),
    (RANGE | {"id": "\ud800"}, 'id is "\\ud800", expected a string or an integer'),
    (
        without(RANGE, "ts") | {"continuous": False},
        "no ts, which only a standing range, knn or topk query may leave out",
    ),
    (without(TERMS | STEADY, "ts"), "no ts, which only a standing"),
    ({"op": "unregister", "id": "live"}, "no ts, which only a standing"),
    (RANGE | {"ts": 1.5}, "ts is 1.5, expected integer milliseconds or ISO 8601"),
    (RANGE | {"ts": "noon"}, 'ts is "noon", expected integer milliseconds or ISO 8601'),
    (RANGE | {"ts": 4}, "ts 4 is older than 5, which came before; expected non-decreasing ts"),
    (without(RANGE, "type"), "no type, expected range or knn or topk or terms"),
    (RANGE | {"type": "rnage"}, "type is \"rnage\", expected range or knn or topk or terms (did you mean 'range'?)"),
    (without(RANGE, "region"), "no region, expected "),
    (RANGE | {"region": [0, 0, 1, 1]}, "region is [0, 0, 1, 1], expected "),
    (RANGE | {"region": {}}, "region is {}, expected "),
    (RANGE | {"region": {"box": [0, 0, 1, 1]}}, 'region is {"box": [0, 0, 1, 1]}, expected '),
    (RANGE | {"region": {"rect": [0, 0, 1, 1], "circle": [0, 0, 1]}}, 'region is {"rect": [0, 0, 1, 1], "circle"'),
    (RANGE | {"region": {"rect": [1, 0, 0, 1]}}, "rect is [1, 0, 0, 1], which is empty: expected min <= max"),
    (RANGE | {"region": {"rect": [0, 0, 1]}}, "rect is [0, 0, 1], expected [min x, min y, max x, max y]"),
    (RANGE | {"region": {"rect": [0, 0, 1, "1"]}}, 'rect is [0, 0, 1, "1"], expected [min x'),
    (RANGE | {"region": {"rect": [0, 0, 1, math.inf]}}, "rect is [0, 0, 1, Infinity], expected finite numbers"),
    (RANGE | {"region": {"rect": [0, 0, 1, 10**400]}}, "rect is [0, 0, 1, 1000"),
    (RANGE | {"region": {"circle": [0, 0, -1]}}, "circle has radius -1.0, expected none below 0"),
    (RANGE | {"region": {"circle": [0, 0, math.nan]}}, "circle is [0, 0, NaN], expected finite numbers"),
    (RANGE | {"at": [0, 0]}, "a range query has no field 'at', expected op, id, ts, type, "),
    (RANGE | {"ttl": 0}, "ttl is 0, expected a positive number of milliseconds, as an integer"),
    (RANGE | {"ttl": 1.5}, "ttl is 1.5, expected a positive number of milliseconds, as an integer"),
    (RANGE | {"window": 5}, "a continuous range query has no window"),
    (RANGE | {"continuous": False, "window": -1}, "window is -1, expected a positive number of milliseconds"),
    (RANGE | {"continuous": False, "ttl": 5}, "a snapshot query is answered once and has no ttl"),
    (RANGE | {"continuous": "no"}, 'continuous is "no", expected true or false'),
    (RANGE | {"slide": 5}, "a range query has no field 'slide'"),
    (RANGE | {"detect": []}, "detect is [], expected an array with some of enter, exit, inside"),
    (RANGE | {"detect": "enter"}, 'detect is "enter", expected an array with some of enter, exit, inside'),
    (
        RANGE | {"detect": ["exit", "entre"]},
        "detect[1] is \"entre\", expected enter or exit or inside (did you mean 'enter'?)",
    ),
    (RANGE | {"detect": [["enter"]]}, 'detect[0] is ["enter"], expected enter or exit or inside'),
    (RANGE | {"continuous": False, "detect": ["enter"]}, "a snapshot query has no detect"),
    (KNN | {"detect": ["enter"]}, "a knn query has no field 'detect'"),
    (RANGE | {"match": "some"}, 'match is "some", expected all or any'),
    (RANGE | {"keywords": "a"}, 'keywords is "a", expected an array of strings'),
    (RANGE | {"keywords": ["a", 7]}, "keywords[1] is 7, expected a string that is not empty"),
    (RANGE | {"keywords": [""]}, 'keywords[0] is "", expected a string that is not empty'),
    (RANGE | {"keywords": ["a", "b", "c", "d"]}, "4 keywords, more than the limit of 3"),
    (without(KNN, "at"), "no at, expected [x, y]"),
    (KNN | {"at": [0.5]}, "at is [0.5], expected [x, y]"),
    (KNN | {"at": [2, 0]}, "at is [2, 0], which is outside the space [0, 0, 1, 1]"),
    (KNN | {"at": [math.nan, 0]}, "at is [NaN, 0], expected finite numbers"),
    (without(KNN, "k"), "no k, expected a positive integer"),
    (KNN | {"k": 0}, "k is 0, expected an integer from 1 to 1000"),
    (KNN | {"k": 2.0}, "k is 2.0, expected an integer from 1 to 1000"),
    (KNN | {"k": 1001}, "k is 1001, expected an integer from 1 to 1000"),
    (KNN | {"alpha": 0.5}, "a knn query has no field 'alpha'"),
    (without(TOPK, "alpha"), "no alpha, expected a number from 0 to 1"),
    (TOPK | {"alpha": 1.01}, "alpha is 1.01, expected a number from 0 to 1"),
    (TOPK | {"alpha": math.nan}, "alpha is NaN, expected a number from 0 to 1"),
    (without(TOPK, "keywords"), "no keywords, expected at least one for a topk query"),
    (TOPK | {"keywords": []}, "no keywords, expected at least one for a topk query"),
    (TOPK | {"continuous": False}, "continuous is false, but a topk query is always continuous"),
    (TOPK | {"match": "all"}, 'match is "all", but a topk query takes objects that share any of its keywords'),
    (TERMS | {"window": 5}, "no slide, expected one for a continuous terms query"),
    (TERMS | {"slide": 5}, "no window, expected one for a continuous terms query"),
    (TERMS | STEADY | {"slide": 0}, "slide is 0, expected a positive number of milliseconds"),
    (
        TERMS | STEADY | {"slide": 2**62},
        "slide is 4611686018427387904, expected less than 4611686018427387904 milliseconds",
    ),
    (TERMS | STEADY | {"continuous": False}, "a snapshot query has no slide"),
    ({"op": "unregister", "id": "x", "ts": 5}, 'id "x" is not registered'),
    ({"op": "unregister", "id": "live", "ts": 5, "type": "range"}, "an unregistration has no field 'type'"),
    (RANGE | {"id": "live"}, 'id "live" is taken for good by the query of record 1'),
]


@pytest.mark.parametrize(("record", "reason"), REJECTED, ids=range(len(REJECTED)))
def test_query_rejects_say_why(tmp_path, record, reason):
    """A record that is no valid operation is rejected with what was found, and the records around it are not."""
    chunks = read(tmp_path, RANGE | {"id": "live"}, record, RANGE | {"id": "next"}, limits=ReadLimits(keywords=3))
    [(line, found)] = rejects(chunks)
    assert line == 2
    assert found.startswith(reason)
    assert accepted(chunks).number.tolist() == [0, 2]


@pytest.mark.parametrize(
    "record",
    [
        without(RANGE, "op"),
        RANGE | {"region": {"rect": [0.5, 0.5, 0.5, 0.5]}},
        RANGE | {"region": {"circle": [1, 1, 0]}},
        RANGE | {"region": {"rect": [-5, -5, 5, 5]}},
        RANGE | {"keywords": [], "match": "any", "ttl": None},
        RANGE | {"continuous": False},
        KNN | {"at": [0, 1], "k": 1000},
        KNN | {"continuous": False, "window": 1},
        TOPK | {"alpha": 0, "match": "any", "continuous": True},
        TOPK | {"alpha": 1},
        TERMS | STEADY,
        TERMS | {"continuous": False},
        TERMS | {"continuous": False, "window": 5},
        TERMS | STEADY | {"keywords": ["a"]},
        RANGE | {"ts": "1970-01-01T00:00:00.005Z"},
        RANGE | {"id": 2**70},
    ],
)
def test_queries_at_the_edge_are_valid(tmp_path, record):
    """Degenerate regions, the ends of intervals, fields that say what is the default: all valid."""
    chunks = read(tmp_path, record)
    assert rejects(chunks) == []
    assert len(accepted(chunks)) == 1


def test_an_id_is_free_again_when_its_query_has_ended(tmp_path):
    """A query's end is exclusive: from then on its id can be registered and can no longer be unregistered."""
    chunks = read(
        tmp_path,
        RANGE | {"ts": 0, "ttl": 10},
        RANGE | {"ts": 9},
        RANGE | {"ts": 10, "ttl": 5},
        {"op": "unregister", "id": "q", "ts": 12},
        RANGE | {"ts": 12, "ttl": 3},
        {"op": "unregister", "id": "q", "ts": 15},
        RANGE | {"ts": 15, "continuous": False},
        RANGE | {"ts": 15},
        RANGE | {"ts": 16},
    )
    assert accepted(chunks).number.tolist() == [0, 2, 3, 4, 6, 8]
    assert accepted(chunks).target.tolist() == [0, 2, 2, 4, 6, 8]
    assert rejects(chunks) == [
        (2, 'id "q" is taken until 10 by the query of record 1'),
        (6, 'the query with id "q" has ended at 15'),
        (8, 'id "q" is taken until 16 by the query of record 7'),
    ]


def test_ids_of_different_types_are_different(tmp_path):
    """7 and "7" are two ids."""
    chunks = read(tmp_path, RANGE | {"id": 7}, RANGE | {"id": "7"}, {"op": "unregister", "id": "7", "ts": 9})
    assert rejects(chunks) == []
    assert accepted(chunks).target.tolist() == [0, 1, 1]
    assert accepted(chunks).ids.to_list() == [7, "7", "7"]


def test_a_rejected_query_changes_nothing(tmp_path):
    """A rejected registration takes no id and does not move time on."""
    taken, ended = RANGE | {"id": "a", "ts": 99}, RANGE | {"id": "b", "ts": 99, "ttl": 0}
    chunks = read(tmp_path, RANGE | {"id": "a"}, taken, ended, RANGE | {"id": "b"})
    assert accepted(chunks).number.tolist() == [0, 3]


def test_a_circle_on_the_globe_needs_a_place_there(tmp_path):
    """With the haversine metric the centre of a circle must be a longitude and a latitude."""
    record = RANGE | {"region": {"circle": [200, 0, 1000]}}
    space = Rect(0, 0, 1000, 1000)
    assert rejects(read(tmp_path, record, space=space)) == []
    [(_, reason)] = rejects(read(tmp_path, record, space=space, metric="haversine"))
    assert reason == "circle is [200, 0, 1000], whose centre is no longitude and latitude: longitude comes first"


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (
            {"rect": [40, -74, 41, -73]},
            "rect [40, -74, 41, -73] lies outside the space [-80, 30, -70, 45]; it would not with",
        ),
        ({"rect": [0, 0, 1, 1]}, "rect [0, 0, 1, 1] lies outside the space [-80, 30, -70, 45]"),
        (
            {"circle": [40, -74, 2]},
            "circle [40, -74, 2] lies outside the space [-80, 30, -70, 45]; it would not with x and y",
        ),
        ({"circle": [-74, 40, 5000]}, "circle has radius 5000.0, but the diagonal of the space is 18.0278 in units of"),
    ],
)
def test_regions_that_hold_nothing_or_everything_are_rejected(tmp_path, region, reason):
    """Longitude and latitude exchanged, another place, metres where degrees count: each is a reject that says what to do."""
    space = Rect(-80, 30, -70, 45)
    [(_, found)] = rejects(read(tmp_path, RANGE | {"region": region}, space=space))
    assert found.startswith(reason)


def test_regions_that_touch_the_space_are_valid(tmp_path):
    """A border in common is enough, for rectangles and for circles with their centre outside."""
    for region in ({"rect": [-1, -1, 0, 0]}, {"circle": [-0.5, 0.5, 0.5]}, {"circle": [-1, -1, 1.4142]}):
        assert rejects(read(tmp_path, RANGE | {"region": region})) == []
    metres = RANGE | {"region": {"circle": [-1, 0.5, 112_000]}}
    assert rejects(read(tmp_path, metres, metric="haversine")) == []
    [(_, found)] = rejects(read(tmp_path, metres | {"region": {"circle": [-2, 0.5, 112_000]}}, metric="haversine"))
    assert "lies outside the space" in found


@pytest.mark.parametrize(
    ("given", "match", "expected"),
    [
        (["fire!"], "all", ["fire"]),
        (["naïve café", "NAÏVE"], "all", ["café", "naïve"]),
        (["Ｆｉｒｅ", "Straße"], "any", ["fire", "strasse"]),
        (["smoke", "fire"], "any", ["fire", "smoke"]),
    ],
)
def test_keywords_over_texts_are_cut_as_texts_are(tmp_path, given, match, expected):
    """What a text of the keywords would have as keywords is what the query asks for; taken whole, they are other words."""
    [chunk] = read(tmp_path, RANGE | {"keywords": given, "match": match}, tokenise=True)
    assert sorted(chunk.batch.kw.tolist()) == sorted(Encoder().words(expected).tolist())
    [whole] = read(tmp_path, RANGE | {"keywords": given, "match": match})
    assert len(whole.batch.kw) == len({word.casefold() for word in given})


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            {"keywords": ["fire", "the"]},
            'keywords[1] is "the", which no text has: single characters and stop words',
        ),
        ({"keywords": ["!"]}, 'keywords[0] is "!", which no text has: single characters and stop words'),
        (
            {"keywords": ["new york"], "match": "any"},
            'keywords[0] is "new york", which is 2 words of a text, expected one',
        ),
        ({"none": ["new york"]}, 'none[0] is "new york", which is 2 words of a text, expected one'),
    ],
)
def test_keywords_that_no_text_can_have_are_rejected(tmp_path, record, reason):
    """A keyword that can never match, or that means several where any counts, is a reject; of given keywords it is one."""
    [(_, found)] = rejects(read(tmp_path, RANGE | record, tokenise=True))
    assert found.startswith(reason)
    assert rejects(read(tmp_path, RANGE | record)) == []


def test_queries_nobody_answers_are_rejected(tmp_path):
    """Where it is known what is answered, a registration of another kind is rejected with its kind."""
    chunks = read(tmp_path, RANGE, KNN | {"id": "k", "continuous": False}, answers=["continuous range"])
    assert rejects(chunks) == [
        (2, "snapshot knn queries are not answered here, only continuous range; conf/sstd.toml answers them")
    ]
    with pytest.raises(DeclarationError, match="'range' is no kind of query; expected some of continuous knn"):
        read(tmp_path, RANGE, answers=["range"])


def test_a_full_ledger_rejects(tmp_path):
    """When as many queries live as may, the next is rejected, until one of them has ended."""
    records = [RANGE | {"id": n, "ttl": 5 if n == 1 else 50} for n in range(3)]
    chunks = read(tmp_path, *records, RANGE | {"id": 3, "ts": 10}, open_queries=OpenQueries(limit=2))
    assert accepted(chunks).number.tolist() == [0, 1, 3]
    assert rejects(chunks) == [(3, "2 queries live already, which is the limit (topology.limits.live_queries)")]


@pytest.mark.parametrize("name", ["queries.csv", "queries.parquet", "queries.json"])
def test_queries_are_json_lines_only(tmp_path, name):
    """A file of another format is refused."""
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=r"ends in .*expected .*\.jsonl"):
        read_queries(tmp_path / name, space=SPACE, encoder=Encoder(), open_queries=OpenQueries())


def test_impossible_query_options_raise(tmp_path):
    """Options that mean nothing are refused."""
    with pytest.raises(DeclarationError, match="cannot read queries with chunk_rows 0"):
        read(tmp_path, RANGE, chunk_rows=0)


def test_windows_that_reach_further_back_than_objects_are_kept_are_rejected(tmp_path):
    """A snapshot may look back as far as objects are kept, and no further; one without a window looks at everything."""
    snapshot = RANGE | {"continuous": False}
    asked = [snapshot | {"id": "a", "window": 60}, snapshot | {"id": "b", "window": 61}, snapshot | {"id": "c"}, RANGE]
    chunks = read(tmp_path, *asked, kept_ms=60)
    assert accepted(chunks).ids.to_list() == ["a", RANGE["id"]]
    assert rejects(chunks) == [
        (2, "window is 61 ms, expected at most 60 ms: older objects are not kept; ask for less, or keep more"),
        (3, "there is no window, expected at most 60 ms: older objects are not kept; ask for less, or keep more"),
    ]


def test_numbers_and_lines_go_on_over_files(tmp_path):
    """Many files are one stream of operations: numbers go on, lines start again, a long line is rejected."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(json.dumps(RANGE) + "\n{}\n")
    second.write_text("\n" + json.dumps({"op": "unregister", "id": "q", "ts": 7}) + "\n{" + " " * 300 + "}")
    chunks = list(
        read_queries(
            [first, second],
            space=SPACE,
            encoder=Encoder(),
            open_queries=OpenQueries(),
            limits=ReadLimits(line_bytes=200),
        )
    )
    assert accepted(chunks).number.tolist() == [0, 2]
    assert accepted(chunks).target.tolist() == [0, 0]
    assert rejects(chunks)[0][0] == 2
    assert rejects(chunks)[1] == (3, "a line of 302 bytes, longer than the limit of 200")
    assert sum(chunk.records for chunk in chunks) == 4
