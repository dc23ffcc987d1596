"""Input that cannot be used goes on as rejects while it is read, and none of it waits for something better."""

import json
from unittest import mock

import pytest

from operators.spouts import file_spouts, read_ahead
from streams.errors import DeclarationError
from streams.files.read_limits import ReadLimits
from topology.run import run
from topology.toml import parse_topology

TOPOLOGY = """
[topology.epoch]
objects = 4
queries = 4
[topology.limits]
live_queries = 2
id_bytes = 20
keywords = 2
[spout.objects]
operator = "object-file"
path = "objects.jsonl"
[spout.queries]
operator = "query-file"
path = "queries.jsonl"
[bolt.evaluator]
operator = "range-evaluator"
inputs = [
    { component = "queries", stream = "queries", grouping = "all" },
    { component = "objects", stream = "objects", grouping = "all" },
]
[bolt.sink]
operator = "count"
inputs = [{ component = "evaluator", stream = "results" }]
[bolt.rejects]
operator = "rejects"
path = "rejects.jsonl"
inputs = [
    { component = "queries", stream = "rejects", grouping = "global" },
    { component = "objects", stream = "rejects", grouping = "global" },
]
"""


def register(name, ts=0):
    """Return a query for the whole space."""
    return {"op": "register", "id": name, "ts": ts, "type": "range", "region": {"rect": [0, 0, 1, 1]}}


def lines(path, records):
    """Write records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("readers", [1, 2])
def test_hostile_records_do_not_pile_up(tmp_path, readers):
    """Hundreds of bad records before, between and after good ones are rejected in many epochs, and change no result.

    Both queries are of the first object's time, so it must wait for the second one behind all that is refused.
    """
    bad, good = {"id": "bad"}, {"ts": 5, "x": 0.5, "y": 0.5, "text": "storm"}
    lines(
        tmp_path / "objects.jsonl",
        [bad] * 300 + [good | {"id": 1}] + [bad] * 300 + [good | {"id": 2, "ts": 9}] + [bad] * 300,
    )
    lines(tmp_path / "queries.jsonl", [bad] * 200 + [register("q", 5)] + [bad] * 200 + [register("r", 5)] + [bad] * 200)
    topology = parse_topology(TOPOLOGY, [f"spout.objects.parallelism={readers}"], base=tmp_path)
    with (
        mock.patch.object(read_ahead, "MOST_REFUSED", 10),
        mock.patch.object(file_spouts, "SMALLEST_CHUNK", 5),
        mock.patch.object(file_spouts, "LARGEST_CHUNK", 5),
    ):
        summary = run(topology).summary
    assert (summary["objects"], summary["queries"], summary["results"]) == (2, 2, 4)
    assert summary["rejected"] == 1_500
    assert summary["epochs"] > 30
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 1_500


def test_hostile_queries_reach_the_limits_of_the_declaration(tmp_path):
    """The same id for ever, too many queries, long ids and too many keywords are rejected with the limit in the reason."""
    lines(tmp_path / "objects.jsonl", [{"id": "o", "ts": 1, "x": 0, "y": 0, "keywords": ["a", "b", "c"]}])
    lines(
        tmp_path / "queries.jsonl",
        [
            *[register("q")] * 50,
            register("r"),
            register("s"),
            register("n" * 21),
            register("k") | {"keywords": list("abc")},
        ],
    )
    assert run(parse_topology(TOPOLOGY, base=tmp_path)).summary["queries"] == 2
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert sum("is taken for good" in reason for reason in reasons) == 49
    assert sum("2 queries live already, which is the limit" in reason for reason in reasons) == 1
    assert sum("an id of 21 bytes, longer than the limit of 20" in reason for reason in reasons) == 1
    assert sum("3 keywords, more than the limit of 2" in reason for reason in reasons) == 2


@pytest.mark.parametrize(
    "name", ["line_bytes", "keywords", "id_bytes", "columns", "row_group_values", "live_queries", "words"]
)
def test_hostile_limits_are_refused(name):
    """A limit of nothing is a mistake, told with its key."""
    with pytest.raises(DeclarationError, match=rf"topology.limits: {name} = 0, expected"):
        parse_topology(f"[topology.limits]\n{name} = 0\n")
    assert getattr(ReadLimits(), name) > 0
