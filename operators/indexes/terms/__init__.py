"""Indexes of continuous top-k frequent term queries (SSTD's CTQ): what is talked about in a region, every now and then.

`StandingTerms` is what an evaluator talks to: a table of queries, the objects of the window (`TermWindow`), and a
structure that counts: `candidates` (ours, the default), `groups` (the paper's), `brute` (the truth). `terms_index` says
what an answer contains so that the sum over evaluators is exact.
"""

from operators.indexes.terms.registry import TERMS_INDEXES, make_terms_index
from operators.indexes.terms.standing_terms import StandingTerms

__all__ = ["TERMS_INDEXES", "StandingTerms", "make_terms_index"]
