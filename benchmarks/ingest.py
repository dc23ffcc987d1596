"""How fast files become columns, and results become lines.

CSV with text, JSONL, Parquet with text and Parquet with prepared keyword ids, each next to the same work with Python's
csv and json modules and the plain tokeniser; query operations next to the json module and a reading record by record;
matches next to the json module. The best of several passes counts, because other work on the machine can only slow one
down; a pass starts with an encoder that has met no word.
"""

import csv
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.report import Goal, Options, Report
from streams.batches import MatchBatch
from streams.columns import Ids
from streams.errors import InputError
from streams.files.object_files import ObjectChunk, read_objects
from streams.files.object_form import PLAIN_FORM, ObjectForm
from streams.files.open_queries import OpenQueries
from streams.files.query_files import read_queries
from streams.files.query_records import QueryRules, read_query
from streams.files.result_lines import result_lines
from streams.geometry import Rect
from streams.tokens import tokenise
from streams.vocabulary import Encoder, Vocabulary

__all__ = ["run"]

GLOBE = Rect(-180, -90, 180, 90)
GOALS = (
    Goal("parquet_ids_objects_per_s", at_least=2_000_000),
    Goal("csv_objects_per_s", at_least=200_000),
    Goal("queries_per_s", at_least=250_000),
    Goal("match_lines_per_s", at_least=1_000_000),
    Goal("reordering_cost", at_most=0.10),
    Goal("rejects_cost", at_most=0.10),
)
_WORDS, _PLACES = 18_000, 3_000
#: So many reports are read for what reordering and rejects cost; they come up to so many places late.
_EXTRA_ROWS, _LATE_BY = 100_000, 200


_FIRST_TS, _STEP_MS = 631_152_000_000, 61_000


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How much of everything, and how often."""

    objects: int
    queries: int
    matches: int
    baseline: int
    passes: int


FULL = _Sizes(objects=1_000_000, queries=500_000, matches=2_000_000, baseline=40_000, passes=5)
QUICK = _Sizes(objects=200_000, queries=150_000, matches=500_000, baseline=15_000, passes=3)


def run(options: Options) -> Report:
    """Measure all formats; `--data` names a CSV file with id, ts, lon, lat, text to use instead of synthetic reports."""
    sizes = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = options.data or _synthetic_csv(folder / "objects.csv", sizes.objects, options.seed)
        files = _Files.of(given, folder)
        figures, rows = _object_figures(files, sizes)
        extra = _extra_costs(folder, sizes, options.seed)
        figures |= {figure: cost for figure, _, cost in extra}
        rows += [[label, f"{cost:+.1%}", "more than in order", ""] for _, label, cost in extra]
        for measured, baseline, figure, label in (
            (*_queries(folder, sizes, options.seed), "queries", "queries, JSONL"),
            (*_matches(sizes), "match_lines", "matches to JSON lines"),
        ):
            figures |= {f"{figure}_per_s": measured, f"{figure}_ratio": measured / baseline}
            rows.append(_row(label, measured, baseline))
    notes = [f"objects: {files.objects:,} of {given.name}, of which {files.rejected:,} were rejected"]
    data = "synthetic storm reports" if options.data is None else given.name
    return Report("ingest", data, options.seed, figures, GOALS, ("input", "a second", "Python", "ratio"), rows, notes)


def _row(label: str, measured: float, baseline: float) -> list[str]:
    return [label, f"{measured:,.0f}", f"{baseline:,.0f}", f"{measured / baseline:.1f} x"]


def _best(passes: int, work: Callable[[], int]) -> float:
    """Return the most items a second of several passes; `work` returns how many items it did."""
    rates = []
    for _ in range(passes):
        started = time.perf_counter()
        done = work()
        rates.append(done / (time.perf_counter() - started))
    return max(rates)


def _synthetic_csv(path: Path, rows: int, seed: int) -> Path:
    """Write reports like those of storm events: a type, a strength, a place, sometimes a narrative."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(3, 11, _WORDS)]
    places = np.array([" ".join(words[n].title() for n in rng.integers(0, _WORDS, 2)) for _ in range(_PLACES)])
    kinds = np.array(["Tornado", "Hail", "Thunderstorm Wind", "Flash Flood", "Lightning", "High Wind"])
    common = np.array(words)[np.minimum(rng.zipf(1.2, 20 * rows) - 1, _WORDS - 1)]
    kind, place, strength = rng.choice(kinds, rows), rng.choice(places, rows), rng.integers(0, 6, rows)
    lon, lat = rng.uniform(-125, -67, rows), rng.uniform(25, 49, rows)
    sizes = np.where(rng.random(rows) < 0.1, rng.integers(5, 20, rows), 0)
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("id", "ts", "lon", "lat", "text"))
        for row in range(rows):
            moment = np.datetime64(_FIRST_TS + row * _STEP_MS, "ms").astype("datetime64[s]")
            story = " ".join(common[20 * row : 20 * row + sizes[row]])
            text = f"{kind[row]}; F{strength[row]}; {place[row]}; Kansas{', ' if story else ''}{story}"
            out.writerow((10_000_000 + row, f"{moment}Z", f"{lon[row]:.4f}", f"{lat[row]:.4f}", text))
    return path


