"""Couriers who ride and change what they carry, and kitchens that always know the best of them nearby.

    python examples/couriers.py [local|ray]

A kitchen says where it is, what it needs to have carried, and how much nearness counts against that (alpha). Couriers report
where they are and what they take; the list of a kitchen changes when a better one comes near, rides away, loads something else,
or ends the shift. Some kitchens are shown at a few moments with the map around them; who is new since the last look is marked.
A customer who just wants the nearest asks in the same stream, and has distances instead of scores.
"""

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.batches import AnswerBatch, tuple_rows
from topology import load_topology, run
from topology.amendments import with_source

HERE = Path(__file__).parent
COURIERS = HERE / "data" / "couriers.jsonl.gz"
MINUTES = (2, 5, 9)
KITCHENS: list[dict[str, Any]] = [
    {"id": "Ida's sushi, near first", "at": [6.0, 6.2], "k": 5, "alpha": 0.9, "keywords": ["sushi", "cold"]},
    {"id": "Ben's bakery, words first", "at": [3.2, 8.0], "k": 5, "alpha": 0.3, "keywords": ["cake", "van", "flowers"]},
]
CUSTOMER: dict[str, Any] = {"id": "Kim, in a hurry", "type": "knn", "at": [6.0, 6.0], "k": 3, "none": ["van"]}

Item = tuple[str, float]
Change = tuple[str, int, list[Item]]
State = dict[str, Any]


def main(runtime: str = "local") -> list[Change]:
    """Run it and return (who asked, time, couriers and scores or distances) for each change, in the order of time."""
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "kitchens.jsonl"
        asked = [*({"type": "topk", **kitchen} for kitchen in KITCHENS), CUSTOMER]
        lines = [json.dumps({"op": "register", "ts": 0, **query}) for query in asked]
        queries.write_text("\n".join(lines) + "\n", "utf-8")
        topology = load_topology(HERE.parent / "conf" / "dynamic.toml", ["bolt.sink.operator=collect"])
        outcome = run(with_source(topology, "follows", queries), runtime=runtime)
    changes = [
        (row["query"], row["ts"], list(zip(row["item"], row["value"], strict=True)))
        for batch in outcome.collected
        if isinstance(batch, AnswerBatch)
        for names, rows in [tuple_rows(batch)]
        for row in (dict(zip(names, values, strict=True)) for values in rows)
    ]
    return sorted(changes, key=lambda change: change[1])


def states_at(ts: int) -> dict[str, State]:
    """Return where everybody was at a time, and with what."""
    states: dict[str, State] = {}
    with gzip.open(COURIERS, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["ts"] > ts:
                break
            if record.get("op") == "delete":
                states.pop(record["id"], None)
            else:
                states[record["id"]] = record
    return states


def listed_at(changes: list[Change], kitchen: str, ts: int) -> tuple[int, list[Item]]:
    """Return the last line of a kitchen by a time: when it was, and what it says."""
    return next(((when, items) for who, when, items in reversed(changes) if who == kitchen and when <= ts), (0, []))


def city_map(
    kitchen: dict[str, Any], items: list[Item], states: dict[str, State], width: int = 31, high: int = 13
) -> Text:
    """Draw six kilometres around a kitchen: K, the listed couriers by rank, and the others as dots."""
    x, y = kitchen["at"]
    canvas = [[("·" if (row + column) % 2 else " ", "grey30") for column in range(width)] for row in range(high)]
    ranks = {name: str(rank) for rank, (name, _) in enumerate(items, 1)}
    for name, state in sorted(states.items(), key=lambda one: one[0] in ranks):
        column, row = round((state["x"] - x + 3) / 6 * (width - 1)), round((y + 3 - state["y"]) / 6 * (high - 1))
        if 0 <= column < width and 0 <= row < high:
            canvas[row][column] = (ranks[name], "bold green") if name in ranks else ("o", "cyan")
    canvas[high // 2][width // 2] = ("K", "bold red")
    text = Text()
    for line in canvas:
        for character, style in line:
            text.append(character, style)
        text.append("\n")
    return text


def list_table(items: list[Item], states: dict[str, State], kitchen: dict[str, Any], seen: set[str]) -> Table:
    """Return a list as a table; who is not among those seen is new."""
    table = Table(box=None, pad_edge=False)
    for name in ("", "courier", "score", "", "km", "carries"):
        table.add_column(name, no_wrap=True)
    wanted = set(kitchen["keywords"])
    for rank, (name, score) in enumerate(items, 1):
        state = states[name]
        far = ((state["x"] - kitchen["at"][0]) ** 2 + (state["y"] - kitchen["at"][1]) ** 2) ** 0.5
        words = " ".join(f"[green]{word}[/]" if word in wanted else f"[dim]{word}[/]" for word in state["keywords"])
        mark = "" if name in seen else " [yellow]new[/]"
        table.add_row(
            f"{rank}", f"{name}{mark}", f"{score:.3f}", f"[cyan]{'█' * round(score * 12):<12}[/]", f"{far:.1f}", words
        )
    return table


def show(changes: list[Change], console: Console) -> None:
    """Show the kitchens at some moments."""
    for kitchen in KITCHENS:
        seen: set[str] = set()
        for minute in MINUTES:
            when, items = listed_at(changes, kitchen["id"], minute * 60_000)
            states = states_at(when)
            console.print(f"\n[bold]{kitchen['id']}[/] wants {' or '.join(kitchen['keywords'])}, minute {minute}")
            console.print(Columns([city_map(kitchen, items, states), list_table(items, states, kitchen, seen)]))
            seen = {name for name, _ in items}
    console.print(f"\n[bold]{CUSTOMER['id']}[/] wants the nearest, but no van")
    for minute in MINUTES:
        _, items = listed_at(changes, CUSTOMER["id"], minute * 60_000)
        console.print(f"minute {minute}: " + ", ".join(f"{name} {far:.1f} km" for name, far in items))
    console.print(f"\n{len(changes):,} changes of {len(KITCHENS) + 1} lists")


if __name__ == "__main__":
    show(main(*sys.argv[1:]), Console())
