"""What kernels that read JSON lines have in common: bytes that mean something, words, white space."""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = [
    "BRACE", "BRACE_END", "BRACKET", "BRACKET_END", "COLON", "COMMA", "CR", "FALSE_WORD", "NULL_WORD", "QUOTE", "SPACE", "TAB",
    "TRUE_WORD", "Bytes", "blank",
]  # fmt: skip

Bytes = NDArray[np.uint8]

QUOTE, COMMA, COLON = 34, 44, 58
BRACE, BRACE_END, BRACKET, BRACKET_END, SPACE, TAB, CR = 123, 125, 91, 93, 32, 9, 13
NULL_WORD, TRUE_WORD, FALSE_WORD = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


@lean_kernel
def blank(data: Bytes, at: int, stop: int) -> int:
    """Return the place of the next byte that is not white space."""
    while at < stop and (data[at] == SPACE or data[at] == TAB or data[at] == CR):
        at += 1
    return at
