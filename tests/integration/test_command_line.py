"""The command as a user meets it: output, files, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from range_inputs import write_inputs, write_lines

from streams.files.result_files import read_results

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "conf" / "quickstart.toml"
COMMAND = [str(Path(sys.executable).parent / "waterspout")]
MAX_SECONDS = 240


@pytest.fixture
def small(tmp_path):
    """A small topology file with its inputs, and the folder they are in."""
    write_inputs(tmp_path, 5)
    text = QUICKSTART.read_text("utf-8")
    text = text.replace(
        '["../examples/data/flights_one_day.csv.gz", "../examples/data/earthquakes_week.csv.gz"]', '"objects.jsonl"'
    )
    text = text.replace("../examples/data/subscriptions.jsonl.gz", "queries.jsonl").replace(
        "objects = 1000", "objects = 10"
    )
    path = tmp_path / "small.toml"
    path.write_text(text, "utf-8")
    return path


def result_set(path):
    return sorted(map(json.dumps, read_results(path)))


def test_quickstart_is_exact_on_one_and_four_evaluators_and_all_files_are_equal(waterspout, tmp_path):
    """`verify` finds no difference, and the results of both runs are the same set of lines."""
    found = []
    for evaluators in (1, 4):
        results = tmp_path / f"{evaluators}.jsonl"
        setting = f"bolt.evaluator.parallelism={evaluators}"
        code, out, err = waterspout("verify", QUICKSTART, "--set", setting, "--results", results)
        assert code == 0, err
        assert "the results are right" in out
        found.append(result_set(results))
    assert found[0] == found[1]
    assert len(found[0]) > 100_000


@pytest.mark.ray
def test_quickstart_on_ray_is_exact_and_equals_the_local_results(waterspout, tmp_path):
    """The same topology on Ray, with 1 and 4 evaluators: no difference, and the same lines as the local runtime."""
    waterspout("run", QUICKSTART, "--results", tmp_path / "local.jsonl")
    expected = result_set(tmp_path / "local.jsonl")
    for evaluators in (1, 4):
        results = tmp_path / f"ray{evaluators}.jsonl"
        setting = f"bolt.evaluator.parallelism={evaluators}"
        code, out, err = waterspout("verify", QUICKSTART, "--runtime", "ray", "--set", setting, "--results", results)
        assert code == 0, err
        assert "the results are right" in out
        assert result_set(results) == expected


def test_run_shows_alerts_in_words_and_a_summary(waterspout):
    """A person sees what happened."""
    code, out, _ = waterspout("run", QUICKSTART, "--show", "5")
    assert code == 0
    assert out.count("for sub-") == 5
    assert "objects/s" in out
    assert "19,129" in out


def test_run_writes_results_rejects_and_summary(waterspout, small, tmp_path):
    """All three files are written; what cannot be used is in the rejects with line and reason."""
    with (small.parent / "objects.jsonl").open("a") as file:
        file.write('{"id": "late", "ts": -5, "x": 0, "y": 0}\nnot json\n{"id": "far", "ts": 99, "x": 700, "y": 0}\n')
        file.write('{"id": "nan", "ts": 99, "x": NaN, "y": 0}\n')
    results, rejects, summary = (tmp_path / name for name in ("r.parquet", "bad.jsonl", "s.json"))
    code, _, err = waterspout("run", small, "--results", results, "--rejects", rejects, "--summary", summary)
    assert code == 0, err
    told = json.loads(summary.read_text())
    assert told["rejected"] == 4
    assert told["results"] == len(read_results(results)) > 0
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [line["line"] for line in lines] == [61, 62, 63, 64]
    assert all(line["reason"] for line in lines)
    for key in ("objects", "queries", "seconds", "objects_per_s", "latency_ms", "epochs", "evaluators", "imbalance"):
        assert key in told
    for key in ("parallel_efficiency", "rebalances", "restarts", "replication", "communication"):
        assert key in told


def test_sources_can_be_replaced(waterspout, small, tmp_path):
    """--objects and --queries take the place of what the file declares, from the current folder."""
    queries = write_lines(
        tmp_path / "other.jsonl",
        [{"op": "register", "id": "all", "ts": -9, "type": "range", "region": {"rect": [0, 0, 1, 1]}}],
    )
    code, _, err = waterspout("run", small, "--queries", queries, "--results", tmp_path / "r.jsonl")
    assert code == 0, err
    assert len(read_results(tmp_path / "r.jsonl")) == 60


def test_results_on_standard_output_are_lines_only():
    """With --results - nothing but results is on standard output."""
    done = subprocess.run(
        [*COMMAND, "run", str(QUICKSTART), "--results", "-", "--set", "spout.objects.limit=50"],
        capture_output=True,
        check=True,
        timeout=MAX_SECONDS,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert all(set(line) == {"query", "ts", "object"} for line in lines)


def test_logs_are_json_where_asked(waterspout, small):
    """--log-json makes every line on standard error a JSON object; what is for debugging, as of checkpoints, is left out."""
    _, _, err = waterspout("run", small, "--log-json", "--set", "topology.checkpoint.directory=kept")
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events if event["level"] == "info"] == ["run_started", "run_finished"]
    assert [event["level"] for event in events] == ["info", "warning", "info"]  # the small input is of 1970


def test_validate_starts_nothing_and_says_so(waterspout):
    """A valid file gets one line and exit code 0."""
    code, out, _ = waterspout("validate", QUICKSTART)
    assert code == 0
    assert "valid; 5 components, 7 tasks" in out


def test_verify_finds_a_difference_and_exits_1(waterspout, small, tmp_path):
    """A topology whose evaluator loses results is found out."""
    (tmp_path / "lossy.py").write_text(
        "from operators.evaluation.range_evaluator import RangeEvaluator\n"
        "class Lossy(RangeEvaluator):\n"
        "    def _take(self, objects, emit):\n"
        "        return super()._take(objects.slice(1, len(objects)), emit)\n",
        "utf-8",
    )
    code, out, _ = waterspout("verify", small, "--set", "bolt.evaluator.operator=lossy.py:Lossy")
    assert code == 1
    assert "missing" in out


UNUSABLE = {
    "no topology": (["run", "nowhere.toml"], "nowhere.toml: no such file"),
    "no objects": (["run", QUICKSTART, "--objects", "nowhere.csv"], "--objects nowhere.csv: no such file"),
    "bad key": (["run", QUICKSTART, "--set", "topology.max_pendin=2"], "did you mean 'max_pending'"),
    "bad runtime": (["run", QUICKSTART, "--runtime", "rey"], "expected one of 'local', 'ray'"),
    "bad index": (["run", QUICKSTART, "--set", "bolt.evaluator.index=kat"], "did you mean 'kag'"),
    "folder missing": (["run", QUICKSTART, "--results", "no/such/r.jsonl"], "does not exist"),
    "unknown benchmark": (["bench", "transprt"], "did you mean 'transport'"),
    "unknown command": (["rum"], "did you mean 'run'"),
    "address without Ray": (["run", QUICKSTART, "--address", "somewhere:6379"], "add --runtime ray"),
    "limit below nothing": (["run", QUICKSTART, "--set", "spout.objects.limit=-3"], "expected at least 1"),
    "file as a folder": (["init", QUICKSTART], "Not a directory; name another folder"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_command_lines_exit_2_with_one_message(waterspout, case):
    """A mistake is named on standard error, with exit code 2 and no traceback."""
    arguments, message = UNUSABLE[case]
    code, _, err = waterspout(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_named():
    """What is wrong with a disk is said without a traceback, which would be about our program."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "waterspout: No space left on device; make room, or write to another place\n",
    )


