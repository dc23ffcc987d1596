"""What a task shows of its work to whoever watches the run: a bounded sample of places an epoch, and the plan in force.

A lens looks at what an operator was given and what it has emitted; operators know nothing of it. What it sees travels with the
reports, so that it reaches the driver on every runtime. Its cost is bounded an epoch, whatever the stream does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.operator import Emitter, Inputs
from partitioners.plans.plan import Plan, pack
from streams.batches import ObjectBatch, TupleBatch
from streams.geometry import Rect

__all__ = ["MOST_ALERTS", "MOST_OBJECTS", "PLACES", "PLAN", "PREPARED", "SWITCHED", "Lens", "Shutter"]

#: Kinds of events that watchers read; others, such as the moves of a balancer, are in reports anyway.
PLACES, PLAN, PREPARED, SWITCHED = "places", "plan", "plan-prepared", "plan-switched"

#: The most places of objects and of alerts that one task shows of one epoch.
MOST_OBJECTS, MOST_ALERTS = 160, 64

#: Of so many epochs a second places are shown, and of so many at once after a while with fewer.
EPOCHS_PER_S, EPOCHS_AT_ONCE = 20.0, 40.0

#: So many epochs back it is known whether they are shown.
_REMEMBERED = 256

#: Plans and changes of plans that are larger than this are not shown.
MOST_PLAN_BYTES = 4 << 20

#: Places are sent as parts of the width and the height of the space.
PARTS = 65_535

Event = Mapping[str, Any]
Ints = NDArray[np.int64]


class Shutter:
    """Says of which epochs places are shown: of all while there are few, of some where they fly by.

    What a run costs that is watched must not grow with how fast it is. All tasks of a process ask the same one, so that alerts
    are shown of the epochs that objects are shown of.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._at = clock, clock()
        self._left = EPOCHS_AT_ONCE
        self._shown: dict[int, bool] = {}

    def __call__(self, epoch: int) -> bool:
        """Tell whether an epoch is shown; whoever asks first decides by the clock."""
        found = self._shown.get(epoch)
        if found is None:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * EPOCHS_PER_S, EPOCHS_AT_ONCE)
            self._at = now
            found = self._shown[epoch] = self._left >= 1.0
            self._left -= found
            if len(self._shown) > _REMEMBERED:
                del self._shown[next(iter(self._shown))]
        return found


class Lens:
    """Looks at one task, epoch by epoch; places are shown of the epochs that `shown` says."""

    def __init__(self, space: Rect, operator: Any, shown: Callable[[int], bool] = lambda _epoch: True) -> None:
        self._shown = shown
        wide, high = space.max_x - space.min_x, space.max_y - space.min_y
        self._scale = np.array([[PARTS / wide], [PARTS / high]])
        self._low = np.array([[space.min_x], [space.min_y]]) - 0.5 / self._scale  # so that what is cut off is rounded
        self._operator = operator
        self._leads = hasattr(operator, "next_epoch")
        self._balances = hasattr(operator, "plans")
        self._first = True

    def look(self, epoch: int, inputs: Inputs, emit: Emitter) -> Iterator[Event]:
        """Yield what is to be seen of an epoch."""
        if self._leads:
            if self._shown(epoch):
                yield from self._objects(epoch, emit)
            return
        if self._first and self._balances:
            yield self._plans()  # with what it has ordered in this epoch
        elif self._balances:
            yield from _orders(emit.sent.get("orders", ()))
        self._first = False
        if self._shown(epoch):
            yield from self._alerts(epoch, inputs, emit)

    def _plans(self) -> Event:
        """Return the plan in force, and the one that is being prepared: a task may go on from any state."""
        plan, following = self._operator.plans
        return {
            "event": PLAN,
            "version": plan.version,
            "packed": _packed(plan),
            "next": None if following is None else following.version,
            "next_packed": None if following is None else _packed(following),
        }

    def _objects(self, epoch: int, emit: Emitter) -> Iterator[Event]:
        batches = [b for sent in emit.sent.values() for b in sent if isinstance(b, ObjectBatch) and len(b)]
        for batch in batches:
            chosen = _some(len(batch), max(MOST_OBJECTS // len(batches), 1), epoch)
            yield self._places("objects", len(batch), batch.x[chosen], batch.y[chosen])

    def _alerts(self, epoch: int, inputs: Inputs, emit: Emitter) -> Iterator[Event]:
        """Show where objects of this epoch are that somebody is told of."""
        objects = [a.batch for a in inputs.arrivals if isinstance(a.batch, ObjectBatch) and len(a.batch)]
        found = [b for sent in emit.sent.values() for b in sent if hasattr(b, "seq") and not isinstance(b, ObjectBatch)]
        found = [b for b in found if len(b.seq)]
        if not objects or not found:
            return
        for batch in found:
            wanted = batch.seq[_some(len(batch.seq), max(MOST_ALERTS // len(found), 1), epoch)]
            x, y = _looked_up(wanted, objects)
            if len(x):
                yield self._places("alerts", len(batch.seq), x, y)

    def _places(self, what: str, count: int, x: NDArray[np.float64], y: NDArray[np.float64]) -> Event:
        parts = np.empty((2, len(x)))
        parts[0], parts[1] = x, y
        parts -= self._low
        parts *= self._scale
        np.maximum(parts, 0.0, out=parts)
        np.minimum(parts, PARTS, out=parts)
        return {"event": PLACES, "what": what, "count": count, "places": parts.T.astype("<u2", order="C").tobytes()}


def _packed(plan: Plan) -> bytes | None:
    packed = pack(plan)
    return packed if len(packed) <= MOST_PLAN_BYTES else None


def _orders(batches: Sequence[Any]) -> Iterator[Event]:
    """Show what a balancer orders: the change that it prepares, and that it is in force."""
    for batch in batches:
        assert isinstance(batch, TupleBatch)
        for kind, _worker, payload in batch.rows():
            if kind == "prepare":
                change = payload[0]
                yield {"event": PREPARED, "change": change if len(change) <= MOST_PLAN_BYTES else None}
            elif kind == "switch":
                yield {"event": SWITCHED}


def _some(rows: int, most: int, epoch: int) -> slice:
    """Return at most so many rows, evenly spread, from another one on in each epoch: no rhythm of the input is missed."""
    if rows <= most:
        return slice(0, rows)
    step = rows // most
    first = epoch * 7919 % (rows - step * (most - 1))
    return slice(first, first + step * (most - 1) + 1, step)


def _looked_up(wanted: Ints, objects: Sequence[ObjectBatch]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the places of the objects with these numbers, as far as they are among these, which ascend in each batch."""
    x, y = [], []
    for batch in objects:
        row = batch.seq.searchsorted(wanted)
        np.minimum(row, len(batch) - 1, out=row)
        row = row[batch.seq[row] == wanted]
        x.append(batch.x[row])
        y.append(batch.y[row])
    return (x[0], y[0]) if len(x) == 1 else (np.concatenate(x), np.concatenate(y))
