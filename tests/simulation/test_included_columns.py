"""Results with columns of their objects: in lines, rows, tables and files, of every format."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.errors import DeclarationError, InputError
from waterspout import run

ROOT = Path(__file__).parents[2]
QUICKSTART, NEAREST = ROOT / "conf" / "quickstart.toml", ROOT / "conf" / "dkm.toml"
RECORDS = [
    {"id": "a", "ts": 5, "lon": 1.5, "lat": 2.5, "text": "Fire, downtown", "size": 3},
    {"id": 7, "ts": 6, "lon": 1.0, "lat": 2.0, "text": "smoke", "size": 4},
    {"id": "c", "ts": 7, "lon": 1.0, "lat": 2.0, "text": "fire again", "size": 5},
]
RANGE = {"op": "register", "id": "q", "ts": 0, "type": "range", "region": {"rect": [0, 0, 9, 9]}, "keywords": ["fire"]}
KNN = {"op": "register", "id": "k", "ts": 0, "type": "knn", "at": [1.0, 2.0], "k": 2, "keywords": []}


def written(folder, kind):
    """Write the records in a format, with other names in CSV."""
    path = folder / f"o.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    elif kind == "csv":
        rows = "".join(f'{r["id"]},{r["ts"]},{r["lon"]},{r["lat"]},"{r["text"]}",{r["size"]}\n' for r in RECORDS)
        path.write_text("ID,time,Longitude,latitude,text,size\n" + rows)
    else:
        pq.write_table(pa.Table.from_pylist([record | {"id": str(record["id"])} for record in RECORDS]), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_matches_have_the_columns_of_their_objects(tmp_path, kind):
    """Fields by the contract's name whatever the file calls them, and any other column of the file."""
    found = run(QUICKSTART, objects=written(tmp_path, kind), queries=[RANGE], include=["text", "lon", "size"])
    assert [(line["object"], line["columns"]["text"], line["columns"]["lon"]) for line in found.lines] == [
        ("a", "Fire, downtown", 1.5),
        ("c", "fire again", 1.0),
    ]
    assert [str(row["size"]) for row in found.rows()] == ["3", "5"]
    assert found.to_arrow().column("text").to_pylist() == ["Fire, downtown", "fire again"]
    assert list(found.to_pandas()["lon"]) == [1.5, 1.0]


def test_lists_have_columns_for_each_of_their_objects(tmp_path):
    """Each place of a list of the nearest has the columns of its object; a name that results have is told apart."""
    found = run(NEAREST, objects=written(tmp_path, "jsonl"), queries=[KNN], include=["text", "ts"])
    last = found.lines[-1]
    assert [one["text"] for one in last["columns"]] == ["smoke", "fire again"]
    assert [(row["rank"], row["object_ts"]) for row in found.rows()][-2:] == [(1, 6), (2, 7)]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_files_of_results_have_columns_too(waterspout, tmp_path, ending):
    """`--include` writes lines with columns, and tables whose rows and lists have them."""
    objects, queries, results = written(tmp_path, "csv"), tmp_path / "q.jsonl", tmp_path / f"r.{ending}"
    for topology, query in ((QUICKSTART, RANGE), (NEAREST, KNN)):
        queries.write_text(json.dumps(query) + "\n")
        code, _, err = waterspout(
            "run", topology, "--objects", objects, "--queries", queries, "--results", results, "--include", "text,lon"
        )
        assert code == 0, err
        if ending == "parquet":
            rows = pq.read_table(results).to_pylist()
            items = rows if query is RANGE else rows[-1]["objects"]
        else:
            with pa.input_stream(str(results)) as file:
                lines = [json.loads(line) for line in file.read().splitlines()]
            items = [line["columns"] for line in lines] if query is RANGE else lines[-1]["columns"]
        expected = ["Fire, downtown", "fire again"] if query is RANGE else ["smoke", "fire again"]
        assert [item["text"] for item in items] == expected
        assert [item["lon"] for item in items] == ([1.5, 1.0] if query is RANGE else [1.0, 1.0])


def test_what_cannot_be_included_is_refused_before_the_run(waterspout, tmp_path):
    """A column that is not there, results that go by as they come, an id that occurs twice."""
    objects = written(tmp_path, "jsonl")
    with pytest.raises(InputError, match="no column 'txt' to include; it has id, ts, lon"):
        run(QUICKSTART, objects=objects, queries=[RANGE], include=["txt"])
    with pytest.raises(DeclarationError, match=r"take Run\.lines instead"):
        run(QUICKSTART, objects=objects, queries=[RANGE], include=["text"], on_result=print)
    with pytest.raises(InputError, match="the id a occurs twice"):
        run(QUICKSTART, objects=[RECORDS[0], RECORDS[0]], queries=[RANGE], include=["text"])
    code, _, err = waterspout("run", QUICKSTART, "--include", "text")
    assert code == 2
    assert "give --results a file" in err
    code, _, err = waterspout("run", QUICKSTART, "--include", "text", "--results", "-")
    assert (code, "give --results a file" in err) == (2, True)
    file = ["--results", tmp_path / "r.jsonl"]
    saved = ["--set", f"topology.checkpoint.directory={tmp_path / 'saved'}"]
    code, _, err = waterspout("run", QUICKSTART, "--include", "text", *file, *saved)
    assert (code, "--include rewrites the results at the end, and a run with checkpoints goes on in them" in err) == (
        2,
        True,
    )
    code, _, err = waterspout("run", QUICKSTART.parent / "dynamic.toml", "--include", "keywords", *file)
    assert (code, "dynamic objects have many states under one id" in err) == (2, True)
    assert not (tmp_path / "r.jsonl").exists()
