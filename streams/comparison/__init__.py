"""Results against the oracle, line by line: what ``waterspout verify`` prints.

`compare` sorts the lines of a results file (`lines`) into matches of continuous range queries (`matches`), answers that are
due once (`answers`) and results that change (`states`), and finds every difference; `explain` puts them in words.
"""

from streams.comparison.differences import KINDS, UNKNOWN, Comparison, Difference, Kind
from streams.comparison.explanation import explain
from streams.comparison.lines import compare

__all__ = ["KINDS", "UNKNOWN", "Comparison", "Difference", "Kind", "compare", "explain"]
