"""How a topology measures distances, and what may be wrong with that.

``metric = "auto"`` looks at the first objects: places that are called lon, lat (or longitude, latitude, ...) are on the globe,
and distances are metres; places that are called x, y are in a plane. Whoever declares no metric has the plane, and is warned
where the objects have longitudes and latitudes.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from streams.errors import DeclarationError
from streams.files.object_files import has_longitudes
from streams.files.open_queries import OpenQueries
from streams.files.prepared import homes_of, load_manifest
from streams.files.query_files import read_queries
from streams.geometry import METRICS, REGION_CIRCLE, Rect
from streams.vocabulary import Encoder
from topology.amendments import source_of
from topology.declaration import Topology
from topology.validation import make_operator

__all__ = ["EARTH", "odd_distances", "unit_of", "with_metric"]

#: All longitudes and latitudes.
EARTH = Rect(-180.0, -90.0, 180.0, 90.0)

#: A circle that is smaller than this, in metres, was most likely meant in degrees.
_SMALL_M = 10.0

#: So many query operations are looked at.
_FIRST_QUERIES = 1_000


def with_metric(topology: Topology) -> Topology:
    """Return a topology whose metric is settled: as declared, as its objects have it (``auto``), or Euclidean.

    Where no object can tell (a file that is still empty, a source that cannot be looked into), ``auto`` goes by the space:
    that of all longitudes and latitudes is the globe.
    """
    settings = topology.settings
    if settings.metric in METRICS:
        return topology
    globe = False
    if settings.metric == "auto" and EARTH.covers(settings.space):
        found = _has_longitudes(topology)
        globe = settings.space == EARTH if found is None else found
    settled = dataclasses.replace(settings, metric="haversine" if globe else "euclidean")
    return dataclasses.replace(topology, settings=settled)


def unit_of(topology: Topology) -> str:
    """Return what distances of a topology are in, as it stands behind a number."""
    if with_metric(topology).settings.measure == "haversine":
        return "m"
    return "degrees" if _has_longitudes(topology) else "units of the space"


def odd_distances(topology: Topology) -> str | None:
    """Say what may be wrong with distances: longitudes measured in a plane, or circles of a few metres; None otherwise."""
    if topology.settings.metric is None and EARTH.covers(topology.settings.space) and _has_longitudes(topology):
        return (
            "the objects have longitudes and latitudes, but no metric is declared, so distances and radii are Euclidean, in "
            'degrees; set topology.metric = "haversine" for metres, or "euclidean" if degrees are meant'
        )
    if with_metric(topology).settings.measure == "euclidean" or (largest := _largest_radius(topology)) is None:
        return None
    if largest >= _SMALL_M:
        return None
    return (
        f"the first circles have radii of up to {largest:g} m, for distances are on the globe, in metres; if degrees are "
        'meant, set topology.metric = "euclidean"'
    )


def _has_longitudes(topology: Topology) -> bool | None:
    """Tell whether objects have longitudes and latitudes; None where nothing tells."""
    try:
        objects: Any = make_operator(source_of(topology, "leads"), topology)
    except DeclarationError:
        return None
    if not hasattr(objects, "form"):
        return None  # whoever brings a spout of their own knows what it emits
    paths = objects.files()
    home = next((home for home in homes_of(paths) if home is not None), None)
    if home is not None:
        return load_manifest(home).geographic
    return has_longitudes(paths, topology.settings.space, objects.form)


def _largest_radius(topology: Topology) -> float | None:
    """Return the largest radius of the circles among the first queries; None where there is none."""
    try:
        queries: Any = make_operator(source_of(topology, "follows"), topology)
    except DeclarationError:
        return None
    if not hasattr(queries, "form"):
        return None
    settings = topology.settings
    chunks = read_queries(
        queries.files(), space=settings.space, metric="haversine", encoder=Encoder(), chunk_rows=_FIRST_QUERIES,
        open_queries=OpenQueries(settings.limits.live_queries), limits=settings.limits.reading(), form=queries.form,
    )  # fmt: skip
    first = [chunk.batch for chunk in itertools.islice(chunks, 1)]
    radii = [batch.shape[batch.region == REGION_CIRCLE, 2] for batch in first]
    return float(np.max(radii[0])) if radii and len(radii[0]) else None
