"""Raw files to a prepared data set (`streams.prepared`), on Spark.

Clean and tokenise once into a work folder; find duplicates over identifiers and places alone; count document frequencies;
then number the words, sort by time and write. Objects never pass through the driver, only counts and the vocabulary do.
"""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.cleaning import CLEAN_DDL, NO_TS, Cleaner, Rules
from pipeline.inputs import ColumnNames, find_inputs, first_line
from pipeline.prepared_objects import encoded, steady_timestamps, write_in_order
from pipeline.records import raw_records
from pipeline.session import DEFAULT_MASTER, Progress, silent, spark_session
from streams.errors import DeclarationError, InputError, RunError, WaterspoutError
from streams.geometry import Rect
from streams.prepared import MANIFEST, OBJECTS, REJECTS, VOCABULARY, Manifest, ObjectFile, save_manifest

__all__ = ["DEFAULT_RATE", "MAX_WORDS", "prepare"]

#: Objects a second of data that has no timestamps.
DEFAULT_RATE = 1000.0

#: How many words are numbered by frequency. The vocabulary is the one thing that the driver and every Python worker
#: hold whole, about 150 bytes a word; rarer words keep the id that any word outside of a vocabulary has.
MAX_WORDS = 2_000_000

_PLACE = ("ts", "source", "block", "row")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of the records of one kind after cleaning."""

    rows: int
    keywords: int
    numbers: int
    bounds: tuple[float, float, float, float]
    first_ts: int | None
    last_ts: int | None


def prepare(
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    id: str | None = None,  # noqa: A002  # the contract's name of the field
    ts: str | None = None,
    lon: str | None = None,
    lat: str | None = None,
    x: str | None = None,
    y: str | None = None,
    text: str | None = None,
    keywords: str | None = None,
    rate: float | None = None,
    space: Rect | None = None,
    keep_text: bool = False,
    deduplicate: bool = True,
    max_words: int = MAX_WORDS,
    overwrite: bool = False,
    master: str = DEFAULT_MASTER,
    progress: Progress = silent,
) -> Manifest:
    """Prepare raw data: clean, deduplicate, tokenise, number the words by frequency, sort by time, write.

    Args:
        inputs: CSV, JSONL or Parquet files (text also ``.gz``, ``.zst``, ``.bz2``), folders or patterns.
        out: the folder to write; it must be new, empty, or a prepared data set with `overwrite`.
        id: name of the column of identifiers; the same holds for the other names. None takes the contract's own name.
        ts: column of event times; where the data has none at all, they are made at `rate`.
        lon: column of longitudes, with `lat`; or `x` with `y` for places on a plane.
        lat: column of latitudes.
        x: column of x coordinates.
        y: column of y coordinates.
        text: column of text to tokenise; or `keywords`.
        keywords: column of keyword lists (in CSV: with spaces between).
        rate: objects a second: replaces the timestamps by a steady stream in the same order (replay by rank).
        space: records outside are rejected; None takes the bounds of the data.
        keep_text: keep the text as a column.
        deduplicate: of records with the same id keep the first in time and reject the others; False keeps all, for
            data sets of dynamic objects, where each record is a new state.
        max_words: how many words are numbered by frequency.
        overwrite: replace a prepared data set that is in `out`.
        master: any Spark master.
        progress: told of each step.

    Raises:
        InputError: an input that cannot be used, or none of whose records can.
        DeclarationError: options that contradict each other, or a folder that is in use.
    """
    if rate is not None and not rate > 0:
        raise DeclarationError(f"rate is {rate}; expected a positive number of objects a second")
    names = ColumnNames(id=id, ts=ts, lon=lon, lat=lat, x=x, y=y, text=text, keywords=keywords)
    folder = _empty_folder(Path(out), overwrite)
    work = folder / "unfinished"
    progress("starting Spark", 0.0)
    spark = spark_session(master)
    try:
        return _prepare(spark, inputs, folder, work, names, space, rate, keep_text, deduplicate, max_words, progress)
    except WaterspoutError:
        raise
    except Exception as error:
        raise _translated(error, inputs) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prepare(
    spark: Any,
    inputs: Sequence[str | Path],
    folder: Path,
    work: Path,
    names: ColumnNames,
    space: Rect | None,
    rate: float | None,
    keep_text: bool,
    deduplicate: bool,
    max_words: int,
    progress: Progress,
) -> Manifest:
    progress("cleaning and tokenising", 0.1)
    files = find_inputs(spark, [str(name) for name in inputs])
    sources = {file.uri: number for number, file in enumerate(files)}
    for columns, table in raw_records(spark, files, names):
        rules = Rules(space, columns.geographic, keep_text, columns.listed)
        table.mapInArrow(_cleaning(rules, sources), CLEAN_DDL).write.mode("append").parquet(str(work / "clean"))
    clean = spark.read.schema(CLEAN_DDL).parquet(str(work / "clean"))

    progress("finding duplicates", 0.45)
    by_kind = _facts(clean)
    untimed = NO_TS in by_kind and None not in by_kind
    usable = clean.where(f"kind = '{NO_TS}'" if untimed else "kind is null")
    rejects = clean.where("kind is not null" + (f" and kind <> '{NO_TS}'" if untimed else ""))
    facts = by_kind.pop(NO_TS if untimed else None, None)
    kinds = {str(kind): found.rows for kind, found in by_kind.items()}
    if deduplicate and facts is not None:
        usable, repeats = _deduplicated(spark, usable, work)
        if repeats is not None:
            rejects = rejects.unionByName(repeats)
            unique = _facts(usable)[NO_TS if untimed else None]
            kinds["duplicate id"] = facts.rows - unique.rows
            facts = unique
    _write_rejects(spark, rejects if kinds else None, [file.path for file in files], folder, work)
    if facts is None:
        raise InputError(_nothing_usable(inputs, kinds, folder))

    progress("counting words", 0.6)
    words = _vocabulary(spark, usable, work, max_words, folder)
    progress("sorting and writing", 0.7)
    id_type = "bigint" if facts.numbers == facts.rows else "string"
    ordered = _PLACE[1:] if untimed else _PLACE
    written = write_in_order(
        encoded(spark, usable, words, id_type, keep_text, ordered),
        ordered,
        facts.rows,
        work / "sorted",
        folder / OBJECTS,
    )
    steady = rate or (DEFAULT_RATE if untimed else None)
    first_ts, last_ts = facts.first_ts or 0, facts.last_ts or 0
    if steady is not None:
        first_ts, last_ts = steady_timestamps(spark, folder / OBJECTS, written, steady)
    manifest = Manifest(
        rows=facts.rows,
        keywords=facts.keywords,
        space=space or _bounding_space(facts.bounds),
        first_ts=first_ts,
        last_ts=last_ts,
        words=len(words),
        id_type="int64" if id_type == "bigint" else "string",
        text=keep_text,
        synthetic_rate=steady,
        rejects=dict(sorted(kinds.items())),
        files=tuple(ObjectFile(f"{OBJECTS}/{name}", rows) for name, rows in written),
    )
    save_manifest(folder, manifest)
    progress("done", 1.0)
    return manifest


def _translated(error: Exception, inputs: Sequence[str | Path]) -> WaterspoutError:
    """Tell a file that cannot be read from anything else that stops Spark."""
    unreadable = re.search(r"FAILED_READ_FILE\.\w+\] [^\n]*?(file:\S+|\w+://\S+)", str(error))
    if unreadable:
        return InputError(f"{unreadable.group(1).rstrip('.')} cannot be read: {first_line(error)}")
    return RunError(f"preparing {', '.join(map(str, inputs))} stopped: {first_line(error)}")


def _cleaning(rules: Rules, sources: Mapping[str, int]) -> Any:
    def clean(batches: Iterable[Any]) -> Iterable[Any]:
        return Cleaner(rules, sources).clean(iter(batches))

    return clean


def _empty_folder(folder: Path, overwrite: bool) -> Path:
    """Make the folder; refuse one that holds anything but a data set that may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise DeclarationError(f"{folder} is a file; expected a folder to write the data set to")
    if folder.exists() and any(folder.iterdir()):
        if not overwrite or not (folder / MANIFEST).exists():
            raise DeclarationError(
                f"{folder} is not empty; name a new folder"
                + (", or allow overwriting the data set in it" if (folder / MANIFEST).exists() else "")
            )
        # The manifest goes first: from here on the folder is unfinished, whatever happens.
        (folder / MANIFEST).unlink()
        shutil.rmtree(folder / OBJECTS, ignore_errors=True)
        shutil.rmtree(folder / "statistics", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _deduplicated(spark: Any, usable: Any, work: Path) -> tuple[Any, Any]:
    """Return the first record of each id, and the others as rejects (None: there are no others).

    Only identifiers and places are shuffled to find repeated ids; whole records meet them in a join that adaptive
    execution broadcasts where they are few.
    """
    from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

    place = F.struct(*_PLACE)
    found = usable.groupBy("id").agg(F.count("*").alias("n"), F.min(place).alias("first")).where("n > 1")
    found.select("id", "first").write.parquet(str(work / "repeated"))
    if not _rows_in(work / "repeated"):
        return usable, None
    repeated = spark.read.parquet(str(work / "repeated"))
    joined = usable.join(repeated, "id", "left").withColumn(
        "repeat", F.col("first").isNotNull() & (place != F.col("first"))
    )
    kept = joined.where("not repeat").drop("first", "repeat")
    repeats = joined.where("repeat").drop("first", "repeat")
    sentence = F.lit("the id occurs before; the first record in time is kept")
    return kept, repeats.withColumn("kind", F.lit("duplicate id")).withColumn("reason", sentence)


def _facts(records: Any) -> dict[str | None, _Facts]:
    """Return what is known of the records of each kind; None is the kind of those without a fault."""
    from pyspark.sql import functions as F  # noqa: N812

    found = records.groupBy("kind").agg(
        F.count("*").alias("n"),
        F.sum(F.size("words")).alias("k"),
        F.sum(F.col("id_number").cast("int")).alias("numbers"),
        *(getattr(F, f)(c).alias(f"{f}_{c}") for f in ("min", "max") for c in ("x", "y", "ts")),
    )
    return {
        row["kind"]: _Facts(
            rows=row["n"],
            keywords=row["k"] or 0,
            numbers=row["numbers"] or 0,
            bounds=(row["min_x"], row["min_y"], row["max_x"], row["max_y"]),
            first_ts=row["min_ts"],
            last_ts=row["max_ts"],
        )
        for row in found.collect()  # one row a kind
    }


def _bounding_space(bounds: tuple[float, float, float, float]) -> Rect:
    """Return the bounds of the data as a space; where they have no extent, one unit around them."""
    min_x, min_y, max_x, max_y = bounds
    if min_x == max_x:
        min_x, max_x = min_x - 0.5, max_x + 0.5
    if min_y == max_y:
        min_y, max_y = min_y - 0.5, max_y + 0.5
    return Rect(min_x, min_y, max_x, max_y)


def _vocabulary(spark: Any, usable: Any, work: Path, max_words: int, folder: Path) -> list[str]:
    """Count document frequencies, write the vocabulary in its order, and return its words."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = usable.select(F.explode("words").alias("word")).groupBy("word").agg(F.count("*").alias("df"))
    counted.write.parquet(str(work / "words"))
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


def _write_rejects(spark: Any, rejects: Any, paths: list[str], folder: Path, work: Path) -> None:
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


def _nothing_usable(inputs: Sequence[str | Path], kinds: Mapping[str, int], folder: Path) -> str:
    named = ", ".join(map(str, inputs))
    if not kinds:
        return f"{named}: no records; expected at least one object"
    reasons = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
    return f"{named}: none of {sum(kinds.values())} records can be used ({reasons}); see {folder / REJECTS}"
