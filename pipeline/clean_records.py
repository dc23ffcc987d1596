"""What is asked of the table of clean records: facts by kind, repeated identifiers, document frequencies, rejects."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.words import separated
from streams.files.prepared import REJECTS, VOCABULARY

__all__ = ["PLACE", "RecordFacts", "deduplicated", "record_facts", "write_rejects", "write_vocabulary"]

#: The order of records: by time, then by place in the input.
PLACE = ("ts", "source", "block", "row")

#: Words that a task counts before it hands its counts on.
_HELD_WORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """What is known of the records of one kind after cleaning."""

    rows: int
    keywords: int
    numbers: int
    bounds: tuple[float, float, float, float]
    first_ts: int | None
    last_ts: int | None


def record_facts(records: Any) -> dict[str | None, RecordFacts]:
    """Return what is known of the records of each kind; None is the kind of those without a fault."""
    from pyspark.sql import functions as F  # noqa: N812

    found = records.groupBy("kind").agg(
        F.count("*").alias("n"),
        F.sum("word_count").alias("k"),
        F.sum(F.col("id_number").cast("int")).alias("numbers"),
        *(getattr(F, f)(c).alias(f"{f}_{c}") for f in ("min", "max") for c in ("x", "y", "ts")),
    )
    return {
        row["kind"]: RecordFacts(
            rows=row["n"],
            keywords=row["k"] or 0,
            numbers=row["numbers"] or 0,
            bounds=(row["min_x"], row["min_y"], row["max_x"], row["max_y"]),
            first_ts=row["min_ts"],
            last_ts=row["max_ts"],
        )
        for row in found.collect()  # one row a kind
    }


def deduplicated(spark: Any, usable: Any, work: Path) -> tuple[Any, Any]:
    """Return the first record of each id, and the others as rejects (None: there are no others).

    Only identifiers and places are shuffled to find repeated ids; whole records meet them in a join that adaptive
    execution broadcasts where they are few.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

    place = F.struct(*PLACE)
    usable.groupBy("id").count().where("count > 1").select("id").write.parquet(str(work / "repeated"))
    if not _rows_in(work / "repeated"):
        return usable, None
    repeated = spark.read.parquet(str(work / "repeated"))
    among = usable.select("id", *PLACE).join(repeated, "id", "left_semi")
    repeated = among.groupBy("id").agg(F.min(place).alias("first"))
    joined = usable.join(repeated, "id", "left").withColumn(
        "repeat", F.col("first").isNotNull() & (place != F.col("first"))
    )
    kept = joined.where("not repeat").drop("first", "repeat")
    repeats = joined.where("repeat").drop("first", "repeat")
    sentence = F.lit("the id occurs before; the first record in time is kept")
    return kept, repeats.withColumn("kind", F.lit("duplicate id")).withColumn("reason", sentence)


def write_vocabulary(spark: Any, usable: Any, work: Path, max_words: int, folder: Path) -> list[str]:
    """Count document frequencies, write the vocabulary in its order, and return its words."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = usable.select("words").mapInArrow(_word_counts, "word string, n bigint").groupBy("word")
    counted.agg(F.sum("n").alias("df")).write.parquet(str(work / "words"))
    ranked = work / "words"
    if _rows_in(ranked) > max_words:
        ranked = work / "ranked"
        spark.read.parquet(str(work / "words")).orderBy(F.desc("df"), "word").limit(max_words).write.parquet(
            str(ranked)
        )
    # Bytes and code points of UTF-8 sort alike, so Arrow's order is the vocabulary's alphabetical order.
    schema = pa.schema([("word", pa.string()), ("df", pa.int64())])
    parts = [pq.read_table(part, schema=schema) for part in sorted(ranked.glob("part-*"))]
    words = pa.concat_tables(parts or [schema.empty_table()]).sort_by([("df", "descending"), ("word", "ascending")])
    pq.write_table(words, folder / VOCABULARY)
    found: list[str] = words["word"].to_pylist()
    return found


def _word_counts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the words of one task; what it holds is handed on whenever it is large."""
    counts: Counter[str] = Counter()
    for batch in batches:
        found = separated(batch["words"]).flatten().value_counts()
        words, times = found.field("values").to_pylist(), found.field("counts").to_pylist()
        for word, n in zip(words, times, strict=True):
            counts[word] += n
        if len(counts) > _HELD_WORDS:
            yield _counted(counts)
            counts = Counter()
    yield _counted(counts)


def _counted(counts: Counter[str]) -> pa.RecordBatch:
    columns = [pa.array(list(counts), pa.string()), pa.array(list(counts.values()), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["word", "n"])


def write_rejects(spark: Any, rejects: Any, paths: list[str], folder: Path, work: Path) -> None:
    """Write rejects as one JSONL file in the order of the input; `record` counts from the start of `block`."""
    if rejects is None:
        (folder / REJECTS).write_bytes(b"")
        return
    from pyspark.sql import functions as F  # noqa: N812

    names = spark.createDataFrame(list(enumerate(paths)), "source int, path string")
    lines = rejects.join(F.broadcast(names), "source").select(
        F.col("path").alias("source"), "block", (F.col("row") + 1).alias("record"), "id", "kind", "reason"
    )
    lines.repartition(1).sortWithinPartitions("source", "block", "record").write.json(str(work / "rejects"))
    next((work / "rejects").glob("part-*")).replace(folder / REJECTS)


def _rows_in(folder: Path) -> int:
    """Return the number of rows that Spark wrote to a folder of Parquet files."""
    return sum(pq.read_metadata(part).num_rows for part in folder.glob("part-*.parquet"))