def test_unusable_data_file_exits_2(waterspout, small, tmp_path):
    """A file without the columns of objects names itself and the missing column."""
    (tmp_path / "bad.csv").write_text("identity,when\na,1\n", "utf-8")
    code, _, err = waterspout("run", small, "--objects", tmp_path / "bad.csv")
    assert code == 2
    assert "bad.csv" in err
    assert "Traceback" not in err


def test_failing_operator_exits_1_with_its_traceback(waterspout, small, tmp_path):
    """The user sees the line of the operator that failed and the task's name."""
    (tmp_path / "broken.py").write_text(
        "from operators import Bolt\n"
        "class Broken(Bolt):\n"
        "    def execute_batch(self, arrival, emit):\n"
        "        return 1 // 0\n",
        "utf-8",
    )
    code, _, err = waterspout("run", small, "--set", "bolt.sink.operator=broken.py:Broken")
    assert code == 1
    assert "task sink[0] failed" in err
    assert "return 1 // 0" in err


def test_hotspot_from_the_command_line_is_verified(waterspout, small):
    """--inject disturbs the run and the oracle alike."""
    table = 'kind = "objects", region = [0.2, 0.2, 0.6, 0.6], strength = 2, start = 5, duration = 10'
    code, out, err = waterspout("verify", small, "--inject", table, "--inject", '{kind="rate"}')
    assert code == 0, err
    assert "the results are right" in out
    assert waterspout("run", small, "--inject", "kind=rate")[0] == 2


