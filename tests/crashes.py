"""Runs that are killed: what was in memory is gone, and files are as they were at that moment."""

import json
import random
import shutil
from contextlib import contextmanager
from unittest import mock

import pyarrow.parquet as pq
from range_inputs import CONF, write_inputs

from streams.files.result_files import read_results
from topology import extended_topology, run
from topology.checkpoints import FolderStore
from topology.checkpoints.background import BackgroundWriter
from topology.local_runtime import LocalRuntime


class KilledError(BaseException):
    """Nobody catches this: the run ends where it is."""


def saving_topology(
    folder,
    *,
    results="results.jsonl",
    kind=None,
    broadcast="objects",
    balanced=False,
    spouts=1,
    routers=2,
    evaluators=3,
    checkpoint=None,
    inject=(),
    **keys,
):
    """A topology of range queries that writes results and rejects to files, and collects results as well."""
    settings = {
        "name": "saved",
        "epoch": {"objects": 7, "queries": 5, "feedback": 2 if balanced else 1},
        "checkpoint": {"directory": str(folder / "checkpoints"), **(checkpoint or {"epochs": 2})},
        **({"partitioner": {"kind": kind, "side": 16}} if kind else {}),
        **keys,
    }
    out = {"component": "evaluator", "stream": "results", "grouping": "global"}
    refused = [{"component": name, "stream": "rejects", "grouping": "global"} for name in ("objects", "queries")]
    bolts = {
        "router": {"parallelism": routers},
        "evaluator": {"parallelism": evaluators},
        "sink": {
            "operator": "parquet" if results.endswith(".parquet") else "jsonl",
            "path": folder / "out" / results,
        },
        "rejects": {"operator": "rejects", "path": folder / "out" / "rejects.jsonl", "inputs": refused},
        "kept": {"operator": "listen", "inputs": [out]},
    }
    if balanced:
        bolts["evaluator"] |= {"tick": {"epochs": 1}, "transfer_queries": 2}
        bolts["balancer"] = {"policy": "random"}
    elif not kind:
        bolts["router"]["broadcast"] = broadcast
    spouts_of = {name: {"path": folder / f"{name}.jsonl", "parallelism": spouts} for name in ("objects", "queries")}
    shipped = "tornado.toml" if balanced else "tornado-static.toml" if kind else "quickstart.toml"
    tables = {
        "topology": {"metric": "euclidean", **{key: value for key, value in settings.items() if value}},
        "spout": spouts_of,
        "bolt": bolts,
        "inject": list(inject),
    }
    return extended_topology(CONF / shipped, tables, without=["topology.space", "topology.epoch"])


def saving_inputs(folder, seed, objects=90, queries=60):
    """Inputs of which some records cannot be used, and a folder for what is written."""
    (folder / "out").mkdir(exist_ok=True)
    rng = random.Random(seed)
    for path in write_inputs(folder, seed, objects, queries):
        lines = path.read_text("utf-8").splitlines()
        for _ in range(4):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(["not json", '{"id": 7}']))
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


@contextmanager
def written_at_once(most_bytes=None):
    """Checkpoints are written by the run itself, so that a seed decides all; after so many bytes it is killed in a write."""
    left = [most_bytes]

    def write(self, name, data):
        data = data if isinstance(data, bytes) else b"".join(data)
        if left[0] is not None and len(data) > left[0]:
            path = self._root / f"{name}.partial"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[: left[0]])
            left[0] = None
            raise KilledError
        if left[0] is not None:
            left[0] -= len(data)
        whole(self, name, data)

    whole = FolderStore.write
    with (
        mock.patch.object(BackgroundWriter, "submit", BackgroundWriter._write),
        mock.patch.object(FolderStore, "write", write),
    ):
        yield


def killed_run(topology, folder, epochs, *, torn=b"", resume=None, seed=0, most_bytes=None, **options):
    """Run until so many epochs are complete, or a checkpoint is half written, then lose all but the files.

    What sinks had not handed to the system is lost too, and `torn` bytes may stand behind what they had. Return whether
    it came so far. Other `options` are those of `run`.
    """
    seen, kept = [], folder.with_name(folder.name + "-killed")

    def after(_progress):
        seen.append(1)
        if len(seen) > epochs:
            raise KilledError

    def keep(runtime):
        shutil.copytree(folder, kept)  # before operators are closed, which a killed process does not do either
        return before(runtime)

    before = LocalRuntime._close
    try:
        with written_at_once(most_bytes), mock.patch.object(LocalRuntime, "_close", keep):
            run(topology, scheduler_seed=seed, delays=True, on_progress=after, resume=resume, **options)
    except KilledError:
        shutil.rmtree(folder)
        shutil.move(kept, folder)
        for path in (folder / "out").glob("*.jsonl*"):
            with path.open("ab") as file:
                file.write(torn)
        return True
    shutil.rmtree(kept)
    return False


def written(folder, results="results.jsonl"):
    """Return what a run wrote: results, Parquet row groups, size of plain lines, rejects, and names of files.

    Lines of one query keep their order; that of lines of different queries is free.
    """
    path = folder / "out" / results
    by_query = {}
    for line in read_results(path):
        by_query.setdefault(line["query"], []).append(line)
    for lines in by_query.values():
        assert lines == sorted(lines, key=lambda line: line["ts"])
    rows = {query: sorted(map(json.dumps, lines)) for query, lines in by_query.items()}
    groups = pq.ParquetFile(path).num_row_groups if results.endswith(".parquet") else 0
    size = path.stat().st_size if results.endswith(".jsonl") else 0
    rejects = (folder / "out" / "rejects.jsonl").read_text("utf-8").replace(str(folder), "")
    return rows, groups, size, rejects, sorted(p.name for p in (folder / "out").iterdir())


def collected(outcome):
    """Return collected results as the lines of a file, in a free order."""
    return sorted(
        json.dumps([query, ts, thing])
        for batch in outcome.collected
        for query, ts, thing in zip(batch.query.to_list(), batch.ts.tolist(), batch.object.to_list(), strict=True)
    )


COUNTED = (
    "objects", "queries", "results", "rejected", "rejected_objects", "rejected_queries", "reject_reasons", "replication",
    "communication",
)  # fmt: skip


def counted(summary):
    """Return what of a summary depends neither on clocks, nor on the end of the run, nor on how an index lies in memory."""
    evaluators = [(one["task"], one["objects"], one["queries"]) for one in summary["evaluators"]]
    return {key: summary[key] for key in COUNTED} | {"evaluators": evaluators}
