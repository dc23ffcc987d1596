"""The summary for a person."""

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_summary"]

MAX_EVALUATORS = 16


def print_summary(console: Console, name: str, summary: dict[str, Any]) -> None:
    """Print what a run did and how well."""
    latency = summary["latency_ms"]
    facts = [
        ("objects", f"{summary['objects']:,}"),
        ("queries", f"{summary['queries']:,}"),
        ("results", f"{summary['results']:,}"),
        ("rejected", f"{summary['rejected']:,}"),
        ("time", f"{summary['seconds']:.2f} s in {summary['epochs']:,} epochs"),
        ("throughput", f"{summary['objects_per_s']:,.0f} objects/s"),
        (
            "latency",
            " / ".join(f"{latency[key]:.1f}" for key in ("p50", "p95", "p99", "max")) + " ms (p50 / p95 / p99 / max)",
        ),
    ]
    evaluators = summary["evaluators"]
    if len(evaluators) > 1:
        facts.append(("efficiency", f"{summary['parallel_efficiency']:.2f} of {len(evaluators)} evaluators"))
    table = Table(
        title=name, show_header=False, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0)
    )
    for fact in facts:
        table.add_row(*fact)
    for one in evaluators[:MAX_EVALUATORS]:
        table.add_row(one["task"], f"{one['objects']:,} objects, {one['queries']:,} queries, cost {one['cost']:,}")
    console.print(table)
