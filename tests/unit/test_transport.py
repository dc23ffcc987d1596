"""Sockets between tasks: who may connect, how frames arrive, what happens when a peer is slow or gone."""

import secrets
import socket
import threading
import time

import pytest

from streams.errors import RunError
from topology.ray_runtime.transport import TOKEN_BYTES, Endpoint, Frame, Lost

TOKEN = secrets.token_bytes(TOKEN_BYTES)


@pytest.fixture
def endpoints():
    """Two endpoints of one run that are connected both ways, and a way to make more."""
    made = []

    def make(me, token=TOKEN, generation=1, limit=1 << 26):
        made.append(Endpoint("127.0.0.1", token, generation, limit, me))
        return made[-1]

    yield make
    for endpoint in made:
        endpoint.close()


def frames(endpoint, count, seconds=10.0):
    """Poll until so many frames have come."""
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += endpoint.poll(0.05)
    return found


def test_frames_arrive_in_order_and_whole(endpoints):
    """Small and large bodies come out as they went in, in the order they were sent."""
    a, b = endpoints(1), endpoints(2)
    a.connect({2: b.address})
    bodies = [b"", b"x", secrets.token_bytes(70_000), secrets.token_bytes(3_000_000), b"end"]
    for epoch, body in enumerate(bodies):
        a.send(2, 10, 20, 0, 0, epoch, [body[:10], body[10:]])
    received = []
    while len(received) < len(bodies):
        a.poll(0)
        received += b.poll(0.05)
    assert [(f.source, f.target, f.epoch, bytes(f.body)) for f in received] == [
        (10, 20, e, body) for e, body in enumerate(bodies)
    ]


def test_small_frames_leave_together_and_before_a_wait(endpoints, monkeypatch):
    """A poll that does not wait may hold small frames back for a time; one that waits sends them first."""
    a, b = endpoints(1), endpoints(2)
    a.connect({2: b.address})
    frames(b, 1, seconds=0.05)
    for hold, seconds, leaves in [(1e9, 0, False), (0, 0, True), (1e9, 0.001, True)]:
        monkeypatch.setattr("topology.ray_runtime.transport.HOLD_SECONDS", hold)
        for body in (b"first", b"second"):
            a.send(2, 1, 2, 0, 0, 0, [body])
        a.poll(seconds)
        assert [bytes(f.body) for f in frames(b, 2, seconds=10 if leaves else 0.05)] == [b"first", b"second"] * leaves
        a.flush(5)
        frames(b, 2 * (not leaves))


def test_two_that_send_each_other_large_frames_do_not_block(endpoints):
    """Neither waits for the other to read: both queue and go on reading."""
    a, b = endpoints(1), endpoints(2)
    a.connect({2: b.address})
    b.connect({1: a.address})
    body = bytes(20_000_000)
    a.send(2, 1, 2, 0, 0, 0, [body])
    b.send(1, 2, 1, 0, 0, 0, [body])
    got_a, got_b, deadline = [], [], time.monotonic() + 30
    while not (got_a and got_b) and time.monotonic() < deadline:
        got_a += a.poll(0.01)
        got_b += b.poll(0.01)
    assert len(got_a[0].body) == len(got_b[0].body) == len(body)


@pytest.mark.parametrize("wrong", ["token", "generation"])
def test_caller_without_token_or_of_another_generation_is_closed(endpoints, wrong):
    """A stranger's frames never arrive, and its connection ends."""
    a = endpoints(1)
    stranger = endpoints(2, token=bytes(TOKEN_BYTES)) if wrong == "token" else endpoints(2, generation=2)
    stranger.connect({1: a.address})
    stranger.send(1, 2, 1, 0, 0, 0, [b"let me in"])
    stranger.flush(5)
    assert frames(a, 1, seconds=0.3) == []
    assert any(isinstance(item, Lost) for item in frames(stranger, 1, seconds=5))


def test_who_called_while_a_process_was_at_work_is_no_stranger(endpoints, monkeypatch):
    """A peer whose greeting waits to be read stays, however long ago it called, when another one calls."""
    monkeypatch.setattr("topology.ray_runtime.transport.HANDSHAKE_SECONDS", 0.0)
    a, b, c = endpoints(1), endpoints(2), endpoints(3)
    b.connect({1: a.address})
    a.poll(5)  # b is accepted; what it says is not read yet
    c.connect({1: a.address})
    b.send(1, 2, 1, 0, 0, 0, [b"here"])
    b.flush(5)
    assert [bytes(frame.body) for frame in frames(a, 1)] == [b"here"]


def test_noise_is_closed_and_others_go_on(endpoints):
    """Bytes that are no greeting end only the connection they came on."""
    a, b = endpoints(1), endpoints(2)
    with socket.create_connection(a.address) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(200))
        b.connect({1: a.address})
        b.send(1, 2, 1, 3, 0, 5, [b"hello"])
        b.flush(5)
        assert [(f.kind, f.epoch) for f in frames(a, 1)] == [(3, 5)]


def test_frame_above_the_limit_is_refused_on_both_sides(endpoints):
    """A sender refuses with a remedy; a receiver that is told of one drops the connection without making room for it."""
    a, b = endpoints(1, limit=1000), endpoints(2, limit=1 << 20)
    b.connect({1: a.address})
    a.connect({2: b.address})
    with pytest.raises(RunError, match=r"topology\.limits\.frame_bytes"):
        a.send(2, 1, 2, 0, 0, 0, [bytes(1001)])
    b.send(1, 2, 1, 0, 0, 0, [bytes(5000)])
    b.flush(5)
    [lost] = frames(a, 1)
    assert isinstance(lost, Lost)
    assert "limit is 1000" in lost.reason


def test_peer_that_is_gone_is_reported(endpoints):
    """Both the one who listens and the one who sends hear that a connection has ended."""
    a, b = endpoints(1), endpoints(2)
    a.connect({2: b.address})
    a.send(2, 1, 2, 0, 0, 0, [b"x"])
    a.flush(5)
    assert isinstance(frames(b, 1)[0], Frame)
    a.close()
    assert frames(b, 1) == [Lost(1, "the connection was closed")]


def test_wake_ends_a_poll(endpoints):
    """Another thread can end a poll that has nothing to wait for."""
    a = endpoints(1)
    thread = threading.Timer(0.05, a.wake)
    thread.start()
    assert a.poll(30) == []
    thread.join()
