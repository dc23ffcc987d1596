"""Connectors on real servers: what is published comes through exactly once, or is recognisable, whatever is killed."""

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from connector_servers import SERVERS, server_of

from streams.comparison import compare
from topology.builder import TopologyBuilder
from topology.run import run
from topology.toml import dump_topology
from topology.verification import oracle_of

ROOT = Path(__file__).parents[2]
SPACE = [0.0, 0.0, 1.0, 1.0]
WORDS = ["ape", "bee", "cat", "dog"]
OBJECTS, MIDDLE, QUERIES = 400, 120, 40
MAX_SECONDS = 120


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    """A server of each kind, started for one test."""
    with server_of(request.param, tmp_path) as found:
        yield found


def lines_of(records):
    return [json.dumps(record).encode() for record in records]


def objects(count=OBJECTS, seed=1):
    rng = random.Random(seed)
    return lines_of(
        {
            "id": f"o{number}" if number % 7 else number,
            "ts": 1_000 + number // 3,
            "x": rng.random(),
            "y": rng.random(),
            "keywords": rng.sample(WORDS, 2),
        }
        for number in range(count)
    )


def queries(seed=2):
    rng = random.Random(seed)
    found = []
    for number in range(QUERIES):
        x, y = rng.random() * 0.6, rng.random() * 0.6
        found.append(
            {
                "op": "register",
                "id": f"q{number}",
                "ts": number,
                "type": "range",
                "region": {"rect": [x, y, x + 0.4, y + 0.4]},
                "keywords": rng.sample(WORDS, 1),
            }
        )
    return lines_of(found)


def ends():
    """Return operations that end some queries, in the middle of the objects: before those from `MIDDLE` on."""
    return lines_of({"op": "unregister", "id": f"q{number}", "ts": 1_040} for number in range(0, QUERIES, 5))


def declared(folder, spout, sink, **settings):
    """Return the builder of a topology of range queries; a spout or sink is an operator with its options."""
    builder = TopologyBuilder("connected", space=SPACE, epoch={"objects": 20, "queries": 20}, max_pending=4, **settings)
    names = []
    for place, (operator, options) in enumerate(spout):
        names.append(f"input{place}")
        builder.spout(names[-1], operator, **options)
    router = builder.bolt("router", "broadcast-router")
    router.shuffle(names[0], stream="objects").shuffle(names[-1], stream="queries")
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=2)
    evaluator.direct("router", stream="queries").direct("router", stream="objects")
    builder.bolt("sink", sink[0], **sink[1]).global_("evaluator", stream="results")
    if len(spout) == 1:
        builder.bolt("bad", "rejects", path=str(folder / "rejects.jsonl")).global_(names[0], stream="rejects")
    return builder


def oracle(folder, query_lines, object_lines):
    """Return the oracle for lines, read as files are."""
    paths = {"objects": folder / "objects.jsonl", "queries": folder / "queries.jsonl"}
    paths["objects"].write_bytes(b"\n".join(object_lines))
    paths["queries"].write_bytes(b"\n".join(query_lines))
    files = [("object-file", {"path": str(paths["objects"])}), ("query-file", {"path": str(paths["queries"])})]
    return oracle_of(declared(folder, files, ("count", {})).build())


def connected(server, folder, *faults, **more):
    """Return the topology between a server's input and its alerts, with checkpoints."""
    operator, options = server.spout()
    checkpoint = {"directory": str(folder / "checkpoints"), "epochs": 3, "max_restarts": 20}
    spout = (operator, {**options, "end_after": 1.5, "reconnect_seconds": 30.0, **more})
    builder = declared(folder, [spout], server.sink(), checkpoint=checkpoint)
    for fault in faults:
        builder.inject(**fault)
    return builder.build()


@contextlib.contextmanager
def beside(action):
    """Do something beside a run, and raise what went wrong with it."""
    failed = []

    def act():
        try:
            action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join(MAX_SECONDS)
    if failed:
        raise failed[0]


def assert_as_promised(server, expected):
    """Every alert of the oracle is there, exactly once; where the server is promised at least once, once by its id."""
    found = server.alerts()
    by_id = dict(found)
    compared = compare(expected, by_id.values())
    assert compared.ok, compared
    repeated = {name: count for name, count in Counter(name for name, _ in found).items() if count > 1}
    if server.name == "mqtt":
        assert all(line == by_id[name] for name, line in found), "what comes again is the same"
    else:
        assert repeated == {}
    return len(found), sum(repeated.values())


