"""Workload reallocation (SSTD, Section 5.2): leaves are shuffled and allocated anew, so that the fewest queries move.

The tree stays as it is. PM concerns the most and the least loaded worker, FM all of them.
"""

import numpy as np

from partitioners.columns import Floats, Ints, Workers
from partitioners.costs.allocation import karmarkar_karp, loads, matching

__all__ = ["all_workers", "lopsided", "two_workers"]


def lopsided(load: Floats, off_by: Floats | float = 0.0) -> float:
    """Return L_max / L_min (Definition 4): 1 where nobody has anything to do, infinite where only somebody has nothing.

    Where loads may be off by so much each, return what it is at least; 1 where loads may be equal.
    """
    up_to, at_least = load + off_by, load - off_by
    least, most = float(up_to[load.argmin()]), float(at_least[load.argmax()])
    if most <= 0.0:
        return 1.0
    return max(most / least, 1.0) if least > 0.0 else np.inf


def two_workers(load: Floats, held: Floats, worker: Workers, workers: int) -> Workers:
    """Return the workers of leaves after PM: those of the most and the least loaded worker are shuffled.

    Args:
        load: of each leaf.
        held: how many continuous queries of each leaf each worker has (leaves x workers).
        worker: of each leaf, so far.
        workers: how many there are.
    """
    total = loads(load, worker, workers)
    pair = np.array([int(total.argmax()), int(total.argmin())])
    return _shuffled(load, held, worker, pair)


def all_workers(load: Floats, held: Floats, worker: Workers, workers: int) -> Workers:
    """Return the workers of leaves after FM: all leaves are shuffled; arguments as for PM."""
    return _shuffled(load, held, worker, np.arange(workers))


def _shuffled(load: Floats, held: Floats, worker: Workers, among: Ints) -> Workers:
    """Divide the leaves of some workers into as many subsets of equal load, assigned so that the fewest queries move."""
    leaves = np.flatnonzero(np.isin(worker, among))
    subset = karmarkar_karp(load[leaves], len(among))
    saved = np.zeros((len(among), len(among)))
    np.add.at(saved, subset, held[leaves][:, among])
    found = worker.copy()
    found[leaves] = among[matching(saved)[subset]]
    return found
