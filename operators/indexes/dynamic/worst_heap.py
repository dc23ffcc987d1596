"""A heap of the best that a search has found so far, the worst of them on top: scores, places in the order, objects."""

from typing import Any

from streams.kernel import kernel

__all__ = ["rise", "sift", "worse"]


@kernel
def worse(score: float, seen: int, other: float, other_seen: int) -> bool:
    """Tell whether the first of two entries comes after the second: a lower score, or the same and seen later."""
    return score < other or (score == other and seen > other_seen)


@kernel
def sift(scores: Any, seen: Any, objects: Any, count: int) -> None:
    """Let the first of a heap, whose root is the worst, sink to its place."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= count:
            return
        if child + 1 < count and worse(scores[child + 1], seen[child + 1], scores[child], seen[child]):
            child += 1
        if not worse(scores[child], seen[child], scores[i], seen[i]):
            return
        scores[i], scores[child] = scores[child], scores[i]
        seen[i], seen[child] = seen[child], seen[i]
        objects[i], objects[child] = objects[child], objects[i]
        i = child


@kernel
def rise(scores: Any, seen: Any, objects: Any, i: int) -> None:
    """Let an entry of a heap rise to its place."""
    while i > 0:
        parent = (i - 1) // 2
        if not worse(scores[i], seen[i], scores[parent], seen[parent]):
            return
        scores[i], scores[parent] = scores[parent], scores[i]
        seen[i], seen[parent] = seen[parent], seen[i]
        objects[i], objects[parent] = objects[parent], objects[i]
        i = parent
