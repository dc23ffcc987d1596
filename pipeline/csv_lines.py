"""CSV records from lines, many at a time: Arrow parses them several times faster than Spark's own reader.

Spark hands lines over as bytes. A record that goes over a line's end cannot be told from lines alone: such a line has an odd
number of quotes. It is marked as torn, and where there are any, the files are read again by Spark's reader.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from pipeline.inputs import RawColumns
from pipeline.split_rows import SplitRows, source_numbers

__all__ = ["csv_records"]

Flags = NDArray[np.bool_]


def csv_records(
    batches: Iterable[pa.RecordBatch], header: Sequence[str], columns: RawColumns, sources: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    """Turn batches of lines (`line`, `path`, `block`, `place`) into raw records, as `pipeline.cleaning.Cleaner` reads them.

    The header, which is the first line of a file's first split, is left out.
    """
    splits = SplitRows()
    for batch in batches:
        if not batch.num_rows:
            continue
        block = batch["block"].to_numpy(zero_copy_only=False)
        place = batch["place"].to_numpy(zero_copy_only=False)
        row = splits.rows(source_numbers(batch["path"], sources), block, place)
        yield _records(batch.filter(pa.array((block > 0) | (row > 0))), header, columns)


def _records(batch: pa.RecordBatch, header: Sequence[str], columns: RawColumns) -> pa.RecordBatch:
    lines = batch["line"].to_pylist()
    torn = np.array([line.count(b'"') % 2 == 1 for line in lines], np.bool_)
    fields, misfit = _fields(lines, torn, header, columns)
    if fields is None:
        torn = np.ones(len(lines), np.bool_)
        fields = dict.fromkeys(columns.names(), pa.nulls(len(lines), pa.binary()))
    nothing = pa.nulls(len(lines), pa.binary())
    broken = [line if wrong else None for line, wrong in zip(lines, misfit, strict=True)] if misfit.any() else None
    made = {
        "id": fields[columns.id],
        "id_kind": pa.nulls(len(lines), pa.string()),
        "ts": fields[columns.ts] if columns.ts else nothing,
        "x": fields[columns.x],
        "y": fields[columns.y],
        "words": fields[columns.words],
        "broken": nothing if broken is None else pa.array(broken, pa.binary()),
        "valid": pa.array(np.ones(len(lines), np.bool_)),
        "torn": pa.array(torn),
        **{name: batch[name] for name in ("path", "block", "place")},
    }
    return pa.RecordBatch.from_arrays(list(made.values()), list(made))


def _fields(
    lines: list[bytes], torn: Flags, header: Sequence[str], columns: RawColumns
) -> tuple[dict[str, Any] | None, Flags]:
    """Return the wanted fields of each line as bytes, null where there are none, and the lines with too many or too few.

    None: Arrow took the lines for another number of records than there are, so it cannot be trusted with them.
    """
    misfit = np.zeros(len(lines), np.bool_)
    kept = np.flatnonzero(~torn)
    names = columns.names()
    if len(kept) == 0:
        return dict.fromkeys(names, pa.nulls(len(lines), pa.binary())), misfit
    data = b"\n".join(lines if len(kept) == len(lines) else [lines[row] for row in kept])

    def note(row: pyarrow.csv.InvalidRow) -> str:
        misfit[kept[row.number - 1]] = True
        return "skip"

    table = pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(column_names=list(header), use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=note),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.binary()),
            include_columns=names,
            null_values=[],
            strings_can_be_null=False,
        ),
    ).combine_chunks()
    good = np.flatnonzero(~torn & ~misfit)
    if table.num_rows != len(good):
        return None, misfit
    fields = {name: _whole(table[name]) for name in names}
    if len(good) == len(lines):
        return fields, misfit
    place = np.full(len(lines), -1, np.int64)
    place[good] = np.arange(len(good))
    rows = pa.array(place, mask=place < 0)
    return {name: column.take(rows) for name, column in fields.items()}, misfit


def _whole(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], pa.binary())])
