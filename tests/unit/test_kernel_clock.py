"""The clock of a run stands still while kernels are made ready."""

from typing import ClassVar

import numba
import pytest
from numba.core import event

from operators import Bolt, Spout
from topology.builder import TopologyBuilder
from topology.cli.progress import compiling
from topology.kernel_clock import kernel_clock
from topology.kernel_notice import kernel_notice
from topology.run import run


class Time:
    """Seconds that go by when a test says so."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def time(monkeypatch):
    made = Time()
    monkeypatch.setattr("topology.kernel_clock.time", made)
    return made


def test_clock_stands_still_until_the_outermost_kernel_is_ready(time):
    """Kernels are made ready within each other; time goes on behind the last."""
    with kernel_clock() as clock:
        began = clock()
        clock.stop()
        time.now += 5
        clock.stop()
        time.now += 7
        clock.go_on()
        time.now += 9
        assert clock() == began
        clock.go_on()
        time.now += 2
        assert clock() == began + 2


def test_clock_survives_the_end_of_what_began_before_it(time):
    """Another thread may have been at it when the clock was made."""
    with kernel_clock() as clock:
        began = clock()
        clock.go_on()
        clock.stop()
        time.now += 5
        clock.go_on()
        time.now += 1
        assert clock() == began + 1


def test_each_kernel_that_is_compiled_is_told():
    """Whoever waits is told how many there were; one that is ready, or behind the block, is not compiled."""
    told = []
    first, second = (numba.njit(lambda x, by=by: x + by) for by in (1, 2))
    with kernel_notice(lambda count, seconds: told.append((count, seconds >= 0))):
        assert (first(1), second(1), second(2)) == (2, 3, 4)
    first(1.0)
    assert told == [(1, True), (2, True)]


def test_line_of_kernels_says_how_many_of_how_many():
    """As long as it is about so many, and with the seconds that it has taken."""
    assert compiling(3, 7.4, about=9) == "compiling kernels, once on this machine: 3 of about 9, 7 s"
    assert compiling(10, 7.6, about=9) == "compiling kernels, once on this machine: 10, 8 s"


class Once(Spout):
    outputs: ClassVar = {"default": ("n",)}

    def next_epoch(self, epoch, inputs, emit):
        if epoch.number == 0:
            emit(1)
        return False


class Compiling(Bolt):
    """Takes a thousand seconds to compile something."""

    time = None

    def execute(self, tup, emit):
        event.start_event("numba:compiler_lock")
        self.time.now += 1000
        event.end_event("numba:compiler_lock")
        self.time.now += 3


def test_times_of_a_run_do_not_include_compiling(time, monkeypatch):
    """Neither its seconds, nor its latency, nor what a task was busy for."""
    monkeypatch.setattr(Compiling, "time", time)
    builder = TopologyBuilder("slow")
    builder.spout("once", Once)
    builder.bolt("compiling", Compiling).shuffle("once")
    summary = run(builder.build()).summary
    busy = next(task["busy_ms"] for task in summary["tasks"] if task["task"] == "compiling[0]")
    assert (summary["seconds"], summary["latency_ms"]["max"], busy) == (3.0, 3000.0, 3000)
