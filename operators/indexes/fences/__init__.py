"""Fences: which objects that move enter a region, leave it, or stay inside.

Whether an object is inside follows from its state and the query alone, so nothing is kept of who is inside: a new state and the
one before it are both matched with the same range index, and the two answers are compared (`Fences`).
"""
