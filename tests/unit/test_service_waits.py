"""An ask waits for kernels, and only for these; the service says what it does before it is ready."""

import asyncio
from types import SimpleNamespace

import numba
import pytest

from service.engine_process import EngineStatus
from service.problems import ProblemError
from service.service import Service, ServiceSettings
from topology.kernel_notice import compilations


def _answered(status, events=(), ask_seconds=0.05, compile_seconds=5.0):
    """Wait for an answer while things happen: (after so many seconds, what)."""
    settings = ServiceSettings(ask_seconds=ask_seconds, compile_seconds=compile_seconds)
    service = SimpleNamespace(settings=settings, engine=SimpleNamespace(status=status))

    async def wait():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        for seconds, what in events:
            loop.call_later(seconds, what, answer)
        return await Service._answered(service, answer)

    return asyncio.run(wait())


def _say(**changes):
    def say_on(status):
        return lambda _answer: [setattr(status, name, value) for name, value in changes.items()]

    return say_on


def test_an_answer_that_does_not_come_is_a_problem():
    """Of a topology that runs and compiles nothing, after the time that an ask has."""
    with pytest.raises(ProblemError, match=r"no answer within 0.05 s"):
        _answered(EngineStatus(state="running"))


def test_an_ask_waits_while_the_topology_starts_or_compiles():
    """However often its own time goes by: from a start that takes long to the last kernel."""
    status = EngineStatus(state="starting")
    events = [
        (0.15, _say(state="running", compiling=True, kernels=1)(status)),
        (0.30, _say(compiling=False, kernels=7)(status)),
        (0.33, lambda answer: answer.set_result(b"found")),
    ]
    assert _answered(status, events) == b"found"


def test_a_kernel_that_was_compiled_between_two_looks_counts():
    """One that is compiled faster than the time of an ask is noticed by their number."""
    status = EngineStatus(state="running")
    events = [(0.02, _say(kernels=1)(status)), (0.08, lambda answer: answer.set_result(b"found"))]
    assert _answered(status, events) == b"found"


def test_an_ask_does_not_wait_for_ever():
    """Beyond the bound it is said what the topology does, and when to ask again; a failed one is not waited for."""
    with pytest.raises(ProblemError, match="compiled 3 kernels so far") as told:
        _answered(EngineStatus(state="running", compiling=True, kernels=3), compile_seconds=0.1)
    assert told.value.headers == {"Retry-After": "10"}
    with pytest.raises(ProblemError, match="is failed"):
        _answered(EngineStatus(state="failed"), compile_seconds=1_000.0)


def test_compilations_are_counted_as_they_begin_and_end():
    """Those within others too: what is told at the end is their number, and that none is under way."""
    told = []

    @numba.njit
    def inner(value):
        return value + 1

    @numba.njit
    def outer(value):
        return inner(value) * 2

    with compilations(lambda count, under_way: told.append((count, under_way))):
        assert outer(3) == 8
        assert outer(4) == 10
    assert told[0] == (1, True)
    assert told[-1] == (2, False)
    assert outer(2.5) == 7.0
    assert len(told) == 4


def test_a_reason_is_one_line_without_our_files():
    """The log has the whole of it; who asks over the network has no use for a traceback."""
    whole = (
        'task sink[0] failed in epoch 7:\nTraceback (most recent call last):\n  File "a.py", line 1\nOSError: disk full'
    )
    assert EngineStatus(error=whole).reason == "task sink[0] failed in epoch 7: OSError: disk full"
    assert EngineStatus(error="two lines\nof advice").reason == "two lines\nof advice"
    assert EngineStatus().reason is None
