"""The offline plane: raw CSV to a prepared data set, and a QT-tree from it, each in a process of its own.

Times are of the whole command, the start of Python, Java and Spark included; memory is that of all its processes
together (proportional set size, so that shared pages count once). The baseline is the same work in plain Python.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import VOCABULARY, synthetic_objects
from streams.tokens import tokenise

__all__ = ["run"]

#: Objects in one raw file, and the sizes of the table of growth.
FILE_ROWS = 500_000
GROWTH = (500_000, 1_000_000, 2_000_000, 4_000_000)
LARGEST = 10_000_000
QUERIES = 100_000
BASELINE_ROWS = 50_000
LEAVES, WORKERS = 64, 16

_SAMPLE_S = 0.5


def run(options: Options) -> Report:
    """Prepare growing data sets and build a QT-tree of the million."""
    with tempfile.TemporaryDirectory(prefix="waterspout-bench-") as work:
        return _run(options, Path(work))


def _run(options: Options, work: Path) -> Report:
    sizes: tuple[int, ...] = (100_000,) if options.quick else (*GROWTH, LARGEST)
    figures: dict[str, float] = {}
    rows = []
    middle = 100_000 if options.quick else 1_000_000
    if options.data is not None:
        sizes, middle = (), 0
        figures |= _prepared(options.data, work / "given", "given")
    for size in sizes:
        raw = write_raw(work / "raw", size, options.seed)
        figures |= _prepared(raw, work / f"prepared-{size}", _named(size))
        shutil.rmtree(work / "raw")
        if size != middle:
            shutil.rmtree(work / f"prepared-{size}")
    for name in [_named(size) for size in sizes] or ["given"]:
        seconds, memory = figures[f"prepare_{name}_s"], figures[f"prepare_{name}_gb"]
        rows.append([f"prepare {name}", f"{seconds:.1f} s", f"{memory:.2f} GB"])
    kept = work / f"prepared-{middle}" if middle else work / "given"
    queries = options.queries or (QUERIES if not options.quick else 10_000)
    figures |= _plan(kept, work, queries)
    rows.append(["QT-tree, 64 leaves", f"{figures['qt_tree_s']:.1f} s", f"{figures['qt_tree_gb']:.2f} GB"])
    figures["baseline_objects_per_s"] = _baseline(write_raw(work / "baseline", BASELINE_ROWS, options.seed))
    rows.append(["plain Python, one process", f"{figures['baseline_objects_per_s']:,.0f} objects/s", ""])
    if middle:
        figures["prepare_objects_per_s"] = middle / figures[f"prepare_{_named(middle)}_s"]
        rows.append([f"prepare {_named(middle)}, all in", f"{figures['prepare_objects_per_s']:,.0f} objects/s", ""])
    goals = []
    if not options.quick and options.data is None:
        figures["prepare_10m_to_1m"] = figures["prepare_10m_s"] / figures["prepare_1m_s"]
        goals = [
            Goal("prepare_1m_s", at_most=60.0),
            Goal("prepare_10m_to_1m", at_most=12.0),
            Goal("prepare_10m_gb", at_most=6.0),
            Goal("qt_tree_s", at_most=60.0),
        ]
    data = str(options.data) if options.data else f"synthetic, 8 of {VOCABULARY:,} words an object, {queries:,} queries"
    return Report("pipeline", data, options.seed, figures, goals, ("step", "time or rate", "memory"), rows)


def _named(size: int) -> str:
    return f"{size // 1_000_000}m" if size % 1_000_000 == 0 else f"{size // 1000}k"


def write_raw(folder: Path, count: int, seed: int) -> Path:
    """Write synthetic objects as CSV files with text; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    words = pa.array([f"w{rank:05d}" for rank in range(VOCABULARY)])
    for number, start in enumerate(range(0, count, FILE_ROWS)):
        size = min(FILE_ROWS, count - start)
        objects = synthetic_objects(size, seed, number)
        lists = pa.ListArray.from_arrays(pa.array(objects.kw_off), words.take(pa.array(objects.kw)))
        table = pa.table(
            {
                "id": np.arange(start, start + size),
                "ts": np.arange(start, start + size),
                "x": objects.x,
                "y": objects.y,
                "text": pc.binary_join(lists, " "),
            }
        )
        pyarrow.csv.write_csv(table, folder / f"raw-{number:03d}.csv")
    return folder


def _prepared(raw: Path, out: Path, name: str) -> dict[str, float]:
    seconds, memory = _measured("prepare", str(raw), str(out))
    return {f"prepare_{name}_s": seconds, f"prepare_{name}_gb": memory}


def _plan(data: Path, work: Path, queries: int) -> dict[str, float]:
    _measured("workload", str(data), str(work / "queries.jsonl"), str(queries))
    seconds, memory = _measured("plan", str(data), str(work / "queries.jsonl"), str(work / "qt.plan"))
    return {"qt_tree_s": seconds, "qt_tree_gb": memory}


def _measured(*arguments: str) -> tuple[float, float]:
    """Run a step in a process of its own; return its seconds and the most memory of all its processes in GB."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.pipeline", *arguments])
    peak = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLE_S):
            peak[0] = max(peak[0], _memory(child.pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    code = child.wait()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    if code:
        raise RuntimeError(f"the step {' '.join(arguments)} failed with code {code}")
    return seconds, peak[0] / 1e9


def _memory(pid: int) -> int:
    """Return the bytes that a process and all it started hold, shared pages divided among them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def _baseline(raw: Path) -> float:
    """Prepare a small data set in plain Python and return its objects a second."""
    start = time.perf_counter()
    objects, counts = {}, Counter[str]()
    for path in sorted(raw.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                words = tokenise(row["text"])
                objects[row["id"]] = (int(row["ts"]), float(row["x"]), float(row["y"]), words)
                counts.update(words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(ranked)}
    rows = sorted((ts, key, x, y, sorted(rank[word] for word in words)) for key, (ts, x, y, words) in objects.items())
    return len(rows) / (time.perf_counter() - start)


def _step(name: str, *arguments: str) -> None:
    """Do one step, in the process that is measured."""
    if name == "prepare":
        from pipeline.preparing import prepare

        prepare([arguments[0]], arguments[1])
    elif name == "workload":
        from pipeline.workload_files import workload
        from pipeline.workload_spec import preset

        workload(arguments[0], arguments[1], preset("sstd", count=int(arguments[2])))
    else:
        from pipeline.plans import build_plan

        build_plan("qt-tree", arguments[0], [arguments[1]], arguments[2], workers=WORKERS, options={"leaves": LEAVES})


if __name__ == "__main__":
    _step(*sys.argv[1:])
