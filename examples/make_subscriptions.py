"""Draw subscriptions from the shipped data, as people near these places would word them.

    python examples/make_subscriptions.py OUT.jsonl.gz [regions|nearest|feeds|questions]

Each takes the place and some words of a random record, and wants what is in a region around it, the nearest that have any of
the words, or the best by distance and text; questions are of all kinds, standing and at once, also what is trending. The
shipped `data/subscriptions.jsonl.gz`, `data/nearest.jsonl.gz`, `data/feeds.jsonl.gz` and `data/questions.jsonl.gz` were made
by this script.
"""

import csv
import gzip
import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streams.tokens import tokenise

DATA = Path(__file__).parent / "data"
HOUR_MS = 3_600_000
DEGREE_KM = 111.195  # a degree of latitude


def records(name: str) -> list[dict[str, str]]:
    """Read a shipped file."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def milliseconds(text: str) -> int:
    """Return ISO 8601 as milliseconds; without a zone it is UTC."""
    when = datetime.fromisoformat(text)
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def subscription(number: int, record: dict[str, str], start: int, rng: random.Random) -> dict[str, Any]:
    """Ask for some words of a record around its place."""
    words = sorted(word for word in tokenise(record["text"]) if word.isalpha())
    x, y = float(record["lon"]), float(record["lat"])
    size = round(rng.uniform(0.5, 4.0), 2)
    circle = {"circle": [round(x, 3), round(y, 3), 1_000 * round(size * DEGREE_KM)]}  # metres
    rect = {"rect": [round(x - size, 3), round(y - size / 2, 3), round(x + size, 3), round(y + size / 2, 3)]}
    line: dict[str, Any] = {
        "op": "register",
        "id": f"sub-{number}",
        "ts": start,
        "type": "range",
        "region": circle if rng.random() < 0.5 else rect,
        "keywords": rng.sample(words, min(len(words), rng.choice([1, 1, 2, 2, 3]))),
        "match": "any" if rng.random() < 0.2 else "all",
    }
    if rng.random() < 0.1:
        line["ttl"] = 6 * HOUR_MS
    return line


def nearest(number: int, record: dict[str, str], start: int, rng: random.Random) -> dict[str, Any]:
    """Ask for the nearest records that have any of some words of a record, from near its place."""
    words = sorted(word for word in tokenise(record["text"]) if word.isalpha())
    x, y = (float(record[axis]) + rng.gauss(0.0, 0.5) for axis in ("lon", "lat"))
    line: dict[str, Any] = {
        "op": "register",
        "id": f"near-{number}",
        "ts": start,
        "type": "knn",
        "at": [round(min(max(x, -180.0), 180.0), 3), round(min(max(y, -90.0), 90.0), 3)],
        "k": rng.randint(1, 10),
        "keywords": rng.sample(words, min(len(words), rng.randint(1, 3))),
        "match": "any",
    }
    if rng.random() < 0.1:
        line["ttl"] = 6 * HOUR_MS
    return line


def feed(number: int, record: dict[str, str], start: int, rng: random.Random) -> dict[str, Any]:
    """Ask for the best records by distance and text, from near the place of a record and with words of it."""
    line = nearest(number, record, start, rng)
    del line["match"]
    return {**line, "id": f"feed-{number}", "type": "topk", "alpha": round(rng.random(), 2)}


def question(number: int, record: dict[str, str], start: int, rng: random.Random) -> dict[str, Any]:
    """Ask for what is, was, or is trending around a record: standing questions, and some that are asked once, now."""
    kind = rng.choice(["range", "range", "knn", "terms"])
    line = (nearest if kind == "knn" else subscription)(number, record, start, rng) | {"id": f"question-{number}"}
    if kind == "terms":
        del line["match"], line["keywords"]
        line |= {"type": "terms", "k": rng.randint(1, 10), "window": rng.choice([1, 3, 6]) * HOUR_MS}
    if rng.random() < 0.5:
        line.pop("ttl", None)
        spread = milliseconds(record["ts"]) + rng.randrange(HOUR_MS)
        return line | {"ts": spread, "continuous": False, "window": rng.choice([1, 3, 6]) * HOUR_MS}
    return line | ({"slide": HOUR_MS, "ttl": 24 * HOUR_MS} if kind == "terms" else {})


#: Kind -> what makes a subscription of it, and how many there are.
KINDS = {
    "regions": (subscription, 4_000),
    "nearest": (nearest, 2_000),
    "feeds": (feed, 2_000),
    "questions": (question, 2_000),
}


def subscriptions(kind: str = "regions", seed: int = 1) -> list[dict[str, Any]]:
    """Return the operations in the order of time: most registrations before the first record, some later, some ended."""
    make, count = KINDS[kind]
    rng = random.Random(seed)
    sources = [records("flights_one_day.csv.gz"), records("earthquakes_week.csv.gz")]
    lines = []
    for number in range(count):
        source = rng.choice(sources)
        record = rng.choice(source)
        first, last = milliseconds(source[0]["ts"]), milliseconds(source[-1]["ts"])
        start = rng.randrange(first, last) if rng.random() < 0.2 else milliseconds(sources[0][0]["ts"]) - HOUR_MS
        lines.append(make(number, record, start, rng))
        if rng.random() < 0.05 and "ttl" not in lines[-1] and lines[-1].get("continuous", True):
            end = rng.randrange(max(start, first), last + 1)
            lines.append({"op": "unregister", "id": lines[-1]["id"], "ts": end})
    return sorted(lines, key=lambda line: line["ts"])


def main(out: str, kind: str = "regions") -> None:
    """Write the file; the same seed gives the same bytes."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in subscriptions(kind))
    Path(out).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
