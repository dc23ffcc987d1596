"""What a user meets first: the command's help and version, the shipped files, and ``import waterspout``."""

import inspect
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
import structlog

import waterspout
from streams.errors import DeclarationError, InputError, RunError
from streams.files.query_records import QueryRecord, QueryRules, read_query
from streams.geometry import Rect
from streams.tokens import tokenise
from topology.cli.offline import workload
from topology.toml import with_settings
from waterspout.command_line import COMMANDS

ROOT = Path(__file__).parents[2]

OBJECTS = [
    {"id": f"o{n}", "ts": n, "x": 0.1 * n, "y": 0.5, "text": "fire in the harbour" if n % 2 else "quiet morning"}
    for n in range(10)
]
QUERIES = [
    {
        "op": "register",
        "id": "near",
        "ts": 0,
        "type": "range",
        "region": {"rect": [0, 0, 0.55, 1]},
        "keywords": ["fire"],
    }
]


def alerts():
    """A topology whose sources are given later."""
    builder = waterspout.TopologyBuilder("alerts", space=[0, 0, 1, 1], epoch={"objects": 3})
    builder.spout("objects", "object-file")
    builder.spout("queries", "query-file")
    builder.bolt("router", "broadcast-router").shuffle("objects", "objects").shuffle("queries", "queries")
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=2)
    evaluator.direct("router", "queries").direct("router", "objects")
    builder.bolt("sink", "count").global_("evaluator", "results")
    return builder


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_each_command_says_of_itself(name):
    """The list of commands is written down, so that nothing has to be imported for it; it is what the commands say."""
    module, line = COMMANDS[name]
    assert inspect.getdoc(getattr(import_module(module), name)).splitlines()[0] == line


def test_version_is_the_packages(waterspout):
    """``--version`` names product and version."""
    code, out, _ = waterspout("--version")
    assert (code, out.split()[0]) == (0, "waterspout")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"kind": "movin"}, "did you mean 'moving'"), ({"kind": "moving", "k": "5"}, "no other option")],
)
def test_workloads_that_cannot_be_made_are_refused_before_anything_is_read(tmp_path, options, message):
    """A type that is none; options of queries, where objects are made."""
    with pytest.raises(DeclarationError, match=message):
        workload(tmp_path, tmp_path / "out.jsonl", **options)


def test_init_copies_what_runs(waterspout, tmp_path):
    """The shipped files are copied once; a second time nothing is overwritten."""
    code, out, _ = waterspout("init", tmp_path / "mine")
    assert code == 0
    assert "next, try: waterspout run" in out
    copied = {path.name for path in (tmp_path / "mine" / "conf").iterdir()}
    assert copied == {path.name for path in (ROOT / "conf").iterdir()}
    code, out, _ = waterspout("validate", tmp_path / "mine" / "conf" / "quickstart.toml")
    assert (code, "valid" in out) == (0, True)
    code, _, err = waterspout("init", tmp_path / "mine")
    assert code == 2
    assert "exists already" in err


def test_import_is_light_and_complete():
    """``import waterspout`` imports nothing large; every name that it promises is there."""
    check = "import sys, waterspout; sys.exit(any(m in sys.modules for m in ('numpy', 'numba', 'ray', 'pyspark', 'pyarrow')))"
    subprocess.run([sys.executable, "-c", check], check=True, cwd=ROOT)
    for name in waterspout.__all__:
        assert getattr(waterspout, name).__name__ == name
    assert set(waterspout.__all__) < set(dir(waterspout))
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        waterspout.runn  # noqa: B018


def test_records_in_results_out():
    """Dictionaries go in, results come out as lines, rows and a table; or one by one, to a function."""
    run = waterspout.run(alerts(), objects=OBJECTS, queries=QUERIES)
    expected = [{"query": "near", "ts": n, "object": f"o{n}"} for n in (1, 3, 5)]
    assert sorted(run.lines, key=lambda line: line["ts"]) == expected
    assert sorted(run.to_arrow().column("object").to_pylist()) == ["o1", "o3", "o5"]
    assert repr(run).startswith("Run(10 objects, 1 queries, 3 results, 0 rejected, ")
    taken = []
    told = waterspout.run(alerts(), objects=iter(OBJECTS), queries=QUERIES, on_result=taken.append)
    assert (sorted(line["ts"] for line in taken), told.lines) == ([1, 3, 5], [])


