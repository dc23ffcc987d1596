"""How kernels are compiled."""

import gc

import numba
import pytest
from numba.core import config, event

import streams.kernel  # noqa: F401  # what is tested begins with its import


def inner(value):
    return value + 1


def outer(value, called):
    return called(value) * 2


class Watch(event.Listener):
    """Notes whether the collector is at work when compilations begin and end."""

    def __init__(self):
        self.starts, self.ends = [], []

    def on_start(self, _event):
        self.starts.append(gc.isenabled())

    def on_end(self, _event):
        self.ends.append(gc.isenabled())


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("before", [True, False])
def test_collector_is_still_while_kernels_are_compiled_within_kernels(before):
    """It does not work until the outermost is ready; then it is as it was before."""
    watch = Watch()
    assert gc.isenabled()
    try:
        if not before:
            gc.disable()
        with event.install_listener("numba:compile", watch):
            assert numba.njit(outer)(3, numba.njit(inner)) == 8  # not through `kernel`, which finds them in its cache
        assert gc.isenabled() == before
    finally:
        gc.enable()
    assert watch.starts == [False, False]
    assert watch.ends == [False, before]
