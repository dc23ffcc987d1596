"""What a task shows of its work to whoever watches the run: a bounded sample of places an epoch, and the plan in force.

A lens looks at what an operator was given and what it has emitted; operators know nothing of it. What it sees travels with the
reports, so that it reaches the driver on every runtime. Its cost is bounded an epoch, whatever the stream does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.operator import Emitter, Inputs
from partitioners.plans.plan import Plan, pack
from streams.batches import ObjectBatch, TupleBatch
from streams.geometry import Rect

__all__ = ["MOST_ALERTS", "MOST_OBJECTS", "PLACES", "PLAN", "PREPARED", "SWITCHED", "Lens"]

#: Kinds of events that watchers read; others, such as the moves of a balancer, are in reports anyway.
PLACES, PLAN, PREPARED, SWITCHED = "places", "plan", "plan-prepared", "plan-switched"

#: The most places of objects and of alerts that one task shows of one epoch.
MOST_OBJECTS, MOST_ALERTS = 64, 32

#: Plans and changes of plans that are larger than this are not shown.
MOST_PLAN_BYTES = 4 << 20

#: Places are sent as parts of the width and the height of the space.
PARTS = 65_535

Event = Mapping[str, Any]
Ints = NDArray[np.int64]


class Lens:
    """Looks at one task, epoch by epoch."""

    def __init__(self, space: Rect, operator: Any) -> None:
        self._low = np.array([space.min_x, space.min_y])
        self._scale = PARTS / np.array([space.max_x - space.min_x, space.max_y - space.min_y])
        self._operator = operator
        self._leads = hasattr(operator, "next_epoch")
        self._balances = hasattr(operator, "plans")
        self._first = True

    def look(self, epoch: int, inputs: Inputs, emit: Emitter) -> Iterator[Event]:
        """Yield what is to be seen of an epoch."""
        if self._leads:
            yield from self._objects(epoch, emit)
            return
        if self._first and self._balances:
            yield self._plans()  # with what it has ordered in this epoch
        elif self._balances:
            yield from _orders(emit.sent.get("orders", ()))
        self._first = False
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
            chosen = _some(len(batch), MOST_OBJECTS // len(batches) or 1, epoch)
            yield self._places("objects", len(batch), batch.x[chosen], batch.y[chosen])

    def _alerts(self, epoch: int, inputs: Inputs, emit: Emitter) -> Iterator[Event]:
        """Show where objects of this epoch are that somebody is told of."""
        objects = [a.batch for a in inputs.arrivals if isinstance(a.batch, ObjectBatch) and len(a.batch)]
        found = [b for sent in emit.sent.values() for b in sent if hasattr(b, "seq") and not isinstance(b, ObjectBatch)]
        found = [b for b in found if len(b.seq)]
        if not objects or not found:
            return
        for batch in found:
            wanted = batch.seq[_some(len(batch.seq), MOST_ALERTS // len(found) or 1, epoch)]
            x, y = _looked_up(wanted, objects)
            if len(x):
                yield self._places("alerts", len(batch.seq), x, y)

    def _places(self, what: str, count: int, x: NDArray[np.float64], y: NDArray[np.float64]) -> Event:
        parts = (np.stack([x, y], axis=1) - self._low) * self._scale
        places = np.clip(np.rint(parts), 0, PARTS).astype("<u2")
        return {"event": PLACES, "what": what, "count": count, "places": places.tobytes()}


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


def _some(rows: int, most: int, epoch: int) -> Ints:
    """Return at most so many rows, evenly spread; others in other epochs, so that no rhythm of the input is lost."""
    if rows <= most:
        return np.arange(rows)
    step = rows / most
    return (np.arange(most) * step + epoch * 0.618034 % 1.0 * step).astype(np.int64)


def _looked_up(wanted: Ints, objects: Sequence[ObjectBatch]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the places of the objects with these numbers, as far as they are among these, which ascend in each batch."""
    x, y = [], []
    for batch in objects:
        row = np.minimum(np.searchsorted(batch.seq, wanted), len(batch) - 1)
        hit = batch.seq[row] == wanted
        x.append(batch.x[row[hit]])
        y.append(batch.y[row[hit]])
    return np.concatenate(x), np.concatenate(y)
