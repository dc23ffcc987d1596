"""What is trending where, and "what happened here in the last hour?", asked of a stream while it flows.

    python examples/trends.py [local|ray]

Standing questions: every three hours, the most frequent words of the late departures of some airports. Questions that are
asked once, at a moment of the stream: what has happened around here in the last hour, and what of it was nearest. The wiring is
that of conf/sstd.toml; only the questions are put in, and the answers come back to this program.
"""

import csv
import gzip
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from streams.batches import AnswerBatch, tuple_rows
from topology import Topology, extended_topology, run

HERE = Path(__file__).parent
HOUR_MS = 3_600_000
RADIUS_M = 50_000
DAY = datetime(2001, 6, 28, tzinfo=UTC)
AIRPORTS = {"Chicago": [-87.9, 41.98], "Dallas": [-97.04, 32.9], "New York": [-73.9, 40.7]}

Item = tuple[Any, float]
Answers = dict[str, list[tuple[int, list[Item]]]]


def trending(place: str, at: list[float]) -> dict[str, Any]:
    """Ask for the words of late departures, every three hours of the day."""
    return {
        "id": place, "ts": milliseconds(DAY), "type": "terms", "region": {"circle": [*at, RADIUS_M]}, "keywords": ["late"],
        "k": 24, "window": 3 * HOUR_MS, "slide": 3 * HOUR_MS, "ttl": 24 * HOUR_MS + 1,
    }  # fmt: skip


def lately(name: str, when: datetime, **asked: Any) -> dict[str, Any]:
    """Ask, at one moment, about the last hour."""
    return {"id": name, "ts": milliseconds(when), "continuous": False, "window": HOUR_MS, **asked}


def milliseconds(when: datetime) -> int:
    """Return a time as the stream has it."""
    return round(when.timestamp() * 1000)


EVENING, QUAKE = DAY.replace(hour=21), datetime(2018, 2, 6, 16, 50, tzinfo=UTC)
QUESTIONS = [
    *(trending(place, at) for place, at in AIRPORTS.items()),
    lately("What has left Dallas late?", EVENING, type="range", region={"circle": [-97.04, 32.9, RADIUS_M]}, keywords=["late"]),
    lately("What happened around Taiwan?", QUAKE, type="range", region={"rect": [120, 21.5, 122.5, 25.5]}),
    lately("What nearest to Boston has left late?", EVENING, type="knn", at=[-71.0, 42.36], k=3, keywords=["late"]),
]  # fmt: skip


def trends_topology(questions: Path) -> Topology:
    """Declare the topology: that of conf/sstd.toml with other questions, and results handed back to this program."""
    tables = {"spout": {"queries": {"path": questions}}, "bolt": {"sink": {"operator": "collect"}}}
    return extended_topology(HERE.parent / "conf" / "sstd.toml", tables)


def main(runtime: str = "local") -> Answers:
    """Run it and return the answers to each question, in the order of time; items have counts, or distances in metres."""
    with tempfile.TemporaryDirectory() as folder:
        questions = Path(folder) / "questions.jsonl"
        lines = [json.dumps({"op": "register", **asked}) for asked in sorted(QUESTIONS, key=lambda one: one["ts"])]
        questions.write_text("\n".join(lines) + "\n", "utf-8")
        outcome = run(trends_topology(questions), runtime=runtime)
    answers: Answers = {asked["id"]: [] for asked in QUESTIONS}
    for batch in outcome.collected:
        if isinstance(batch, AnswerBatch):
            names, rows = tuple_rows(batch)
            for row in (dict(zip(names, values, strict=True)) for values in rows):
                answers[row["query"]].append((row["ts"], list(zip(row["item"], row["value"], strict=True))))
    return {name: sorted(found) for name, found in answers.items()}


def telling(items: list[Item]) -> list[Item]:
    """Return the first words that most objects do not have: "late" is in all of them, the airport's own name in many."""
    return [(word, count) for word, count in items if 2 * count <= items[0][1]][:4]


def trend_table(place: str, found: list[tuple[int, list[Item]]]) -> Table:
    """Return what was trending at a place as a table; what was not there three hours earlier is marked."""
    table = Table(title=f"\n[bold]{place}[/]: words of late departures", title_justify="left", box=None, pad_edge=False)
    for name in ("until", "late", "", "words that tell most"):
        table.add_column(name, justify="right" if name == "late" else "left", no_wrap=True)
    before: set[str] = set()
    for ts, items in found:
        late = round(items[0][1]) if items else 0
        words = telling(items)
        told = [
            f"[green]{word}[/] {count:.0f}" if word not in before else f"{word} {count:.0f}" for word, count in words
        ]
        table.add_row(
            f"{datetime.fromtimestamp(ts / 1000, UTC):%H:%M}",
            str(late),
            f"[red]{'█' * -(-late // 2)}[/]",
            "  ".join(told),
        )
        before = {word for word, _ in words}
    return table


def texts() -> dict[str, tuple[str, str]]:
    """Return time and text of every object of the shipped files."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("flights_one_day", "earthquakes_week"):
        with gzip.open(HERE / "data" / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
            found |= {row["id"]: (row["ts"][11:16], row["text"]) for row in csv.DictReader(file)}
    return found


def show(answers: Answers, console: Console) -> None:
    """Show the trends, then what was asked at once: in the order of time, or the nearest first."""
    for place in AIRPORTS:
        console.print(trend_table(place, answers[place]))
    known = texts()
    for asked in QUESTIONS[len(AIRPORTS) :]:
        ((ts, items),) = answers[asked["id"]]
        console.print(f"\n[bold]{asked['id']}[/] Asked at {datetime.fromtimestamp(ts / 1000, UTC):%H:%M on %d %B %Y}:")
        near = asked["type"] == "knn"
        for item, metres in items if near else sorted(items, key=lambda one: known[str(one[0])]):
            time, text = known[str(item)]
            far = f"[cyan]{metres / 1000:4,.0f} km[/]  " if near else ""
            console.print(f"  {time}  {far}{text}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    show(main(*sys.argv[1:]), Console())
