"""Range alerts from Python: earthquakes as they come, told to those who asked.

    python examples/alerts.py [local|ray]

The results come back to this program, whichever runtime finds them.
"""

import json
import sys
import tempfile
from pathlib import Path

from streams.batches import MatchBatch
from topology import Topology, TopologyBuilder, run

DATA = Path(__file__).parent / "data"
SUBSCRIPTIONS = [
    {"id": "anchorage", "region": {"circle": [-149.9, 61.2, 300_000]}, "keywords": ["alaska"]},
    {"id": "geysers", "region": {"rect": [-123.0, 38.5, -122.5, 39.0]}, "keywords": ["geysers", "ca"]},
    {"id": "strong", "region": {"rect": [-180, -90, 180, 90]}, "keywords": ["strong", "major"], "match": "any"},
]


def alerts_topology(queries: Path) -> Topology:
    """Declare the topology: files in, one router, two evaluators, results handed back to this program."""
    builder = TopologyBuilder(
        "alerts",
        space=[-180, -90, 180, 90],
        metric="haversine",
        epoch={"objects": 200},  # radii are metres
    )
    builder.spout("objects", "object-file", path=DATA / "earthquakes_week.csv.gz")
    builder.spout("queries", "query-file", path=queries)
    builder.bolt("router", "broadcast-router").shuffle("objects", "objects").shuffle("queries", "queries")
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=2)
    evaluator.direct("router", "queries").direct("router", "objects")
    builder.bolt("sink", "collect").global_("evaluator", "results")
    return builder.build()


def main(runtime: str = "local") -> list[tuple[int | str, int | str]]:
    """Run it and return (subscription, earthquake) pairs in the order of time."""
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "subscriptions.jsonl"
        lines = [json.dumps({"op": "register", "ts": 0, "type": "range", **asked}) for asked in SUBSCRIPTIONS]
        queries.write_text("\n".join(lines) + "\n", "utf-8")
        outcome = run(alerts_topology(queries), runtime=runtime)
    matches = [batch for batch in outcome.collected if isinstance(batch, MatchBatch)]
    return [pair for batch in matches for pair in zip(batch.query.to_list(), batch.object.to_list(), strict=True)]


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    for query, earthquake in found[:10]:
        print(f"{query}: {earthquake}")
    print(f"{len(found)} alerts")
