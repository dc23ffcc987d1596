"""`prepare`, `build`, `run` on the shipped data, and one plan for one input whichever plane builds it."""

import json
import sys
from pathlib import Path

import pytest

from partitioners.builders.registry import PARTITIONERS
from partitioners.builders.registry import build_plan as build_from
from partitioners.plans.plan import load, pack
from pipeline.plans import gather_statistics
from pipeline.session import spark_session
from streams.files.prepared import load_manifest, load_vocabulary, object_paths
from streams.vocabulary import Encoder, Vocabulary
from topology import TopologyBuilder
from topology.input_files import vocabulary_of
from topology.planning import plan_of
from topology.wiring import answers_of
from waterspout.command_line import main

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "data"
MASTER = "local[2]"

#: One partitioner for each kind of plan, and for each way in which a grid plan routes.
ONE_OF_EACH = ("kd", "kdt-tree", "location", "keyword-first", "qt-tree", "dkm-sks", "hash", "replicate")


def _waterspout(capsys, monkeypatch, *arguments):
    """Run the command in this process; return exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["waterspout", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The shipped objects, prepared by the command."""
    folder = tmp_path_factory.mktemp("shipped") / "prepared"
    files = [str(EXAMPLES / name) for name in ("flights_one_day.csv.gz", "earthquakes_week.csv.gz")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["waterspout", "prepare", *files, "--out", str(folder), "--master", MASTER])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    return folder


def _build(capsys, monkeypatch, topology, kind, prepared, out):
    return _waterspout(
        capsys, monkeypatch, "build", topology, "--data", prepared, "--queries", EXAMPLES / "subscriptions.jsonl.gz",
        "--out", out, "--set", f"topology.partitioner.kind={kind}", "--master", MASTER,
    )  # fmt: skip


def test_shipped_topologies_run_with_the_plans_that_are_built_for_them(prepared, capsys, monkeypatch, tmp_path):
    """Every kind of plan, built from the prepared data, is followed by the topology on its raw input, with equal results."""
    found = {}
    for kind in ONE_OF_EACH:
        topology = ROOT / "conf" / ("tornado.toml" if kind == "kd" else "tornado-static.toml")
        plan, summary = tmp_path / f"{kind}.plan", tmp_path / f"{kind}.json"
        code, _, err = _build(capsys, monkeypatch, topology, kind, prepared, plan)
        assert code == 0, err
        assert load(plan).space.as_tuple() == (-180.0, -90.0, 180.0, 90.0)
        code, _, err = _waterspout(
            capsys, monkeypatch, "run", topology, "--set", f"topology.plan={plan}", "--summary", summary
        )
        assert code == 0, err
        found[kind] = json.loads(summary.read_text())["results"]
    assert found["kd"] > 0
    assert set(found.values()) == {found["kd"]}


def _topology(prepared, queries, kind, vocabulary):
    builder = TopologyBuilder(
        "planned", space=[-180, -90, 180, 90], partitioner={"kind": kind, "side": 32},
        **({"vocabulary": str(prepared)} if vocabulary else {}),
    )  # fmt: skip
    builder.spout("objects", "object-file", path=[str(path) for path in object_paths(prepared)])
    builder.spout("queries", "query-file", path=str(queries))
    builder.bolt("router", "plan-router").shuffle("objects", "objects").shuffle("queries", "queries")
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=4)
    evaluator.direct("router", "queries").direct("router", "objects")
    builder.bolt("sink", "count").global_("evaluator", "results")
    return builder.build()


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    """Queries of which a topology of range evaluators takes all but the second."""
    path = tmp_path_factory.mktemp("asked") / "queries.jsonl"
    words = ("Departure!", "early", "ca", "earthquake", "late", "tx", "unheard")
    lines = [
        {
            "op": "register",
            "id": n,
            "ts": 0,
            "type": "range",
            "region": {"rect": [-125 + n % 40, 20 + n % 17, -120 + n % 40 + n % 7, 25 + n % 17 + n % 5]},
            "keywords": [words[n % 7], words[n * 3 % 5]],
            "match": "any" if n % 3 else "all",
        }
        for n in range(300)
    ]
    lines[1] = {"op": "register", "id": 1, "ts": 0, "type": "knn", "at": [-100, 40], "k": 3, "keywords": ["late"]}
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_partitioners_build_one_plan_online_and_offline(prepared, queries):
    """What fits the samples gives the same plan, bit for bit, in this process and with Spark, by every partitioner."""
    spark = spark_session(MASTER)
    one = _topology(prepared, queries, "kd", vocabulary=True)
    gathered = {
        costs: gather_statistics(
            spark, prepared, [queries], side=32, space=one.settings.space, vocabulary=vocabulary_of(one),
            answers=answers_of(one), costs=costs,
        )
        for costs in (True, False)
    }  # fmt: skip
    assert (gathered[True].queries, gathered[True].rejected_queries) == (299, 1)
    for kind in PARTITIONERS:
        offline = build_from(kind, gathered[kind == "kd"].statistics, 4)
        online = plan_of(_topology(prepared, queries, kind, vocabulary=True))
        assert pack(online) == pack(offline), kind


def test_gathered_words_have_the_numbers_that_the_topology_gives_them(prepared, queries):
    """A topology without a vocabulary sees hashes, one with the prepared words in another order sees its own numbers."""
    spark, words = spark_session(MASTER), load_vocabulary(prepared)
    own = gather_statistics(spark, prepared, [queries], side=8).statistics
    other = Vocabulary(words.words[::-1], words.df[::-1].copy(), words.documents)
    for vocabulary in (Vocabulary(), other):
        seen = gather_statistics(spark, prepared, [queries], side=8, vocabulary=vocabulary).statistics
        assert seen.vocabulary is vocabulary
        numbers = Encoder(vocabulary).words(words.words)
        assert numbers.tolist() != list(range(len(words)))
        for mine, theirs in ((own.objects, seen.objects), (own.queries, seen.queries)):
            assert mine.kw_off.tolist() == theirs.kw_off.tolist()
            expected = [numbers[kw] if kw < len(words) else kw for kw in mine.kw.tolist()]
            rows = zip(mine.kw_off[:-1].tolist(), mine.kw_off[1:].tolist(), strict=True)
            assert theirs.kw.tolist() == [kw for low, high in rows for kw in sorted(expected[low:high])]


def test_gathered_objects_are_those_of_the_space(prepared):
    """Objects outside of the topology's space, which a run rejects, are in no sample and in no count."""
    spark, whole = spark_session(MASTER), load_manifest(prepared).space
    half = type(whole)(whole.min_x, whole.min_y, -100.0, whole.max_y)
    all_of_it = gather_statistics(spark, prepared, [], side=8, max_objects=10**6).statistics.objects
    inside = half.contains(all_of_it.x, all_of_it.y)
    seen = gather_statistics(spark, prepared, [], side=8, space=half).statistics
    assert 0 < len(seen.objects) == inside.sum() < len(all_of_it)
    assert seen.objects.x.tolist() == all_of_it.x[inside].tolist()
    counted = gather_statistics(spark, prepared, [], side=8, space=half, max_objects=50).statistics
    assert counted.cell_objects.sum() == inside.sum()
