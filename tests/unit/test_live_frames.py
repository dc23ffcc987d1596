"""Frames of the live view: what goes in comes out, and what is none is refused."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.view.frames import decode_frame, encode_frame
from streams.errors import CodecError

COLUMNS = {
    "bytes": np.array([1, 2, 3], np.uint8), "places": np.array([0, 65_535, 7], np.uint16),
    "offsets": np.array([0, 4_000_000_000], np.uint32), "costs": np.array([0.5, -1.25, 3e8], np.float32),
    "none": np.empty(0, np.float32),
}  # fmt: skip


def test_frame_gives_back_header_and_columns():
    """Of every type, whatever the length of the header; columns begin at multiples of 8, as browsers need it."""
    for padding in range(9):
        header = {"frame": "tick", "name": "é" * padding, "events": [{"t": 1.5}]}
        frame = encode_frame(header, COLUMNS)
        found, columns = decode_frame(frame)
        assert found == header
        assert {name: column.tolist() for name, column in columns.items()} == {
            n: c.tolist() for n, c in COLUMNS.items()
        }
        length = int.from_bytes(frame[4:8], "little")
        assert (8 + length) % 8 == 0


@pytest.mark.parametrize(
    "data", [b"", b"WSV1", b"WSV1\xff\xff\xff\xff", b"XSV1\x02\0\0\0{}", b"WSV1\x02\0\0\0{}", b"WSV1\x04\0\0\0null"]
)
def test_bytes_that_are_no_frame_are_refused(data):
    """With the one error that callers know."""
    with pytest.raises(CodecError):
        decode_frame(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_damaged_frame_is_read_or_refused(place, value):
    """Never another exception, whichever byte is another one."""
    frame = bytearray(encode_frame({"frame": "plan", "serial": 3}, COLUMNS))
    frame[place % len(frame)] = value
    with contextlib.suppress(CodecError):
        decode_frame(bytes(frame))


def test_frame_that_points_outside_is_refused():
    """A column that would begin before the frame, or end behind it."""
    for arrays in ('{"a":["f4",0,99]}', '{"a":["f4",-8,1]}', '{"a":["f4",0,-1]}', '{"a":["x",0,1]}', '{"a":3}', "[1]"):
        text = f'{{"frame":"tick","arrays":{arrays}}}'.encode()
        with pytest.raises(CodecError):
            decode_frame(b"WSV1" + len(text).to_bytes(4, "little") + text + bytes(16))
