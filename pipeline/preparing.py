"""Raw files to a prepared data set (`streams.files.prepared`), on Spark.

Clean and tokenise once into a work folder; find duplicates over identifiers and places alone; count document frequencies;
then number the words, sort by time and write. Objects never pass through the driver, only counts and the vocabulary do.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.clean_records import PLACE, deduplicated, record_facts, write_rejects, write_vocabulary
from pipeline.cleaning import CLEAN_DDL, CLEAN_SCHEMA, NO_TS, TORN, Cleaner, Rules
from pipeline.csv_lines import csv_records
from pipeline.inputs import ColumnNames, find_inputs, first_line
from pipeline.object_statistics import object_statistics
from pipeline.prepared_objects import steady_timestamps, write_in_order
from pipeline.records import RawTable, raw_records
from pipeline.session import DEFAULT_MASTER, Progress, silent, spark_session
from pipeline.task_files import write_by_tasks
from streams.errors import DeclarationError, InputError, RunError, WaterspoutError
from streams.files.prepared import MANIFEST, OBJECTS, REJECTS, Manifest, ObjectFile, save_manifest
from streams.geometry import Rect

__all__ = ["DEFAULT_RATE", "MAX_WORDS", "prepare"]

#: Objects a second of data that has no timestamps.
DEFAULT_RATE = 1000.0

#: How many words are numbered by frequency. The vocabulary is the one thing that the driver and every Python worker
#: hold whole, about 150 bytes a word; rarer words keep the id that any word outside of a vocabulary has.
MAX_WORDS = 2_000_000


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
    statistics: bool = True,
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
        statistics: count O_init as well (`pipeline.object_statistics`), the first million objects.
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
        choices = _Choices(names, space, rate, keep_text, deduplicate, max_words)
        manifest = _prepare(spark, inputs, folder, work, choices, progress)
        if statistics:
            progress("counting O_init", 0.9)
            object_statistics(folder, master=master)
    except WaterspoutError:
        raise
    except Exception as error:
        raise _translated(error, inputs) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress("done", 1.0)
    return manifest


@dataclass(frozen=True, slots=True)
class _Choices:
    """What the caller of `prepare` chose."""

    names: ColumnNames
    space: Rect | None
    rate: float | None
    keep_text: bool
    deduplicate: bool
    max_words: int


def _prepare(
    spark: Any, inputs: Sequence[str | Path], folder: Path, work: Path, chosen: _Choices, progress: Progress
) -> Manifest:
    progress("cleaning and tokenising", 0.1)
    files = find_inputs(spark, [str(name) for name in inputs])
    sources = {file.uri: number for number, file in enumerate(files)}
    geographic = False
    for number, raw in enumerate(raw_records(spark, files, chosen.names)):
        geographic |= raw.columns.geographic
        _write_clean(spark, raw, chosen, sources, work / "clean" / f"table={number}")
    clean = spark.read.schema(CLEAN_DDL).parquet(str(work / "clean"))

    progress("finding duplicates", 0.45)
    by_kind = record_facts(clean)
    untimed = NO_TS in by_kind and None not in by_kind
    usable = clean.where(f"kind = '{NO_TS}'" if untimed else "kind is null")
    rejects = clean.where("kind is not null" + (f" and kind <> '{NO_TS}'" if untimed else ""))
    facts = by_kind.pop(NO_TS if untimed else None, None)
    kinds = {str(kind): found.rows for kind, found in by_kind.items()}
    if chosen.deduplicate and facts is not None:
        usable, repeats = deduplicated(spark, usable, work)
        if repeats is not None:
            rejects = rejects.unionByName(repeats)
            unique = record_facts(usable)[NO_TS if untimed else None]
            kinds["duplicate id"] = facts.rows - unique.rows
            facts = unique
    write_rejects(spark, rejects if kinds else None, [file.path for file in files], folder, work)
    if facts is None:
        raise InputError(_nothing_usable(inputs, kinds, folder))

    progress("counting words", 0.6)
    words = write_vocabulary(spark, usable, work, chosen.max_words, folder)
    progress("sorting and writing", 0.7)
    id_type = "bigint" if facts.numbers == facts.rows else "string"
    ordered = PLACE[1:] if untimed else PLACE
    written = write_in_order(spark, usable, words, ordered, facts.rows, id_type, chosen.keep_text, folder / OBJECTS)
    steady = chosen.rate or (DEFAULT_RATE if untimed else None)
    first_ts, last_ts = facts.first_ts or 0, facts.last_ts or 0
    if steady is not None:
        first_ts, last_ts = steady_timestamps(spark, folder / OBJECTS, written, steady)
    manifest = Manifest(
        rows=facts.rows,
        keywords=facts.keywords,
        space=chosen.space or _bounding_space(facts.bounds),
        first_ts=first_ts,
        last_ts=last_ts,
        words=len(words),
        id_type="int64" if id_type == "bigint" else "string",
        text=chosen.keep_text,
        synthetic_rate=steady,
        rejects=dict(sorted(kinds.items())),
        files=tuple(ObjectFile(f"{OBJECTS}/{name}", rows) for name, rows in written),
        geographic=geographic,
    )
    save_manifest(folder, manifest)
    return manifest


def _translated(error: Exception, inputs: Sequence[str | Path]) -> WaterspoutError:
    """Tell a file that cannot be read from anything else that stops Spark."""
    unreadable = re.search(r"FAILED_READ_FILE\.\w+\] [^\n]*?(file:\S+|\w+://\S+)", str(error))
    if unreadable:
        return InputError(f"{unreadable.group(1).rstrip('.')} cannot be read: {first_line(error)}")
    return RunError(f"preparing {', '.join(map(str, inputs))} stopped: {first_line(error)}")


def _write_clean(spark: Any, raw: RawTable, chosen: _Choices, sources: Mapping[str, int], out: Path) -> None:
    """Clean a table of raw records into a folder; once more where lines of CSV turn out to be parts of records."""
    columns, header = raw.columns, raw.header
    rules = Rules(chosen.space, columns.geographic, chosen.keep_text, columns.listed, columns.latin)

    def clean(batches: Iterator[Any]) -> Iterator[Any]:
        records = csv_records(batches, header, columns, sources) if header else batches
        return Cleaner(rules, sources).clean(records)

    shutil.rmtree(out, ignore_errors=True)
    write_by_tasks(raw.table, clean, CLEAN_SCHEMA, out)
    if raw.whole is None:
        return
    if not spark.read.schema(CLEAN_DDL).parquet(str(out)).where(f"kind = '{TORN}'").isEmpty():
        _write_clean(spark, raw.whole(), chosen, sources, out)


def _empty_folder(folder: Path, overwrite: bool) -> Path:
    """Make the folder; refuse one that holds anything but a data set that may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise DeclarationError(f"{folder} is a file; expected a folder to write the data set to")
    if folder.exists() and any(folder.iterdir()):
        if not overwrite or not (folder / MANIFEST).exists():
            raise DeclarationError(
                f"{folder} is not empty; name a new folder"
                + (", or allow overwriting the data set in it (--overwrite)" if (folder / MANIFEST).exists() else "")
            )
        # The manifest goes first: from here on the folder is unfinished, whatever happens.
        (folder / MANIFEST).unlink()
        shutil.rmtree(folder / OBJECTS, ignore_errors=True)
        shutil.rmtree(folder / "statistics", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _bounding_space(bounds: tuple[float, float, float, float]) -> Rect:
    """Return the bounds of the data as a space; where they have no extent, one unit around them."""
    min_x, min_y, max_x, max_y = bounds
    if min_x == max_x:
        min_x, max_x = min_x - 0.5, max_x + 0.5
    if min_y == max_y:
        min_y, max_y = min_y - 0.5, max_y + 0.5
    return Rect(min_x, min_y, max_x, max_y)


def _nothing_usable(inputs: Sequence[str | Path], kinds: Mapping[str, int], folder: Path) -> str:
    named = ", ".join(map(str, inputs))
    if not kinds:
        return f"{named}: no records; expected at least one object"
    reasons = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
    return f"{named}: none of {sum(kinds.values())} records can be used ({reasons}); see {folder / REJECTS}"
