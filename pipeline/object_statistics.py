"""What DkM-SKS and the others ask of O_init, the first objects of the data (DkM-SKS, Sections 3.1, 3.2 and 4.1).

|O_lambda| and P(lambda), the number of objects in each cell of the fine grid, and |O_{R,lambda}| for every R that is made of
cells of a coarser grid: counts by cell and keyword, kept sparse.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from pipeline.cell_counts import WHOLE_CELL, cell_keyword_counts, counts_of
from pipeline.prepared_rows import numbered_rows
from pipeline.session import DEFAULT_MASTER, Progress, silent, spark_session
from streams.columns import Ints
from streams.errors import InputError
from streams.files.prepared import Manifest, load_manifest
from streams.geometry import Rect

__all__ = ["KEYWORD_SIDE", "ObjectStatistics", "load_object_statistics", "object_statistics"]

#: Cells along each side of the grid that keywords are counted on: a keyword's places at the scale of a partition.
KEYWORD_SIDE = 64

_VERSION = 1
_FOLDER, _FACTS, _COUNTS = "statistics", "objects.json", "objects"


@dataclass(frozen=True, slots=True, eq=False)
class ObjectStatistics:
    """Counts over O_init.

    Attributes:
        objects: |O_init|.
        span_ms: the time that these objects arrived over, at least 1.
        cells: the fine grid.
        in_cell: objects by fine cell (rows x columns).
        keyword_cells: the coarser grid of the pairs.
        cell: the cell of each pair, on the coarser grid.
        keyword: the keyword of each pair; pairs are in order of cell, then keyword.
        count: |O_{cell,keyword}|.
    """

    objects: int
    span_ms: int
    cells: FineGrid
    in_cell: Ints
    keyword_cells: FineGrid
    cell: Ints
    keyword: Ints
    count: Ints

    def keyword_counts(self) -> tuple[Ints, Ints]:
        """Return the keywords that occur, ascending, and |O_lambda| of each."""
        words, place = np.unique(self.keyword, return_inverse=True)
        return words, np.bincount(place, self.count, minlength=len(words)).astype(np.int64)

    def probabilities(self, keywords: Ints) -> Any:
        """Return P(lambda) = |O_lambda| / |O_init| of each keyword; 0 for one that does not occur."""
        words, counts = self.keyword_counts()
        place = np.searchsorted(words, keywords)
        known = np.append(words, -1)[place] == keywords
        return np.where(known, np.append(counts, 0)[place], 0) / max(self.objects, 1)


def object_statistics(
    data: str | Path,
    *,
    initial: int | None = 1_000_000,
    side: int = DEFAULT_SIDE,
    keyword_side: int = KEYWORD_SIDE,
    master: str = DEFAULT_MASTER,
    progress: Progress = silent,
) -> ObjectStatistics:
    """Count O_init (the first `initial` objects; None: all) and keep the counts in the data set's folder."""
    manifest = load_manifest(data)
    fine, coarse = FineGrid(manifest.space, side, side), FineGrid(manifest.space, keyword_side, keyword_side)
    progress("starting Spark", 0.0)
    spark = spark_session(master)
    progress("counting objects by cell and keyword", 0.2)
    rows = numbered_rows(spark, data, initial).select("x", "y", "keyword_ids")
    folder = Path(data) / _FOLDER
    shutil.rmtree(folder / _COUNTS, ignore_errors=True)
    (folder / _FACTS).unlink(missing_ok=True)
    cell_keyword_counts(rows, fine, coarse).write.parquet(str(folder / _COUNTS))
    objects = manifest.rows if initial is None else min(initial, manifest.rows)
    facts = {
        "version": _VERSION,
        "objects": objects,
        "span_ms": max(_time_of(data, manifest, objects - 1) - manifest.first_ts, 1),
        "space": list(manifest.space.as_tuple()),
        "side": side,
        "keyword_side": keyword_side,
    }
    (folder / _FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    progress("done", 1.0)
    return load_object_statistics(data)


def _time_of(data: str | Path, manifest: Manifest, row: int) -> int:
    """Return the timestamp of the object in this place."""
    for file in manifest.files:
        if row < file.rows:
            return int(pq.read_table(Path(data) / file.path, columns=["ts"])["ts"][row].as_py())
        row -= file.rows
    raise InputError(f"{data} has fewer objects than its manifest says; prepare it again")


def load_object_statistics(data: str | Path) -> ObjectStatistics:
    """Read the counts of O_init; raise `InputError` where there are none of this version."""
    folder = Path(data) / _FOLDER
    try:
        facts = json.loads((folder / _FACTS).read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / _FACTS} cannot be read ({error}); count the objects of {data} again") from error
    if facts.get("version") != _VERSION:
        raise InputError(f"{folder / _FACTS} has version {facts.get('version')!r}, expected {_VERSION}; count again")
    space = Rect(*facts["space"])
    cell, keyword, count = counts_of(pq.read_table(folder / _COUNTS, columns=["cell", "keyword", "n"]))
    fine = FineGrid(space, facts["side"], facts["side"])
    whole = keyword == WHOLE_CELL
    in_cell = np.zeros(fine.cells, np.int64)
    in_cell[cell[whole]] = count[whole]
    cell, keyword, count = cell[~whole], keyword[~whole], count[~whole]
    order = np.lexsort((keyword, cell))
    return ObjectStatistics(
        objects=facts["objects"],
        span_ms=facts["span_ms"],
        cells=fine,
        in_cell=in_cell.reshape(fine.rows, fine.columns),
        keyword_cells=FineGrid(space, facts["keyword_side"], facts["keyword_side"]),
        cell=cell[order],
        keyword=keyword[order],
        count=count[order],
    )
