"""Fences around the quarters of a city: who rides in, who leaves, and who is there, told as it happens.

    python examples/fences.py [local|ray]

A zone is a standing question about couriers who move and change what they carry. It reports each of them once when it comes in
and once when it leaves, which may also be because it has loaded something else or has ended its shift. Zones come and go, too:
the night market opens among couriers who are there already, and closes while some are still inside.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from streams.batches import DETECTS, EventBatch
from topology import load_topology, run
from topology.amendments import with_source

HERE = Path(__file__).parent
MINUTE = 60_000
ZONES: list[dict[str, Any]] = [
    {"id": "Old Town", "ts": 0, "region": {"circle": [6.0, 6.0, 0.8]}},
    {"id": "Harbour, cold things", "ts": 0, "region": {"rect": [8.2, 2.4, 10.2, 4.4]}, "keywords": ["cold"]},
    {"id": "Night market", "ts": 4 * MINUTE, "ttl": 3 * MINUTE, "region": {"circle": [3.0, 8.4, 0.7]}},
]  # fmt: skip
MARKS = {"enter": "[green]▶[/]", "exit": "[red]◀[/]", "inside": "[dim]·[/]"}

Event = tuple[int, str, str, str]


def main(runtime: str = "local") -> list[Event]:
    """Run it and return (time, zone, event, courier), in the order of time."""
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "zones.jsonl"
        queries.write_text(
            "".join(json.dumps({"op": "register", "type": "range", **zone}) + "\n" for zone in ZONES), "utf-8"
        )
        topology = load_topology(HERE.parent / "conf" / "fences.toml", ["bolt.sink.operator=collect"])
        outcome = run(with_source(topology, "follows", queries), runtime=runtime)
    return [
        (ts, str(zone), DETECTS[event], str(courier))
        for batch in outcome.collected
        if isinstance(batch, EventBatch)
        for ts, zone, event, courier in zip(
            batch.ts.tolist(), batch.query.to_list(), batch.detect.tolist(), batch.object.to_list(), strict=True
        )
    ]


def there(events: list[Event], zone: str, ts: int) -> list[str]:
    """Return who is inside of a zone at a time: each enter is one more, each exit one less."""
    inside = Counter[str]()
    for when, where, event, courier in events:
        if where == zone and when <= ts:
            inside[courier] += (event == "enter") - (event == "exit")
    return sorted(inside.elements())


def show(events: list[Event], console: Console) -> None:
    """Show how full the zones were, minute by minute, and what happened at the night market."""
    table = Table(box=None, pad_edge=False, title="couriers inside", title_justify="left")
    table.add_column("minute")
    for zone in ZONES:
        table.add_column(zone["id"], no_wrap=True)
    for minute in range(1, 11):
        full = [len(there(events, zone["id"], minute * MINUTE)) for zone in ZONES]
        table.add_row(str(minute), *(f"[cyan]{'█' * count}[/] {count}" if count else "[dim]-[/]" for count in full))
    console.print(table)
    market = [event for event in events if event[1] == "Night market"]
    console.print("\n[bold]Night market[/], open from minute 4 to 7")
    for ts, _, event, courier in market:
        minute, second = divmod(ts // 1000, 60)
        console.print(f"  {minute}:{second:02}  {MARKS[event]} {event:6} {courier}", highlight=False)
    console.print(f"\n{len(events):,} events of {len(ZONES)} zones")


if __name__ == "__main__":
    show(main(*sys.argv[1:]), Console())
