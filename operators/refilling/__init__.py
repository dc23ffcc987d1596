"""DSkype's bolts behind the evaluators (Section 7.2): message stores keep the window, aggregators keep the buffers.

An aggregator whose buffer has run dry sends a request, which reaches the message stores some epochs later (feedback). They
answer as of that very epoch, and what they find is at the aggregator in the same epoch: a refill is never stale.
"""
