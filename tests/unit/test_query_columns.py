"""The columns of the fast path vouch for a record only if its own reading would accept it."""

import json
from unittest import mock

import numpy as np
import pytest

from streams.batches import QUERY_TYPES, tuple_rows
from streams.files import query_columns
from streams.files.file_blocks import ReadLimits
from streams.files.open_queries import OpenQueries
from streams.files.query_files import read_queries
from streams.geometry import Rect
from streams.vocabulary import Encoder

RECT, CIRCLE = {"rect": [0, 0, 1, 1]}, {"circle": [0.5, 0.5, 0.25]}
BASES = [
    {"type": "range", "region": RECT, "keywords": ["a"], "match": "all", "ttl": 5},
    {"type": "range", "region": CIRCLE, "continuous": False, "window": 5},
    {"type": "knn", "at": [0.5, 0.5], "k": 3, "keywords": ["a", "B"], "match": "any"},
    {"type": "knn", "at": [0.5, 0.5], "k": 3, "continuous": False, "window": 5},
    {"type": "topk", "at": [0.5, 0.5], "k": 3, "alpha": 0.5, "keywords": ["a"]},
    {"type": "terms", "region": RECT, "k": 3, "window": 5, "slide": 2},
    {"type": "terms", "region": CIRCLE, "k": 3, "continuous": False},
    {"op": "unregister"},
]
CHANGES = {
    "op": ["register", "unregister", "regster", None],
    "id": ["", None],
    "type": [*QUERY_TYPES, "kn", None],
    "continuous": [True, False, None],
    "ttl": [1, 0, -1, 2**62 - 1, 2**62, None],
    "window": [1, 0, -1, 2**62, None],
    "slide": [1, 0, -1, 2**62, None],
    "keywords": [[], ["a"], ["A", "a", "b", "c", "d"], list("abcde"), [""], ["a", ""], [None], None],
    "match": ["all", "any", "some", None],
    "at": [[0.5, 0.5], [0, 1], [1.5, 0], [0, -1], [0.5], [0, 0, 0], [None, 0], [], None],
    "k": [1, 0, -1, 1000, 1001, 2**31, None],
    "alpha": [0, 1, 0.5, -0.1, 1.1, None],
    "region": [
        RECT, CIRCLE, RECT | CIRCLE, {}, None, {"rect": None}, RECT | {"circle": None}, {"rect": [0, 0, 0, 0]},
        {"rect": [1, 0, 0, 1]}, {"rect": [0, 1, 1, 0]}, {"rect": [0, 0, 1]}, {"rect": [0, 0, 1, None]}, {"rect": []},
        {"circle": [0, 0, 0]}, {"circle": [0, 0, -1]}, {"circle": [0, 0]}, {"circle": [0, 0, None]},
        {"circle": [181, 0, 1]}, {"circle": [0, -91, 1]}, {"circle": [0, 0, 1, 1]},
    ],
    "ts": [2**62 - 1, 2**62, -(2**62), None],
}  # fmt: skip


def variants():
    """Return every base record with every field changed to every value, those of `ts` last: they hold back the rest."""
    changed = [base | {name: value} for name, values in CHANGES.items() for value in values for base in BASES]
    return [
        {"op": "register", "id": f"q{number}", "ts": 7} | record for number, record in enumerate([*BASES, *changed])
    ]


def read(path, metric):
    """Return accepted operations and rejects."""
    limits = ReadLimits(keywords=4)
    options = {"space": Rect(0, 0, 1, 1), "encoder": Encoder(), "open_queries": OpenQueries(), "limits": limits}
    chunks = list(read_queries(path, metric=metric, **options))
    accepted = [repr(row) for chunk in chunks for row in tuple_rows(chunk.batch)[1]]
    return accepted, [row for chunk in chunks for row in tuple_rows(chunk.rejects)[1]]


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_every_change_of_a_query_is_judged_alike(tmp_path, metric):
    """Each record that differs from a valid one in one field fares the same in columns and on its own."""
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in variants()))
    with mock.patch.object(query_columns, "read_query", wraps=query_columns.read_query) as alone:
        fast = read(path, metric)
    assert alone.call_count < len(fast[1]) + 20  # the columns vouched for nearly all that is valid
    with mock.patch.object(query_columns._Columns, "vouched", lambda columns: np.zeros(len(columns), np.bool_)):
        assert read(path, metric) == fast
    assert len(fast[0]) > 100
    assert len(fast[1]) > 300


