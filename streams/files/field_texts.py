"""Texts cut out of the bytes of a block, as Arrow columns."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.columns import Ints
from streams.files.record_kernels import copy_fields

__all__ = ["cut_texts"]


def cut_texts(
    data: NDArray[np.uint8], begins: Ints, ends: Ints, written: NDArray[np.uint8] | None = None
) -> pa.StringArray:
    """Return the texts between these places, which must be UTF-8; `written` tells which have quotes to be undone."""
    off = np.zeros(len(begins) + 1, np.int32)
    out = np.empty(int((ends - begins).sum()), np.uint8)
    copy_fields(data, begins, ends, np.zeros(len(begins), np.uint8) if written is None else written, off, out)
    return pa.StringArray.from_buffers(len(begins), pa.py_buffer(off), pa.py_buffer(out[: off[-1]]))
