"""The policy `dkm`: a few dear subscriptions move when real costs drift from what DkM-SKS estimated.

The paper assigns subscriptions by estimated cost and never moves them. Estimates come from O_init; where objects change, so
does the load. `selection` chooses what an evaluator gives away, `policy` decides when, how much, and to whom.
"""
