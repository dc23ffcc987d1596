"""Run a topology from a program: records in, results out, as plain values."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams.errors import DeclarationError, InputError, RunError
from streams.event_log import EventLog
from streams.files.included_columns import objects_in, with_columns
from topology.amendments import result_sink, source_of, with_options, with_results
from topology.declaration import Component
from topology.disturbances import Disturbance, with_disturbances
from topology.given import Given, Source, declared, with_sources
from topology.included import lookup_in
from topology.kernel_notice import WORTH_A_WORD, kernel_notice
from topology.odd_input import nothing_matched, odd_input, warnings_of
from topology.run import Progress
from topology.run import run as run_topology
from topology.validation import validate

__all__ = ["Run", "run"]

Line = dict[str, Any]

log = EventLog()

#: What a row of `Run.rows` has; a result has those that its query type knows.
_COLUMNS = pa.schema(
    [
        ("query", pa.string()), ("ts", pa.int64()), ("rank", pa.int64()), ("object", pa.string()),
        ("detect", pa.string()), ("value", pa.float64()), ("term", pa.string()), ("count", pa.int64()),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What came of a run.

    Attributes:
        summary: as `waterspout run --summary` writes it.
        lines: the results, as a results file has them; none where a callback took them.
    """

    summary: Mapping[str, Any]
    lines: Sequence[Line] = field(default_factory=list)

    def rows(self) -> Iterator[Line]:
        """Yield results as flat rows: one for each match or event, and one for each place of a list, from rank 1 on.

        A list with nothing in it is a row without an object, so that no answer is lost.
        """
        for line in self.lines:
            if "query" not in line or "ts" not in line:
                yield line  # of a bolt that is no evaluator
                continue
            head = {"query": line["query"], "ts": line["ts"]}
            more = line.get("columns", {})
            if "object" in line:
                yield {**head, **{name: line[name] for name in ("object", "detect") if name in line}, **_beside(more)}
            elif not (items := line.get("terms", line.get("objects"))):
                yield head
            else:
                for rank, item in enumerate(items, 1):
                    beside = _beside(more[rank - 1]) if more else {}
                    yield {**head, "rank": rank, **_item(item, "terms" in line), **beside}

    def to_arrow(self) -> pa.Table:
        """Return `rows` as a table; identifiers are texts."""
        rows = [{**row, **{name: str(row[name]) for name in ("query", "object") if name in row}} for row in self.rows()]
        known = set(_COLUMNS.names)
        if any("query" not in row for row in rows):
            return pa.Table.from_pylist(rows)
        if others := list(dict.fromkeys(name for row in rows for name in row if name not in known)):
            beside = pa.table({name: pa.array([row.get(name) for row in rows]) for name in others})
            results = pa.Table.from_pylist(
                [{k: v for k, v in row.items() if k in known} for row in rows], schema=_COLUMNS
            )
            return pa.table({**_by_name(results), **_by_name(beside)})
        return pa.Table.from_pylist(rows, schema=_COLUMNS)

    def to_pandas(self) -> Any:
        """Return `rows` as a data frame (needs pandas); identifiers are texts."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        told = ", ".join(f"{self.summary[name]:,} {name}" for name in ("objects", "queries", "results", "rejected"))
        return f"Run({told}, {self.summary['seconds']:.2f} s)"


def _by_name(table: pa.Table) -> dict[str, Any]:
    return {name: table.column(name) for name in table.column_names}


def _beside(columns: Mapping[str, Any]) -> Line:
    """Return included columns under names that no column of results has."""
    return {f"object_{name}" if name in _COLUMNS.names else name: value for name, value in columns.items()}


def _item(item: Any, terms: bool) -> Line:
    if terms:
        return {"term": item[0], "count": item[1]}
    return {"object": item[0], "value": item[1]} if isinstance(item, list) else {"object": item}


def _say_compiling(count: int, _seconds: float) -> None:
    if count == WORTH_A_WORD:
        log.warning("compiling kernels, once on this machine: up to a minute")


@contextmanager
def _naming(folder: str) -> Iterator[None]:
    """Say "objects.parquet" of records that a program gave, not where they were put."""
    try:
        yield
    except InputError as error:
        if folder not in str(error):
            raise
        raise InputError(str(error).replace(f"{folder}{os.sep}", "")) from None


def _unused(sink: Component) -> list[str]:
    """Say that a declared sink does nothing here, where somebody may wait for what it writes or does."""
    if sink.operator in ("count", "collect") or sink.options.get("path") == "-":
        return []
    return [
        f"results come to the program, so the declared sink '{sink.name}' ({sink.operator}) is not run; to have both, call it "
        "something else and declare a bolt 'sink' (collect) that reads the same"
    ]


class _Lines:
    """Takes the bytes that a sink writes, and passes on the lines in them."""

    def __init__(self, take: Callable[[Line], object]) -> None:
        self._take, self._rest = take, b""

    def __call__(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._take(json.loads(line))


def run(
    topology: Given,
    *,
    objects: Source | None = None,
    queries: Source | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    on_result: Callable[[Line], object] | None = None,
    include: Sequence[str] = (),
    settings: Sequence[str] = (),
    inject: Sequence[Disturbance] = (),
    runtime: str | None = None,
    address: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    resume: str | Path | None = None,
) -> Run:
    """Run a topology to the end of its input; results come to the program, in place of the sink that is declared.

    Args:
        topology: a TOML file, a topology, or a builder.
        objects: what to read instead of the declared objects: a file, records as a JSONL file has them (dictionaries; times
            may be datetimes; an iterable is read to its end before the run begins), or a table (pandas, Polars, Arrow).
        queries: the same for query operations.
        columns: what columns of objects are called, as in ``{"lon": "east", "text": ["title", "body"]}``.
        on_result: is called with each result, a line of a results file as a dictionary, as soon as it is certain. Without it,
            results are kept in `Run.lines`, at most `topology.limits.collected` of them.
        include: columns of the objects that results have beside them (`Run.lines` under ``columns``, `rows` and tables under
            their names); they are looked up when the run has ended, so not with `on_result`.
        settings: overrides such as ``bolt.evaluator.parallelism=8``.
        inject: hotspots and faults: the keys of an ``[[inject]]`` table each.
        runtime: ``local`` or ``ray``; as declared where it is not given.
        address: an existing Ray cluster.
        on_progress: is called after each complete epoch.
        resume: go on from the newest whole checkpoint in this folder or at this URL.
    """
    lines: list[Line] = []
    include = [include] if isinstance(include, str) else include
    wanted = declared(topology, settings, check=objects is None and queries is None and columns is None)
    limit = wanted.settings.limits.collected

    def keep(line: Line) -> None:
        if len(lines) == limit:
            raise RunError(
                f"more than {limit:,} results to keep in memory; give on_result a function that takes them one by one, "
                "or raise topology.limits.collected"
            )
        lines.append(line)

    with tempfile.TemporaryDirectory(prefix="waterspout-") as folder, _naming(folder):
        wanted = with_disturbances(with_sources(wanted, Path(folder), objects, queries), inject)
        if columns is not None:
            wanted = with_options(wanted, source_of(wanted, "leads").name, {"columns": dict(columns)})
        replaced, wanted = result_sink(wanted), with_results(wanted, "-")
        validate(wanted)
        if include and on_result is not None:
            raise DeclarationError(
                "include looks columns up when the run has ended; take Run.lines instead of on_result"
            )
        lookup = lookup_in(wanted, list(include)) if include else None
        with kernel_notice(_say_compiling):
            for odd in (*_unused(replaced), *odd_input(wanted, in_python=True)):
                log.warning(odd)
            outcome = run_topology(
                wanted,
                runtime=runtime,
                address=address,
                on_progress=on_progress,
                on_bytes=_Lines(on_result or keep),
                resume=resume,
            )
        if lookup is not None:
            found = lookup({str(one) for line in lines for one in objects_in(line)})
            lines = [with_columns(line, found) for line in lines]
        for text in warnings_of(wanted, outcome.summary, "summary['reject_reasons'] has the reasons", in_python=True):
            log.warning(text)
        if (told := nothing_matched(wanted, outcome.summary, in_python=True)) is not None:
            log.warning(told)
    return Run(outcome.summary, lines)