def test_alerts_survive_kills_in_mid_stream(server, tmp_path):
    """All memory is lost three times in mid-stream: alerts are the oracle's, once each; bad records are among the rejects."""
    query_lines, object_lines = queries(), objects()

    server.publish("queries", query_lines)
    server.publish("objects", object_lines[:MIDDLE])
    server.publish("queries", ends())
    server.publish("objects", [b'{"id": "late", "ts": 3, "x": 0.5, "y": 0.5}', b"not JSON", b""])
    server.publish("objects", [b"\n".join(object_lines[MIDDLE : MIDDLE + 50])])
    server.publish("objects", object_lines[MIDDLE + 50 :])
    kills = [{"kind": "kill", "task": "evaluator[0]", "epoch": epoch} for epoch in (7, 11, 15)]
    outcome = run(connected(server, tmp_path, *kills))
    assert outcome.summary["restarts"] == 3
    count, _ = assert_as_promised(server, oracle(tmp_path, [*query_lines, *ends()], object_lines))
    assert count > 1_000
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_bytes().splitlines()]
    assert ["older" in reject["reason"] for reject in rejects] == [True, False]
    where = {"nats": "INPUT", "redis": "objects", "mqtt": "message", "kafka": "objects/"}[server.name]
    assert all(f" {where}" in reject["source"] for reject in rejects)
    if (
        server.name == "redis"
    ):  # the group's place is what the newest checkpoint covers, which is more than the first one did
        place = server.client.xinfo_groups("objects")[0]["last-delivered-id"]
        assert place >= server.client.xinfo_stream("objects")["first-entry"][0]


@pytest.mark.parametrize("server", ["nats", "redis", "mqtt"], indirect=True)
def test_process_killed_by_the_system_goes_on(server, tmp_path):
    """SIGKILL of the command in mid-stream, then --resume: alerts are the oracle's, as promised."""
    query_lines, object_lines = queries(), objects(1_200)
    path = tmp_path / "topology.toml"
    path.write_text(dump_topology(connected(server, tmp_path)))
    server.publish("queries", query_lines)
    server.publish("objects", object_lines[:900])
    command = [str(Path(sys.executable).parent / "waterspout"), "run", str(path), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + MAX_SECONDS
    while server.count() < 800 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(MAX_SECONDS) == -signal.SIGKILL
    server.publish("objects", object_lines[900:])
    resumed = [*command, "--resume", str(tmp_path / "checkpoints")]
    done = subprocess.run(resumed, capture_output=True, timeout=MAX_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert_as_promised(server, oracle(tmp_path, query_lines, object_lines))


@pytest.mark.parametrize("server", ["nats", "redis", "mqtt"], indirect=True)
def test_server_restarted_in_mid_run(server, tmp_path):
    """A server that is killed and started again while objects are on their way: nothing is lost, nothing is there twice."""
    query_lines, object_lines = queries(), objects()
    server.publish("queries", query_lines)
    server.publish("objects", object_lines[:200])

    def disturb():
        until = time.monotonic() + MAX_SECONDS
        while server.count() < 200:
            assert time.monotonic() < until
            time.sleep(0.005)
        server.restart()
        server.publish("objects", object_lines[200:])

    with beside(disturb):
        outcome = run(connected(server, tmp_path, end_after=4.0))
    assert outcome.summary["restarts"] == 0
    assert_as_promised(server, oracle(tmp_path, query_lines, object_lines))


@pytest.mark.parametrize("name", SERVERS)
def test_examples_are_valid_without_their_libraries(name, monkeypatch, waterspout, tmp_path):
    """A topology with a connector can be checked where its library is not installed; to run it is an error with the extra."""
    for module in ("nats", "redis", "paho", "confluent_kafka"):
        for known in [key for key in sys.modules if key.partition(".")[0] == module]:
            monkeypatch.delitem(sys.modules, known)
        monkeypatch.setitem(sys.modules, module, None)
    path = ROOT / "examples" / "connectors" / f"{name}.toml"
    assert waterspout("validate", path)[0] == 0
    code, _, err = waterspout("run", path, "--set", f"topology.checkpoint.directory={tmp_path}", "--quiet")
    assert code == 2
    assert f"pip install 'waterspout[{name}]'" in err
