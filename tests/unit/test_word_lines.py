"""Words at the end of lines: few in the line, many in a pool, which is packed."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from operators.indexes.core.word_lines import LINE_BYTES, WordLines, inline_words


@pytest.mark.parametrize("count_at", [6, 10])
def test_words_come_back_whatever_comes_and_goes(count_at):
    """Slots with fewer words than a line has room for, as many, and more; what stands before the words stays."""
    rng, inline = Random(count_at), inline_words(count_at)
    lines, held, most = WordLines(count_at), {}, 0
    for turn in range(200):
        gone = np.array([slot for slot in held if rng.random() < 0.4], np.int32)
        old = lines.forget(gone)
        assert old.tolist() == [word for slot in gone.tolist() for word in held.pop(slot)]
        slots = np.array(rng.sample([s for s in range(40) if s not in held], rng.randrange(8)), np.int32)
        rows = [sorted(rng.sample(range(99), rng.choice([0, 1, inline, inline + 1, 30]))) for _ in slots]
        off = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        lines.grow(int(slots.max(initial=0)) + 1)
        others = np.array(sorted(held), np.int32)
        lines.write(slots, off, np.array([w for row in rows for w in row], np.int32), lambda others=others: others)
        lines.lines[slots, 0] = turn
        held |= dict(zip(slots.tolist(), rows, strict=True))
        most = max(most, len(lines.long))
        back_off, back = lines.words_of(np.array(list(held), np.int32))
        assert [back[a:b].tolist() for a, b in pairwise(back_off)] == list(held.values())
        assert (lines.lines[slots, 0] == turn).all()
    assert lines.lines.ctypes.data % LINE_BYTES == 0
    assert 30 < most < 40 * 30 * 3
