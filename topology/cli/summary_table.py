"""The summary for a person."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_summary", "print_warnings"]

MAX_EVALUATORS = 16

#: So many reasons for rejects are printed; the summary file has more.
MAX_REASONS = 5


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
    reasons = summary["reject_reasons"]
    for one in reasons[:MAX_REASONS]:
        console.print(f"  {one['count']:,} rejected: {one['reason']}", highlight=False, markup=False, soft_wrap=True)
    if more := sum(one["count"] for one in reasons[MAX_REASONS:]):
        console.print(f"  {more:,} rejected for other reasons", highlight=False)


def print_warnings(console: Console, texts: Iterable[str]) -> None:
    """Print what a person should know of a run, however quiet it is."""
    for text in texts:
        console.print(f"warning: {text}", style="bold yellow", highlight=False, markup=False, soft_wrap=True)
