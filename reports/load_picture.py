"""Runs over their stream: throughput, how well the load was shared, and who bore it; several runs on shared axes.

The stream is measured in objects, not in seconds or epochs, so that runs on the same input lie over each other and a
hotspot is at the same place in all of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.canvas import HOTSPOT, INK, colour_of, new_figure, picture_path, plain, save_picture
from reports.summary_files import Summary, checked_summary
from topology.load_history import LoadHistory

__all__ = ["draw_loads", "load_figure"]

#: Slices of the stream that lines are drawn in: single epochs jump too much to be read.
SLICES = 60

#: Evaluators that are named beside the picture.
MOST_NAMED = 8

Floats = NDArray[np.float64]


def draw_loads(runs: Mapping[str, Summary], out: str | Path) -> None:
    """Draw runs, by name, to a PNG file."""
    path = picture_path(out)
    save_picture(load_figure({name: checked_summary(summary, name) for name, summary in runs.items()}), path)


def load_figure(runs: Mapping[str, Summary]) -> Any:
    """Return a figure: throughput and efficiency as lines over each other, and below them who bore the load in each run."""
    figure = new_figure(10, 5.0 + 1.5 * len(runs))
    rows = figure.subplots(2 + len(runs), 1, sharex=True, height_ratios=[2, 2, *[1.2] * len(runs)])
    histories = {name: LoadHistory.of(summary) for name, summary in runs.items()}
    _draw_lines(rows[0], rows[1], histories)
    for axes in rows[:2]:
        plain(axes)
        _shade(axes, runs)
    for axes, (name, summary) in zip(rows[2:], runs.items(), strict=True):
        _draw_shares(axes, name, summary, histories[name])
        _shade(axes, runs, filled=False)
    rows[-1].set_xlabel("objects read from the stream")
    rows[-1].margins(x=0.01)
    rows[-1].xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    handles, labels = rows[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=4, fontsize=9, frameon=False)
    evaluators = max((history.costs.shape[1] for history in histories.values()), default=0)
    if 1 < evaluators <= MOST_NAMED:
        from matplotlib.patches import Patch

        bands = [Patch(color=colour_of(worker), label=f"evaluator {worker}") for worker in range(evaluators)]
        figure.legend(handles=bands, loc="outside lower left", ncols=8, fontsize=8, frameon=False)
    return figure


def _draw_lines(rate: Any, efficiency: Any, histories: Mapping[str, LoadHistory]) -> None:
    for number, (name, history) in enumerate(histories.items()):
        if not len(history) or not history.objects.sum():
            continue
        look = {"label": name, "color": colour_of(number), "linewidth": 1.6}
        rate.plot(*_rates(history), **look)
        edges, place = _slices(history)
        cost, peak = (_summed(column, place) for column in (history.costs.sum(1), history.peak))
        borne = peak * max(history.costs.shape[1], 1)
        shared = np.divide(cost, borne, out=np.ones_like(cost), where=borne > 0)
        efficiency.stairs(shared, edges, baseline=None, **look)
    rate.set_ylabel("objects/s")
    rate.set_ylim(bottom=0)
    rate.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    efficiency.set_ylabel("parallel efficiency\n(1: all equally busy)", fontsize=9)
    efficiency.set_ylim(0, 1.05)


def _draw_shares(axes: Any, name: str, summary: Summary, history: LoadHistory) -> None:
    """Draw bands of evaluators, with dotted lines where the plan changed."""
    plain(axes)
    if len(history) and history.objects.sum():
        edges, place = _slices(history)
        costs = np.array([_summed(column, place) for column in history.costs.T])
        total = costs.sum(0)
        tops = np.cumsum(np.divide(costs, total, out=np.zeros_like(costs), where=total > 0), axis=0)
        bottom = np.zeros(len(edges) - 1)
        for worker, top in enumerate(tops):
            axes.stairs(top, edges, baseline=bottom, fill=True, color=colour_of(worker), alpha=0.85)
            bottom = top
    changes = _changes(summary, history)
    for change in changes:
        axes.axvline(change, color=INK, linewidth=0.6, linestyle=":")
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    moved = f"; dotted: {len(changes):,} changes of the plan" if changes else ""
    axes.set_title(f"{name}: share of the cost by evaluator{moved}", loc="left", fontsize=9, color=INK)


def _rates(history: LoadHistory) -> tuple[Floats, Floats]:
    """Return places in the stream, and the objects a second around each.

    Epochs are complete in bursts, so the rate from one to the next says nothing: what is around is a tenth of the run.
    """
    at = np.concatenate([[0], np.cumsum(history.objects)]).astype(np.float64)
    seconds = np.maximum.accumulate(np.concatenate([[0.0], history.seconds]))
    around = max(len(history) // 20, 4)
    place = np.arange(len(at))
    low, high = np.maximum(place - around, 0), np.minimum(place + around, len(at) - 1)
    took = seconds[high] - seconds[low]
    rates = np.divide(at[high] - at[low], took, out=np.full(len(at), np.nan), where=took > 0)
    bringing = np.concatenate([[True], history.objects > 0])  # the last epochs bring nothing, and only drain
    return at[bringing], rates[bringing]


def _slices(history: LoadHistory) -> tuple[Floats, NDArray[np.int64]]:
    """Return where slices of the stream begin and end, and the slice of each entry: whole entries, one or more with objects."""
    ends = np.cumsum(history.objects).astype(np.float64)
    bringing = np.flatnonzero(history.objects > 0)
    parts = np.array_split(bringing, min(SLICES, len(bringing)))
    edges = np.concatenate([[0.0], [ends[part[-1]] for part in parts]])
    first = [part[0] for part in parts]
    return edges, np.maximum(np.searchsorted(first, np.arange(len(history)), side="right") - 1, 0)


def _summed(values: NDArray[np.int64], place: NDArray[np.int64]) -> Floats:
    return np.bincount(place, weights=values).astype(np.float64)


def _changes(summary: Summary, history: LoadHistory) -> Sequence[float]:
    """Return where in the stream the plan changed."""
    epochs = np.array(sorted({int(one["epoch"]) for one in summary.get("rebalances", [])}), np.int64)
    ends = np.cumsum(history.objects)
    if not len(ends):
        return []
    return [float(end) for end in ends[np.minimum(np.searchsorted(history.epoch, epochs), len(ends) - 1)]]


def _shade(axes: Any, runs: Mapping[str, Summary], *, filled: bool = True) -> None:
    """Shade the hotspots, which all runs share; over bands, mark where they begin and end."""
    for spot in next((summary["hotspots"] for summary in runs.values() if summary.get("hotspots")), []):
        if filled:
            axes.axvspan(spot["from"], spot["to"], color=HOTSPOT, alpha=0.10, linewidth=0)
            axes.text(
                spot["from"], 1.0, " hotspot", transform=axes.get_xaxis_transform(), fontsize=8, color=HOTSPOT, va="top"
            )
        else:
            for place in (spot["from"], spot["to"]):
                axes.axvline(place, color=HOTSPOT, linewidth=1.2)
