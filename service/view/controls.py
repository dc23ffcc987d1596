"""What somebody who watches may do to a run: put a hotspot somewhere, or kill a worker."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from streams.errors import DeclarationError, brief, did_you_mean
from streams.geometry import Rect

__all__ = ["HOTSPOTS", "Controls", "Hotspot", "NoControls"]

#: Kinds of hotspots, with the largest strength of each.
HOTSPOTS: Mapping[str, float] = {"objects": 20.0, "condense": 0.95, "queries": 20_000.0, "rate": 20.0}

MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A hotspot that somebody puts on the map.

    Attributes:
        kind: ``objects`` adds so many around the place for each one that comes; ``condense`` draws all that comes towards the
            place, by that share of its way; ``queries`` registers so many around it; ``rate`` repeats all that comes so often.
        x: of its place.
        y: of its place.
        strength: as the kind says.
        radius: around the place, in units of the space.
        seconds: how long it lasts.
    """

    kind: str
    x: float
    y: float
    strength: float
    radius: float
    seconds: float

    @classmethod
    def of(cls, given: Any, space: Rect) -> "Hotspot":
        """Make a hotspot of a request's values; raise `DeclarationError` for what cannot be."""
        if not isinstance(given, Mapping):
            raise DeclarationError(f"found {brief(given)}, expected an object with kind, x, y, strength")
        kind = given.get("kind")
        if not isinstance(kind, str) or kind not in HOTSPOTS:
            hint = did_you_mean(kind, HOTSPOTS) if isinstance(kind, str) else ""
            raise DeclarationError(f"kind = {brief(kind)}, expected one of {', '.join(HOTSPOTS)}{hint}")
        wide = max(space.max_x - space.min_x, space.max_y - space.min_y)
        return cls(
            kind,
            _number(given, "x", space.min_x, space.max_x),
            _number(given, "y", space.min_y, space.max_y),
            _number(given, "strength", 0.0, HOTSPOTS[kind]),
            _number(given, "radius", wide * 1e-4, wide, wide / 60),
            _number(given, "seconds", 1.0, MOST_SECONDS, 20.0),
        )


def _number(given: Mapping[str, Any], name: str, low: float, high: float, default: float | None = None) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DeclarationError(f"{name} = {brief(value)}, expected a number from {low:g} to {high:g}")
    if not low <= value <= high:
        raise DeclarationError(f"{name} = {value:g}, expected a number from {low:g} to {high:g}")
    return float(value)


class Controls(Protocol):
    """What can be done to the run that is shown; each raises `DeclarationError` where it cannot be done now."""

    @property
    def offers(self) -> Mapping[str, Any]:
        """What the page offers: ``hotspot`` is true or false, ``kill`` too."""

    def hotspot(self, wanted: Any) -> None:
        """Put a hotspot somewhere; `wanted` is what a request says."""

    def kill(self, task: Any) -> None:
        """End the process of a task."""


class NoControls:
    """Nothing can be done, only watched."""

    @property
    def offers(self) -> Mapping[str, Any]:
        """Offer nothing."""
        return {"hotspot": False, "kill": False}

    def hotspot(self, wanted: Any) -> None:
        """Refuse."""
        raise DeclarationError("hotspots can be put into the demo only (make live); this run reads its input as it is")

    def kill(self, task: Any) -> None:
        """Refuse."""
        raise DeclarationError("nothing can be killed here; the run is only watched")