@dataclass(frozen=True, slots=True)
class _Files:
    """The same objects in every format."""

    csv: Path
    jsonl: Path
    parquet: Path
    parquet_ids: Path
    objects: int
    rejected: int

    @classmethod
    def of(cls, given: Path, folder: Path) -> "_Files":
        """Write the objects of a CSV file in the other formats; its keywords prepared, as the pipeline does it."""
        with _opened(given) as file:
            table = pyarrow.csv.read_csv(
                file, convert_options=pyarrow.csv.ConvertOptions(column_types={"ts": pa.string(), "text": pa.string()})
            )
        missing = {"id", "ts", "lon", "lat", "text"} - set(table.column_names)
        if missing:
            raise InputError(f"{given} has no column {min(missing)}; this benchmark needs id, ts, lon, lat and text")
        files = cls(given, folder / "o.jsonl", folder / "o.parquet", folder / "ids.parquet", table.num_rows, 0)
        pq.write_table(table, files.parquet)
        with open(files.jsonl, "w", encoding="utf-8") as out:
            for batch in table.to_batches(50_000):
                out.writelines(json.dumps(record) + "\n" for record in batch.to_pylist())
        counts: dict[str, int] = {}
        for text in table.column("text").to_pylist():
            for word in tokenise(text):
                counts[word] = counts.get(word, 0) + 1
        encoder = Encoder(Vocabulary.of(counts, table.num_rows))
        chunks = list(read_objects(files.parquet, space=GLOBE, encoder=encoder))
        pq.write_table(pa.concat_tables(_prepared(chunks)), files.parquet_ids)
        return replace(files, rejected=sum(len(chunk.rejects) for chunk in chunks))


def _prepared(chunks: list[ObjectChunk]) -> Iterator[pa.Table]:
    """Yield objects as a prepared data set has them."""
    numbers = all(chunk.batch.ids.kind == "int" for chunk in chunks)
    for batch in (chunk.batch for chunk in chunks):
        yield pa.table(
            {
                "id": batch.ids.values if numbers else [str(name) for name in batch.ids.to_list()],
                "ts": batch.ts,
                "x": batch.x,
                "y": batch.y,
                "keyword_ids": pa.ListArray.from_arrays(batch.kw_off, batch.kw),
            }
        )


def _opened(path: Path) -> Any:
    return pa.input_stream(str(path), compression="detect")


def _object_figures(files: _Files, sizes: _Sizes) -> tuple[dict[str, float], list[list[str]]]:
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    formats: tuple[tuple[str, str, Path, Callable[[Path], Iterator[Any]]], ...] = (
        ("csv", "CSV, text", files.csv, _python_csv),
        ("jsonl", "JSONL, text", files.jsonl, _python_jsonl),
        ("parquet", "Parquet, text", files.parquet, _python_parquet),
        ("parquet_ids", "Parquet, keyword ids", files.parquet_ids, _python_parquet_ids),
    )
    for name, label, path, python in formats:
        _ingest(path)  # compiles the kernels and warms the file cache
        measured = _best(sizes.passes, lambda path=path: _ingest(path))  # type: ignore[misc]
        baseline = _best(2, lambda path=path, python=python: _first(python(path), sizes.baseline))  # type: ignore[misc]
        figures |= {f"{name}_objects_per_s": measured, f"{name}_ratio": measured / baseline}
        rows.append(_row(label, measured, baseline))
    return figures, rows


def _ingest(path: Path) -> int:
    return sum(chunk.records for chunk in read_objects(path, space=GLOBE, encoder=Encoder()))


