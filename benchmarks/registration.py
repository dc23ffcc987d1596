"""How long it takes to register queries from a file: read, checked, routed, filed by evaluators, names kept for a sink."""

import json
import tempfile
import time
from pathlib import Path

from benchmarks.tornado_topology import CONF, PLANE, Setup
from streams.batches import QueryBatch
from streams.errors import RunError
from streams.geometry import Rect
from topology import extended_topology
from topology import run as run_topology

__all__ = ["registered"]

#: Queries of the run that says what starting and ending takes; half of all where there are few.
FEW = 1_000


def registered(queries: QueryBatch, space: Rect, setup: Setup) -> tuple[float, float]:
    """Register queries from JSONL on the local runtime; return seconds of processor time and by the clock.

    What the same takes for a few queries is taken off: imports, kernels, the plan.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objects = {"id": 1, "ts": 1, "x": space.min_x, "y": space.min_y, "keywords": ["nothing"]}
        (folder / "objects.jsonl").write_text(json.dumps(objects) + "\n", encoding="utf-8")
        taken = []
        few = min(FEW, len(queries) // 2)
        for count in (few, few, len(queries)):  # the first run compiles
            path = folder / f"queries-{count}.jsonl"
            _write(queries.slice(0, count), path)
            taken.append(_timed(folder, path, space, setup, count))
    return taken[2][0] - taken[1][0], taken[2][1] - taken[1][1]


def _timed(folder: Path, path: Path, space: Rect, setup: Setup, count: int) -> tuple[float, float]:
    spouts = {"objects": {"path": folder / "objects.jsonl"}, "queries": {"path": path}}
    bolts = {
        "router": {"parallelism": setup.routers},
        "evaluator": {"parallelism": setup.evaluators, "index": setup.index},
    }
    tables = {"topology": {"space": list(space.as_tuple()), "metric": PLANE}, "spout": spouts, "bolt": bolts}
    topology = extended_topology(CONF / "tornado-static.toml", tables)
    start = time.process_time(), time.monotonic()
    summary = run_topology(topology, runtime="local").summary
    if summary["queries"] != count:
        raise RunError(f"{summary['queries']:,} queries were registered of {count:,}")
    return time.process_time() - start[0], time.monotonic() - start[1]


def _write(queries: QueryBatch, path: Path) -> None:
    """Write rectangles as lines of a query file; a keyword is a word made of its number."""
    off, words = queries.kw_off.tolist(), [f"w{word}" for word in queries.kw.tolist()]
    with open(path, "w", encoding="utf-8") as out:
        for number, shape in enumerate(queries.shape.tolist()):
            asked = {
                "op": "register", "id": f"q{number}", "ts": 0, "type": "range", "region": {"rect": shape},
                "keywords": words[off[number] : off[number + 1]],
            }  # fmt: skip
            out.write(json.dumps(asked) + "\n")
