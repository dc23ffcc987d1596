"""Where in the stream the hotspots of a run are: in numbers of objects, which every topology on the same input shares."""

from typing import Any

import numpy as np

from topology.declaration import Topology
from topology.input_files import read_input

__all__ = ["hotspots_of"]


def hotspots_of(topology: Topology, read: int) -> list[dict[str, Any]]:
    """Return for each injection its kind and the objects, counted from the start of the stream, that it begins and ends at.

    Nothing of it lies beyond the objects that were `read`: a run may be limited, or stopped.
    """
    if not topology.injections:
        return []
    first = np.zeros(len(topology.injections), np.int64)
    last = np.zeros(len(topology.injections), np.int64)
    objects, _ = read_input(topology)
    for chunk in objects:
        for place, injection in enumerate(topology.injections):
            first[place] += np.count_nonzero(chunk.batch.ts < injection.first_ms())
            last[place] += np.count_nonzero(chunk.batch.ts < injection.last_ms())
    return [
        {"kind": injection.kind, "from": min(int(a), read), "to": min(int(b), read)}
        for injection, a, b in zip(topology.injections, first, last, strict=True)
    ]
