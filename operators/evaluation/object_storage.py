"""Persistent storage of objects that leave memory (SSTD, Section 3.2): Parquet files by interval of time, and an index of them.

A file holds the objects of one interval that one evaluator kept. What is in a file says its name, so storing it again after a
crash changes nothing, and a file that no index names counts for nothing. The index is part of the evaluator's state: bounds in
space, time and order, and a sketch of the keywords, by which most files need not be read.
"""

import io
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from operators.evaluation.kept_objects import KeptObjects, as_objects
from operators.indexes.objects.object_index import Kept, ObjectIndex
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import Ids, Ints
from streams.errors import DeclarationError, InputError
from streams.geometry import Metric, Rect, region_bounds

__all__ = ["ObjectStorage", "StoredFile"]

#: Files that are held in memory once they were read.
CACHED_FILES = 8

#: Bits of a sketch for each keyword, and how many of them a keyword sets.
_BITS, _HASHES = 8, 2


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What is known of a file without reading it."""

    name: str
    objects: int
    first_ts: int
    last_ts: int
    box: tuple[float, float, float, float]
    sketch: bytes

    def may_have(self, keywords: Ints, *, any_: bool) -> bool:
        """Tell whether some object may have all, or any, of some keywords."""
        if not len(keywords):
            return True
        bits = np.unpackbits(np.frombuffer(self.sketch, np.uint8))
        there = bits[_places(keywords, len(bits))].all(axis=0)
        return bool(there.any() if any_ else there.all())


def _places(keywords: Ints, bits: int) -> NDArray[np.int64]:
    """Return the bits that keywords set, a row for each hash."""
    words = keywords.astype(np.uint64)
    seeds = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)[:_HASHES, None]
    with np.errstate(over="ignore"):
        mixed = (words[None, :] + seeds) * seeds
    return ((mixed >> np.uint64(33)) % np.uint64(bits)).astype(np.int64)


def _sketch(keywords: Ints) -> bytes:
    words = np.unique(keywords)
    bits = np.zeros(max(64, 1 << int(_BITS * max(len(words), 1) - 1).bit_length()), np.uint8)
    bits[_places(words, len(bits))] = 1
    return np.packbits(bits).tobytes()


class ObjectStorage:
    """Files under a folder or a URL, and the index of those that count.

    Args:
        url: a folder, or any URL that fsspec knows.
        interval_ms: how much time a file spans.
        space, metric: of the topology.
        index: makes an index for the objects of a file that was read.
    """

    def __init__(
        self, url: str, interval_ms: int, space: Rect, metric: Metric, index: Callable[[], ObjectIndex]
    ) -> None:
        from fsspec.core import url_to_fs  # it takes a while to load, and few need it

        try:
            self._files, self._folder = url_to_fs(url)
            self._files.makedirs(self._folder, exist_ok=True)
        except (ImportError, OSError, ValueError) as error:
            raise DeclarationError(
                f"cannot store objects in '{url}': {error}; expected a folder, or a URL that fsspec knows", ("storage",)
            ) from error
        self.interval_ms, self._space, self._metric, self._index = interval_ms, space, metric, index
        self.stored: list[StoredFile] = []
        self._read: OrderedDict[str, KeptObjects] = OrderedDict()

    # --- objects come ------------------------------------------------------------------------------------------------

    def store(self, objects: ObjectBatch) -> None:
        """Write objects, a file for each interval; they are there when this returns."""
        interval = objects.ts // self.interval_ms
        starts = np.flatnonzero(np.append(True, interval[1:] != interval[:-1])) if len(objects) else _NO_ROWS
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(objects)], strict=True):
            self._store(objects.slice(start, stop))

    def _store(self, objects: ObjectBatch) -> None:
        digest = blake2b(np.ascontiguousarray(objects.seq).data, digest_size=12).hexdigest()
        name = f"{int(objects.ts[0]) // self.interval_ms * self.interval_ms}-{digest}.parquet"
        buffer = io.BytesIO()
        pq.write_table(_table(objects), buffer, compression="zstd")
        path = f"{self._folder}/{name}"
        self._files.pipe_file(f"{path}.part", buffer.getvalue())
        self._files.mv(f"{path}.part", path)
        x, y, ts = objects.x, objects.y, objects.ts
        box = float(x.min()), float(y.min()), float(x.max()), float(y.max())
        self.stored.append(StoredFile(name, len(objects), int(ts[0]), int(ts[-1]), box, _sketch(objects.kw)))

    # --- questions come ----------------------------------------------------------------------------------------------

    def needed(self, queries: QueryBatch, begin: Ints, instants: Ints) -> Iterator[tuple[StoredFile, Ints]]:
        """Yield the files that some queries need, each with the rows of these."""
        bounds = region_bounds(queries.region, queries.shape, self._space, self._metric)
        for file in self.stored:
            low_x, low_y, high_x, high_y = file.box
            meets = (begin < file.last_ts) & (instants >= file.first_ts)
            meets &= (bounds[0] <= high_x) & (bounds[1] <= high_y) & (bounds[2] >= low_x) & (bounds[3] >= low_y)
            rows = [row for row in np.flatnonzero(meets).tolist() if _asks(file, queries, row)]
            if rows:
                yield file, np.array(rows, np.int64)

    def objects(self, file: StoredFile) -> KeptObjects:
        """Return the objects of a file; raise `InputError` with its name where it is missing or damaged."""
        if file.name in self._read:
            self._read.move_to_end(file.name)
            return self._read[file.name]
        try:
            table = pq.read_table(io.BytesIO(self._files.cat_file(f"{self._folder}/{file.name}")))
            kept = KeptObjects(self._index())
            kept.add(_objects(table))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, InputError) as error:
            raise InputError(f"{self._folder}/{file.name}: cannot be read: {error}") from error
        digest = blake2b(np.ascontiguousarray(kept.log.seq).data, digest_size=12).hexdigest()
        if len(kept) != file.objects or digest not in file.name:
            raise InputError(f"{self._folder}/{file.name}: holds other objects than were stored there")
        self._read[file.name] = kept
        if len(self._read) > CACHED_FILES:
            self._read.popitem(last=False)
        return kept

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the index of files."""
        return [asdict(file) | {"box": list(file.box)} for file in self.stored]

    def restore(self, state: Sequence[dict[str, Any]]) -> None:
        """Take over the index of files."""
        self.stored = [StoredFile(**{**file, "box": tuple(file["box"])}) for file in state]
        self._read.clear()