HEAD = '{"op":"register","id":"q","ts":7,"type":'
AWKWARD = [
    HEAD + '"knn","at":[0.5,0.5],"k":3,}', HEAD + '"knn","at":[0.5,0.5] "k":3}', HEAD + '"knn","at":[0.5,0.5],,"k":3}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"k":3}', HEAD + '"knn","at":[0.5,0.5],"k":3}}', HEAD + '"knn","at":[0.5,0.5],"k":3',
    HEAD + '"knn","at":[0.5,0.5],"k":3}x', HEAD + '"knn","at":[0.5,0.5],"k":3} \t', " " + HEAD + '"knn","at":[0.5,0.5],"k":3}',
    HEAD + '"knn","at":[0.5,0.5],"k":-0}', HEAD + '"knn","at":[-0,0.5],"k":3}', HEAD + '"knn","at":[-0.0,0.5],"k":3}',
    HEAD + '"knn","at":[00.5,0.5],"k":3}', HEAD + '"knn","at":[0.5,01],"k":3}', HEAD + '"knn","at":[0.5,.5],"k":3}',
    HEAD + '"knn","at":[0.5,1.],"k":3}', HEAD + '"knn","at":[0.5,5e-1],"k":3}', HEAD + '"knn","at":[0.5,5E+0],"k":3}',
    HEAD + '"knn","at":[0.5,5e],"k":3}', HEAD + '"knn","at":[0.5,+0.5],"k":3}', HEAD + '"knn","at":[0.5,-],"k":3}',
    HEAD + '"knn","at":[0.5,0.5,],"k":3}', HEAD + '"knn","at":[0.5 0.5],"k":3}', HEAD + '"knn","at":[ 0.5 , 0.5 ],"k":3}',
    HEAD + '"knn","at":[[0.5,0.5]],"k":3}', HEAD + '"knn","at":["0.5",0.5],"k":3}', HEAD + '"knn","at":[0.5,0.5,"k":3}',
    HEAD + '"knn","at":[0.5,NaN],"k":3}', HEAD + '"knn","at":[0.5,1e999],"k":3}', HEAD + '"knn","at":[0.5,1e-999],"k":3}',
    HEAD + '"knn","at":[0.5,0.5],"k":3.0}', HEAD + '"knn","at":[0.5,0.5],"k":1000000000000000003}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["a\\u0062"]}', HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["a\tb"]}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["a",]}', HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":[a]}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["a" "b"]}', HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["\x7fé東"]}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":[1]}', HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":[ ]}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"ttl":nul}', HEAD + '"knn","at":[0.5,0.5],"k":3,"continuous":True}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"continuous":trueish}', HEAD + '"kn\\u006e","at":[0.5,0.5],"k":3}',
    HEAD + '"range","region":{"rect":[0,0,1,1],}}', HEAD + '"range","region":{"rect":[0,0,1,1],"rect":[0,0,1,1]}}',
    HEAD + '"range","region":{"rect":[0,0,1,1]}', HEAD + '"range","region":{"rect":[0,0,1,1]},"region":null}',
    HEAD + '"range","rect":[0,0,1,1]}', HEAD + '"range","region":{"k":3}}', HEAD + '"range","region":{"region":{}}}',
    HEAD + '"range","region":{"rect":[0,0,1,1]}"ttl":5}', HEAD + '"range","region":{"rect":[0,0,1,1]} , "ttl" : 5 }',
    HEAD + '"range","region":{ "circle" : [0,0,1] }}', HEAD + '"range","region":{"circle":[0,0,1]}},', HEAD,
    '{"op":"unregister","id":-0,"ts":7}', '{"op":"unregister","id":"","ts":7}', '{"op":"unregister","id":1e0,"ts":7}',
    '{"op":"register","id":-0,"ts":7,"type":"range","region":{"rect":[0,0,1,1]}}', '{"op":"unregister","id":0,"ts":7}',
    '{"op":"register","id":1000000000000000000,"ts":7,"type":"range","region":{"rect":[0,0,1,1]}}',
    '{"op":"register","id":-999999999999999999,"ts":7,"type":"range","region":{"rect":[0,0,1,1]}}',
    '{"op":"register","id":"\\"","ts":7,"type":"range","region":{"rect":[0,0,1,1]}}', '{"op":"unregister","id":"q","ts":"7"}',
    '{"op":"register","id":"iso","ts":"1970-01-01T00:00:00.007Z","type":"range","region":{"rect":[0,0,1,1]}}',
    '{"op":"unregister","id":"iso","ts":1000000000000000000000}', '{"op":"unregister","id":"iso","ts":07}', "{", "{}", "{ }",
    HEAD + '"knn";"at":[0.5,0.5],"k":3}', HEAD + '"knn","at":[0.5,0.5],"k"=3}', HEAD + '"knn","at":[0.5;0.5],"k":3}',
    HEAD + '"knn","at":[0.5,0.5],"k":3,"ttl":nulx}', HEAD + '"knn","at":[0.5,0.5],"k":3,"keywords":["a";"b"]}', '{"',
    '{"op"}', '{"op":}', '{"op":"unregister","id":"iso","ts":7,"":1}', '{"op" "unregister"}', '{"op":"unregister', '{"op":[',
]  # fmt: skip


@pytest.mark.parametrize("line", AWKWARD)
def test_awkward_lines_are_judged_alike(tmp_path, line):
    """Lines at the edge of JSON fare the same in columns and on their own, whatever stands before them."""
    path = tmp_path / "queries.jsonl"
    path.write_text(line + "\n" + line.replace('"q"', '"other"') + "\n", encoding="utf-8")
    fast = read(path, "euclidean")
    with mock.patch.object(query_columns._Columns, "vouched", lambda columns: np.zeros(len(columns), np.bool_)):
        assert read(path, "euclidean") == fast
