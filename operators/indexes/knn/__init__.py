"""Indexes of continuous k-nearest-neighbour queries."""
