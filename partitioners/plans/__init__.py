"""Plans: immutable values that name the workers of objects and of queries, and travel in files."""
