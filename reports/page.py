"""One HTML file that needs nothing else: no network, no scripts; light and dark, on a phone and for a screen reader."""

import html
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.canvas import INK, QUIET
from reports.comparison import Comparison, Contender, Spread
from reports.load_picture import load_figure
from reports.summary_files import Summary

__all__ = ["compared_page", "run_page", "svg_of"]

#: Reasons for moves that are listed, the most frequent first.
_MOST_REASONS = 6

_STYLE = Path(__file__).parent / "page.css"


@dataclass(frozen=True, slots=True)
class _Figure:
    """A row of the table: what it is called, where it is in a summary, how it is written, and what it means."""

    name: str
    keys: tuple[str, ...]
    form: str
    meaning: str


_FIGURES = (
    _Figure("throughput, objects/s", ("objects_per_s",), ",.0f", "objects read a second, from the first to the last."),
    _Figure("latency p50, ms", ("latency_ms", "p50"), ",.1f", "from reading an epoch to all its answers; half are faster."),
    _Figure("latency p95, ms", ("latency_ms", "p95"), ",.1f", "the same; 95 of 100 are faster."),
    _Figure(
        "parallel efficiency", ("parallel_efficiency",), ".2f",
        "1: all evaluators equally busy in every epoch; 1 / evaluators: one does all the work.",
    ),
    _Figure(
        "imbalance at the start", ("imbalance", "start"), ".2f",
        "the largest cost of an evaluator over the mean, in the first epoch; 1 is perfect.",
    ),
    _Figure("imbalance at its peak", ("imbalance", "peak"), ".2f", "the same, in the worst epoch."),
    _Figure("imbalance at the end", ("imbalance", "end"), ".2f", "the same, in the last epoch with work."),
    _Figure("replication", ("replication",), ".2f", "copies of a query among the evaluators, on average."),
    _Figure("communication", ("communication",), ".2f", "evaluators that an object is sent to, on average."),
)  # fmt: skip


#: Whoever compares a plan that adapts with a fixed one looks at throughput first, which cannot rise here.
_IN_ONE_PROCESS = (
    "All evaluators took turns in one process: what balancing gains is in parallel efficiency and imbalance, what it costs in "
    "throughput and latency."
)


def compared_page(found: Comparison, command: str, machine: str) -> str:
    """Return the page of a comparison."""
    names = [one.name for one in found.contenders]
    first = found.contenders[0].summaries[0]
    read = (
        f"{first['objects']:,} objects ({', '.join(found.objects)}) and "
        f"{first['queries']:,} queries ({', '.join(found.queries)})"
    )
    repeats = len(found.seeds)
    caption = f"Median of {repeats:,} {'run' if repeats == 1 else 'runs'}; below it the lowest and the highest."
    if found.embedded:
        caption = f"{caption} {_IN_ONE_PROCESS}"
    body = [
        f"<h1>{_text(' against '.join(names))}</h1>",
        f"<p class='quiet'>The same input for all: {_text(read)}. Each topology ran {_times(repeats)}, by turns, with seeds "
        f"{_text(', '.join(map(str, found.seeds)))}. {_hotspots(first)}</p>",
        _verdict(found),
        "<h2>Figures</h2>",
        _table(found.contenders, caption),
        "<h2>Over the stream</h2>",
        _picture({one.name: one.summaries[0] for one in found.contenders}, "the first seed"),
        "<h2>What moved, and why</h2>",
        *(_moves(one.name, one.summaries[0]) for one in found.contenders),
        _meanings(),
        _made(command, machine),
    ]
    return _page(f"Waterspout: {' against '.join(names)}", body)


