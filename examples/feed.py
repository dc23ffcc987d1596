"""A personal feed: the best departures of the last thousand for somebody's place and words, as the day goes by.

    python examples/feed.py [local|ray]

Each person says where they are, which words interest them, and how much nearness counts against words (alpha). The window
slides with every departure, so a feed changes when something better comes and when something good has become old. Every few
hours of the day the feeds are shown; what is new since the last look is marked.
"""

import csv
import gzip
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from streams.batches import AnswerBatch, tuple_rows
from topology import Topology, TopologyBuilder, run

FLIGHTS = Path(__file__).parent / "data" / "flights_one_day.csv.gz"
WINDOW = 1000
HOURS = (9, 13, 17, 21)
PEOPLE = [
    {
        "id": "Ada in Chicago, words first",
        "at": [-87.9, 41.98],
        "k": 10,
        "alpha": 0.2,
        "keywords": ["late", "ord", "chicago"],
    },
    {
        "id": "Ben in Seattle, place first",
        "at": [-122.31, 47.45],
        "k": 10,
        "alpha": 0.9,
        "keywords": ["delayed", "late"],
    },
]

Item = tuple[str, float]
Change = tuple[str, int, list[Item]]


def feed_topology(queries: Path) -> Topology:
    """Declare the topology: one evaluator has the subscriptions, their buffers and the window."""
    builder = TopologyBuilder(
        "feed",
        space=[-180, -90, 180, 90],
        metric="haversine",
        epoch={"objects": 50},
        window={"objects": WINDOW},
        partitioner={"kind": "hash"},
    )
    builder.spout("objects", "object-file", path=FLIGHTS)
    builder.spout("queries", "query-file", path=queries)
    builder.bolt("router", "plan-router").shuffle("objects", "objects").shuffle("queries", "queries")
    builder.bolt("evaluator", "topk-evaluator").direct("router", "queries").direct("router", "objects")
    builder.bolt("merger", "ranked-merger").fields("evaluator", ["number"], "rankings")
    builder.bolt("sink", "collect").global_("merger", "results")
    return builder.build()


def main(runtime: str = "local") -> list[Change]:
    """Run it and return (person, time, feed) for each change, in the order of time; a feed has departures and scores."""
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "people.jsonl"
        lines = [json.dumps({"op": "register", "ts": 0, "type": "topk", **person}) for person in PEOPLE]
        queries.write_text("\n".join(lines) + "\n", "utf-8")
        outcome = run(feed_topology(queries), runtime=runtime)
    changes = [
        (row["query"], row["ts"], list(zip(row["item"], row["value"], strict=True)))
        for batch in outcome.collected
        if isinstance(batch, AnswerBatch)
        for names, rows in [tuple_rows(batch)]
        for row in (dict(zip(names, values, strict=True)) for values in rows)
    ]
    return sorted(changes, key=lambda change: change[1])


def feed_at(changes: list[Change], person: str, ts: int) -> list[Item]:
    """Return somebody's feed as it was at a time."""
    return next((feed for who, when, feed in reversed(changes) if who == person and when <= ts), [])


def feed_table(title: str, feed: list[Item], seen: set[str], texts: dict[str, tuple[str, str]]) -> Table:
    """Return a feed as a table; what is not among those seen is new."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("", "at", "score", "", "departure"):
        table.add_column(name, no_wrap=name != "departure")
    for flight, score in feed:
        time, text = texts[str(flight)]
        bar = "█" * round(score * 12)
        table.add_row(
            "[green]new[/]" if str(flight) not in seen else "", time, f"{score:.3f}", f"[cyan]{bar:<12}[/]", text
        )
    return table


def show(changes: list[Change], console: Console) -> None:
    """Show the feeds at some hours of the day."""
    with gzip.open(FLIGHTS, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = {row["id"]: (row["ts"][11:16], row["text"].removeprefix("departure ")) for row in rows}
    midnight = datetime.fromisoformat(rows[0]["ts"]).replace(hour=0, minute=0, second=0, tzinfo=UTC)
    for person in PEOPLE:
        seen: set[str] = set()
        for hour in HOURS:
            feed = feed_at(changes, str(person["id"]), round(midnight.timestamp() * 1000) + hour * 3_600_000)
            console.print(feed_table(f"\n[bold]{person['id']}[/], {hour}:00", feed, seen, texts))
            seen = {str(flight) for flight, _ in feed}
    console.print(f"\n{len(changes):,} changes of {len(PEOPLE)} feeds in a day, from {len(rows):,} departures")


if __name__ == "__main__":
    show(main(*sys.argv[1:]), Console())
