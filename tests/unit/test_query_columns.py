"""The columns of the fast path vouch for a record only if its own reading would accept it."""

import json
from unittest import mock

import numpy as np
import pytest

from streams import json_blocks, query_columns
from streams.batches import QUERY_TYPES, tuple_rows
from streams.file_blocks import ReadLimits
from streams.geometry import Rect
from streams.query_files import read_queries
from streams.query_ledger import QueryLedger
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
    "k": [1, 0, -1, 2**31 - 1, 2**31, None],
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
    options = {"space": Rect(0, 0, 1, 1), "encoder": Encoder(), "ledger": QueryLedger(), "limits": limits}
    chunks = list(read_queries(path, metric=metric, **options))
    accepted = [repr(row) for chunk in chunks for row in tuple_rows(chunk.batch)[1]]
    return accepted, [row for chunk in chunks for row in tuple_rows(chunk.rejects)[1]]


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_every_change_of_a_query_is_judged_alike(tmp_path, metric):
    """Each record that differs from a valid one in one field fares the same in columns and on its own."""
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in variants()))
    with mock.patch.object(query_columns, "parse_run", wraps=query_columns.parse_run) as parsed:
        fast = read(path, metric)
    assert parsed.call_count == 1  # Arrow took all of them at once
    with mock.patch.object(json_blocks, "trusted_lines", lambda block, strict: np.zeros(len(block), np.bool_)):
        assert read(path, metric) == fast
    assert len(fast[0]) > 100
    assert len(fast[1]) > 300
