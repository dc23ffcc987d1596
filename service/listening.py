"""Sockets to listen on."""

import socket

from streams.errors import InputError

__all__ = ["listening_on"]


def listening_on(host: str, port: int) -> socket.socket:
    """Return a socket of an address; raise where it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2_048)  # who comes while the service starts waits, and is not refused
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; try another --port"
        ) from None
    return listening
