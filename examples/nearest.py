"""The nearest earthquakes that mention any of my words, as they happen.

    python examples/nearest.py [local|ray]

Five people say where they are, how many earthquakes they want to know of, and which words interest them. A list changes when
something nearer comes; the story of each change is told in one line.
"""

import csv
import gzip
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from streams.batches import AnswerBatch, tuple_rows
from topology import Topology, TopologyBuilder, run

EARTHQUAKES = Path(__file__).parent / "data" / "earthquakes_week.csv.gz"
PEOPLE = [
    {"id": "Mai in Tokyo", "at": [139.69, 35.69], "k": 3, "keywords": ["japan", "korea"]},
    {"id": "Nanuk in Anchorage", "at": [-149.9, 61.22], "k": 3, "keywords": ["minor", "light", "moderate"]},
    {"id": "Rosa in Mexico City", "at": [-99.13, 19.43], "k": 3, "keywords": ["mexico", "guatemala"]},
    {"id": "Sione in Suva", "at": [178.44, -18.14], "k": 2, "keywords": ["fiji", "tonga"]},
    {"id": "Kim at the Geysers", "at": [-122.76, 38.8], "k": 4, "keywords": ["geysers"]},
]


def nearest_topology(queries: Path) -> Topology:
    """Declare the topology: two evaluators share the subscriptions and see all objects; a merger passes changes on."""
    builder = TopologyBuilder(
        "nearest", space=[-180, -90, 180, 90], metric="haversine", epoch={"objects": 20}, partitioner={"kind": "hash"}
    )
    builder.spout("objects", "object-file", path=EARTHQUAKES)
    builder.spout("queries", "query-file", path=queries)
    builder.bolt("router", "plan-router").shuffle("objects", "objects").shuffle("queries", "queries")
    evaluator = builder.bolt("evaluator", "knn-evaluator", parallelism=2)
    evaluator.direct("router", "queries").direct("router", "objects")
    builder.bolt("merger", "ranked-merger").fields("evaluator", ["number"], "rankings")
    builder.bolt("sink", "collect").global_("merger", "results")
    return builder.build()


def main(runtime: str = "local") -> list[tuple[str, int, list[tuple[str, float]]]]:
    """Run it and return (person, time, list) for each change, in the order of time; a list has earthquakes and metres."""
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "people.jsonl"
        lines = [json.dumps({"op": "register", "ts": 0, "type": "knn", "match": "any", **person}) for person in PEOPLE]
        queries.write_text("\n".join(lines) + "\n", "utf-8")
        outcome = run(nearest_topology(queries), runtime=runtime)
    changes = [
        (row["query"], row["ts"], list(zip(row["item"], row["value"], strict=True)))
        for batch in outcome.collected
        if isinstance(batch, AnswerBatch)
        for names, rows in [tuple_rows(batch)]
        for row in (dict(zip(names, values, strict=True)) for values in rows)
    ]
    return sorted(changes, key=lambda change: change[1])


def told(changes: list[tuple[str, int, list[tuple[str, float]]]]) -> list[str]:
    """Return a line for each earthquake that enters somebody's list."""
    with gzip.open(EARTHQUAKES, "rt", encoding="utf-8") as file:
        texts = {row["id"]: row["text"] for row in csv.DictReader(file)}
    known: dict[str, set[str]] = {}
    lines = []
    for person, ts, nearest in changes:
        for rank, (earthquake, metres) in enumerate(nearest, 1):
            if earthquake not in known.get(person, set()):
                when = datetime.fromtimestamp(ts / 1000, UTC)
                lines.append(f"{when:%d %b %H:%M}  {person:<19} {rank}. {metres / 1000:>6,.0f} km  {texts[earthquake]}")
        known[person] = {earthquake for earthquake, _ in nearest}
    return lines


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    story = told(found)
    print("\n".join(story))
    print(f"\n{len(story)} earthquakes came near enough; the lists have changed {len(found)} times")
