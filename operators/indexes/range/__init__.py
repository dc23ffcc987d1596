"""Indexes of standing range queries: KAG, FAST, GI2 and brute force behind one protocol."""
