"""SSTD's query distribution statistics J (Section 4.1.1, Figure 5), as counts.

For every cell of a quadtree: the probability p of each of the six query types to reach it, E_obj (objects that arrive in it
a millisecond), M_srq and M_skq (the distribution of the keywords of SRQ and SKQ), and the distributions of the number of
query keywords and of the length of time windows.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.quadtree_counts import ancestors, cell_number, tree_grid
from streams.columns import Ints
from streams.errors import InputError
from streams.geometry import Rect

__all__ = [
    "DEFAULT_DEPTH",
    "KEYWORD",
    "LENGTH",
    "QUERIES",
    "QUERY_KINDS",
    "WINDOW",
    "QueryStatistics",
    "cell_at",
    "load_query_statistics",
    "save_query_statistics",
]

DEFAULT_DEPTH = 6

#: The six types in the order of SSTD's Equation 2.
QUERY_KINDS = ("srq", "skq", "stq", "crq", "ckq", "ctq")

#: What a count is of: queries of a kind, a keyword of them, their number of keywords, their time window.
QUERIES, KEYWORD, LENGTH, WINDOW = 0, 1, 2, 3

_VERSION = 1

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryStatistics:
    """J. Counts are rows in order of cell; see `pipeline.quadtree_counts` for what `below` means.

    Attributes:
        space: what the root covers.
        depth: levels below the root.
        totals: the number of queries of each of `QUERY_KINDS`.
        rejected: lines of the query files that could not be used.
        objects: objects by cell of the deepest level (rows x columns).
        span_ms: the time that they arrived over.
        cell: where each count is noted.
        below: whether it counts for all cells inside as well.
        what: queries, keywords, numbers of keywords or windows.
        kind: the query kind.
        key: the keyword, the number of keywords, or the milliseconds.
        count: how many queries.
    """

    space: Rect
    depth: int
    totals: Ints
    rejected: int
    objects: Ints
    span_ms: int
    cell: Ints
    below: NDArray[np.bool_]
    what: Ints
    kind: Ints
    key: Ints
    count: Ints

    def prior(self) -> Floats:
        """Return Pr(srq), Pr(skq), ...: the probability that a query is of each kind."""
        return np.asarray(self.totals / max(int(self.totals.sum()), 1))

    def overlap(self, cell: int) -> Floats:
        """Return p_srq, p_skq, ...: the share of the queries of each kind that reach a cell."""
        rows = self._rows(cell)
        rows = rows[self.what[rows] == QUERIES]
        return np.asarray(np.bincount(self.kind[rows], self.count[rows], minlength=6) / np.maximum(self.totals, 1))

    def keywords(self, cell: int, kind: int) -> tuple[Ints, Floats]:
        """Return M_srq or M_skq (`kind` SRQ or SKQ) of a cell: the keywords, ascending, and their probabilities."""
        return self._distribution(cell, KEYWORD, kind)

    def lengths(self, cell: int, kind: int) -> tuple[Ints, Floats]:
        """Return the numbers of keywords of a kind of query that reaches a cell, and their probabilities."""
        return self._distribution(cell, LENGTH, kind)

    def windows(self, cell: int, kind: int) -> tuple[Ints, Floats]:
        """Return time windows in ms of a kind of query that reaches a cell, and their probabilities.

        It is how far a snapshot looks back (-1: all so far) and how long a continuous query lives.
        """
        return self._distribution(cell, WINDOW, kind)

    def arrival_rate(self, cell: int) -> float:
        """Return E_obj, the objects that arrive in a cell a millisecond."""
        level = len(ancestors(cell)) - 1
        place, wide = cell - (4**level - 1) // 3, 1 << (self.depth - level)
        column, row = place % (1 << level) * wide, (place >> level) * wide
        return float(self.objects[row : row + wide, column : column + wide].sum() / self.span_ms)

    def _distribution(self, cell: int, what: int, kind: int) -> tuple[Ints, Floats]:
        rows = self._rows(cell)
        rows = rows[(self.what[rows] == what) & (self.kind[rows] == kind)]
        keys, place = np.unique(self.key[rows], return_inverse=True)
        counts = np.bincount(place, self.count[rows], minlength=len(keys))
        return keys, np.asarray(counts / max(counts.sum(), 1))

    def _rows(self, cell: int) -> Ints:
        """Return the counts that are about a cell: its own, and those below its ancestors."""
        found = []
        for up in ancestors(cell):
            first, stop = np.searchsorted(self.cell, [up, up + 1])
            rows = np.arange(first, stop)
            found.append(rows if up == cell else rows[self.below[rows]])
        return np.concatenate(found)


def save_query_statistics(statistics: QueryStatistics, folder: str | Path) -> None:
    """Write J to a folder of its own, which is replaced."""
    folder = Path(folder)
    if folder.exists() and not (folder / "query_statistics.json").exists() and any(folder.iterdir()):
        raise InputError(f"{folder} holds something else; name a new folder for the query statistics")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = ("cell", "below", "what", "kind", "key", "count")
    pq.write_table(pa.table({name: getattr(statistics, name) for name in names}), folder / "counts.parquet")
    pq.write_table(pa.table({"objects": statistics.objects.ravel()}), folder / "objects.parquet")
    facts = {
        "version": _VERSION,
        "space": list(statistics.space.as_tuple()),
        "depth": statistics.depth,
        "totals": dict(zip(QUERY_KINDS, statistics.totals.tolist(), strict=True)),
        "rejected": statistics.rejected,
        "span_ms": statistics.span_ms,
    }
    (folder / "query_statistics.json").write_text(json.dumps(facts, indent=2) + "\n")


def load_query_statistics(folder: str | Path) -> QueryStatistics:
    """Read J; raise `InputError` for another version or a damaged folder."""
    path = Path(folder) / "query_statistics.json"
    try:
        facts = json.loads(path.read_text())
        if facts.get("version") != _VERSION:
            raise InputError(f"{path} has version {facts.get('version')!r}, expected {_VERSION}; count again")
        counts = pq.read_table(Path(folder) / "counts.parquet")
        objects = pq.read_table(Path(folder) / "objects.parquet")["objects"].to_numpy()
        wide = 1 << facts["depth"]
        return QueryStatistics(
            space=Rect(*facts["space"]),
            depth=facts["depth"],
            totals=np.array([facts["totals"][kind] for kind in QUERY_KINDS], np.int64),
            rejected=facts["rejected"],
            objects=objects.reshape(wide, wide),
            span_ms=facts["span_ms"],
            **{name: counts[name].to_numpy() for name in ("cell", "below", "what", "kind", "key", "count")},
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{folder} holds no query statistics ({error!r}); count them again") from error


def cell_at(statistics: QueryStatistics, level: int, x: float, y: float) -> int:
    """Return the cell of a level that holds a place."""
    grid = tree_grid(statistics.space, level)
    cell = grid.cells_of(np.array([x]), np.array([y]))
    return int(cell_number(level, cell % grid.columns, cell // grid.columns)[0])
