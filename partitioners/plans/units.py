"""What of a plan can move: its units, and subscriptions by number.

Every kind of plan distributes units of its own to workers: parts of boxes, leaves, boxes of keyword ranges, subscriptions,
slots of a hash. A change of a plan moves some of them; everything else about it stays.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Ints, Workers, check_range
from streams.errors import InputError

__all__ = ["check_assigned", "found_in", "moved_numbers", "moved_units"]


def found_in(number: Ints, asked: Ints) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where numbers stand, or would stand, in a table of ascending ones, and which of them are in it.

    Numbers may be negative: those of injected queries are.
    """
    place = np.searchsorted(number, asked)
    known = np.zeros(len(asked), np.bool_)
    if len(number):
        known = number[np.minimum(place, len(number) - 1)] == asked
    return place, known


def check_assigned(number: Ints, assigned: Workers, workers: int) -> None:
    """Raise unless a table of subscriptions has one existing worker for each, and ascends by number."""
    if len(assigned) != len(number) or (np.diff(number) <= 0).any():
        raise InputError("a plan needs one worker for each subscription that it names, in ascending order of numbers")
    check_range("assigned", assigned, 0, workers)


def moved_units(unit_worker: Workers, units: ArrayLike, workers: ArrayLike, of: int) -> Workers:
    """Return the workers of all units after some have moved; `of` is how many workers there are."""
    unit, worker = _pairs("units", units, workers, of)
    check_range("units", unit, 0, len(unit_worker))
    moved = unit_worker.copy()
    moved[unit] = worker
    return moved


def moved_numbers(
    number: Ints, assigned: Workers, numbers: ArrayLike, workers: ArrayLike, of: int
) -> tuple[Ints, Workers]:
    """Return a table of subscriptions (numbers ascending) and workers after some have moved; unknown ones join it."""
    moving, worker = _pairs("numbers", numbers, workers, of)
    order = np.argsort(moving, kind="stable")
    moving, worker = moving[order], worker[order]
    place, known = found_in(number, moving)
    moved = assigned.copy()
    moved[place[known]] = worker[known]
    if known.all():
        return number, moved
    fresh = ~known
    return np.insert(number, place[fresh], moving[fresh]), np.insert(moved, place[fresh], worker[fresh])


def _pairs(name: str, what: ArrayLike, workers: ArrayLike, of: int) -> tuple[NDArray[np.int64], Workers]:
    moving, worker = np.asarray(what), np.asarray(workers)
    for given in (moving, worker):
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise InputError(f"a move of {name} names {given.dtype} of shape {given.shape}; expected whole numbers")
    if len(moving) != len(worker):
        raise InputError(f"a move names {len(moving)} {name} and {len(worker)} workers; expected one worker for each")
    if len(np.unique(moving)) != len(moving):
        raise InputError(f"a move names one of its {name} more than once; each can move to one worker only")
    check_range("workers", worker, 0, of)
    return moving.astype(np.int64), worker.astype(np.int32)
