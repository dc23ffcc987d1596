"""The end of a process by SIGTERM, behind all that is tidied up on the way out."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["tidied_up"]


class _TerminatedError(SystemExit):
    """The process is to end by the signal that it has got."""


@contextlib.contextmanager
def tidied_up() -> Iterator[None]:
    """Let blocks within come to their ends where SIGTERM ends the process; then let it end by the signal all the same.

    The server answers the signal by coming to rest, and sends it again then: without this, nothing that follows would be done,
    and temporary folders would stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _TerminatedError:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
