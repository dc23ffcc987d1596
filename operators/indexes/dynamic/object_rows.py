"""The lines of the table of objects.

Of the eight float64 of a line (`operators.indexes.core.word_lines`) the last five are ten int32:

X, Y, NORM     the place, and |o| of `streams.scoring`
COUNT          the number of keywords
FIRST...       the keywords as words, up to `INLINE`; of more the first place tells where they begin in the pool
"""

from operators.indexes.core.word_lines import inline_words

__all__ = ["COUNT", "FIRST", "INLINE", "NORM", "X", "Y"]

X, Y, NORM = range(3)
COUNT = 6
FIRST, INLINE = COUNT + 1, inline_words(COUNT)
