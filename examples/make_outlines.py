"""Coastlines and borders of states for pictures, from TopoJSON files to the compact file that is shipped.

    python examples/make_outlines.py land-110m.json states-10m.json reports/outlines/outlines.npz

The first is of npm ``world-atlas`` 2.0.2 (Natural Earth), the second of npm ``us-atlas`` 3.0.1 (U.S. Census Bureau).
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Degrees are kept as whole numbers of these parts.
PARTS = 500


def arcs_of(topology: dict[str, Any]) -> list[NDArray[np.float64]]:
    """Return the arcs in degrees; they are stored as differences of whole numbers."""
    scale, shift = (np.array(topology["transform"][key]) for key in ("scale", "translate"))
    return [np.cumsum(np.array(arc), axis=0) * scale + shift for arc in topology["arcs"]]


def rings_of(topology: dict[str, Any], name: str) -> list[NDArray[np.float64]]:
    """Return the rings of an object's polygons; an arc with a negative number is read backwards."""
    arcs = arcs_of(topology)
    rings = []
    for geometry in topology["objects"][name]["geometries"]:
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        for ring in (ring for polygon in polygons for ring in polygon):
            parts = [arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring]
            rings.append(np.concatenate([parts[0], *(part[1:] for part in parts[1:])]))
    return rings


def laid_out(lines: list[NDArray[np.float64]], *, closed: bool) -> list[NDArray[np.float64]]:
    """Return lines that do not jump from one edge of the map to the other: what crosses it is there twice, on both sides.

    A closed line that goes around the world is led around a pole.
    """
    found = []
    for line in lines:
        lon, lat = np.unwrap(line[:, 0], period=360.0), line[:, 1]
        if closed and abs(lon[-1] - lon[0]) > 180.0:
            pole = -90.0 if lat.mean() < 0 else 90.0
            lon, lat = np.append(lon, [lon[-1], lon[0]]), np.append(lat, [pole, pole])
        sides = (lon + shift for shift in (-360.0, 0.0, 360.0))
        found += [np.column_stack([side, lat]) for side in sides if side.max() > -180.0 and side.min() < 180.0]
    return found


def packed(name: str, lines: list[NDArray[np.float64]]) -> dict[str, NDArray[Any]]:
    """Return lines one behind the other, as differences, and where each begins."""
    whole = [np.rint(line * PARTS).astype(np.int32) for line in lines]
    return {
        f"{name}_steps": np.concatenate([np.diff(line, axis=0, prepend=0) for line in whole]),
        f"{name}_off": np.cumsum([0, *map(len, whole)]).astype(np.int32),
    }


def main(land: str, states: str, out: str) -> None:
    """Write the file."""
    coasts, borders = (json.loads(Path(path).read_text("utf-8")) for path in (land, states))
    land_lines, state_lines = laid_out(rings_of(coasts, "land"), closed=True), laid_out(arcs_of(borders), closed=False)
    arrays: dict[str, Any] = {**packed("land", land_lines), **packed("states", state_lines)}
    np.savez_compressed(out, parts=np.int32(PARTS), **arrays)
    print(f"{out}: {Path(out).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