_NO_ROWS: Ints = np.empty(0, np.int64)


def _asks(file: StoredFile, queries: QueryBatch, row: int) -> bool:
    words = queries.kw[queries.kw_off[row] : queries.kw_off[row + 1]]
    return file.may_have(words, any_=bool(queries.match_any[row]))


def _table(objects: ObjectBatch) -> pa.Table:
    words = pa.ListArray.from_arrays(pa.array(objects.kw_off, pa.int32()), pa.array(objects.kw, pa.int64()))
    columns = {"seq": objects.seq, "ts": objects.ts, "x": objects.x, "y": objects.y, "id": objects.ids.values}
    table = pa.table({**{name: pa.array(column) for name, column in columns.items()}, "keywords": words})
    return table.replace_schema_metadata({"ids": objects.ids.kind})


def _objects(table: pa.Table) -> ObjectBatch:
    table = table.combine_chunks()
    words = table["keywords"].combine_chunks()
    words = words.chunk(0) if isinstance(words, pa.ChunkedArray) else words
    seq, ts, x, y = (np.array(table[name]) for name in ("seq", "ts", "x", "y"))
    kind = table.schema.metadata[b"ids"].decode()
    values = table["id"].combine_chunks()
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    ids = Ids(kind, np.array(values, np.int64) if kind == "int" else values)
    off, kw = np.array(words.offsets, np.int32), np.array(words.values, np.int64)
    return as_objects(Kept(seq, x, y, off, kw), ts, ids)