def test_benchmarks_are_listed(waterspout):
    """Each benchmark has a line."""
    code, out, _ = waterspout("bench", "--list")
    assert code == 0
    assert {"transport", "ingest"} <= {line.split()[0] for line in out.splitlines()}


def test_interrupt_drains_and_ends_cleanly(small, tmp_path):
    """Ctrl-C ends a long run with exit code 130, a summary, and a results file of whole lines."""
    words = [{"id": i, "ts": i, "x": 0.5, "y": 0.5, "keywords": ["ape"]} for i in range(200_000)]
    write_lines(small.parent / "objects.jsonl", words)
    asked = {"op": "register", "id": "q", "ts": 0, "type": "range", "region": {"rect": [0.4, 0.4, 0.6, 0.6]}}
    write_lines(small.parent / "queries.jsonl", [asked])
    results, summary = tmp_path / "r.jsonl", tmp_path / "s.json"
    process = subprocess.Popen(
        [*COMMAND, "run", str(small), "--results", str(results), "--summary", str(summary)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100"},
    )
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline and not (results.exists() and results.stat().st_size > 0):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 130, err
    assert "objects: the results are those of the input up to here; with [topology.checkpoint]" in out.decode()
    told = json.loads(summary.read_text())
    assert 0 < told["objects"] < 200_000
    assert told["results"] == len(read_results(results))


def test_my_own_csv_gives_alerts(waterspout, tmp_path):
    """Other names, no identifiers, seconds: the first try says what to set, the second gives the alerts."""
    objects, queries = tmp_path / "mine.csv", tmp_path / "asked.jsonl"
    objects.write_text(
        "when,Longitude,LAT,headline\n1517363399,-122.5,38.0,Fire downtown\n1517363400,-120.0,38.0,Quiet\n"
    )
    write_lines(
        queries,
        [
            {
                "op": "register",
                "id": "q",
                "ts": 0,
                "type": "range",
                "region": {"rect": [-123, 37, -122, 39]},
                "keywords": ["fire"],
            }
        ],
    )
    called = [
        "run",
        QUICKSTART,
        "--objects",
        objects,
        "--queries",
        queries,
        "--quiet",
        "--results",
        tmp_path / "r.jsonl",
    ]
    called += ["--columns", "ts=when,text=headline", "--set", "spout.objects.id=row"]
    code, _, err = waterspout(*called)
    assert code == 0
    assert "try --set spout.objects.time_unit=s" in err
    code, _, err = waterspout(*called, "--set", "spout.objects.time_unit=s")
    assert (code, err) == (0, "")
    assert read_results(tmp_path / "r.jsonl") == [{"query": "q", "ts": 1517363399000, "object": 0}]
