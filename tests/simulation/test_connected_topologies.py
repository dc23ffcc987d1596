"""Topologies between a message server in memory and itself, under kills: alerts are the oracle's, once each."""

import json
import random

import pytest
from fake_server import SERVERS, FakeServer, FakeSink, FakeSpout

from streams.comparison import compare
from topology.builder import TopologyBuilder
from topology.run import run
from topology.verification import oracle_of

WORDS = ["ape", "bee", "cat"]


def records(rng):
    """Return query operations and objects in the order of time, operations of a time first."""
    found = []
    for number in range(120):
        place = [rng.random(), rng.random()]
        found.append(
            (
                number // 2 + 1,
                1,
                {"id": f"o{number % 50}", "x": place[0], "y": place[1], "keywords": [rng.choice(WORDS)]},
            )
        )
    for number in range(25):
        x, y = rng.random() * 0.7, rng.random() * 0.7
        kind = {"type": "knn", "at": [x, y], "k": 3}
        found.append((rng.randrange(40), 0, {"op": "register", "id": number, "keywords": [rng.choice(WORDS)], **kind}))
    found += [(50, 0, {"op": "unregister", "id": number}) for number in range(0, 25, 4)]
    found.sort(key=lambda one: one[:2])
    return [("objects" if last else "queries", json.dumps({**record, "ts": ts}).encode()) for ts, last, record in found]


def topology(spouts, sink, checkpoints=None, faults=()):
    builder = TopologyBuilder(
        "connected", space=[0, 0, 1, 1], epoch={"objects": 9, "queries": 9}, max_pending=3,
        **({"checkpoint": {"directory": str(checkpoints), "epochs": 2, "max_restarts": 50}} if checkpoints else {}),
    )  # fmt: skip
    for name, (operator, options) in spouts.items():
        builder.spout(name, operator, **options)
    first, *_, last = [*spouts, *spouts]
    router = builder.bolt("router", "broadcast-router")
    router.shuffle(first, stream="objects").shuffle(last, stream="queries")
    evaluator = builder.bolt("evaluator", "knn-evaluator", parallelism=2)
    evaluator.direct("router", stream="queries").direct("router", stream="objects")
    builder.bolt("merger", "ranked-merger").fields("evaluator", fields=["number"], stream="rankings")
    builder.bolt("sink", sink[0], **sink[1]).global_("merger", stream="results")
    for fault in faults:
        builder.inject(**fault)
    return builder.build()


@pytest.mark.parametrize("seed", range(4))
def test_lists_survive_kills_however_epochs_are_cut(seed, tmp_path):
    """States of lists that were published before a kill are not published again, and the last of each is the oracle's."""
    rng = random.Random(seed)
    lines = records(rng)
    server = SERVERS["lists"] = FakeServer(batches=[rng.randrange(1, 30) for _ in range(7)])
    server.torn = [rng.randrange(3) for _ in range(3)]
    server.cuts = sorted(rng.randrange(150) for _ in range(3))
    for kind, line in lines:
        server.add(kind, line)
    kills = [{"kind": "kill", "task": "router", "epoch": epoch} for epoch in (6, 9, 13)]
    spout = {"input": (FakeSpout, {"url": "lists", "objects": "o", "queries": "q", "end_after": 0.3})}
    outcome = run(topology(spout, (FakeSink, {"url": "lists"}), tmp_path / "checkpoints", kills), scheduler_seed=seed)
    del SERVERS["lists"]
    assert outcome.summary["restarts"] == 3
    files = {}
    for kind, operator in (("objects", "object-file"), ("queries", "query-file")):
        path = tmp_path / f"{kind}.jsonl"
        path.write_bytes(b"\n".join(line for of, line in lines if of == kind))
        files[kind] = (operator, {"path": str(path)})
    compared = compare(oracle_of(topology(files, ("count", {}))), (json.loads(body) for _, body in server.published))
    assert compared.ok, compared
    names = [name for name, _ in server.published]
    assert len(names) == len(set(names)) > 50
