"""Figures of the papers as pictures: lines over a parameter, a file a figure."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streams.errors import InputError

__all__ = ["checked_folder", "drawn"]


def checked_folder(folder: Path | None) -> None:
    """Raise `InputError` where pictures are wanted and there is no folder for them."""
    if folder is not None and not folder.is_dir():
        raise InputError(f"--out {folder}: no such folder; make it first")


def drawn(benchmark: str, unit: str, series: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draw a picture for each title, "Figure 7: ...", with a line for each name; return the files.

    A line is a list of points, or values by number. Where no line has more than one point they are bars.
    """
    import matplotlib  # needed for pictures only

    matplotlib.use("Agg")
    from matplotlib import pyplot

    paths = []
    for title, lines in series.items():
        figure, axes = pyplot.subplots(figsize=(6, 3.5))
        for place, (name, values) in enumerate(lines.items()):
            points = values if isinstance(values, list) else list(enumerate(values))
            if all(len(one) == 1 for one in lines.values()):
                axes.bar(place, points[0][1], label=name)
                continue
            axes.plot(
                [x for x, _ in points], [y for _, y in points], marker="." if len(points) < 20 else "", label=name
            )
        axes.set(title=title, xlabel="", ylabel=unit, yscale="log")
        axes.legend(fontsize=8)
        figure.tight_layout()
        path = folder / f"{benchmark}-{_stem(title)}.png"
        figure.savefig(path, dpi=120)
        pyplot.close(figure)
        paths.append(path)
    return paths


def _stem(title: str) -> str:
    """Return a name for a file: that of the paper's figure, otherwise all of the title."""
    name = title.split(":")[0] if title.startswith("Figure") else title
    return "-".join(re.findall("[a-z0-9]+", name.lower()))
