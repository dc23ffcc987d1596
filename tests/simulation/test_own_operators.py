"""Spouts and bolts of users between the shipped ones, and what they are told where that cannot work."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pyarrow.parquet as pq
import pytest
from range_inputs import WORDS, write_inputs, write_lines

from operators import Bolt, Spout
from operators.operator import Emitter
from streams.errors import DeclarationError, TaskFailedError
from topology import TopologyBuilder
from topology.run import run
from topology.testing import run_for_test
from topology.toml import parse_topology
from topology.verification import verify_lines
from waterspout import run as run_records

FIELDS = ("id", "ts", "x", "y", "keywords")


@dataclass
class Feed(Spout):
    """Emits the records of a JSONL file, as tuples or as dictionaries, five an epoch."""

    outputs: ClassVar = {"objects": FIELDS}

    path: str
    as_dictionaries: bool = False

    def open(self, context):
        with open(self.path) as file:
            self.records = [json.loads(line) for line in file]
        self.at = 0

    def next_epoch(self, epoch, inputs, emit):
        for record in self.records[self.at : self.at + 5]:
            known = {name: record[name] for name in FIELDS if name in record}
            if self.as_dictionaries:
                emit(known, stream="objects")
            else:
                emit(*(known.get(name) for name in FIELDS), stream="objects")
        self.at += 5
        return self.at < len(self.records)

    def snapshot(self):
        return {"at": self.at}

    def restore(self, state):
        self.at = state["at"]


class Places(Feed):
    """Has no keywords."""

    outputs: ClassVar = {"objects": ("id", "ts", "x", "y")}


class Pass(Bolt):
    """Passes results on as they are."""

    outputs: ClassVar = {"results": ("query", "ts", "object")}

    def execute_batch(self, arrival, emit):
        emit.batch(arrival.batch, "results")


class Sizes(Bolt):
    """Emits tuples of its own."""

    outputs: ClassVar = {"sizes": ("object", "matches")}

    def execute(self, tup, emit):
        emit(tup["ids"], len(tup["number"]), stream="sizes")


class Wrong(Bolt):
    """Asks for a field that is not there."""

    def execute(self, tup, emit):
        tup["idz"]


class Sets(Bolt):
    """Emits what cannot be sent to another process."""

    outputs: ClassVar = {"sizes": ("object", "matches")}

    def execute(self, tup, emit):
        emit(tup["ids"], {1, 2}, stream="sizes")


def built(objects, queries, *between, spout="object-file", sink="collect", checkpoint=None, **options):
    """Return a topology with bolts of one's own between the evaluators and the sink, or a spout of one's own."""
    kept = {"checkpoint": checkpoint} if checkpoint else {}
    builder = TopologyBuilder("own", epoch={"objects": 9}, **kept)
    builder.spout("objects", spout, path=str(objects), **options)
    builder.spout("queries", "query-file", path=queries)
    builder.bolt("router", "broadcast-router", parallelism=2).shuffle("objects", "objects").shuffle(
        "queries", "queries"
    )
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=2)
    evaluator.direct("router", "queries").direct("router", "objects")
    last = ("evaluator", "results")
    for number, bolt in enumerate(between):
        builder.bolt(f"own{number}", bolt).global_(*last)
        last = (f"own{number}", next(iter(bolt.outputs), "none"))
    if last[1] != "none":
        made = {"operator": sink} if isinstance(sink, str) else sink
        builder.bolt("sink", made.pop("operator"), **made).global_(*last)
    return builder


@pytest.fixture
def inputs(tmp_path):
    """Objects and queries, and the lines of their results."""
    objects, queries = write_inputs(tmp_path, 3)
    return objects, queries, lines(built(objects, queries))


def lines(builder):
    return sorted(map(json.dumps, verify_lines(run(builder.build()).collected)))


@pytest.mark.parametrize("as_dictionaries", [False, True])
def test_own_spout_feeds_shipped_routers_and_evaluators(inputs, as_dictionaries):
    """Tuples or dictionaries with the fields of a record give the results that the file gives."""
    objects, queries, expected = inputs
    found = built(objects, queries, spout=Feed, as_dictionaries=as_dictionaries)
    assert len(expected) > 20
    assert lines(found) == expected


def test_own_spout_survives_kills(tmp_path, inputs):
    """What a task has made of tuples is part of its state: numbers and times go on where they were."""
    objects, queries, expected = inputs
    checkpoint = {"directory": str(tmp_path / "checkpoints"), "epochs": 2}
    builder = built(objects, queries, spout=Feed, checkpoint=checkpoint)
    builder.inject(kind="kill", task="objects[0]", epoch=5)
    assert lines(builder) == expected


def test_records_of_an_own_spout_that_cannot_be_used_are_rejects(tmp_path, inputs):
    """A place outside of the space, a time that goes back: counted with their reasons, and the others are matched."""
    _, queries, _ = inputs
    good = {"id": 1, "ts": 5, "x": 0.5, "y": 0.5, "keywords": [WORDS[0]]}
    records = [good, good | {"id": 2, "x": 7.0}, good | {"id": 3, "ts": 4}, good | {"id": None}, good | {"id": 5}]
    path = write_lines(tmp_path / "bad.jsonl", records)
    summary = run(built(path, queries, spout=Feed).build()).summary
    assert (summary["objects"], summary["rejected_objects"]) == (2, 3)
    assert {one["reason"].split(",")[0] for one in summary["reject_reasons"]} >= {"no id"}


def test_own_spout_without_the_fields_of_an_object_is_refused(inputs):
    """What is missing is said before anything starts."""
    objects, queries, _ = inputs
    with pytest.raises(DeclarationError, match=r"but an object needs text or keywords; emit id"):
        built(objects, queries, spout=Places).build()


def test_results_behind_an_own_bolt_are_written_and_exact(tmp_path, inputs):
    """A bolt that passes results on: JSON lines, Parquet, `lines` and `assert_exact` are as without it."""
    objects, queries, expected = inputs
    trial = run_for_test(built(objects, queries, Pass))
    trial.assert_exact()
    assert sorted(map(json.dumps, trial.lines())) == expected
    for operator in ("jsonl", "parquet"):
        path = tmp_path / f"r.{operator}"
        run(built(objects, queries, Pass, sink={"operator": operator, "path": str(path)}).build())
        found = pq.read_table(path).num_rows if operator == "parquet" else len(path.read_text().splitlines())
        assert found == len(expected)


def test_tuples_of_an_own_bolt_are_lines_and_rows(tmp_path, inputs):
    """Tuples with fields of their own are JSON objects by these names; the oracle and a table of results say why not."""
    objects, queries, expected = inputs
    path = tmp_path / "r.jsonl"
    run(built(objects, queries, Sizes, sink={"operator": "jsonl", "path": str(path)}).build())
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line["matches"] for line in found) == len(expected)
    taken = run_records(built(objects, queries, Sizes, sink="count"))
    assert sorted(taken.to_arrow().column_names) == ["matches", "object"]
    trial = run_for_test(built(objects, queries, Sizes))
    assert len(trial.lines()) == len(found)
    with pytest.raises(DeclarationError, match=r"which are no results of queries"):
        trial.assert_exact()
    with pytest.raises(DeclarationError, match=r"have a field 'matches', but 'parquet' writes a table of query"):
        built(objects, queries, Sizes, sink={"operator": "parquet", "path": str(tmp_path / "r.parquet")}).build()


def test_missing_field_and_values_that_cannot_be_sent_are_named(inputs):
    """A field that is not there, and a set in a tuple, say what there is and what to use, on every runtime."""
    objects, queries, _ = inputs
    with pytest.raises(
        TaskFailedError, match=r"stream 'results' of 'evaluator' has no field 'idz' \(did you mean 'ids'"
    ):
        run(built(objects, queries, Wrong).build())
    with pytest.raises(TaskFailedError, match=r"field 'matches' has a value of type set, which cannot be sent"):
        run(built(objects, queries, Sets).build())


def test_tuple_that_is_emitted_as_one_value_is_told_how_to_be():
    """``emit(record)`` is for dictionaries; of a tuple it says how its values are emitted, of a wrong number only that."""
    emit = Emitter({"default": ("id", "ts")})
    with pytest.raises(ValueError, match=r"a tuple of 1 values was emitted; .* as in emit\(\*record\)$"):
        emit((1, 2))
    for values in [(1,), (1, 2, 3), ((1, 2, 3),)]:
        with pytest.raises(ValueError, match=r"has the fields id, ts, but a tuple of \d values was emitted$"):
            emit(*values)


def test_own_module_is_found_beside_the_declaration_and_in_the_current_folder(tmp_path, monkeypatch):
    """``module:Class`` needs no path of its own; what is not there, or misspelt, is said with where it was looked for."""
    here, there = tmp_path / "here", tmp_path / "there"
    text = '[topology]\n[spout.a]\noperator = "{}"\n[bolt.b]\noperator = "count"\ninputs = [{{ component = "a" }}]\n'
    code = "from operators import Spout\nclass Mine(Spout):\n    outputs = {'default': ('n',)}\n    next_epoch = bool\n"
    for folder, module in ((here, "own_module_here"), (there, "own_module_there")):
        folder.mkdir()
        (folder / f"{module}.py").write_text(code)
    monkeypatch.chdir(there)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in ("own_module_here", "own_module_there"):
        parse_topology(text.format(f"{module}:Mine"), base=here)
    for reference, message in (
        ("own_module_here:Nine", r"own_module_here has no 'Nine' \(did you mean 'Mine'"),
        ("own_module_gone:Mine", rf"no module 'own_module_gone' in Python's path nor in {here} or {there}"),
    ):
        with pytest.raises(DeclarationError, match=message):
            parse_topology(text.format(reference), base=here)


@pytest.mark.parametrize("code", ["", "import waterspout\nclass Mine(waterspout.Bolt): pass\n"])
@pytest.mark.parametrize("name", ["streams", "topology"])
def test_file_that_hides_a_package_is_named(tmp_path, name, code):
    """A script beside a file of a package's name is told to rename that file, also where the file is of our operators."""
    (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "script.py").write_text("import waterspout\nwaterspout.TopologyBuilder('x')\n")
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path / name}.py hides Waterspout's package '{name}'; rename it" in done.stderr