def test_records_may_have_what_programs_have():
    """Datetimes, sets, values of numpy and tables are taken, under any names; a question needs neither op nor ts."""
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    rows = [
        {"id": f"o{n}", "when": moment + timedelta(seconds=n), "x": np.float64(n / 10), "y": 0.5, "keywords": {"fire"}}
        for n in range(5)
    ]
    asked = [{"id": "near", "type": "range", "region": {"rect": [0, 0, 0.25, 1]}, "keywords": ["fire"]}]
    found = [f"o{n}" for n in range(3)]
    run = waterspout.run(alerts(), objects=rows, queries=asked, columns={"ts": "when"})
    assert sorted(line["object"] for line in run.lines) == found
    table = pa.Table.from_pylist([{**row, "x": float(row["x"]), "keywords": ["fire"]} for row in rows])
    run = waterspout.run(alerts(), objects=table, queries=asked, columns={"ts": "when"})
    assert sorted(line["object"] for line in run.lines) == found


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (["o1"], "objects: record 0 is 'o1', a str; expected dictionaries with the fields of an object"),
        ({"id": "o1"}, "objects: found one dictionary, .*; give a list of them"),
        ([OBJECTS[0], {"id": object()}], r"record 1 is \{'id': .*a object is not plain data; expected numbers"),
    ],
)
def test_records_that_are_none_are_refused(objects, message):
    """What is no record is an error that names it, not a run without objects."""
    with pytest.raises(InputError, match=message):
        waterspout.run(alerts(), objects=objects, queries=QUERIES)


@pytest.mark.usefixtures("unconfigured")
class Shape:
    """A geometry as Shapely has them."""

    def __init__(self, kind, coordinates):
        self.__geo_interface__ = {"type": kind, "coordinates": coordinates}


class Points:
    """A column of points as GeoPandas has it."""

    name = "geometry"
    x, y = [0.5, 0.6], [0.5, 9.0]


class Frame:
    """A frame of points as GeoPandas has it; without its geometries it is a plain table."""

    geometry = Points
    __arrow_c_stream__ = None

    def __init__(self, crs):
        self.crs = crs

    def drop(self, columns):
        assert columns == ["geometry"]
        return self

    def assign(self, **places):
        return pa.table({"id": [1, 2], "ts": [1, 2], "text": ["fire", "fire"], **places})


def test_what_programs_with_maps_and_databases_have_is_read():
    """Decimals, UUIDs and geometries in records; frames of points, whose projection says what their coordinates are."""
    here = UUID(int=7)
    corners = (((0, 0), (0.55, 0), (0.55, 1), (0, 1), (0, 0)),)
    queries = [{**QUERIES[0], "region": Shape("Polygon", corners)}]
    objects = [{"id": here, "ts": 1, "x": Decimal("0.5"), "y": 0.5, "text": "fire"}]
    assert [line["object"] for line in waterspout.run(alerts(), objects=objects, queries=queries).lines] == [str(here)]
    for crs, named in ((None, "lon"), (SimpleNamespace(is_projected=True), "x")):
        run = waterspout.run(alerts(), objects=Frame(crs), queries=QUERIES, include=named)
        assert [(line["object"], line["columns"]) for line in run.lines] == [(1, {named: 0.5})]


def test_topologies_of_any_form_are_validated():
    """A builder, what it builds, and a file; what is wrong with one is named."""
    waterspout.validate(ROOT / "conf" / "quickstart.toml")
    waterspout.validate(waterspout.load_topology(ROOT / "conf" / "quickstart.toml"))
    with pytest.raises(DeclarationError, match=r"^spout.objects: the key 'path' is missing"):
        waterspout.validate(alerts())


def test_tables_and_topologies_that_are_none_are_refused():
    """A column of many types and a topology of no type are named in our words, not in those of Arrow."""
    stream = Mock(side_effect=pa.ArrowInvalid("no such type", "in column geometry"))  # as that of pandas does
    table = SimpleNamespace(__arrow_c_stream__=stream)
    with pytest.raises(InputError, match=r"^objects: the table cannot be read: .* of points make columns lon and lat"):
        waterspout.run(alerts(), objects=table, queries=QUERIES)
    with pytest.raises(DeclarationError, match="topology: found 42, expected a TOML file"):
        waterspout.run(42)


