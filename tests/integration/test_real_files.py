"""Real data sets through the readers, against Python's csv module and the plain tokeniser."""

import csv
import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streams.batches import ObjectBatch
from streams.files.object_files import read_objects
from streams.geometry import Rect
from streams.tokens import tokenise
from streams.vocabulary import Encoder, unseen_id

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "examples" / "data").glob("*.csv.gz"))
BESIDE = [ROOT.parent / "shared" / "data" / f"{name}.csv.gz" for name in (
    "calgary_traffic_incidents", "storm_events_1950_1995", "storm_narratives_long", "simplegeo_places_nm_ut_nv_id",
)]  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(text):
    """Return the milliseconds of an ISO time."""
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize("path", [*SHIPPED, *BESIDE], ids=lambda path: path.name)
def test_real_files_are_read_as_python_reads_them(path):
    """Every accepted row has the id, time, place and keywords that the csv module and the tokeniser give it."""
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    chunks = list(read_objects(path, space=Rect(-180, -90, 180, 90), encoder=Encoder()))
    timeless = [n for n, record in enumerate(expected) if not record["ts"]]
    assert sum(len(chunk.rejects) for chunk in chunks) == len(timeless)
    assert sum(chunk.records for chunk in chunks) == len(expected)
    batch = ObjectBatch.concat([chunk.batch for chunk in chunks])
    rows = [n for n, record in enumerate(expected) if record["ts"]]
    assert batch.seq.tolist() == list(range(len(rows)))
    assert [record for chunk in chunks for record in chunk.record.tolist()] == rows
    assert [str(name) for name in batch.ids.to_list()] == [expected[n]["id"] for n in rows]
    assert batch.ts.tolist() == [milliseconds(expected[n]["ts"]) for n in rows]
    assert batch.x.tolist() == [float(expected[n]["lon"]) for n in rows]
    assert batch.y.tolist() == [float(expected[n]["lat"]) for n in rows]
    for place in range(0, len(rows), 11):
        found = batch.kw[batch.kw_off[place] : batch.kw_off[place + 1]].tolist()
        assert found == sorted(map(unseen_id, tokenise(expected[rows[place]]["text"])))
