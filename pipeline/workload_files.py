"""Query files and streams of moving objects from a prepared data set, on Spark."""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.moving_objects import MovingSpec, moving_states, state_lines
from pipeline.prepared_rows import collected_rows, picked_rows, source_objects
from pipeline.query_lines import query_lines
from pipeline.session import DEFAULT_MASTER, Progress, silent, spark_session
from pipeline.workload_spec import WorkloadSpec
from pipeline.workloads import BLOCK, Setting, blocks_of, draw_queries, draw_rows
from streams.errors import DeclarationError, InputError
from streams.files.prepared import load_manifest, load_vocabulary

__all__ = ["moving_workload", "workload"]


def workload(
    data: str | Path,
    out: str | Path,
    spec: WorkloadSpec,
    *,
    master: str = DEFAULT_MASTER,
    progress: Progress = silent,
) -> int:
    """Write the queries of a workload over a prepared data set to a JSONL file (``.gz`` allowed); return how many.

    The objects are picked and the lines made in Spark, a block of `BLOCK` queries at a time; the driver only appends
    finished blocks to the file, in order.
    """
    out = _target(out)
    setting, words = _setting(data)
    rows = load_manifest(data).rows
    progress("starting Spark", 0.0)
    spark = spark_session(master)
    shared = spark.sparkContext.broadcast(words)
    progress("drawing queries", 0.2)
    drawn = np.concatenate([draw_rows(spec, block, rows) for block in range(blocks_of(spec))])
    picks = picked_rows(spark, data, drawn).selectExpr(f"pick div {BLOCK} block", "*")

    def lines_of(block: pa.Table) -> pa.Table:
        table = block.sort_by("pick")
        number = table["block"][0].as_py()
        queries = draw_queries(spec, setting, number, source_objects(table.select(["x", "y", "keyword_ids"])))
        text = query_lines(queries, shared.value)
        return pa.table({"block": pa.array([number], pa.int64()), "lines": pa.array([text], pa.binary())})

    made = picks.groupBy("block").applyInArrow(lines_of, "block bigint, lines binary")
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as work:
        ordered = made.repartitionByRange(max(1, blocks_of(spec) // 4), "block").sortWithinPartitions("block")
        ordered.write.parquet(f"{work}/lines")
        progress("writing", 0.9)
        with _replacing(out) as file:
            for part in sorted(Path(work, "lines").glob("part-*.parquet")):
                for batch in pq.ParquetFile(part).iter_batches(batch_size=1, columns=["lines"]):
                    for line in batch["lines"]:
                        file.write(line.as_buffer())
    progress("done", 1.0)
    return spec.count


def moving_workload(
    data: str | Path,
    out: str | Path,
    spec: MovingSpec,
    *,
    master: str = DEFAULT_MASTER,
    progress: Progress = silent,
) -> int:
    """Write an objects file of moving objects that start as objects of a prepared data set; return its number of states.

    The first states are picked in Spark without replacement and brought to the driver, at most
    `pipeline.moving_objects.MAX_MOVING_OBJECTS`, because each state follows from the one before.
    """
    out = _target(out)
    manifest = load_manifest(data)
    if spec.objects > manifest.rows:
        raise DeclarationError(
            f"{spec.objects} moving objects, but {data} has {manifest.rows}; ask for at most so many"
        )
    words = load_vocabulary(data).words
    progress("starting Spark", 0.0)
    spark = spark_session(master)
    progress("picking objects", 0.2)
    rng = np.random.default_rng([spec.seed, 3])
    source = collected_rows(spark, data, np.sort(rng.permutation(manifest.rows)[: spec.objects]))
    total = spec.objects + spec.updates
    written = 0
    with _replacing(out) as file:
        for states in moving_states(spec, manifest.space, source, manifest.first_ts):
            file.write(state_lines(states, words))
            written += len(states)
            progress("moving", 0.4 + 0.6 * written / total)
    return written


def _setting(data: str | Path) -> tuple[Setting, tuple[str, ...]]:
    manifest, vocabulary = load_manifest(data), load_vocabulary(data)
    return Setting(manifest.space, manifest.first_ts, manifest.last_ts, vocabulary.df), vocabulary.words


def _target(out: str | Path) -> Path:
    path = Path(out)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise DeclarationError(f"{path} is no name for a query file; expected an ending .jsonl or .jsonl.gz")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder to write {path.name} to; make it first")
    return path


@contextmanager
def _replacing(out: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when it is complete; `.gz` compresses, without the time of day."""
    with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}-", delete=False) as raw:
        draft = Path(raw.name)
        try:
            if out.suffix == ".gz":
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield _plain(packed)
            else:
                yield raw.file
            raw.flush()
            shutil.copymode(out, draft) if out.exists() else draft.chmod(0o644)
            draft.replace(out)
        finally:
            draft.unlink(missing_ok=True)


def _plain(file: Any) -> IO[bytes]:
    opened: IO[bytes] = file
    return opened
