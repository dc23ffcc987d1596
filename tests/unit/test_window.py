import numpy as np
import pytest

from streams.errors import DeclarationError
from streams.window import MAX_WINDOW, Window, rows_upto

TS = np.array([-3, 0, 0, 5, 9], np.int64)


@pytest.mark.parametrize(("time", "rows"), [(-4, 0), (-3, 1), (0, 3), (4, 3), (9, 5), (2**70, 5), (-(2**70), 0)])
def test_rows_upto_counts_rows_at_or_before_a_time(time, rows):
    """Any integer is a time, also one that no int64 holds."""
    assert rows_upto(TS, time) == rows


def test_window_by_objects_starts_at_the_last_w():
    """Before W objects have come, the window holds all of them."""
    window = Window(objects=2)
    assert [window.first(TS, seen, 0) for seen in range(6)] == [0, 0, 0, 1, 2, 3]


def test_window_by_time_excludes_its_old_edge():
    """An object of age W is gone, one of age W - 1 is there."""
    window = Window(ms=5)
    assert [window.first(TS, 5, now) for now in (1, 2, 4, 5, 9, 10)] == [0, 1, 1, 3, 3, 4]


def test_window_by_time_never_starts_after_what_was_seen():
    """When less has come than the clock says, the window is empty, not negative."""
    assert Window(ms=1).first(TS, 2, 100) == 2


@pytest.mark.parametrize("sizes", [{}, {"objects": 1, "ms": 1}, {"objects": 0}, {"ms": -5}, {"ms": MAX_WINDOW + 1}])
def test_window_refuses_what_is_no_window(sizes):
    """A window has one positive size."""
    with pytest.raises(DeclarationError, match="window"):
        Window(**sizes)