def _extra_costs(folder: Path, sizes: _Sizes, seed: int) -> list[tuple[str, str, float]]:
    """Measure by processor time what late objects, and rejects, cost more than the same reports in order; passes by turns."""
    plain, late, bad = folder / "plain.csv", folder / "late.csv", folder / "bad.csv"
    _synthetic_csv(plain, min(sizes.objects, _EXTRA_ROWS), seed)
    head, *body = plain.read_text("utf-8").splitlines(keepends=True)
    rng = np.random.default_rng(seed)
    disorder = np.argsort(np.arange(len(body)) + rng.random(len(body)) * _LATE_BY)
    late.write_text(head + "".join(body[row] for row in disorder.tolist()), "utf-8")
    outside = (rng.random(len(body)) < 0.5).tolist()
    bad.write_text(
        head + "".join(_outside(line) if out else line for line, out in zip(body, outside, strict=True)), "utf-8"
    )
    cases = ((plain, PLAIN_FORM), (late, ObjectForm(lateness_ms=_LATE_BY * _STEP_MS)), (bad, PLAIN_FORM))
    spent: list[list[float]] = [[], [], []]
    for _ in range(2 * sizes.passes):
        for times, (source, form) in zip(spent, cases, strict=True):
            started = time.process_time()
            for _chunk in read_objects(source, space=GLOBE, encoder=Encoder(), form=form):
                pass
            times.append(time.process_time() - started)
    base, reordered, rejected = map(min, spent)
    return [
        ("reordering_cost", f"CSV, up to {_LATE_BY} records late", reordered / base - 1),
        ("rejects_cost", "CSV, half of it rejected", rejected / base - 1),
    ]


def _outside(line: str) -> str:
    """Return a record whose longitude is outside of the space."""
    name, ts, lon, rest = line.split(",", 3)
    return f"{name},{ts},9{lon.lstrip('-')},{rest}"


def _first(records: Iterator[Any], count: int) -> int:
    """Take records until there are enough; return how many there were."""
    done = 0
    for _ in records:
        done += 1
        if done == count:
            break
    return done


def _python_object(record: Any) -> tuple[Any, ...]:
    moment = datetime.fromisoformat(record["ts"])
    return (record["id"], moment, float(record["lon"]), float(record["lat"]), tokenise(record["text"]))


def _python_csv(path: Path) -> Iterator[Any]:
    opened = gzip.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".gz" else open(path, newline="")  # noqa: SIM115
    with opened as file:
        yield from map(_python_object, csv.DictReader(file))


def _python_jsonl(path: Path) -> Iterator[Any]:
    with open(path, encoding="utf-8") as file:
        yield from map(_python_object, map(json.loads, file))


def _python_parquet(path: Path) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from map(_python_object, batch.to_pylist())


def _python_parquet_ids(path: Path) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            for record in batch.to_pylist():
                yield record["id"], record["ts"], record["x"], record["y"], frozenset(record["keyword_ids"])


def _queries(folder: Path, sizes: _Sizes, seed: int) -> tuple[float, float]:
    """Measure registrations of range, knn and topk queries with two keywords."""
    rng = np.random.default_rng(seed)
    path = folder / "queries.jsonl"
    with open(path, "w", encoding="utf-8") as out:
        places = rng.random((sizes.queries, 2)) * 0.9
        words = rng.integers(0, _WORDS, (sizes.queries, 2))
        for number, ((x, y), pair) in enumerate(zip(places.tolist(), words.tolist(), strict=True)):
            kind = ("range", "range", "knn", "topk")[number % 4]
            asked: dict[str, Any] = {"op": "register", "id": f"q{number}", "ts": number // 10, "type": kind}
            asked |= {"keywords": [f"word{n}" for n in pair]}
            asked |= (
                {"region": {"rect": [x, y, x + 0.01, y + 0.01]}, "ttl": 60_000} if kind == "range" else {"at": [x, y]}
            )
            asked |= {"k": 10} if kind != "range" else {}
            asked |= {"alpha": 0.4} if kind == "topk" else {}
            out.write(json.dumps(asked) + "\n")
    space = Rect(0, 0, 1, 1)

    def columns() -> int:
        chunks = read_queries(path, space=space, encoder=Encoder(), open_queries=OpenQueries())
        return sum(len(chunk.batch) for chunk in chunks)

    def records() -> int:
        rules = QueryRules(space, "euclidean", 100)
        with open(path, encoding="utf-8") as file:
            return _first((read_query(json.loads(line), rules) for line in file), sizes.baseline)

    columns()
    return _best(sizes.passes, columns), _best(2, records)


def _matches(sizes: _Sizes) -> tuple[float, float]:
    """Measure lines of matches between queries with names and objects with numbers."""
    n = sizes.matches
    query = Ids("text", pa.array([f"q{number}" for number in range(10_000)]).take(pa.array(np.arange(n) % 10_000)))
    batch = MatchBatch(query, np.arange(n), Ids("int", np.arange(n)))
    first = batch.slice(0, sizes.baseline)

    def columns() -> int:
        result_lines(batch)
        return n

    def records() -> int:
        rows = zip(first.query.to_list(), first.ts.tolist(), first.object.to_list(), strict=True)
        made = [json.dumps({"query": query, "ts": ts, "object": found}) for query, ts, found in rows]
        return len("\n".join(made).encode()) and len(made)

    return _best(sizes.passes, columns), _best(2, records)
