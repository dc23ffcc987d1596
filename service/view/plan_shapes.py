"""A plan as shapes on a map: rectangles with the evaluators that have them, in columns, a bounded number of them."""

import numpy as np

from partitioners.plans.plan import Plan
from reports.plan_picture import plan_areas
from service.view.frames import encode_frame
from streams.columns import csr_take

__all__ = ["MOST_SHAPES", "plan_frame"]

#: The most rectangles of a plan that are shown, the largest of them; and the most evaluators of one of them.
MOST_SHAPES, MOST_SHARING = 4_000, 64


def plan_frame(plan: Plan, serial: int, seconds: float) -> bytes:
    """Return the frame of a plan.

    Args:
        plan: what to show.
        serial: its number among the plans of this view: a run that goes back may have a version twice.
        seconds: since the start of the run, when it came into force.
    """
    areas = plan_areas(plan)
    shown = np.arange(len(areas))
    if len(areas) > MOST_SHAPES:
        sizes = (areas.box[:, 2] - areas.box[:, 0]) * (areas.box[:, 3] - areas.box[:, 1])
        shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_SHAPES])
    off, worker = csr_take(areas.off, areas.worker, shown)
    named = np.arange(len(worker)) - np.repeat(off[:-1], np.diff(off)) < MOST_SHARING
    header = {
        "frame": "plan",
        "serial": serial,
        "version": plan.version,
        "kind": plan.kind,
        "t": round(seconds, 3),
        "areas": len(areas),
        "workers": plan.workers,
    }
    columns = {
        "box": areas.box[shown].ravel().astype("<f4"),
        "off": np.append(0, np.cumsum(np.minimum(np.diff(off), MOST_SHARING))).astype("<u4"),
        "worker": worker[named].astype("<u2"),
        "textual": areas.textual[shown].astype(np.uint8),
    }
    return encode_frame(header, columns)
