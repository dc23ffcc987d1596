"""Snapshots of range indexes: the keywords of queries, as ascending rows, however many there are."""

import numpy as np
import pytest

from benchmarks.synthetic_stream import registrations
from operators.indexes import make_range_index
from streams.geometry import Rect


def queries_with(rows):
    """Registrations with these rows of keywords."""
    kw_off = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=kw_off[1:])
    shape = np.tile([0.25, 0.25, 0.5, 0.5], (len(rows), 1))
    return registrations(np.arange(len(rows)), shape, kw_off, np.concatenate(rows).astype(np.int64))


@pytest.mark.parametrize("longest", [3, 64, 65, 300])
def test_snapshot_has_keywords_in_ascending_rows(longest):
    """Frequent words come last within an index; what is saved does not depend on that, nor on how long a row is."""
    random = np.random.default_rng(longest)
    rows = [np.sort(random.choice(1_000, random.integers(0, 4), replace=False)) for _ in range(50)]
    rows.append(np.sort(random.choice(1_000, longest, replace=False)))
    index = make_range_index("kag", Rect(0.0, 0.0, 1.0, 1.0))
    index.insert(queries_with(rows))
    saved = index.snapshot()
    found = [saved["kw"][a:b].tolist() for a, b in zip(saved["kw_off"][:-1], saved["kw_off"][1:], strict=True)]
    assert found == [row.tolist() for row in rows]