def run_page(summary: Summary, name: str, command: str, machine: str) -> str:
    """Return the page of one run."""
    one = Contender(name, (summary,), answers=None)  # type: ignore[arg-type]  # a page of one compares no answers
    rejected = f" {summary['rejected']:,} records could not be used." if summary.get("rejected") else ""
    body = [
        f"<h1>A run of {_text(name)}</h1>",
        f"<p class='quiet'>{summary['objects']:,} objects, {summary['queries']:,} queries, {summary['results']:,} results in "
        f"{summary['seconds']:,.2f} seconds and {summary['epochs']:,} epochs.{rejected} {_hotspots(summary)}</p>",
        _rejects(summary),
        "<h2>Figures</h2>",
        _table([one], "Of this run."),
        "<h2>Over the stream</h2>",
        _picture({name: summary}, name),
        "<h2>What moved, and why</h2>",
        _moves(name, summary),
        "<h2>Evaluators</h2>",
        _evaluators(summary),
        _meanings(),
        _made(command, machine),
    ]
    return _page(f"Waterspout: a run of {name}", body)


def svg_of(figure: Any, described: str) -> str:
    """Return a figure as SVG to stand in a page: its ink is the page's, and it says what it shows."""
    import matplotlib

    target = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(target, format="svg", transparent=True)
    drawn = re.sub(r"^.*?(?=<svg )", "", target.getvalue(), flags=re.S)
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    drawn = re.sub(
        r'(<svg [^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", drawn, count=1), count=1
    )
    # Black and our own ink become the ink of the page, so that the picture is legible on dark paper too.
    for ink in (INK, "#000000"):
        drawn = drawn.replace(f"fill: {ink}", "fill: currentColor").replace(f"stroke: {ink}", "stroke: currentColor")
    drawn = drawn.replace(f"fill: {QUIET}", "fill: var(--quiet)").replace("stroke: #e5e7eb", "stroke: var(--line)")
    drawn = re.sub(r"<text (?![^>]*fill)([^>]*?)style=\"", r'<text \1style="fill: currentColor; ', drawn)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{html.escape(described)}" ', 1)


def _page(title: str, body: Sequence[str]) -> str:
    inner = "\n".join(body)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n<main>\n{inner}\n</main>\n</body>\n</html>\n"
    )


def _verdict(found: Comparison) -> str:
    if found.equal:
        count = found.contenders[0].answers.count
        equal = f"{count:,} of each topology, compared one by one"
        return f"<p class='verdict'><strong>All answers are equal</strong>: {equal}.</p>"
    counts = "; ".join(f"{one.name}: {one.answers.count:,} answers" for one in found.contenders)
    return (
        "<p class='verdict bad'><strong>The answers differ</strong>, so the figures are not of the same work. "
        f"{_text(counts)}. Look for another space, metric, window or vocabulary; <code>waterspout verify</code> compares each "
        "with brute force.</p>"
    )


def _table(contenders: Sequence[Contender], caption: str) -> str:
    heads = "".join(f"<th scope='col'>{_text(one.name)}</th>" for one in contenders)
    rows = []
    for figure in _FIGURES:
        cells = "".join(f"<td>{_spread(one.spread(*figure.keys), figure.form)}</td>" for one in contenders)
        rows.append(f"<tr><th scope='row'>{_text(figure.name)}</th>{cells}</tr>")
    for name, count in (("changes of the plan", _rounds), ("queries moved", _moved)):
        cells = "".join(
            f"<td>{_spread(Spread.of([float(count(summary)) for summary in one.summaries]), ',.0f')}</td>"
            for one in contenders
        )
        rows.append(f"<tr><th scope='row'>{name}</th>{cells}</tr>")
    return _wide(
        "Figures",
        f"<table><caption>{_text(caption)}</caption><thead><tr><th scope='col'>figure</th>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>",
    )


def _spread(spread: Spread, form: str) -> str:
    median, low, high = (format(value, form) for value in (spread.median, spread.low, spread.high))
    return median if low == high else f"{median}<small>{low} to {high}</small>"


def _rounds(summary: Summary) -> int:
    return len({one["epoch"] for one in summary["rebalances"]})


def _moved(summary: Summary) -> int:
    return sum(one["queries_moved"] for one in summary["rebalances"])


