"""The end of a run that failed in an operator: the operator's own traceback, without the frames of the runtime."""

import traceback

from streams.errors import TaskFailedError

__all__ = ["task_failure"]


def task_failure(task: str, epoch: int, error: BaseException) -> TaskFailedError:
    """Describe an exception that left a task's step."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [i for i, frame in enumerate(frames) if not frame.filename.replace("\\", "/").endswith("topology/task.py")]
    kept = frames[own[0] + (own[0] == 0 and len(own) > 1) :] if own else frames
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(kept)]
    lines += traceback.format_exception_only(error)
    return TaskFailedError(task, epoch, "".join(lines))
