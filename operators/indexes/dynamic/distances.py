"""Distances as the kernels of searches have them."""

import numpy as np

from streams.kernel import kernel

__all__ = ["apart"]

_EARTH_RADIUS_M = 6_371_008.8


@kernel
def apart(x: float, y: float, at_x: float, at_y: float, globe: bool) -> float:
    """Return a distance: that of the definition in the plane, and on the globe that but for its last bits."""
    if not globe:
        dx, dy = x - at_x, y - at_y
        return float(np.sqrt(dx * dx + dy * dy))
    lat, at_lat = np.radians(y), np.radians(at_y)
    half_dlat, half_dlon = np.sin((lat - at_lat) * 0.5), np.sin(np.radians(x - at_x) * 0.5)
    h = half_dlat * half_dlat + np.cos(lat) * np.cos(at_lat) * (half_dlon * half_dlon)
    return float(2.0 * _EARTH_RADIUS_M * np.arcsin(np.sqrt(min(h, 1.0))))
