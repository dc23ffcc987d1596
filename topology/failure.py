"""The end of a run that failed in an operator: the operator's own traceback, without the frames of the runtime."""

import traceback
from pathlib import Path

from streams.errors import RunError, TaskFailedError, WaterspoutError

_RUNTIME = Path(__file__).parent

__all__ = ["SetbackError", "speaks_for_itself", "task_failure"]


class SetbackError(RunError):
    """Something was lost that the run needs: it has to go back to a checkpoint, or to end."""


def speaks_for_itself(error: BaseException) -> bool:
    """Tell whether an error was raised on purpose: it says what to do, and needs no traceback."""
    return isinstance(error, WaterspoutError)


def task_failure(task: str, epoch: int, error: BaseException) -> TaskFailedError:
    """Describe an exception that left a task's step."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((i for i, frame in enumerate(frames) if not Path(frame.filename).is_relative_to(_RUNTIME)), 0)
    kept = frames[own:]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(kept)]
    lines += traceback.format_exception_only(error)
    return TaskFailedError(task, epoch, "".join(lines))