def test_programs_are_told_when_nothing_was_used_or_matched(capsys):
    """A run whose input was hardly used, or whose questions matched nothing, says so to a program as to a person."""
    nowhere = [{**one, "x": 99.0} for one in OBJECTS]
    waterspout.run(alerts(), objects=nowhere, queries=QUERIES)
    assert "only 0 of 10 objects could be used; summary['reject_reasons'] has the reasons" in capsys.readouterr().err
    late = [{**QUERIES[0], "ts": "2026-01-01"}]
    waterspout.run(alerts(), objects=OBJECTS, queries=late)
    err = capsys.readouterr().err
    assert (
        "the first object is of 1970-01-01 and the first query of 2026-01-01: a standing query gets objects from" in err
    )


@pytest.mark.usefixtures("unconfigured")
@pytest.mark.parametrize(
    ("objects", "queries", "expected"),
    [
        ([], QUERIES, "there were no objects at all: what 'objects' reads is empty"),
        (OBJECTS, [], "there were no query operations at all: what 'queries' reads is empty"),
        ([{"id": "bad"}], QUERIES, None),
    ],
)
def test_programs_are_told_which_input_was_empty(capsys, objects, queries, expected):
    """Nothing in is no result out, which looks like a quiet day; where records came and were refused, that is said instead."""
    waterspout.run(alerts(), objects=objects, queries=queries)
    err = capsys.readouterr().err
    assert "at all: what" not in err if expected is None else expected in err


@pytest.mark.usefixtures("unconfigured")
def test_sink_that_does_not_run_is_told(capsys, tmp_path):
    """Results go to the program and not to the declared file, which is said; a file beside a collecting sink is written."""
    path = tmp_path / "r.jsonl"

    def writing(name):
        builder = waterspout.TopologyBuilder("files", space=[0, 0, 1, 1])
        builder.spout("objects", "object-file", path="").spout("queries", "query-file", path="")
        builder.bolt("evaluator", "range-evaluator").shuffle("queries", "queries").shuffle("objects", "objects")
        builder.bolt(name, "jsonl", path=str(path)).global_("evaluator", "results")
        return builder

    run = waterspout.run(writing("sink"), objects=OBJECTS, queries=QUERIES)
    assert (len(run.lines), path.exists()) == (3, False)
    assert "the declared sink 'sink' (jsonl) is not run" in capsys.readouterr().err
    both = writing("file")
    both.bolt("sink", "collect").global_("evaluator", "results")
    run = waterspout.run(both, objects=OBJECTS, queries=QUERIES)
    assert (len(run.lines), len(path.read_text().splitlines())) == (3, 3)
    assert "is not run" not in capsys.readouterr().err


def test_tables_of_programs_are_spoken_of_as_programs_have_them():
    """An error about a data frame names no temporary file, and says which arguments help."""
    table = pa.Table.from_pylist([{("zeit" if k == "ts" else k): v for k, v in one.items()} for one in OBJECTS])
    with pytest.raises(InputError) as caught:
        waterspout.run(alerts(), objects=table, queries=QUERIES)
    text = str(caught.value)
    assert text.startswith("objects.parquet has no column ts; it has id, zeit, x, y, text")
    assert text.endswith("\n  try columns={'ts': 'zeit'} (so 10 of the first 10 records can be used)")
    run = waterspout.run(alerts(), objects=table, queries=QUERIES, columns={"ts": "zeit"})
    assert run.summary["results"] == 3


def test_queries_may_be_a_table():
    """Columns are of all kinds of query; what a row has not, it does not say."""
    asked = [*QUERIES, {"id": "all", "ts": 0, "type": "range", "region": {"circle": [0.5, 0.5, 0.05]}}]
    assert len(waterspout.run(alerts(), objects=OBJECTS, queries=pa.Table.from_pylist(asked)).lines) == 4
    pandas = pytest.importorskip("pandas")
    assert len(waterspout.run(alerts(), objects=OBJECTS, queries=pandas.DataFrame(asked)).lines) == 4


def test_objects_without_times_are_in_the_order_of_their_rows():
    """With ``ts = "row"`` record n is of millisecond n, whatever else it has."""
    timeless = [{name: value for name, value in one.items() if name != "ts"} for one in OBJECTS]
    run = waterspout.run(alerts(), objects=timeless, queries=QUERIES, settings=['spout.objects.ts="row"'])
    assert run.summary["objects"] == len(OBJECTS)
    assert {line["object"]: line["ts"] for line in run.lines} == {f"o{n}": n for n in (1, 3, 5)}


