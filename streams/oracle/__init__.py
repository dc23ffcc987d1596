"""The brute-force definition of every result, against which everything else is compared.

`Oracle` takes the whole input and answers each query on its own (`definition`): `registrations` says when a query lives,
`selection` which objects it is about, `rankings` and `term_counts` what its result is at an instant, `crossings` what a fence
reports, `identities` which records are states of the same dynamic object. Meant to be read next to the contract, one condition
an expression.
"""

from streams.oracle.definition import Matches, Oracle
from streams.oracle.rankings import Ranked, Ranking
from streams.oracle.registrations import Registration
from streams.oracle.term_counts import TermCounts

__all__ = ["Matches", "Oracle", "Ranked", "Ranking", "Registration", "TermCounts"]
