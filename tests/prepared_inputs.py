"""Prepared data sets, written without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq

from streams.files.prepared import VOCABULARY, Manifest, ObjectFile, save_manifest
from streams.geometry import Rect


def write_prepared(folder, records, words, parts=1):
    """Write objects (dicts with id, ts, x, y and keywords, all of which are among `words`) as a prepared data set."""
    (folder / "objects").mkdir(parents=True)
    files = []
    for part in range(parts):
        rows = records[len(records) * part // parts : len(records) * (part + 1) // parts]
        ids = [sorted(words.index(word) for word in row["keywords"]) for row in rows]
        columns = {name: [row[name] for row in rows] for name in ("id", "ts", "x", "y")}
        columns |= {"x": pa.array(columns["x"], pa.float64()), "y": pa.array(columns["y"], pa.float64())}
        table = pa.table({**columns, "keyword_ids": pa.array(ids, pa.list_(pa.int64()))})
        files.append(ObjectFile(f"objects/part-{part:05}.parquet", len(rows)))
        pq.write_table(table, folder / files[-1].path)
    df = [sum(word in row["keywords"] for row in records) for word in words]
    pq.write_table(pa.table({"word": words, "df": pa.array(df, pa.int64())}), folder / VOCABULARY)
    times = [row["ts"] for row in records]
    save_manifest(
        folder,
        Manifest(
            rows=len(records), keywords=sum(df), space=Rect(0, 0, 1, 1), first_ts=min(times), last_ts=max(times),
            words=len(words), id_type="int64", text=False, synthetic_rate=None, rejects={}, files=tuple(files),
        ),
    )  # fmt: skip
    return folder
