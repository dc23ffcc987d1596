"""Who sends a byte now and then: heads and bodies have an end, and whoever else comes is answered meanwhile."""

import asyncio
import contextlib

import pytest
import uvicorn
from starlette.requests import Request

from service.bodies import BodyLimits, read_body
from service.listening import listening_on
from service.problems import ProblemError
from service.timed_heads import TimedHeads

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Hasty(TimedHeads):
    """Heads must come in a moment."""

    head_seconds = 0.2


async def answering(scope, _receive, send):
    """Answer everything."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@contextlib.asynccontextmanager
async def serving(protocol=Hasty):
    listening = listening_on("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(answering, http=protocol, log_level="critical", lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        await task
        listening.close()


async def drip(writer, pieces):
    """Send piece by piece; return whether all of them were taken."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        return True
    return False


@pytest.mark.parametrize("first", [b"", WHOLE], ids=["first request", "second request"])
def test_heads_that_never_end_are_cut_off(first):
    """A connection whose head comes byte by byte is closed, others are answered meanwhile, and after a whole request too."""

    async def talk():
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(first)
            if first:
                assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
            dripping = asyncio.create_task(drip(writer, [b"GET / HTTP/1.1\r\n", *[b"A: b\r\n"] * 2_000]))
            other, to_other = await asyncio.open_connection(*address)
            to_other.write(WHOLE)
            assert b" 204 " in await other.readuntil(b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            assert not (dripping.done() and dripping.result()), "it was to be cut off, and ran out"
            dripping.cancel()
            writer.close()
            to_other.close()

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_heads_that_are_too_large_are_refused():
    """One header without an end, or very many, as fast as they come; a body of that size behind a head is no head."""

    async def refused(start, piece):
        async with serving(TimedHeads) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(start)
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 50 << 20 and not reader.at_eof():
                    writer.write(piece)
                    sent += len(piece)
                    await writer.drain()
            writer.close()
            return sent

    async def talk():
        assert await refused(b"GET / HTTP/1.1\r\nA: ", b"x" * 4_096) < 20 << 20
        assert await refused(b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 500) < 20 << 20
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000 + WHOLE
            )
            assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
            assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
            writer.close()

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_bodies_must_come_at_some_pace():
    """A body of single bytes is given up, though it never pauses for long; one that comes fast enough is whole."""

    async def body(limits, pieces, pause):
        left = list(pieces)

        async def receive():
            await asyncio.sleep(pause)
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}

        return await read_body(Request({"type": "http", "method": "POST", "headers": []}, receive), limits)

    with pytest.raises(ProblemError, match="less than 1,000 bytes/s"):
        asyncio.run(body(BodyLimits(idle_seconds=0.2), [b"x"] * 1_000, 0.02))
    pieces = [b"x" * 100_000] * 20
    assert asyncio.run(body(BodyLimits(idle_seconds=10.0), pieces, 0.02)) == b"".join(pieces)
