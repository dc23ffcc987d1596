"""The policy `dskype`: overloaded partitions are split and idle ones merged while messages flow (DSkype, Section 7.4).

The paper says that its partitions can be; not when, where to cut, or who gets what. `unit_costs` is what an evaluator answers:
what each of its units costs, and what could be cut off from them. `draft` is a plan in the making, with the costs of its
units; `policy` decides when, and chooses moves, cuts and merges.
"""
