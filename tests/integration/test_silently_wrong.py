"""What once went wrong without a word, as a user would meet it: refused or found, or said aloud."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepared_inputs import write_prepared
from range_inputs import CONF, WORDS, random_objects, random_queries, write_lines

from streams.files.prepared import load_manifest, save_manifest
from streams.vocabulary import unseen_id

UNIT = ["--set", "topology.space=[0,0,1,1]"]


@pytest.fixture
def made(tmp_path):
    """Objects, as a file and prepared, and queries."""
    rng = random.Random(3)
    objects = [{**one, "id": place} for place, one in enumerate(random_objects(rng, 80, 25))]
    write_lines(tmp_path / "objects.jsonl", objects)
    write_lines(tmp_path / "queries.jsonl", random_queries(rng, 60, 25))
    write_prepared(tmp_path / "prepared", objects, WORDS[::-1], parts=2)
    return tmp_path


@pytest.fixture
def extending(tmp_path):
    """Write a variant of a shipped topology."""

    def write(name, text, shipped="quickstart.toml"):
        path = tmp_path / name
        path.write_text(f"extends = {json.dumps(str(CONF / shipped))}\n{text}", "utf-8")
        return path

    return write


@pytest.mark.parametrize("shipped", ["quickstart.toml", "tornado-text.toml"])
@pytest.mark.parametrize("objects", ["prepared", "prepared/objects/part-00000.parquet"])
def test_prepared_objects_are_read_by_their_own_vocabulary(waterspout, made, shipped, objects):
    """The folder of a prepared data set, and its files, find the vocabulary beside them; the results are those of the words."""
    out = made / "results.jsonl"
    queries = ["--queries", made / "queries.jsonl", "--results", out]
    code, text, err = waterspout("verify", CONF / shipped, *UNIT, "--objects", made / objects, *queries)
    assert (code, "the results are right" in text) == (0, True), err
    found = sorted(out.read_text().splitlines())
    limit = ["--set", "spout.objects.limit=40"] if objects != "prepared" else []
    plain = ["--objects", made / "objects.jsonl", *queries, *limit]
    assert waterspout("run", CONF / shipped, *UNIT, *plain)[0] == 0
    assert found == sorted(out.read_text().splitlines()) != []


def test_numbered_keywords_without_a_vocabulary_are_refused(waterspout, made):
    """A prepared file away from its data set means nothing; with the data set named it does."""
    moved = made / "moved.parquet"
    moved.write_bytes((made / "prepared/objects/part-00000.parquet").read_bytes())
    arguments = ["run", CONF / "quickstart.toml", *UNIT, "--objects", moved, "--queries", made / "queries.jsonl"]
    code, _, err = waterspout(*arguments)
    assert code == 2
    assert "quickstart.toml:" in err
    assert "spout.objects.path" in err
    assert (
        "has keywords by number (keyword_ids), but no vocabulary says which words they are; set topology.vocabulary"
        in err
    )
    code, _, err = waterspout(*arguments, "--set", f"topology.vocabulary={made / 'prepared'}")
    assert code == 0, err


def test_numbered_keywords_of_lines_are_read_by_a_vocabulary_or_not_at_all(waterspout, made):
    """JSON lines may bring numbers too: without a vocabulary they are rejected, with theirs they are the words."""
    words = [json.loads(line) for line in (made / "objects.jsonl").read_text("utf-8").splitlines()]
    numbered = [{**one, "keyword_ids": [WORDS[::-1].index(word) for word in one.pop("keywords")]} for one in words]
    write_lines(made / "numbered.jsonl", numbered)
    out, summary = made / "results.jsonl", made / "summary.json"
    common = ["run", CONF / "quickstart.toml", *UNIT, "--queries", made / "queries.jsonl", "--results", out]
    assert waterspout(*common, "--objects", made / "objects.jsonl")[0] == 0
    expected = sorted(out.read_text("utf-8").splitlines())
    common += ["--objects", made / "numbered.jsonl", "--summary", summary]
    assert waterspout(*common)[0] == 0
    told = json.loads(summary.read_text("utf-8"))
    assert told["rejected_objects"] == sum(bool(one["keyword_ids"]) for one in numbered) > 0
    assert "the vocabulary has N words" in str(told["reject_reasons"])
    assert waterspout(*common, "--set", f"topology.vocabulary={made / 'prepared'}")[0] == 0
    assert sorted(out.read_text("utf-8").splitlines()) == expected != []


def test_hashes_of_rare_words_are_no_numbers_of_another_vocabulary(waterspout, made):
    """A prepared file away from its data set, in which a word is too rare to be numbered, is read by its vocabulary."""
    table = pq.read_table(made / "prepared/objects/part-00000.parquet")
    ids = [[*row, unseen_id("okapi")] for row in table["keyword_ids"].to_pylist()]
    moved = made / "moved.parquet"
    pq.write_table(table.set_column(4, "keyword_ids", pa.array(ids, pa.list_(pa.int64()))), moved)
    arguments = ["run", CONF / "quickstart.toml", *UNIT, "--objects", moved, "--queries", made / "queries.jsonl"]
    code, _, err = waterspout(*arguments, "--set", f"topology.vocabulary={made / 'prepared'}")
    assert code == 0, err


def test_vocabulary_of_other_words_is_refused(waterspout, made):
    """Numbers of one vocabulary are not read by another; a copy of the same one will do."""
    one = [{"id": 1, "ts": 1, "x": 0, "y": 0, "keywords": ["ape"]}]
    write_prepared(made / "other", one, WORDS)
    write_prepared(made / "same", one, WORDS[::-1])
    arguments = ["run", CONF / "quickstart.toml", *UNIT, "--objects", made / "prepared"]
    arguments += ["--queries", made / "queries.jsonl"]
    code, _, err = waterspout(*arguments, "--set", f"topology.vocabulary={made / 'other'}")
    assert code == 2
    assert "topology.vocabulary: " in err
    assert f"which has other words; set it to {made / 'prepared'}, or leave it out" in err
    assert waterspout(*arguments, "--set", f"topology.vocabulary={made / 'same'}")[0] == 0
    code, _, err = waterspout(*arguments, "--set", f"topology.vocabulary={made / 'gone'}")
    assert (code, "topology.vocabulary: " in err, "make one with: waterspout prepare" in err) == (2, True, True)


def test_objects_of_two_vocabularies_are_refused(waterspout, made):
    """Two data sets that number words differently cannot be read as one, nor a file with more words than there are."""
    one = [{"id": 1, "ts": 1, "x": 0, "y": 0, "keywords": ["ape"]}]
    write_prepared(made / "other", one, WORDS)
    write_prepared(made / "few", one, ["ape"])
    arguments = ["validate", CONF / "quickstart.toml", "--set"]
    paths = [str(made / name) for name in ("prepared", "other")]
    code, _, err = waterspout(*arguments, f"spout.objects.path={json.dumps(paths)}")
    assert (code, "spout.objects.path: " in err, "which has other words; prepare the files together" in err) == (
        2,
        True,
        True,
    )
    moved = made / "moved.parquet"
    moved.write_bytes((made / "prepared/objects/part-00000.parquet").read_bytes())
    code, _, err = waterspout(*arguments, f"spout.objects.path={json.dumps([str(made / 'few'), str(moved)])}")
    assert (code, "has keywords of numbers up to 7, but" in err, "has 1 words, so it is not theirs" in err) == (
        2,
        True,
        True,
    )


def test_folder_that_is_not_prepared_is_refused(waterspout, made):
    """A folder is a prepared data set, or has files of objects."""
    (made / "empty").mkdir(exist_ok=True)
    code, _, err = waterspout("run", CONF / "quickstart.toml", "--objects", made / "empty")
    assert (code, "is neither a prepared data set nor has files in jsonl, csv, parquet" in err) == (2, True)


def test_verify_that_compares_nothing_says_so(waterspout, made):
    """No result expected and none found is no proof."""
    nobody = write_lines(made / "none.jsonl", [])
    arguments = ["--objects", made / "objects.jsonl", "--queries", nobody]
    code, text, _ = waterspout("verify", CONF / "quickstart.toml", *UNIT, *arguments)
    assert code == 0
    assert "no results were expected and none came, so nothing was shown" in text
    assert "warning: verify compared no results at all" in text
    assert "the results are right" not in text


def test_rejects_are_told_by_reason(waterspout, made, tmp_path):
    """The screen and the summary have the reasons with counts, and a warning where hardly anything could be used."""
    objects = made / "bad.jsonl"
    good = '{"id": 1, "ts": 1, "x": 0, "y": 0}\n'
    far = "".join(f'{{"id": {i}, "ts": 1, "x": {i}, "y": 7}}\n' for i in range(2, 32))
    objects.write_text(good * 60 + far + "not json\n", "utf-8")
    queries = write_lines(
        made / "bad_queries.jsonl", [{"op": "register", "id": i, "ts": 0, "type": "range"} for i in "abc"]
    )
    summary = tmp_path / "summary.json"
    arguments = ["--objects", objects, "--queries", queries, "--summary", summary]
    code, text, err = waterspout("run", CONF / "quickstart.toml", *UNIT, *arguments)
    assert code == 0, err
    told = json.loads(summary.read_text())
    assert (told["rejected"], told["rejected_objects"], told["rejected_queries"]) == (34, 31, 3)
    assert told["reject_reasons"][0] == {"reason": "(N, N) is outside the space [...]", "count": 30}
    assert sum(one["count"] for one in told["reject_reasons"]) == 34
    assert "30 rejected: (N, N) is outside the space [...]" in text
    assert "warning: none of 3 query operations could be used; --rejects FILE writes each" in text
    assert "warning: only 60 of 91 objects could be used; --rejects FILE writes each" in text
    rejects = tmp_path / "rejects.jsonl"
    _, text, _ = waterspout("run", CONF / "quickstart.toml", *UNIT, *arguments, "--rejects", rejects)
    assert f"warning: only 60 of 91 objects could be used; {rejects} has each with its line and reason" in text


def test_few_usable_queries_are_a_warning(waterspout, made):
    """Questions that are never asked have no answers: that is said of one in two as it is of all."""
    asked = [{"id": i, "type": "range", "region": {"rect": [0, 0, 1, 1]}} for i in "ab"]
    queries = write_lines(made / "half.jsonl", [*asked, {"id": "c", "type": "range"}])
    arguments = ["--objects", made / "objects.jsonl", "--queries", queries, "--quiet"]
    _, text, err = waterspout("run", CONF / "quickstart.toml", *UNIT, *arguments)
    assert "warning: only 2 of 3 query operations could be used; --rejects FILE writes each" in text + err


def test_run_without_many_rejects_warns_of_nothing(waterspout, made):
    """One reject among ninety objects is no warning."""
    with (made / "objects.jsonl").open("a") as file:
        file.write("not json\n")
    arguments = ["--objects", made / "objects.jsonl", "--queries", made / "queries.jsonl"]
    code, text, _ = waterspout("run", CONF / "quickstart.toml", *UNIT, *arguments)
    assert (code, "1 rejected: not JSON" in text, "warning" in text) == (0, True, False)


#: Places about 55 km apart in longitude, and a circle of 60 km or of 0.3 units around the first.
PLACES = [(10.0, 60.0), (10.5, 60.0), (11.0, 60.0), (11.5, 60.0)]


def written(folder, names, radius):
    """Write a CSV file of places under these names, and a circle around the first of them."""
    rows = [f"{i},{1_600_000_000_000 + i},{x},{y},fire" for i, (x, y) in enumerate(PLACES)]
    (folder / "objects.csv").write_text("\n".join([f"id,ts,{names},text", *rows]) + "\n", "utf-8")
    query = {"op": "register", "id": "q", "ts": 0, "type": "range", "region": {"circle": [10.0, 60.0, radius]}}
    return ["--objects", folder / "objects.csv", "--queries", write_lines(folder / "queries.jsonl", [query])]


def matched(path):
    """Return the objects of a results file."""
    return sorted(json.loads(line)["object"] for line in path.read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    ("names", "columns", "radius", "expected"),
    [
        ("lon,lat", None, 60_000, [0, 1, 2]),
        ("Longitude,LATITUDE", None, 30_000, [0, 1]),
        ("east,north", "lon=east,lat=north", 60_000, [0, 1, 2]),
        ("x,y", None, 0.6, [0, 1]),
        ("east,north", "x=east,y=north", 1.0, [0, 1, 2]),
    ],
)
def test_longitudes_are_measured_in_metres_and_planes_in_their_units(
    waterspout, tmp_path, names, columns, radius, expected
):
    """Shipped topologies go by what the places are called; run, oracle and an explicit metric agree."""
    out = tmp_path / "results.jsonl"
    arguments = [*written(tmp_path, names, radius), *(["--columns", columns] if columns else []), "--results", out]
    code, text, err = waterspout("verify", CONF / "quickstart.toml", *arguments)
    assert (code, "the results are right" in text, "warning" in err) == (0, True, False), err
    assert matched(out) == expected
    other = "euclidean" if radius > 1 else "haversine"
    code, _, err = waterspout("run", CONF / "quickstart.toml", *arguments, "--set", f"topology.metric={other}")
    assert (code, matched(out)) == (0, [] if other == "euclidean" else [0]), err


def test_longitudes_in_a_plane_are_a_warning_unless_declared(waterspout, tmp_path, extending):
    """Where no metric is declared, degrees are said to be measured; where one is, nobody is bothered."""
    path = extending("v.toml", 'without = ["topology.metric"]\n')
    code, _, err = waterspout("run", path, *written(tmp_path, "lon,lat", 0.6))
    assert code == 0
    assert "no metric is declared, so distances and radii are Euclidean, in degrees; set topology.metric" in err
    code, _, err = waterspout("run", path, *written(tmp_path, "x,y", 0.6))
    assert (code, "metric" in err) == (0, False)
    code, _, err = waterspout("run", path, *written(tmp_path, "lon,lat", 0.6), "--set", "topology.metric=euclidean")
    assert (code, "metric" in err) == (0, False)


def test_circles_of_a_few_metres_are_a_warning(waterspout, tmp_path):
    """Radii that were meant in degrees are metres on the globe: that is said before they match nothing."""
    arguments = ["run", CONF / "quickstart.toml"]
    code, _, err = waterspout(*arguments, *written(tmp_path, "lon,lat", 2.5))
    assert (code, "the first circles have radii of up to 2.5 m, for distances are on the globe" in err) == (0, True)
    assert "metres" not in waterspout(*arguments, *written(tmp_path, "lon,lat", 250))[2]


def test_prepared_longitudes_are_measured_in_metres(waterspout, made):
    """The manifest of a prepared data set knows what its places were called, for the files call them x, y."""
    out, home = made / "results.jsonl", made / "prepared"
    arguments = [*written(made, "lon,lat", 60_000)[2:], "--objects", home, "--results", out]
    for geographic, queries in ((True, 0), (False, 1)):
        save_manifest(home, replace(load_manifest(home), geographic=geographic))
        code, _, err = waterspout("run", CONF / "quickstart.toml", *arguments, "--summary", made / "s.json")
        assert code == 0, err
        assert json.loads((made / "s.json").read_text())["rejected_queries"] == queries


def test_part_that_measures_in_a_plane_is_refused_where_objects_have_longitudes(waterspout, tmp_path):
    """What 'auto' finds is checked as what is declared is, by validate and by run."""
    refill = ["--set", "topology.metric=auto", "--set", "topology.space=[-180,-90,180,90]"]
    refill += ["--set", "bolt.evaluator.refill=gpcl"]
    objects = written(tmp_path, "lon,lat", 5)[1]
    code, _, err = waterspout("validate", CONF / "dynamic.toml", *refill, "--set", f"spout.objects.path={objects}")
    assert (code, "'gpcl' reckons in the plane, but topology.metric = 'haversine'" in err) == (2, True), err
    code, _, err = waterspout("run", CONF / "dynamic.toml", *refill, "--objects", objects)
    assert (code, "'gpcl' reckons in the plane, but topology.metric = 'haversine'" in err) == (2, True), err


@pytest.mark.parametrize("name", ["r.csv", "r.json", "r.parquet.gz", "r.csv.gz"])
def test_results_of_an_unknown_ending_are_refused(waterspout, tmp_path, name):
    """Lines of JSON in a file that says it is something else help nobody."""
    code, _, err = waterspout("run", CONF / "quickstart.toml", "--results", tmp_path / name)
    assert code == 2
    assert "expected an ending of .parquet, .jsonl" in err
    assert not (tmp_path / name).exists()


def test_benchmark_that_would_ignore_a_file_refuses_it(waterspout, tmp_path):
    """--data is read or refused."""
    code, _, err = waterspout("bench", "adaptivity", "--data", tmp_path / "mine.csv")
    assert code == 2
    assert "bench adaptivity makes its own data and would ignore the file; leave --data out, or take one of: " in err
    assert "range-index" in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[bolt.evaluator]\ninputs = [{ component = "router", stream = "queries", grouping = "shuffle" },\n'
            '    { component = "router", stream = "objects", grouping = "direct" }]\n',
            "v.toml:3: bolt.evaluator.inputs: bolt 'evaluator' reads stream 'queries' of 'router' with the grouping 'shuffle'",
        ),
        (
            '[bolt.evaluator]\ninputs = [{ component = "router", stream = "queries", grouping = "direct" },\n'
            '    { component = "objects", stream = "objects", grouping = "shuffle" }]\n',
            "v.toml:3: bolt.evaluator.inputs: bolt 'evaluator' reads stream 'objects' of 'objects', which is no router",
        ),
        (
            '[bolt.router]\ninputs = [{ component = "queries", stream = "queries", grouping = "all" },\n'
            '    { component = "objects", stream = "objects", grouping = "shuffle" }]\n',
            "v.toml:3: bolt.router.inputs: bolt 'router' reads stream 'queries' of 'queries' with the grouping 'all'",
        ),
        ("[topology]\nspace = [0, 0, 0, 0]\n", "v.toml:3: topology.space: "),
        ('[topology]\nvocabulary = "gone"\n', "v.toml:3: topology.vocabulary: "),
    ],
)
@pytest.mark.parametrize("command", ["validate", "run", "verify"])
def test_wrong_wirings_and_settings_are_refused(waterspout, extending, command, text, expected):
    """Exit code 2 with file, line, key and remedy, whichever command meets them first."""
    code, _, err = waterspout(command, extending("v.toml", text))
    assert (code, expected in err) == (2, True), err


@pytest.mark.parametrize("command", ["validate", "run", "verify", "build"])
def test_extensions_that_cannot_be_are_refused(waterspout, tmp_path, command):
    """A circle and a missing file stop every command before anything starts."""
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n')
    (tmp_path / "c.toml").write_text('extends = "gone.toml"\n')
    more = ["--data", tmp_path, "--out", tmp_path / "plan"] if command == "build" else []
    code, _, err = waterspout(command, tmp_path / "a.toml", *more)
    assert (code, "b.toml:1: extends: the files extend each other in a circle" in err) == (2, True), err
    code, _, err = waterspout(command, tmp_path / "c.toml", *more)
    assert (code, "c.toml:1: extends: " in err, "no such file; give the path of a topology file" in err) == (
        2,
        True,
        True,
    )


def test_problem_found_after_the_file_was_read_names_it(waterspout, made, extending):
    """A plan of another number of workers is found when the run starts; file, line and key are named all the same."""
    from partitioners.builders.registry import build_plan
    from partitioners.costs.statistics import Statistics
    from partitioners.plans.plan import save
    from streams.batches import ObjectBatch, QueryBatch
    from streams.geometry import Rect

    statistics = Statistics.of_batches(ObjectBatch.empty(), QueryBatch.empty(), Rect(-180, -90, 180, 90), side=8)
    save(build_plan("uniform", statistics, 3), made / "plan")
    path = extending("v.toml", f"[topology]\nplan = {json.dumps(str(made / 'plan'))}\n", "tornado-static.toml")
    code, _, err = waterspout("run", path)
    assert (code, "v.toml:3: topology.plan: the plan is for 3 workers" in err) == (2, True), err


def test_benchmarks_that_take_data_are_listed():
    """The list that --data is held against is that of the modules that look at it."""
    from benchmarks import BENCHMARKS, TAKE_DATA

    root = Path(__file__).parents[2]
    for name, (module, _) in BENCHMARKS.items():
        source = (root / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert ("options.data" in source) == (name in TAKE_DATA), name
