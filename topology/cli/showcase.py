"""A few results in words: who asked for what, and what they were told."""

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console

from streams.batches import Batch, MatchBatch
from topology.amendments import source_of
from topology.declaration import Topology
from topology.validation import make_operator

__all__ = ["print_alerts"]


def print_alerts(console: Console, topology: Topology, sample: Iterable[Batch]) -> None:
    """Tell sampled matches as sentences, in the order of time."""
    matches = sorted(
        (ts, query, thing)
        for batch in sample
        if isinstance(batch, MatchBatch)
        for query, ts, thing in zip(batch.query.to_list(), batch.ts.tolist(), batch.object.to_list(), strict=True)
    )
    texts = _texts(_paths(topology, "leads"), {str(thing) for _, _, thing in matches})
    asked = _questions(_paths(topology, "follows"), {str(query) for _, query, _ in matches})
    console.print("Some of the alerts", style="bold")
    for ts, query, thing in matches:
        when = datetime.fromtimestamp(ts / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        asks = f"{'':20}for {query}: {_question(asked.get(str(query)))}"
        console.print(f"  {when}  {texts.get(str(thing), thing)}", highlight=False, markup=False, soft_wrap=True)
        console.print(asks, style="dim", highlight=False, markup=False, soft_wrap=True)
    console.print()


def _paths(topology: Topology, pace: str) -> list[Path]:
    found: list[Path] = make_operator(source_of(topology, pace), topology).files()
    return found


def _texts(paths: list[Path], wanted: set[str]) -> dict[str, str]:
    """Return what the objects say, by id as text."""
    found: dict[str, str] = {}
    for path in paths:
        for row in _records(path):
            if str(row.get("id")) in wanted:
                found[str(row["id"])] = row.get("text") or " ".join(row.get("keywords") or ())
    return found


def _records(path: Path) -> Iterator[dict[str, Any]]:
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".parquet"):
        table = pq.read_table(path)
    elif name.endswith(".csv"):
        table = pa.csv.read_csv(path)
    else:
        with _open_text(path) as lines:
            yield from map(json.loads, lines)
        return
    for batch in table.select([c for c in ("id", "text", "keywords") if c in table.column_names]).to_batches():
        yield from batch.to_pylist()


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return io.TextIOWrapper(pa.input_stream(str(path)), encoding="utf-8")


def _questions(paths: list[Path], wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Return the registrations of some queries, by id as text."""
    return {
        str(line["id"]): line
        for path in paths
        for line in _records(path)
        if line.get("op") == "register" and str(line.get("id")) in wanted
    }


def _question(line: dict[str, Any] | None) -> str:
    if line is None:
        return "a standing question"
    joint = " or " if line.get("match") == "any" else " and "
    words = joint.join(f"'{word}'" for word in line.get("keywords", ())) or "anything"
    region = line.get("region", {})
    if "circle" in region:
        x, y, radius = region["circle"]
        return f"{words} within {radius:g} of ({x:g}, {y:g})"
    if "rect" in region:
        a, b, c, d = region["rect"]
        return f"{words} in the rectangle from ({a:g}, {b:g}) to ({c:g}, {d:g})"
    return words
