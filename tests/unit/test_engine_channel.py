"""The socket between service and engine: messages whole and in order, and an end that is one, however it comes."""

import socket
import struct

import pytest

from service.channel import EngineChannel, ServiceGoneError, pack_message


@pytest.fixture
def ends():
    """The engine's end as a channel, and the service's as a socket."""
    here, there = socket.socketpair()
    with here, there:
        yield EngineChannel(here), there


def test_messages_come_whole_and_in_order_until_the_service_is_gone(ends):
    """Also one that comes in pieces; half a message at the end is none."""
    channel, service = ends
    service.sendall(pack_message("wake") + pack_message("view-note", {"a": 1})[:3])
    received = channel.messages()
    assert next(received) == ["wake"]
    service.sendall(pack_message("view-note", {"a": 1})[3:] + pack_message("stop")[:-1])
    assert next(received) == ["view-note", {"a": 1}]
    service.close()
    assert list(received) == []


def test_a_reset_is_an_end_too():
    """A service that is killed with unread messages resets the connection: the engine ends by it as by any other end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = socket.create_connection(listening.getsockname())
        there, _ = listening.accept()
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    there.close()
    channel = EngineChannel(here)
    assert list(channel.messages()) == []
    with pytest.raises(ServiceGoneError):
        _send_many(channel)
    here.close()


def _send_many(channel):
    """Send until the system notices that nobody is there; it may take the first message."""
    for _ in range(100):
        channel.send("ack", 1, 0, 0, 0)
