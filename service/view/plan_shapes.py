"""A plan as shapes on a map: rectangles with the evaluators that have them, in columns, a bounded number of them."""

import numpy as np

from partitioners.plans.plan import Plan
from reports.plan_picture import plan_areas
from service.view.frames import encode_frame

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
    boxes = np.array([area.box for area in areas], np.float64).reshape(-1, 4)
    shown = np.arange(len(areas))
    if len(areas) > MOST_SHAPES:
        sizes = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_SHAPES])
    workers = [sorted(set(areas[place].workers))[:MOST_SHARING] for place in shown.tolist()]
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
        "box": boxes[shown].ravel().astype("<f4"),
        "off": np.cumsum([0, *map(len, workers)]).astype("<u4"),
        "worker": np.array([worker for who in workers for worker in who], "<u2"),
        "textual": np.array([areas[place].textual for place in shown.tolist()], np.uint8),
    }
    return encode_frame(header, columns)