def _picture(runs: dict[str, Summary], of: str) -> str:
    lines = []
    for name, summary in runs.items():
        balance = summary["imbalance"]
        lines.append(
            f"{name}: {summary['objects_per_s']:,.0f} objects a second, "
            f"parallel efficiency {summary['parallel_efficiency']:.2f}, "
            f"imbalance {balance['start']:.2f} at the start and {balance['end']:.2f} at the end"
        )
    described = "Throughput, efficiency and each evaluator's share of the cost over the stream. " + "; ".join(lines)
    shaded = " The hotspot is shaded." if any(summary.get("hotspots") for summary in runs.values()) else ""
    caption = f"Of {_text(of)}. The stream is measured in objects read, so all panels share their axis.{shaded}"
    return (
        f"<figure>{_wide('Picture', svg_of(load_figure(runs), described))}<figcaption>{caption}</figcaption></figure>"
    )


def _moves(name: str, summary: Summary) -> str:
    moves = summary["rebalances"]
    if not moves:
        return f"<p><strong>{_text(name)}</strong>: nothing moved.</p>"
    kinds = Counter(str(one["kind"]) for one in moves)
    reasons = Counter(re.sub(r"[\d,.]+", "…", str(one.get("why", ""))) for one in moves)
    examples = {re.sub(r"[\d,.]+", "…", str(one.get("why", ""))): str(one.get("why", "")) for one in reversed(moves)}
    told = "".join(
        f"<li>{count:,} because of <code>{_text(pattern)}</code>, first <code>{_text(examples[pattern])}</code></li>"
        for pattern, count in reasons.most_common(_MOST_REASONS)
        if pattern
    )
    kind = ", ".join(f"{count:,} {one}" for one, count in kinds.most_common())
    return (
        f"<p><strong>{_text(name)}</strong>: {len(moves):,} moves in {_rounds(summary):,} changes of the plan ({_text(kind)}), "
        f"{_moved(summary):,} queries in all.</p><ul>{told}</ul>"
    )


def _evaluators(summary: Summary) -> str:
    total = max(sum(one["cost"] for one in summary["evaluators"]), 1)
    rows = "".join(
        f"<tr><th scope='row'>{_text(str(one['task']))}</th><td>{one['objects']:,}</td><td>{one['queries']:,}</td>"
        f"<td>{one['cost']:,}</td><td>{one['cost'] / total:.0%}</td></tr>"
        for one in summary["evaluators"]
    )
    heads = "".join(
        f"<th scope='col'>{name}</th>" for name in ("task", "objects", "queries", "cost", "share of the cost")
    )
    return _wide(
        "Evaluators",
        "<table><caption>Cost is candidates examined.</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>",
    )


def _rejects(summary: Summary) -> str:
    reasons = summary.get("reject_reasons") or []
    items = "".join(f"<li>{one['count']:,} rejected: {_text(str(one['reason']))}</li>" for one in reasons)
    return f"<ul>{items}</ul>" if items else ""


def _hotspots(summary: Summary) -> str:
    spots = summary.get("hotspots") or []
    told = ", ".join(f"{_text(str(one['kind']))} from object {one['from']:,} to {one['to']:,}" for one in spots)
    return f"Injected into the stream: {told}." if told else ""


def _meanings() -> str:
    entries = "".join(f"<dt>{_text(one.name)}</dt><dd>{_text(one.meaning)}</dd>" for one in _FIGURES)
    return (
        f"<details><summary>What the figures mean</summary><dl>{entries}</dl>"
        "<p>Times are without the compilation of kernels. Cost is candidates examined, so costs, efficiency and imbalance are "
        "the same on every machine; throughput and latency are not. Reasons of moves are those of the policy: of Tornado's, "
        "C_r is the cost that a move takes off, and C_t what the transfer costs.</p></details>"
    )


def _made(command: str, machine: str) -> str:
    return f"<h2>How it was made</h2><p class='quiet'><code>{_text(command)}</code><br>{_text(machine)}</p>"


def _wide(name: str, inner: str) -> str:
    """Return a part that may be wider than a phone, and then scrolls by itself."""
    return f"<div class='wide' tabindex='0' role='region' aria-label='{name}'>{inner}</div>"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _text(value: str) -> str:
    return html.escape(value)
