"""Streams of dynamic objects: states that move and change their words (dynamic-objects paper, Section VIII).

The paper gives each object a first state, then moves it by a random walk that adds or subtracts 0.05 to its coordinates and
replaces its keywords by those of another text.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.workloads import SourceObjects
from streams.columns import Ints, Offsets, csr_take
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = ["MAX_MOVING_OBJECTS", "MovingSpec", "States", "moving_states", "state_lines"]

#: All current places are held in memory while updates are made.
MAX_MOVING_OBJECTS = 2_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MovingSpec:
    """What updates to make.

    Attributes:
        objects: how many objects there are.
        updates: how many states follow the first ones; each round moves every object once, in a new random order.
        step: what is added to or subtracted from each coordinate, in units of the space.
        rate: states a second.
        deletes: the share of updates that delete the object; its next update lets it come again.
        seed: of everything that is random.
    """

    objects: int = 10_000
    updates: int = 100_000
    step: float = 0.05
    rate: float = 1000.0
    deletes: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.objects <= MAX_MOVING_OBJECTS:
            raise DeclarationError(f"{self.objects} moving objects; expected 1 to {MAX_MOVING_OBJECTS}")
        if self.updates < 0 or not self.step >= 0.0 or not self.rate > 0.0 or not 0.0 <= self.deletes < 1.0:
            raise DeclarationError(
                f"updates {self.updates}, step {self.step}, rate {self.rate}, deletes {self.deletes}; expected a number "
                "of updates from 0 on, a step from 0 on, a positive rate and a share of deletes from 0 to below 1"
            )


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """States in time order: which object, when, where, with what keywords, and whether it is deleted."""

    object: Ints
    ts: Ints
    x: Floats
    y: Floats
    deleted: NDArray[np.bool_]
    kw_off: Offsets
    kw: Ints

    def __len__(self) -> int:
        return len(self.object)


def moving_states(spec: MovingSpec, space: Rect, source: SourceObjects, first_ts: int = 0) -> Iterator[States]:
    """Return the first states, then a round of updates at a time.

    `source` has a row for each object; a later state takes the keywords of any of them. A walk is reflected at the
    border of the space.
    """
    if len(source) != spec.objects:
        raise DeclarationError(f"{spec.objects} moving objects, but {len(source)} to start from")
    rng = np.random.default_rng([spec.seed, 2])
    x, y = source.x.copy(), source.y.copy()
    everyone = np.arange(spec.objects, dtype=np.int64)
    none = np.zeros(spec.objects, np.bool_)
    yield States(everyone, _times(spec, first_ts, 0, spec.objects), x, y, none, source.kw_off, source.kw)
    done = 0
    while done < spec.updates:
        who = rng.permutation(spec.objects)[: spec.updates - done].astype(np.int64)
        signs = rng.integers(0, 2, (2, len(who))) * 2.0 - 1.0
        x, y = x.copy(), y.copy()
        x[who] = _reflected(x[who] + signs[0] * spec.step, space.min_x, space.max_x)
        y[who] = _reflected(y[who] + signs[1] * spec.step, space.min_y, space.max_y)
        deleted = rng.random(len(who)) < spec.deletes
        kw_off, kw = csr_take(source.kw_off, source.kw, rng.integers(0, spec.objects, len(who)))
        yield States(who, _times(spec, first_ts, spec.objects + done, len(who)), x[who], y[who], deleted, kw_off, kw)
        done += len(who)


def _times(spec: MovingSpec, first_ts: int, start: int, count: int) -> Ints:
    elapsed = np.floor(np.arange(start, start + count) * (1000.0 / spec.rate))
    return np.asarray(first_ts + elapsed.astype(np.int64), np.int64)


def _reflected(value: Floats, low: float, high: float) -> Floats:
    """Fold a coordinate back into its range, as often as it takes."""
    width = high - low
    turned = np.abs((value - low) % (2.0 * width))
    return np.clip(low + np.where(turned > width, 2.0 * width - turned, turned), low, high)


def state_lines(states: States, words: Sequence[str]) -> bytes:
    """Return states as lines of an objects file."""
    used = {rank: json.dumps(words[rank], ensure_ascii=False) for rank in set(states.kw.tolist())}
    kw = [used[rank] for rank in states.kw.tolist()]
    off = states.kw_off.tolist()
    lines = []
    for number, ts, x, y, deleted, first, last in zip(
        states.object.tolist(),
        states.ts.tolist(),
        states.x.tolist(),
        states.y.tolist(),
        states.deleted.tolist(),
        off[:-1],
        off[1:],
        strict=True,
    ):
        op = ',"op":"delete"' if deleted else ""
        kws = ",".join(kw[first:last])
        lines.append(f'{{"id":"o{number}","ts":{ts},"x":{x!r},"y":{y!r},"keywords":[{kws}]{op}}}\n')
    return "".join(lines).encode("utf-8")
