"""Places in the unit square, no two of them farther apart than they are.

A filter by distance may find too much, never too little. So places are mapped by contractions: a plane is shrunk to the unit
square; the globe is seen from far above the middle of the space, which brings places on the plane of the picture no farther
apart than their chord, and that is shorter than the arc. What lies outside of the picture becomes its border, which brings
nothing apart either. Poles and the date line need no case of their own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.geometry import EARTH_RADIUS_M, Metric, Rect, max_distance

__all__ = ["Frame", "frame_of"]

Floats = NDArray[np.float64]

#: Places of the space, to a side, whose picture tells where it ends.
_SAMPLED = 65
#: Cells to a side of a coarse grid.
_COARSE = 64


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Where the picture begins and ends.

    Attributes:
        axes: the two axes of the picture of the globe, as unit vectors; None in the plane.
        low, high: corners of the picture.
        scale: units of the picture to the side of the unit square.
        diagonal: `maxdist` of scores, in sides of the unit square.
    """

    axes: Floats | None
    low: Floats
    high: Floats
    scale: float
    diagonal: float

    def spots(self, x: Floats, y: Floats) -> Floats:
        """Return places in the unit square."""
        seen = np.column_stack([x, y]) if self.axes is None else _vectors(x, y) @ self.axes.T
        return np.asarray((np.clip(seen, self.low, self.high) - self.low) / self.scale)

    def coarse(self, x: Floats, y: Floats) -> NDArray[np.int64]:
        """Return where places are along the rows of a coarse grid."""
        spots = (self.spots(x, y) * (_COARSE - 1)).astype(np.int64)
        return np.asarray(spots[:, 1] * _COARSE + spots[:, 0])


def _vectors(lon: Floats, lat: Floats) -> Floats:
    lon, lat = np.radians(lon), np.radians(lat)
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def frame_of(space: Rect, metric: Metric) -> Frame:
    """Return the frame of a space."""
    far = max_distance(space, metric)
    if metric == "euclidean":
        low, high = np.array([space.min_x, space.min_y]), np.array([space.max_x, space.max_y])
        scale = float((high - low).max())
        return Frame(None, low, high, scale, far / scale)
    lon, lat = np.radians((space.min_x + space.max_x) / 2), np.radians((space.min_y + space.max_y) / 2)
    east = [-np.sin(lon), np.cos(lon), 0.0]
    north = [-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)]
    axes = np.array([east, north])
    across, up = np.meshgrid(
        np.linspace(space.min_x, space.max_x, _SAMPLED), np.linspace(space.min_y, space.max_y, _SAMPLED)
    )
    seen = _vectors(across.ravel(), up.ravel()) @ axes.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    scale = float((high - low).max())
    return Frame(axes, low, high, scale, far / EARTH_RADIUS_M / scale)
