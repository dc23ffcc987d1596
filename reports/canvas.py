"""Figures without a screen, in one look: colours that people tell apart, plain frames, names of axes."""

import io
from pathlib import Path
from typing import Any

from streams.errors import DeclarationError, InputError

__all__ = [
    "HOTSPOT",
    "INK",
    "QUIET",
    "colour_of",
    "fit_ticks",
    "new_figure",
    "picture_path",
    "png_bytes",
    "save_picture",
]

#: Okabe and Ito's colours, told apart by people with any colour vision; further workers repeat them.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D31", "#6B4C9A")

INK, QUIET, HOTSPOT = "#222222", "#6b7280", "#D55E00"

#: How much room a number below an axis takes.
_TICK_INCHES = 0.9

#: Pixels an inch.
_DPI = 130


def colour_of(number: int) -> str:
    """Return the colour of a worker, or of a topology."""
    return _COLOURS[number % len(_COLOURS)]


def picture_path(out: str | Path) -> Path:
    """Return where a picture is to go; raise where it cannot."""
    path = Path(out)
    if path.suffix.lower() != ".png":
        raise DeclarationError(f"{path} is no name for a picture; expected an ending .png")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder to write {path.name} to; make it first")
    return path


def new_figure(wide: float, high: float) -> Any:
    """Return a figure of so many inches that needs no screen and keeps its parts from overlapping."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, high), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Any) -> None:
    """Take away what only decorates."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def fit_ticks(axes: Any, figure: Any, ratio: float) -> None:
    """Have so few numbers below axes of equal scales that they do not overlap: axes may be narrower than their figure.

    Args:
        axes: whose width follows from their height.
        figure: what they are in.
        ratio: of their height to their width.
    """
    wide, high = figure.get_size_inches()
    axes.locator_params(axis="x", nbins=max(2, min(9, int(min(wide, high / ratio) / _TICK_INCHES))))


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure to a PNG file."""
    figure.savefig(path, dpi=_DPI)


def png_bytes(figure: Any) -> bytes:
    """Return a figure as a PNG file."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DPI)
    return target.getvalue()
