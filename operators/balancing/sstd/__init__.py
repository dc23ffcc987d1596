"""The policy `sstd`: leaves of a QT-tree move, split and merge when load is uneven (SSTD, Section 5).

`leaf_counts` has what is known of leaves and their load by Equation 2; `leaf_reporter` is the side of an evaluator, which
counts; `query_cells` is the quadtree J below leaves, for splits. `reallocation` has PM and FM, `adjustment` FG, and `policy`
decides which of them.
"""
