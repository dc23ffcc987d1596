"""Plain, single-process references for the offline plane, and the raw data that its tests are made of."""

import csv
import gzip
import io
import json
import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from streams.tokens import tokenise

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["Café", "ＷＩＤＥ", "Straße", "naïve", "日本", "The", "a", "x7", "ﬁsh", "RAMEN"]


def raw_rows(count, seed=7):
    """Return raw records as strings: ties in time, repeated ids, and faults of every kind."""
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(list(LETTERS), 4)) for _ in range(200)]
    words = SPECIAL + made
    weights = 1.0 / np.arange(1, len(words) + 1)
    rows = []
    for number in range(count):
        picked = rng.choice(words, rng.integers(0, 9), p=weights / weights.sum())
        row = {
            "id": str(number),
            "ts": str(1_000_000 + int(rng.integers(0, count // 3)) * 10),
            "lon": repr(float(rng.normal(10, 3))),
            "lat": repr(float(rng.normal(45, 2))),
            "text": rng.choice([" ", ", ", "; "]).join(picked),
        }
        rows.append(row)
    for place, change in enumerate(
        [{"lon": ""}, {"lat": "north"}, {"ts": "yesterday"}, {"ts": ""}, {"id": ""}, {"lat": "91.5"}, {"lon": "inf"}]
        + [{"id": "3"}] * 4
        + [{"ts": "1970-01-01T00:17:00Z"}, {"ts": "1970-01-01T01:17:30.250+01:00"}, {"ts": "1970-01-01 00:18:00"}]
    ):
        rows[place * 5 + 10].update(change)
    return rows


def csv_bytes(rows):
    """Return rows as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "ts", "lon", "lat", "text"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def write_csv(path, rows):
    """Write rows as CSV, packed where the name says so."""
    data = csv_bytes(rows)
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def write_jsonl(path, rows):
    """Write rows as JSONL: numbers as numbers where they are some, missing values left out."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            record = {key: value for key, value in row.items() if value != ""}
            if "id" in record:
                record["id"] = int(record["id"])
            file.write(json.dumps(record) + "\n")


@dataclass
class Expected:
    """What a prepared data set must hold."""

    objects: list
    words: list
    df: list
    rejects: Counter


def _ts(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return math.floor(moment.timestamp() * 1000 + 0.0001)


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan


def _fault(row):
    x, y, ts = _number(row["lon"] or "nan"), _number(row["lat"] or "nan"), _ts(row["ts"])
    if not row["id"]:
        return "no id"
    if not row["lon"] or not row["lat"]:
        return "no coordinate"
    if not math.isfinite(x) or not math.isfinite(y) or abs(x) > 180 or abs(y) > 90:
        return "bad coordinate"
    if row["ts"] and ts is None:
        return "bad ts"
    return None if row["ts"] else "no ts"


def expected(rows, untimed=False):
    """Prepare rows, given in the order of the input, one at a time."""
    rejects = Counter()
    usable = []
    for place, row in enumerate(rows):
        fault = _fault(row)
        if fault is None or (untimed and fault == "no ts"):
            usable.append(((0 if untimed else _ts(row["ts"]), place), row))
        else:
            rejects[fault] += 1
    usable.sort(key=lambda item: item[0])
    seen = set()
    kept = []
    for (ts, _), row in usable:
        if row["id"] in seen:
            rejects["duplicate id"] += 1
            continue
        seen.add(row["id"])
        kept.append((row, ts, tokenise(row["text"])))
    counts = Counter(word for _, _, words in kept for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(ranked)}
    objects = [
        (int(row["id"]), ts, float(row["lon"]), float(row["lat"]), sorted(rank[word] for word in words))
        for row, ts, words in kept
    ]
    return Expected(objects, ranked, [counts[word] for word in ranked], rejects)