def test_lists_are_rows_with_ranks():
    """A list has a row for each place, and one without an object where it is empty."""
    lines = [
        {"query": "k", "ts": 1, "objects": [["a", 0.5], [7, 0.75]]},
        {"query": "s", "ts": 2, "objects": ["a"]},
        {"query": "t", "ts": 3, "terms": [["fire", 2]]},
        {"query": "s", "ts": 4, "objects": []},
        {"query": "f", "ts": 5, "object": "a", "detect": "exit"},
    ]
    run = waterspout.Run({}, lines)
    assert list(run.rows()) == [
        {"query": "k", "ts": 1, "rank": 1, "object": "a", "value": 0.5},
        {"query": "k", "ts": 1, "rank": 2, "object": 7, "value": 0.75},
        {"query": "s", "ts": 2, "rank": 1, "object": "a"},
        {"query": "t", "ts": 3, "rank": 1, "term": "fire", "count": 2},
        {"query": "s", "ts": 4},
        {"query": "f", "ts": 5, "object": "a", "detect": "exit"},
    ]
    assert run.to_arrow()["detect"].to_pylist() == [None] * 5 + ["exit"]


def test_results_beyond_the_limit_are_refused():
    """What is kept in memory has a limit, and the error says what to do."""
    with pytest.raises(RunError, match="give on_result a function"):
        waterspout.run(alerts(), objects=OBJECTS, queries=QUERIES, settings=["topology.limits.collected=2"])


@pytest.fixture
def unconfigured():
    """Structlog as a program finds it that says nothing of it."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    if before is not None:
        structlog.configure(**before)


@pytest.mark.usefixtures("unconfigured")
def test_programs_see_results_and_warnings_and_nothing_else(tmp_path, capsys):
    """Of what only helps to find a fault nothing is printed; warnings go to standard error, also of odd input."""
    waterspout.run(alerts(), objects=OBJECTS, queries=QUERIES)
    capsys.readouterr()  # kernels that are compiled for the first time are worth a word
    settings = [f"topology.checkpoint.directory={tmp_path / 'saved'}", "topology.checkpoint.epochs=1"]
    late = [{**one, "ts": 1_600_000_000_000 + one["ts"]} for one in OBJECTS]
    waterspout.run(alerts(), objects=late, queries=QUERIES, settings=settings)
    assert list((tmp_path / "saved").iterdir())
    assert capsys.readouterr() == ("", "")
    seconds = [{"id": one["id"], "ts": 1_600_000_000, "lon": one["x"], "lat": one["y"]} for one in OBJECTS]
    waterspout.run(alerts(), objects=seconds, queries=QUERIES)
    out, err = capsys.readouterr()
    assert out == ""
    assert "the first object is of 1970-01-19; if that is not right, try settings=['spout.objects.time_unit=s']" in err
    assert "no metric is declared, so distances and radii are Euclidean, in degrees" in err


def test_a_topology_takes_settings_as_a_file_does():
    """A builder's topology is overridden by key; classes of one's own stay where they are."""

    class Mine(waterspout.Bolt):
        """A class that no name leads to."""

    builder = alerts()
    builder.bolt("mine", Mine).global_("evaluator", "results")
    built = builder.build(check=False)
    changed = with_settings(built, ["bolt.evaluator.parallelism=5", "topology.epoch.objects=7"])
    assert changed.component("evaluator").parallelism == 5
    assert changed.settings.epoch.objects == 7
    assert list(changed.component("mine").classes.values()) == [Mine]
    assert with_settings(changed, ["bolt.evaluator.parallelism=2", "topology.epoch.objects=3"]) == built


def test_formats_page_shows_what_is_accepted():
    """Every query line of the page is a valid operation, of every type; its table of tokens is what the tokeniser does."""
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    records = [json.loads(line) for line in re.findall(r"^    (\{\"op\".*\})$", page, re.M)]
    rules = QueryRules(Rect(0, 0, 1, 1), "euclidean", 10)
    assert all(isinstance(read_query(record, rules), QueryRecord) for record in records)
    assert {record.get("type") for record in records} == {"range", "knn", "topk", "terms", None}
    table = page[page.index("| text | keywords |") :].split("\n\n")[0]
    tokens = re.findall(r"^\| `(.*)` \| (.*) \|$", table, re.M)
    assert [sorted(tokenise(text)) for text, _ in tokens] == [words.split(", ") for _, words in tokens]
